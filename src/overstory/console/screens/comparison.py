"""Two ranges of a metric, compared: what changed, by how much, and what could have been missed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field as Parameter

from overstory.analysis.difference.result import difference_columns, unchanged
from overstory.analysis.selection import INTERVAL_KINDS, Adjustment, IntervalKind, interval_words
from overstory.console.screens.page import (
    WHOLE_RANGE,
    Page,
    adjustment_field,
    facts_of,
    for_a_page,
    is_shares,
    number_field,
    reading_words,
    sentence,
)
from overstory.console.view import Query, Screen, View
from overstory.presentation.document import Block, Field, Heading, KeyValues, Lines, Link, Notice, Paragraph, Table
from overstory.presentation.formats import p_value
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics.period import DAY
from overstory.queries.comparison import SHARED_NOISE, Comparison, check_comparable, compare, compare_series, parse_span
from overstory.queries.readings import EstimateOptions

if TYPE_CHECKING:
    from overstory.analysis.difference import Difference
    from overstory.console.data import ConsoleData
    from overstory.presentation.svg import Picture
    from overstory.queries.counts import PeriodCounts

MOST_DRAWN: Final = 50  # values in the picture and in the page's table; the downloads have all
NEIGHBOURS: Final = 4  # periods before and after a release, or those of a week where a period is shorter than a day
OVERLAP: Final = (
    "A device that reports in both ranges and keeps its value sends the same answers again. Its noise cancels in the "
    "difference, so that the intervals here are too long, never too short, and small changes among few devices may be "
    "missed. If you know how many devices are in both, say so, and the intervals take it into account."
)

TESTS: Final = {
    "covariance": "all values, and how their errors go together",
    "simes": "the smallest q-value: how the errors of these values go together is not known",
}
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
        about = data, metric, query, data.counts(metric)
        page = ComparisonPage(*about)
        if page.spans is None:
            return page.without("There are reports in fewer than two periods: there is nothing to compare yet.", 200)
        if metric.reading in WHOLE_RANGE:
            return page.without(f"Two ranges of {reading_words(metric)} are not compared on a page.", 200)
        if is_shares(metric) and not metric.labels:
            return page.without("The registry has no list of candidates for this metric: there are no shares.", 200)
        try:
            check_comparable(*(data.counts(metric, *span) for span in page.spans), overlap=query.overlap)
        except ParameterError as error:
            return page.without(sentence(str(error)), 400)
        return (SharesCompared if is_shares(metric) else Compared)(*about).view()


class ComparisonPage(Page):
    """The page of two ranges, without a comparison."""

    place = "Compare"
    submit = "Compare"
    asks = "What is compared"

    @cached_property
    def spans(self) -> tuple[Span, Span] | None:
        """The two ranges; by default the newest period that is over, and the one with reports before it."""
        a, b, periods = self.query.a, self.query.b, self.counted.periods
        if (a is None) != (b is None):
            raise ParameterError(f"{'b' if b is None else 'a'}: give both ranges, as FIRST..LAST")
        if a is not None:
            return parse_span(self.metric, a), parse_span(self.metric, b)
        over = [period for period in periods if self.data.state(self.metric, period) != "running"]
        chosen = (over if len(over) > 1 else list(periods))[-2:]
        return ((chosen[1], chosen[1]), (chosen[0], chosen[0])) if len(chosen) == 2 else None

    def without(self, reason: str, status: int) -> View:
        self.said = [Notice(reason)]
        return self.view(status)

    @property
    def address(self) -> str:
        return f"/m/{self.metric.id}/compare"

    def words(self) -> str:
        return "nothing to compare"

    def fields(self) -> Iterator[Field]:
        query = self.query
        a, b = self._labels() if self.spans else (query.a or "", query.b or "")
        kinds = tuple((kind, words.partition(" (")[0]) for kind, words in INTERVAL_KINDS.items())
        yield Field("a", "Range a", a, hint="FIRST..LAST, or one period")
        yield Field("b", "Range b, taken away from a", b, hint="FIRST..LAST, or one period")
        yield Field("interval", "Intervals", query.interval, "choice", kinds)
        yield adjustment_field(query.adjustment, "changed")
        yield number_field("alpha", "False discovery rate", query.alpha, 0.001, 0.5, 0.001)
        if self.metric.panel is None:
            yield number_field("overlap", KEPT, query.overlap, 0, 1, 0.01, "0 is always safe")
        each, hint = query.reports_per_device, "empty: one in each period"
        yield number_field("reports_per_device", "Reports of one device in a range", each, 1, None, 0.1, hint)

    def _labels(self) -> list[str]:
        assert self.spans is not None
        both = [tuple(map(self.label, span)) for span in self.spans]
        return [first if first == last else f"{first}..{last}" for first, last in both]

    def more(self) -> Iterator[Block]:
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
        if all(any(span[0] <= p <= span[1] for p in self.counted.periods) for span in (after, before)):
            a, b = (f"{period.label(span[0])}..{period.label(span[1])}" for span in (after, before))
            yield note.text, self.query.address(self.address, a=a, b=b)

    def rests_on(self) -> Iterable[Block]:
        return ()

    def facts(self) -> Mapping[str, Any]:
        return {"metric": self.metric.id, "reason": self.said[0].text}


class Compared(ComparisonPage):
    """The page of two ranges whose numbers are no shares."""

    @cached_property
    def compared(self) -> Comparison:
        a, b = self.both_counted
        return compare(a, b, self.chosen, overlap=self.query.overlap)

    @property
    def chosen(self) -> EstimateOptions:
        return replace(self.options, interval_kind=self.query.interval)

    @property
    def both_counted(self) -> list[PeriodCounts]:
        return [self.data.counts(self.metric, *span) for span in self.spans or ()]

    def words(self) -> str:
        return " against ".join(self._ranges())

    def _ranges(self) -> list[str]:
        return [" to ".join(map(self.data.words, label.split(".."))) for label in self._labels()]

    def tables(self) -> Iterable[Block]:
        return map(for_a_page, self.compared.table())

    def rests_on(self) -> Iterable[Block]:
        newest = self.when(self.compared.a.periods[-1])
        return (KeyValues((("Differences", "range a less range b"), ("Last period of a", newest))),)

    @property
    def table(self) -> Table:
        return self.compared.as_table()

    def facts(self) -> Mapping[str, Any]:
        return facts_of(self.compared)


class SharesCompared(Compared):
    """The page of two ranges of shares."""

    @cached_property
    def compared(self) -> Comparison:
        series = self.data.all_estimates(self.both_counted, "total", self.chosen)
        return compare_series(*series, overlap=self.query.overlap)

    @property
    def both(self) -> Difference:
        difference: Difference = self.compared.difference
        return difference

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        return self.compared.rows()

    def head(self) -> Iterator[Block]:
        yield from super().head()
        yield Notice(sentence(self.both.sentence()), "" if self.both.changed().any() else "faint")

    def figures(self) -> Iterator[tuple[str, str]]:
        both, (a, b) = self.both, self._ranges()
        yield "Changed", f"{int(both.changed().sum()):,} of {len(both):,}"
        p = both.overall_p_value
        outcome, number = "a change" if p <= both.alpha else "nothing shown", f"{p:.2f}" if p >= 0.01 else p_value(p)
        yield "Test that nothing changed", f"{outcome} (p = {number})"
        yield f"Reports in a, {a}", f"{self.compared.a.num_reports:,}"
        yield f"Reports in b, {b}", f"{self.compared.b.num_reports:,}"

    def pictures(self) -> Iterator[Picture]:
        a, b = self._ranges()
        yield self.both.plot(name=f"{self.metric.id}-compare", of=f"Shares in {a} less those in {b}")

    def tables(self) -> Iterator[Block]:
        shown, (a, b) = self.rows[:MOST_DRAWN], self._ranges()
        columns = difference_columns(adjustment=self.both.adjustment)
        yield Table(f"a, {a}, less b, {b}", columns, shown, unchanged(shown))
        if len(self.rows) > len(shown):
            yield Paragraph(f"{len(self.rows) - len(shown):,} more are in the downloads.")

    def rests_on(self) -> Iterator[Block]:
        both, compared = self.both, self.compared
        yield KeyValues(
            (
                ("Percent of what", "of the reports of each range; differences are in percentage points, a less b"),
                ("Last period of a", self.when(compared.a.periods[-1])),
                ("Last period of b", self.when(compared.b.periods[-1])),
                ("Intervals", interval_words(both.interval_kind, both.adjustment, "changed")),
                ("Changed", f"at a false discovery rate of at most {both.alpha:.3g} over all values"),
                ("The test of all values", TESTS[both.overall_test]),
            )
        )
        if self.metric.panel is None:
            yield Paragraph(OVERLAP)
        yield Lines(*(sentence(note) for note in compared.notes if note != SHARED_NOISE))

    def facts(self) -> Mapping[str, Any]:
        return {name: value for name, value in self.compared.to_json().items() if name != "differences"}
