"""One period of a metric: every value with its interval, and the same reports decoded again with other candidates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import Field as Parameter

from overstory.analysis.selection import Adjustment
from overstory.analysis.tables.output import estimate_table
from overstory.console.screens.facts import (
    adjustment_field,
    epsilons,
    estimate_picture,
    interval_caption,
    number_field,
    page_head,
    people_for,
    rests_on,
    sentence,
    share_that_shows,
    state_notice,
)
from overstory.console.screens.readings import (
    dimension_words,
    group_blocks,
    group_field,
    group_words,
    is_shares,
    period_view,
    refuse_options,
)
from overstory.console.view import Query, Screen, ScreenError, View
from overstory.presentation.document import (
    Block,
    Column,
    Field,
    Figure,
    Form,
    Heading,
    KeyValues,
    Lines,
    Link,
    Notice,
    Paragraph,
    Preformatted,
    Table,
)
from overstory.presentation.formats import interval, percent
from overstory.queries.estimates import EstimateSeries
from overstory.queries.readings import EstimateOptions

if TYPE_CHECKING:
    from overstory.console.data import ConsoleData
    from overstory.presentation.svg import Picture
    from overstory.protocol.metrics import Metric
    from overstory.queries.counts import PeriodCounts

MOST_CANDIDATES: Final = 100_000
"""More are decoded by the command line, not by a page."""
MOST_DOTS: Final = 50
MOST_ROWS: Final = 500
MOST_BEFORE: Final = 1_000
"""Characters of the list before that an address carries."""
SHARE: Final = 0.01
OF_SHARES: Final = ("candidates", "list", "before", "complete")
"""What an address may ask of shares alone."""


class PeriodQuery(Query):
    """What the page shows: the candidates, what counts as detected, and the level of the intervals."""

    group: str = ""
    candidates: str = ""
    list: str = ""
    before: str = ""
    alpha: float = Parameter(0.05, gt=0, lt=1)
    correction: Literal["fdr", "bonferroni"] = "fdr"
    method: Literal["gls", "lasso"] = "gls"
    complete: bool = False
    level: float = Parameter(0.95, ge=0.5, lt=1)
    adjustment: Adjustment = "fcr"
    share: float = Parameter(SHARE, gt=0, le=1)
    rank: int = Parameter(1, ge=1)


class PeriodScreen(Screen):
    """The values of one period, with the list of candidates to look for."""

    name = "Period"
    path = "/m/{metric}/{period}"
    query = PeriodQuery

    def view(self, data: ConsoleData, query: PeriodQuery, **path: str) -> View:
        metric = data.metric(path["metric"])
        first, last = data.periods(metric, path["period"], path["period"])
        counted = data.counts(metric, first, last, query.group)
        candidates = _candidates(data, query)
        page = _Page(data, metric, path["period"], query, counted, candidates)
        if not counted.periods:
            return page.without(_no_reports(data, metric))
        if not is_shares(metric):
            refuse_options({name: getattr(query, name) for name in OF_SHARES}, metric)
            return period_view(data, metric, path["period"], counted, page.reading_options)
        names = candidates or metric.labels
        if not names:
            return page.without(Notice("Type the strings to look for: one a line. The registry has no list.", "faint"))
        if len(names) > MOST_CANDIDATES:
            return page.command(len(names))
        series = data.estimates(counted, "total", page.options)
        return page.view(series, _detected_before(data, query, page))


def _candidates(data: ConsoleData, query: PeriodQuery) -> tuple[str, ...] | None:
    """Return the candidates of an address; None: the metric's own."""
    if query.list:
        held = data.lists.find(query.list)
        if held is None:
            raise ScreenError(404, "list: this list of candidates is no longer held; send it again")
        return tuple(dict.fromkeys(filter(None, held)))
    return tuple(dict.fromkeys(filter(None, query.candidates.splitlines()))) or None


def _no_reports(data: ConsoleData, metric: Metric) -> Notice:
    periods = data.counts(metric).periods
    if not periods:
        return Notice("There are no reports of this metric yet.", "faint")
    ends = f"from {metric.period.label(periods[0])} to {metric.period.label(periods[-1])}"
    return Notice(f"There are no reports in this period; there are some {ends}.", "faint")


def _detected_before(data: ConsoleData, query: PeriodQuery, page: _Page) -> frozenset[str] | None:
    """Return what the list before this one detected; None where there is nothing to compare with."""
    if page.candidates is None:
        return None
    before = tuple(filter(None, query.before.splitlines())) or page.metric.labels
    if not before:
        return None
    options = EstimateOptions(**{**vars(page.options), "candidates": before})
    (part,) = data.estimates(page.counted, "total", options).parts
    detected = part.estimate.detected().tolist()
    return frozenset(str(value) for value, is_one in zip(part.estimate.values, detected, strict=True) if is_one)


@dataclass(frozen=True)
class _Page:
    """The parts of the page."""

    data: ConsoleData
    metric: Metric
    label: str
    query: PeriodQuery
    counted: PeriodCounts
    candidates: tuple[str, ...] | None

    @property
    def options(self) -> EstimateOptions:
        query = self.query
        return EstimateOptions(
            candidates=self.candidates,
            alpha=query.alpha,
            correction=query.correction,
            method=query.method,
            complete=query.complete,
            interval_kind="population",
            adjustment=query.adjustment,
        )

    @property
    def reading_options(self) -> EstimateOptions:
        """The options of a reading that is not shares."""
        query = self.query
        return EstimateOptions(
            alpha=query.alpha, correction=query.correction, interval_kind="population", adjustment=query.adjustment
        )

    @property
    def _can_look_for(self) -> bool:
        """Whether candidates can be named after the reports were sent."""
        if not is_shares(self.metric):
            return False
        encoding = self.metric.oracle.encoding
        return encoding.decoded or (encoding.uneven and self.metric.domain.size is None)

    def view(self, series: EstimateSeries, before: frozenset[str] | None) -> View:
        (part,) = series.parts
        rows = part.estimate.rows(level=self.query.level)
        new = set() if before is None else {row["value"] for row in rows if row["detected"]} - before
        detected = sum(row["detected"] for row in rows)
        picture = self._picture(_detected_first(rows), new)
        blocks = [
            *self._head(f"{detected:,} of {len(rows):,} detected"),
            KeyValues(tuple(self._figures(part.estimate)), "figures"),
            *self._notices(series, new, before),
            Figure(picture),
            Heading(2, "Every value"),
            self._table(rows, new, before),
            *((Paragraph(f"{len(rows) - MOST_ROWS:,} more are in the downloads."),) if len(rows) > MOST_ROWS else ()),
            *(() if self.query.group else group_blocks(self.data, self.counted, self.options)),
            *self._tail(),
        ]
        about = {"level": self.query.level, "newly_detected": sorted(new)}
        facts = {**series.summary(), **part.estimate.summary(), **about}
        return View(
            f"{self.metric.title}, {self.label}", tuple(blocks), series.as_table(self.query.level), picture, facts
        )

    def _picture(self, rows: Sequence[dict[str, Any]], new: set[str]) -> Picture:
        """Draw the values from the rank on that was asked for: without the most frequent, the others have room."""
        first = min(self.query.rank, len(rows)) - 1
        drawn = rows[first : first + MOST_DOTS]
        which = f"; ranks {first + 1:,} to {first + len(drawn):,} of {len(rows):,}" if len(drawn) < len(rows) else ""
        kind = interval_caption(self.query.level, self.query.adjustment)
        return estimate_picture(
            f"{self.metric.id}-{self.label}",
            f"Share of each value in {self.label}, with {kind}{which}.",
            drawn,
            ["new" if row["value"] in new else "" for row in drawn],
        )

    def without(self, notice: Notice) -> View:
        """Return the page without estimates."""
        blocks = (*self._head(f"{self.counted.num_reports:,} reports"), notice, *self._tail())
        facts = {"metric": self.metric.id, "period": self.label, "reports": self.counted.num_reports}
        return View(f"{self.metric.title}, {self.label}", blocks, facts=facts)

    def command(self, number: int) -> View:
        """Return the page of a list that is too long: the command to run."""
        line = (
            f"overstory decode --store URL --registry FILE --metric {self.metric.id} --from {self.label} "
            f"--to {self.label} --candidates FILE --alpha {self.query.alpha:g} --correction {self.query.correction} "
            f"--interval population --adjustment {self.query.adjustment} -o results"
        )
        blocks = (
            *self._head(f"{number:,} candidates"),
            Notice(f"A page decodes at most {MOST_CANDIDATES:,} candidates. This command decodes them all:"),
            Preformatted(line),
            *self._tail(),
        )
        facts = {"metric": self.metric.id, "period": self.label, "candidates": number, "command": line}
        return View(f"{self.metric.title}, {self.label}", blocks, facts=facts)

    def _head(self, words: str) -> Iterator[Block]:
        title = f"{self.metric.title}, {self.label}{group_words(self.metric, self.query.group)}: {words}"
        yield from page_head(self.data, self.metric, self.label, title, self.label)

    def _figures(self, estimate: Any) -> Iterator[tuple[str, str]]:
        reports, values, built = estimate.num_reports, len(estimate.values), self.metric.mechanism
        yield "Reports", f"{reports:,}"
        yield "Smallest share, nine times in ten", share_that_shows(built, reports, values, self.query.alpha)
        yield (
            f"To see {percent(self.query.share)}, nine times in ten",
            people_for(built, self.query.share, values, self.query.alpha),
        )
        if hasattr(estimate, "unallocated"):
            low, high = (
                (estimate.unallocated + sign * 1.96 * estimate.unallocated_standard_error) / max(reports, 1)
                for sign in (-1, 1)
            )
            yield f"Not listed ({interval(percent)(low, high)})", percent(estimate.unallocated / max(reports, 1))
        yield from epsilons(self.metric)[:2]

    def _notices(self, series: EstimateSeries, new: set[str], before: frozenset[str] | None) -> Iterator[Block]:
        (part,) = series.parts
        yield from state_notice(self.data, self.metric, part.last, "This period")
        if before is not None:
            names = ", ".join(sorted(new)[:10]) + (" and more" if len(new) > 10 else "")
            yield Notice(
                f"Newly detected: {names}." if new else "Nothing is newly detected.", "good" if new else "faint"
            )
        for note in dict.fromkeys((*part.estimate.notes, *series.notes)):
            yield Notice(sentence(note), "bad")

    def _table(self, rows: Sequence[dict[str, Any]], new: set[str], before: frozenset[str] | None) -> Table:
        marked = [{**row, "new": "new" if row["value"] in new else ""} for row in _detected_first(rows)[:MOST_ROWS]]
        last = () if before is None else (Column("new", "", is_left=True, tone=lambda _: "good"),)
        return estimate_table(marked, last=last, level=self.query.level)

    def _tail(self) -> Iterator[Block]:
        if self._can_look_for:
            yield Heading(2, "Look for other strings", "candidates")
            yield Paragraph(
                "Decoding again reads the same counts: it costs no privacy, and changes nothing in the store."
            )
            yield self._list_form()
            if self.candidates is not None:
                yield Link("Back to the registry's list", f"/m/{self.metric.id}/{self.label}")
        yield self._options_form()
        yield Heading(2, "What these numbers rest on")
        yield rests_on(
            self.data, self.metric, self.counted.num_reports, self.counted.periods, "population", self.query.adjustment
        )
        yield Lines(dimension_words(self.metric), *self.counted.central_sentences())

    def _list_form(self) -> Form:
        names = self.candidates or self.metric.labels
        text = "\n".join(names) if len(names) <= MOST_ROWS else ""
        hidden = (
            ("before", "\n".join(names) if len("\n".join(names)) <= MOST_BEFORE else ""),
            ("alpha", f"{self.query.alpha:g}"),
            ("correction", self.query.correction),
            ("method", self.query.method),
            ("group", self.query.group),
        )
        return Form(
            "Candidates",
            (
                Field("candidates", "Candidates, one a line", text, "lines"),
                Field("candidates", "or a file of them", kind="file", hint=f"At most {MOST_CANDIDATES:,}, in UTF-8."),
                *(Field(name, "", value, "hidden") for name, value in hidden if value),
            ),
            "Decode again",
            f"/m/{self.metric.id}/{self.label}",
            "post",
        )

    def _options_form(self) -> Form:
        query = self.query
        hidden = (("candidates", query.candidates), ("list", query.list), ("before", query.before))
        fields = (
            *group_field(self.metric, query.group),
            number_field("alpha", "Alpha", query.alpha, 0.0001, 0.5, 0.0001),
            Field(
                "correction",
                "Alpha bounds",
                query.correction,
                "choice",
                (("fdr", "the false discovery rate"), ("bonferroni", "the chance of any false detection")),
            ),
            number_field("level", "Interval level", query.level, 0.5, 0.999, 0.001),
            adjustment_field(query.adjustment),
            number_field("share", "How many devices show a share of", query.share, 0.00001, 1, 0.00001),
            number_field("rank", "Draw from rank", query.rank, 1, None, 1, "2 leaves out the first"),
            *(Field(name, "", value, "hidden") for name, value in hidden if value),
        )
        return Form("What counts as detected", fields, "Show", f"/m/{self.metric.id}/{self.label}", is_live=True)


def _detected_first(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: not row["detected"])
