"""Reading a metric of unknown values: a search of the stored answers, and what a person reads of it.

Counts of a search say only how many devices answered each question. What was found is in the answers, so they are read
from the store, once, and sorted by question into temporary files where they are many: memory grows with the answers to
one question, not with the store.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from overstory.analysis.reports import ReportBatch
from overstory.analysis.selection import bound_text, interval_words
from overstory.analysis.support.searches import answers_of
from overstory.analysis.tables.output import plot_height
from overstory.discovery.heavy_hitters import find
from overstory.discovery.result import Discovered, discovery_table, rows_drawn
from overstory.presentation.document import Block, Lines, Paragraph
from overstory.privacy.text import epsilon_text, plural
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import Metric
from overstory.protocol.search.mechanism import SearchMechanism
from overstory.queries.counts import PeriodCounts
from overstory.queries.readings import Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from overstory.discovery.simulation import GroupReports, Progress
    from overstory.queries.estimates import Aggregation, EstimateOptions

NO_ANSWERS: Final = (
    "{}: a search reads the answers themselves, and only their counts are here: read the store, with --store"
)
IN_MEMORY: Final = 1 << 20
"""Answers up to which no temporary file is written."""


@dataclass(frozen=True, eq=False)
class SearchReading:
    """What a search of a metric's stored answers found.

    Attributes
    ----------
    counted
        How many devices answered each question, by period.
    discovered
        What the search found.
    stored
        How many answers were read; those past retention are counted alone.
    """

    name: ClassVar[str] = "search"

    counted: PeriodCounts
    discovered: Discovered
    stored: int

    @property
    def metric(self) -> Metric:
        """The metric."""
        return self.counted.metric

    @property
    def _search(self) -> SearchMechanism:
        search = self.metric.mechanism
        assert isinstance(search, SearchMechanism)
        return search

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know before trusting the numbers."""
        return (*self.discovered.notes, *_notes(self.counted, self.stored))

    def to_json(self) -> dict[str, Any]:
        """Return the facts and every value of the last level as JSON values."""
        search = self._search
        return {
            "metric": self.metric.id,
            "title": self.metric.title,
            "oracle": search.name,
            "period": str(self.metric.period),
            "from": self.counted.label(self.counted.first),
            "to": self.counted.label(self.counted.last),
            "wave": search.wave,
            "waves": search.waves,
            "counted": self.counted.num_reports,
            **self.discovered.to_json(everything=True),
            "notes": list(self.notes),
            "other_parameters": self.counted.others_json(),
        }

    def csv_lines(self) -> Iterator[str]:
        """Return a header and a line per value, detected or not."""
        written = StringIO()
        self.discovered.to_csv(written)
        return iter(written.getvalue().splitlines(keepends=True))

    def blocks(self, *, everything: bool = False, written: str | None = None) -> Iterator[Block]:
        """Return the detected values, or all that the last level kept, and the facts to read them by."""
        rows = self.discovered.rows(everything=everything)
        yield discovery_table(rows) if rows else Paragraph("nothing was detected")
        yield Lines(*self._sentences(), *([] if written is None else [f"every value: {written}"]))

    def _sentences(self) -> Iterator[str]:
        counted, discovered, search = self.counted, self.discovered, self._search
        between = f" {_span(counted)}" if counted.periods else ""
        yield (
            f"{plural(len(discovered.found()), 'value')} detected in {plural(self.stored, 'answer')} of "
            f"{self.metric.id}{between}, out of {discovered.tried:,} that were tried "
            f"({bound_text(discovered.correction, discovered.alpha)})"
        )
        yield f"intervals: {interval_words(discovered.interval_kind, discovered.adjustment)}"
        asked = f" of wave {search.wave} of {search.waves}" if search.waves > 1 else ""
        epsilon = epsilon_text(discovered.epsilon)
        yield f"privacy: each device{asked} answers one question, once: epsilon {epsilon} in all"
        if discovered.threshold is not None:
            yield f"a value had to reach {discovered.threshold:.3%} of the answers at the last level"
        yield from (f"note: {note}" for note in self.notes)

    def panels(self) -> tuple[list[Panel], str]:
        """Return the search, and the values that it found."""
        if not self.stored:
            return [], ""
        discovered = self.discovered

        def search(ax: Axes) -> None:
            discovered.plot(ax)

        def values(ax: Axes) -> None:
            discovered.plot_values(ax)

        return [Panel(4.0, search), Panel(plot_height(discovered, rows_drawn(discovered)), values)], ""


def read_search(
    counted: PeriodCounts, kind: Aggregation = "total", options: EstimateOptions | None = None
) -> SearchReading:
    """Search the answers of a range of periods for frequent values.

    Parameters
    ----------
    counted
        The counts of the range, and where the reports are, from `read_store`.
    kind
        "total": a device answers once, so a search reads all answers together.
    options
        Alpha, correction, what intervals are for, and a function that is told how far the search is.

    Raises
    ------
    ParameterError
        When the reports are not at hand, or an option has no meaning for a search.
    """
    from overstory.queries.estimates import EstimateOptions

    metric, chosen = counted.metric, options or EstimateOptions()
    search = metric.mechanism
    assert isinstance(search, SearchMechanism)
    _check(metric, kind, chosen)
    if counted.group is not None:
        raise ParameterError(f"{metric.id}: a search reads the answers of all groups together")
    if counted.reports is None:
        raise ParameterError(NO_ANSWERS.format(metric.id))
    progress = chosen.progress
    with sorted_answers(search, counted.reports(), counted.num_reports, _part(progress, 0.0, 0.3)) as answers:
        discovered = find(
            search.plan,
            answers,
            alpha=chosen.alpha,
            correction=chosen.correction,
            interval_kind=chosen.interval_kind or "reports",
            progress=_part(progress, 0.3, 1.0),
        )
        stored = sum(len(batch) for (batch,) in answers)
    declared = replace(discovered, adjustment=chosen.adjustment, epsilon=search.epsilon)
    return SearchReading(counted, declared, stored)


def _check(metric: Metric, kind: Aggregation, options: EstimateOptions) -> None:
    """Refuse what has no meaning for a search, rather than leave it without effect."""
    if kind != "total":
        raise ParameterError(
            f"{metric.id}: a device answers once, so a search reads the answers of all periods together"
        )
    wrong = {
        "other candidates": options.candidates is not None,
        "reports per device": options.reports_per_device is not None,
        "post-processing steps": bool(options.steps),
        "a method or complete list": options.method != "gls" or options.complete,
    }
    for what, is_given in wrong.items():
        if is_given:
            raise ParameterError(
                f"{metric.id} is searched for values that nobody listed: {what} have no meaning for it"
            )


def _part(progress: Progress | None, start: float, stop: float) -> Progress | None:
    """Return what is told of a part of the work."""
    return None if progress is None else lambda what, done: progress(what, start + (stop - start) * done)


@contextmanager
def sorted_answers(
    search: SearchMechanism, batches: Iterable[ReportBatch], expected: int, progress: Progress | None = None
) -> Iterator[Sequence[GroupReports]]:
    """Yield the answers to each question, in the order of the questions; in temporary files where they are many.

    Parameters
    ----------
    expected
        About how many answers there are.
    """
    with ExitStack() as stack:
        groups = range(len(search.questions))
        kept: list[list[ReportBatch]] = [[] for _ in groups]
        spill = (
            _Spill(Path(stack.enter_context(tempfile.TemporaryDirectory())), search) if expected > IN_MEMORY else None
        )
        done = 0
        for batch in batches:
            for group in groups:
                answers = answers_of(search, batch, group)
                if spill is None:
                    kept[group].append(answers)
                else:
                    spill.add(group, answers)
            done += len(batch)
            if progress:
                progress("reading the answers", min(done / max(expected, 1), 1.0))
        yield [((spill.read(group) if spill else _joined(search, group, kept[group])),) for group in groups]


def _joined(search: SearchMechanism, group: int, parts: Sequence[ReportBatch]) -> ReportBatch:
    asked = search.questions[group].mechanism
    cohorts = np.concatenate([part.cohorts for part in parts] or [np.zeros(0, np.uint32)])
    bits = np.concatenate([part.bits for part in parts] or [np.zeros((0, -(-asked.payload_bits // 64)), np.uint64)])
    return ReportBatch(cohorts, bits, asked.payload_bits, asked.num_cohorts)


class _Spill:
    """Answers in files: for each group one of seeds and one of payloads, read back as they are needed."""

    def __init__(self, folder: Path, search: SearchMechanism) -> None:
        self._folder, self._search = folder, search
        self._types: dict[int, tuple[Any, Any]] = {}

    def add(self, group: int, answers: ReportBatch) -> None:
        """Append answers to a group's files."""
        self._types[group] = answers.cohorts.dtype, answers.bits.dtype
        for name, column in (("seeds", answers.cohorts), ("bits", answers.bits)):
            with (self._folder / f"{group}.{name}").open("ab") as file:
                file.write(np.ascontiguousarray(column).tobytes())

    def read(self, group: int) -> ReportBatch:
        """Return a group's answers, in memory only as far as they are touched."""
        asked = self._search.questions[group].mechanism
        paths = [self._folder / f"{group}.{name}" for name in ("seeds", "bits")]
        if not all(path.exists() and path.stat().st_size for path in paths):
            return _joined(self._search, group, ())
        seeds, bits = (np.memmap(path, dtype, "r") for path, dtype in zip(paths, self._types[group], strict=True))
        return ReportBatch(seeds, bits.reshape(len(seeds), -1), asked.payload_bits, asked.num_cohorts)


def _span(counted: PeriodCounts) -> str:
    first, last = counted.label(counted.first), counted.label(counted.last)
    return f"in {first}" if first == last else f"between {first} and {last}"


def _notes(counted: PeriodCounts, stored: int) -> Iterator[str]:
    gone = counted.num_reports - stored
    if gone > 0:
        yield (
            f"{gone:,} of {counted.num_reports:,} answers are past retention and deleted: the search read the others"
        )
    for other in counted.others:
        yield (
            f"{other.reports:,} reports from {counted.label(other.first)} to {counted.label(other.last)} were made "
            f"by another plan (digest {other.digest.hex()}): a registry file with that plan reads them"
        )


def merged_candidates(before: Sequence[str], reading: SearchReading) -> list[str]:
    """Return candidates with the detected values after them, each once: the union over waves.

    A value that was detected in an earlier wave stays a candidate: whether a wave detects it again is chance.
    """
    texts = map(_as_line, reading.discovered.found())
    return list(dict.fromkeys([*before, *(text for text in texts if text)]))


def _as_line(value: Any) -> str | None:
    """Return a value as a line of a file of candidates; None for bytes that are none."""
    if not isinstance(value, bytes):
        return str(value)
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return None if "\n" in text or "\r" in text else text
