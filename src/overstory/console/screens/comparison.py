"""Two ranges of a metric, compared: what changed, by how much, and what could have been missed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from pydantic import Field as Parameter

from overstory.analysis.difference.result import difference_columns, unchanged
from overstory.analysis.selection import INTERVAL_KINDS, Adjustment, IntervalKind, interval_words
from overstory.console.screens.facts import adjustment_field, number_field, page_head, state_words
from overstory.console.screens.readings import WHOLE_RANGE, compared_view, is_shares, reading_words
from overstory.console.view import Query, Screen, ScreenError, View
from overstory.presentation.charts.numbers import differences
from overstory.presentation.document import (
    Block,
    Field,
    Figure,
    Form,
    Heading,
    KeyValues,
    Lines,
    Link,
    Notice,
    Paragraph,
    Table,
    Tone,
)
from overstory.presentation.formats import p_value
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics.period import DAY
from overstory.queries.comparison import (
    SHARED_NOISE,
    Comparison,
    check_comparable,
    compare,
    compare_series,
    parse_span,
)
from overstory.queries.readings import EstimateOptions

if TYPE_CHECKING:
    from overstory.console.data import ConsoleData
    from overstory.presentation.svg import Picture
    from overstory.protocol.metrics import Metric
    from overstory.queries.comparison import Comparison
    from overstory.queries.counts import PeriodCounts

MOST_DRAWN: Final = 50
"""Values in the picture and in the page's table; the downloads have all."""
NEIGHBOURS: Final = 4
"""Periods before and after a release, or those of a week where a period is shorter than a day."""
OVERLAP: Final = (
    "A device that reports in both ranges and keeps its value sends the same answers again. Its noise cancels in the "
    "difference, so that the intervals here are too long, never too short, and small changes among few devices may be "
    "missed. If you know how many devices are in both, say so, and the intervals take it into account."
)

KEPT: Final = "Share of the devices in both that kept their values"

Span = tuple[int, int]


class ComparisonQuery(Query):
    """What is compared: two ranges, the kind of intervals, and what is known of the devices."""

    a: str | None = None
    b: str | None = None
    interval: IntervalKind = "population"
    adjustment: Adjustment = "fcr"
    alpha: float = Parameter(0.05, gt=0, lt=1)
    overlap: float = Parameter(0.0, ge=0, le=1)
    reports_per_device: float | None = Parameter(None, ge=1)


class ComparisonScreen(Screen):
    """The shares of one range less those of another."""

    name = "Compare"
    path = "/m/{metric}/compare"
    query = ComparisonQuery

    def view(self, data: ConsoleData, query: ComparisonQuery, **path: str) -> View:
        metric = data.metric(path["metric"])
        periods = data.counts(metric).periods
        spans = _spans(data, metric, query, periods)
        page = _Page(data, metric, query, spans, periods)
        if spans is None:
            return page.without("There are reports in fewer than two periods: there is nothing to compare yet.", 200)
        if metric.reading in WHOLE_RANGE:
            return page.without(f"Two ranges of {reading_words(metric)} are not compared on a page.", 200)
        if is_shares(metric) and not metric.labels:
            return page.without("The registry has no list of candidates for this metric: there are no shares.", 200)
        counted = [data.counts(metric, *span) for span in spans]
        try:
            check_comparable(*counted)
        except ParameterError as error:
            return page.without(f"{str(error)[:1].upper()}{str(error)[1:]}.", 400)
        options = EstimateOptions(
            query.reports_per_device, alpha=query.alpha, interval_kind=query.interval, adjustment=query.adjustment
        )
        try:
            if not is_shares(metric):
                return page.of_another_reading(compare(counted[0], counted[1], options, overlap=query.overlap))
            series = data.all_estimates(counted, "total", options)
            return page.compared(compare_series(*series, overlap=query.overlap))
        except ParameterError as error:
            raise ScreenError(400, str(error)) from error


def _spans(
    data: ConsoleData, metric: Metric, query: ComparisonQuery, periods: Sequence[int]
) -> tuple[Span, Span] | None:
    """Return the two ranges; by default the newest period that is over, and the one with reports before it."""
    if (query.a is None) != (query.b is None):
        raise ScreenError(400, f"{'b' if query.b is None else 'a'}: give both ranges, as FIRST..LAST")
    if query.a is not None and query.b is not None:
        try:
            return parse_span(metric, query.a), parse_span(metric, query.b)
        except ParameterError as error:
            raise ScreenError(400, str(error)) from error
    over = [period for period in periods if data.state(metric, period) != "running"]
    chosen = (over if len(over) > 1 else list(periods))[-2:]
    return ((chosen[1], chosen[1]), (chosen[0], chosen[0])) if len(chosen) == 2 else None


@dataclass(frozen=True)
class _Page:
    """The page, with or without a comparison."""

    data: ConsoleData
    metric: Metric
    query: ComparisonQuery
    spans: tuple[Span, Span] | None
    periods: Sequence[int]

    def without(self, reason: str, status: int) -> View:
        blocks = (*self._head(f"{self.metric.title}: nothing to compare"), Notice(reason), self._form())
        facts = {"metric": self.metric.id, "reason": reason}
        return View(self.metric.title, (*blocks, *self._releases()), facts=facts, status=status)

    def of_another_reading(self, compared: Comparison) -> View:
        head = tuple(self._head(f"{self.metric.title}: {self._words(0)} against {self._words(1)}"))
        return compared_view(self.data, self.metric, compared, head, (self._form(), *self._releases()))

    def compared(self, comparison: Comparison) -> View:
        rows = comparison.rows()
        picture = self._picture(rows)
        both = comparison.difference
        tone: Tone = "" if both.changed().any() else "faint"
        shown = rows[:MOST_DRAWN]
        blocks: list[Block] = [
            *self._head(f"{self.metric.title}: {self._words(0)} against {self._words(1)}"),
            Notice(f"{both.sentence()[:1].upper()}{both.sentence()[1:]}.", tone),
            KeyValues(tuple(self._figures(comparison)), "figures"),
            Figure(picture),
            Table(
                f"a, {self._words(0)}, less b, {self._words(1)}",
                difference_columns(adjustment=both.adjustment),
                shown,
                unchanged(shown),
            ),
            *([Paragraph(f"{len(rows) - len(shown):,} more are in the downloads.")] if len(rows) > len(shown) else []),
            self._form(),
            *self._releases(),
            Heading(2, "What these numbers rest on"),
            self._rests_on(comparison),
            Paragraph(OVERLAP),
            Lines(*(f"{note[:1].upper()}{note[1:]}." for note in comparison.notes if note != SHARED_NOISE)),
        ]
        facts = {name: value for name, value in comparison.to_json().items() if name != "differences"}
        return View(self.metric.title, tuple(blocks), comparison.as_table(), picture, facts)

    def _head(self, title: str) -> Iterator[Block]:
        yield from page_head(self.data, self.metric, "Compare", title)

    def _label(self, number: int) -> str:
        assert self.spans is not None
        first, last = map(self.metric.period.label, self.spans[number])
        return first if first == last else f"{first}..{last}"

    def _words(self, number: int) -> str:
        return self._label(number).replace("..", " to ")

    def _figures(self, comparison: Comparison) -> Iterator[tuple[str, str]]:
        both = comparison.difference
        yield "Changed", f"{int(both.changed().sum()):,} of {len(both):,}"
        yield "Test that nothing changed", _overall(both.overall_p_value, both.alpha)
        yield f"Reports in a, {self._words(0)}", f"{comparison.a.num_reports:,}"
        yield f"Reports in b, {self._words(1)}", f"{comparison.b.num_reports:,}"

    def _picture(self, rows: Sequence[dict[str, Any]]) -> Picture:
        drawn = rows[:MOST_DRAWN]
        columns = {
            key: np.array([np.nan if row[key] is None else row[key] for row in drawn])
            for key in ("difference", "low", "high")
        }
        return differences(
            f"{self.metric.id}-compare",
            f"Shares in {self._words(0)} less those in {self._words(1)}, with 95% intervals; the surest on top.",
            [row["value"] for row in drawn],
            changed=np.array([row["changed"] for row in drawn]),
            **columns,
        )

    def _rests_on(self, comparison: Comparison) -> KeyValues:
        both = comparison.difference
        test = {
            "covariance": "all values, and how their errors go together",
            "simes": "the smallest q-value: how the errors of these values go together is not known",
        }
        return KeyValues(
            (
                ("Percent of what", "of the reports of each range; differences are in percentage points, a less b"),
                *(
                    (f"Last period of {name}", self._newest(c))
                    for name, c in (("a", comparison.a), ("b", comparison.b))
                ),
                ("Intervals", interval_words(both.interval_kind, both.adjustment, "changed")),
                ("Changed", f"at a false discovery rate of at most {comparison.difference.alpha:.3g} over all values"),
                ("The test of all values", test[comparison.difference.overall_test]),
            )
        )

    def _newest(self, counted: PeriodCounts) -> str:
        last = counted.periods[-1]
        return f"{self.metric.period.label(last)} ({state_words(self.data, self.metric, last)})"

    def _form(self) -> Form:
        a, b = (self._label(0), self._label(1)) if self.spans else (self.query.a or "", self.query.b or "")
        kinds = tuple((kind, words.partition(" (")[0]) for kind, words in INTERVAL_KINDS.items())
        return Form(
            "What is compared",
            (
                Field("a", "Range a", a, hint="FIRST..LAST, or one period"),
                Field("b", "Range b, taken away from a", b, hint="FIRST..LAST, or one period"),
                Field("interval", "Intervals", self.query.interval, "choice", kinds),
                adjustment_field(self.query.adjustment, "changed"),
                number_field("alpha", "False discovery rate", self.query.alpha, 0.001, 0.5, 0.001),
                number_field("overlap", KEPT, self.query.overlap, 0, 1, 0.01, "0 is always safe"),
                number_field(
                    "reports_per_device",
                    "Reports of one device in a range",
                    self.query.reports_per_device,
                    1,
                    None,
                    0.1,
                    "empty: one in each period",
                ),
            ),
            "Compare",
            f"/m/{self.metric.id}/compare",
            is_live=True,
        )

    def _releases(self) -> Iterator[Block]:
        """Offer a comparison of before and after for each release that has reports on both sides."""
        places = [place for note in self.data.store.notes(self.metric.id) for place in self._release(note)]
        if places:
            yield Heading(2, "Before and after a release")
            yield Paragraph("The period of the release itself is in neither range: some devices had it already.")
            yield from (Link(text, address) for text, address in places)

    def _release(self, note: Any) -> Iterator[tuple[str, str]]:
        if note.kind != "release":
            return
        period = self.metric.period
        near = NEIGHBOURS if period.seconds >= DAY else 7 * DAY // period.seconds
        first, last = period.number(note.day * DAY), period.number((note.day + 1) * DAY - 1)
        after, before = (last + 1, last + near), (first - near, first - 1)
        if all(any(span[0] <= p <= span[1] for p in self.periods) for span in (after, before)):
            a, b = (f"{period.label(span[0])}..{period.label(span[1])}" for span in (after, before))
            yield note.text, self.query.address(f"/m/{self.metric.id}/compare", a=a, b=b)


def _overall(probability: float, alpha: float) -> str:
    number = f"{probability:.2f}" if probability >= 0.01 else p_value(probability)
    return f"{'a change' if probability <= alpha else 'nothing shown'} (p = {number})"
