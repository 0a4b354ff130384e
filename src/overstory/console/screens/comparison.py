"""Two ranges of a metric, compared: what changed, by how much, and what could have been missed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field as Parameter

from overstory.analysis.selection import INTERVAL_KINDS, Adjustment, IntervalKind
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
from overstory.presentation.document import Block, Field, Heading, KeyValues, Link, Notice, Paragraph, Table
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics.period import DAY
from overstory.queries.comparison import Comparison, check_comparable, compare, compare_series, parse_span

if TYPE_CHECKING:
    from overstory.analysis.difference import Difference
    from overstory.console.data import ConsoleData
    from overstory.presentation.svg import Picture
    from overstory.queries.counts import PeriodCounts

MOST_DRAWN: Final = 50  # values in the picture and in the page's table; the downloads have all
NEIGHBOURS: Final = 4  # periods before and after a release, or those of a week where a period is shorter than a day
Span = tuple[int, int]


class ComparisonQuery(Query):
    """What is compared: two ranges, the kind of intervals, and what is known of the devices."""

    a: str | None = None
    b: str | None = None
    interval: IntervalKind = "population"
    adjustment: Adjustment = "fcr"
    alpha: float = Parameter(0.05, gt=0, lt=1)
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
            check_comparable(*(data.counts(metric, *span) for span in page.spans))
        except ParameterError as error:
            return page.without(sentence(str(error)), 400)
        return Compared(*about).view()


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
    """The page of two ranges that are compared."""

    @cached_property
    def compared(self) -> Comparison:
        options = replace(self.options, interval_kind=self.query.interval)
        a, b = (self.data.counts(self.metric, *span) for span in self.spans or ())
        if not is_shares(self.metric):
            return compare(a, b, options)
        return compare_series(*self.data.all_estimates([a, b], "total", options))

    @property
    def of_shares(self) -> Difference | None:
        return self.compared.difference if is_shares(self.metric) else None

    def _both(self) -> tuple[PeriodCounts, PeriodCounts]:
        return self.compared.a, self.compared.b

    def words(self) -> str:
        return " against ".join(self._ranges())

    def _ranges(self) -> list[str]:
        return [" to ".join(map(self.data.words, label.split(".."))) for label in self._labels()]

    def head(self) -> Iterator[Block]:
        yield from super().head()
        if self.of_shares is not None:
            changed = bool(self.of_shares.changed().any())
            yield Notice(sentence(self.of_shares.sentence()), "" if changed else "faint")

    def figures(self) -> Iterator[tuple[str, str]]:
        for name, when, counted in zip("ab", self._ranges(), self._both(), strict=True):
            yield f"Reports in {name}, {when}", f"{counted.num_reports:,}"

    def pictures(self) -> Iterator[Picture]:
        if self.of_shares is not None:
            a, b = self._ranges()
            yield self.of_shares.plot(name=f"{self.metric.id}-compare", of=f"Shares in {a} less those in {b}")

    def tables(self) -> Iterable[Block]:
        return map(for_a_page, self.compared.table(MOST_DRAWN))

    def rests_on(self) -> Iterator[Block]:
        ends = (
            (f"Last period of {name}", counted.periods[-1]) for name, counted in zip("ab", self._both(), strict=True)
        )
        yield KeyValues((("Differences", "range a less range b"), *((name, self.when(last)) for name, last in ends)))

    @property
    def table(self) -> Table:
        return self.compared.as_table()

    def facts(self) -> Mapping[str, Any]:
        return {name: value for name, value in facts_of(self.compared).items() if name != "differences"}
