"""Reading a metric of unknown values: a search of the stored answers, sorted by question into files where many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, cast

from overstory.analysis.kinds.split import sorted_answers
from overstory.analysis.tables.output import CSV
from overstory.discovery.heavy_hitters import find
from overstory.discovery.result import Discovered
from overstory.discovery.simulation import Progress
from overstory.presentation.document import Block, Column, Table
from overstory.presentation.formats import plural
from overstory.protocol.errors import ParameterError
from overstory.protocol.search import SearchMechanism
from overstory.queries.counts import PeriodCounts
from overstory.queries.readings import PLAIN, Aggregation, EstimateOptions, Reading

if TYPE_CHECKING:
    from overstory.presentation.svg import Picture


@dataclass(frozen=True, eq=False, repr=False)
class SearchReading(Reading):
    """What a search of a metric's stored answers found."""

    stem: ClassVar[str] = "search"

    counted: PeriodCounts  # how many devices answered each question, by period
    discovered: Discovered
    stored: int  # answers that were read; those past retention are counted alone

    @property
    def _search(self) -> SearchMechanism:
        return cast("SearchMechanism", self.metric.mechanism)

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self.discovered.notes, *_notes(self.counted, self.stored))

    def to_json(self, *, everything: bool = True) -> dict[str, Any]:
        search = self._search
        return {
            "metric": self.metric.id,
            "title": self.metric.title,
            "oracle": search.name,
            "period": str(self.metric.period),
            "from": self.counted.label(self.counted.first),
            "to": self.counted.label(self.counted.last),
            "counted": self.counted.num_reports,
            **self.counted.devices_json(),
            **self.discovered.to_json(everything=everything),
            **self.counted.central_json(),
            "notes": list(self.notes),
            "other_parameters": self.counted.others_json(),
        }

    def as_table(self) -> Table:
        columns = (*CSV, Column("source"))
        return Table("", columns, self.discovered.rows(everything=True))

    def tables(self, *, everything: bool) -> Iterator[Block]:
        return self.discovered.tables(everything=everything)

    def sentences(self) -> Iterator[str]:
        counted, panel = self.counted, self.metric.panel
        cost = "each device answers one question, once, and reveals in all"
        if panel is not None:
            cost = f"a device gives at most {plural(panel.answers, 'answer')} in any {panel.cycle}, and each reveals"
        first, last = counted.label(counted.first), counted.label(counted.last)
        between = (f" in {first}" if first == last else f" between {first} and {last}") if counted.periods else ""
        return self.discovered.search_sentences(
            f"{plural(self.stored, 'answer')} of {self.metric.id}{between}",
            "answers",
            cost,
            *counted.panel_sentences(),
            *counted.central_sentences(),
        )

    def pictures(self) -> list[Picture]:
        if not self.stored:
            return []
        ends = dict.fromkeys(str(self.counted.label(self.counted.periods[end])) for end in (0, -1))
        return [replace(self.discovered.plot(), name=f"{self.metric.id}-{'-to-'.join(ends)}")]


def read_search(counted: PeriodCounts, kind: Aggregation = "total", options: EstimateOptions = PLAIN) -> SearchReading:
    """Search a range's answers, all together, for frequent values; the counts must say where these are."""
    metric = counted.metric
    search = cast("SearchMechanism", metric.mechanism)
    if kind != "total":
        raise ParameterError(f"{metric.id}: few devices answer in one period, so a search reads those of all together")
    if counted.group is not None:
        raise ParameterError(f"{metric.id}: a search reads the answers of all groups together")
    if counted.reports is None:
        raise ParameterError(
            f"{metric.id}: a search reads the answers themselves, and only their counts are here: read the store, with "
            "--store"
        )
    progress = options.progress
    with sorted_answers(search, counted.reports(), counted.num_reports, _part(progress, 0.0, 0.3)) as answers:
        discovered = find(
            search.plan,
            answers,
            alpha=options.alpha,
            correction=options.correction,
            interval_kind=options.kind_of_intervals(metric, kind),
            progress=_part(progress, 0.3, 1.0),
        )
        stored = sum(map(len, answers))
    return SearchReading(counted, discovered, stored)


def _part(progress: Progress | None, start: float, stop: float) -> Progress | None:
    return None if progress is None else lambda what, done: progress(what, start + (stop - start) * done)


def _notes(counted: PeriodCounts, stored: int) -> Iterator[str]:
    came = counted.num_reports + sum(counted.taken_out.values())
    gone = came - stored
    if gone > 0:
        yield (f"{gone:,} of {came:,} answers are past retention and deleted: the search read the others")
    for other in counted.others:
        yield (
            f"{other.reports:,} reports from {counted.label(other.first)} to {counted.label(other.last)} were made "
            f"by another plan (digest {other.digest.hex()}): a registry file with that plan reads them"
        )


def refuse_comparison(a: PeriodCounts, *_: Any, **__: Any) -> NoReturn:
    """Refuse: two searches estimate other values."""
    raise ParameterError(f"{a.metric.id} is searched: two searches estimate other values, and are not compared")
