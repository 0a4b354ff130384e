"""One period of a metric, decoded again with other candidates where that is asked for, and two ranges compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote

from pydantic import Field as Parameter

from overstory.analysis.selection import INTERVAL_KINDS, IntervalKind
from overstory.analysis.tables.output import MOST_DRAWN, estimate_picture, estimate_table, interval_caption
from overstory.console.data import MOST_CANDIDATES
from overstory.console.screens.page import (
    WHOLE_RANGE,
    Page,
    ReadingPage,
    epsilon_of_a_year,
    facts_of,
    for_a_page,
    is_shares,
    not_listed,
    number_field,
    reading_words,
    refuse_options,
    sentence,
    share_that_shows,
)
from overstory.console.view import Query, ScreenError, View
from overstory.presentation.document import (
    Block,
    Column,
    Field,
    Form,
    Heading,
    KeyValues,
    Link,
    Notice,
    Paragraph,
    Table,
)
from overstory.presentation.formats import interval, percent, with_article
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics.period import DAY
from overstory.queries.comparison import Comparison, check_comparable, compare, compare_series, parse_span
from overstory.queries.counts import PeriodCounts, parse_range

if TYPE_CHECKING:
    from overstory.analysis.difference import Difference
    from overstory.console.data import ConsoleData
    from overstory.presentation.svg import Picture
    from overstory.queries.counts import PeriodCounts
    from overstory.queries.estimates import EstimateSeries
    from overstory.queries.readings import EstimateOptions, Reading


MOST_SHARES: Final = 4  # values in the table of groups: the most frequent of all devices
MOST_ROWS: Final = 500
CORRECTIONS: Final = (("fdr", "the false discovery rate"), ("bonferroni", "the chance of any false detection"))
OF_SHARES: Final = ("candidates", "list")  # what an address may ask of shares alone


class PeriodQuery(Query):
    """What the page shows: the candidates, what counts as detected, and the level of the intervals."""

    group: str = ""
    candidates: str = ""
    list: str = ""
    alpha: float = Parameter(0.05, gt=0, lt=1)
    correction: Literal["fdr", "bonferroni"] = "fdr"
    level: float = Parameter(0.95, ge=0.5, lt=1)
    rank: int = Parameter(1, ge=1)


def show_period(data: ConsoleData, query: PeriodQuery, **path: str) -> View:
    """Show the values of one period, with the list of candidates to look for."""
    metric, label = data.metric(path["metric"]), path["period"]
    first, last = parse_range(metric, label, label)
    counted = data.counts(metric, first, last, query.group)
    about = data, metric, query, counted, label
    if not counted.periods:
        return PeriodPage(*about).view()
    if not is_shares(metric):
        refuse_options({name: getattr(query, name) for name in OF_SHARES}, metric)
        return ReadingOfPeriod(*about).view()
    page = SharesOfPeriod(*about)
    return (page if page.candidates or metric.labels else PeriodPage(*about)).view()


class PeriodPage(Page):
    """The page of a period, without its numbers."""

    @cached_property
    def candidates(self) -> tuple[str, ...] | None:
        query = self.query
        held = self.data.lists.find(query.list) if query.list else query.candidates.splitlines()
        if held is None:
            raise ScreenError(404, "list: this list of candidates is no longer held; send it again")
        names = tuple(dict.fromkeys(filter(None, held)))
        return names if names or query.list else None

    @property
    def asks(self) -> str:
        return "What counts as detected" if is_shares(self.metric) else "What is shown"

    def fields(self) -> Iterator[Field]:
        query = self.query
        yield number_field("alpha", "Alpha", query.alpha, 0.0001, 0.5, 0.0001)
        if not is_shares(self.metric):
            return
        yield Field("correction", "Alpha bounds", query.correction, "choice", CORRECTIONS)
        yield number_field("level", "Interval level", query.level, 0.5, 0.999, 0.001)
        yield number_field("rank", "Draw from rank", query.rank, 1, None, 1, "2 leaves out the first")
        yield from _hidden_fields(candidates=query.candidates, list=query.list)

    def notices(self) -> Iterable[Block]:
        if not self.counted.periods:
            return (self.no_reports("period"),)
        return (Notice("Type the strings to look for: one a line. The registry has no list.", "faint"),)

    def tables(self) -> Iterable[Block]:
        """Offer to look for other strings, where they can be named after the reports were sent."""
        encoding = self.metric.oracle.encoding if is_shares(self.metric) else None
        if encoding and (encoding.decoded or (encoding.uneven and self.metric.domain.size is None)):
            yield Heading(2, "Look for other strings", "candidates")
            yield Paragraph(
                "Decoding again reads the same counts: it costs no privacy, and changes nothing in the store."
            )
            yield self._list_form()
            if self.candidates is not None:
                yield Link("Back to the registry's list", self.address)

    def _list_form(self) -> Form:
        query, names = self.query, self.candidates or self.metric.labels
        text = "\n".join(names)
        fields = (
            Field("candidates", "Candidates, one a line", text if len(names) <= MOST_ROWS else "", "lines"),
            Field("candidates", "or a file of them", kind="file", hint=f"At most {MOST_CANDIDATES:,}, in UTF-8."),
            *_hidden_fields(alpha=f"{query.alpha:g}", correction=query.correction, group=self.group),
        )
        return Form("Candidates", fields, "Decode again", self.address, "post")

    def sentences(self) -> Iterator[str]:
        yield from super().sentences()
        if is_shares(self.metric):  # another reading says it among its own sentences
            yield from self.counted.central_sentences()

    def facts(self) -> Mapping[str, Any]:
        return {"metric": self.metric.id, "period": self.period, "reports": self.counted.num_reports}


def _hidden_fields(**values: str) -> Iterator[Field]:
    return (Field(name, "", value, "hidden") for name, value in values.items() if value)


class SharesOfPeriod(PeriodPage):
    """The page of a period's shares."""

    @cached_property
    def series(self) -> EstimateSeries:
        return self.data.estimates(self.counted, "total", replace(self.options, candidates=self.candidates))

    @cached_property
    def estimate(self) -> Any:
        (part,) = self.series.parts
        return part.estimate

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        rows = self.estimate.rows(level=self.query.level)
        return sorted(rows, key=lambda row: not row["detected"])

    def words(self) -> str:
        return f"{sum(row['detected'] for row in self.rows):,} of {len(self.rows):,} detected"

    def figures(self) -> Iterator[tuple[str, str]]:
        estimate, query, built = self.estimate, self.query, self.metric.mechanism
        reports, values = estimate.num_reports, len(estimate.values)
        yield "Reports", f"{reports:,}"
        yield "Smallest share, nine times in ten", share_that_shows(built, reports, values, query.alpha)
        if hasattr(estimate, "unallocated"):
            share, *ends = not_listed(estimate, query.level)
            yield f"Not listed ({interval(percent)(*ends)})", percent(share)
        yield epsilon_of_a_year(self.metric, self.data.registry.budget)

    def notices(self) -> Iterator[Block]:
        yield from self.state(self.series.parts[0].last, "This period")
        yield from self.noted((*self.estimate.notes, *self.series.notes), "bad")

    def pictures(self) -> Iterator[Picture]:
        """Draw the values from the rank on that was asked for: without the most frequent, the others have room."""
        rows, query = self.rows, self.query
        first = min(query.rank, len(rows)) - 1
        drawn = rows[first : first + MOST_DRAWN]
        which = f"; ranks {first + 1:,} to {first + len(drawn):,} of {len(rows):,}" if len(drawn) < len(rows) else ""
        shares = f"Share of each value in {with_article(self.data.words(self.period))}"
        yield estimate_picture(
            f"{self.metric.id}-{self.period}",
            f"{shares}, with {interval_caption(query.level)}{which}.",
            drawn,
        )

    def tables(self) -> Iterator[Block]:
        yield Heading(2, "Every value")
        yield estimate_table(self.rows[:MOST_ROWS], level=self.query.level)
        if len(self.rows) > MOST_ROWS:
            yield Paragraph(f"{len(self.rows) - MOST_ROWS:,} more are in the downloads.")
        if not self.group:
            yield from group_blocks(self.data, self.counted, self.series.options)
        yield from super().tables()

    @property
    def table(self) -> Table:
        return self.series.as_table(self.query.level)

    def facts(self) -> Mapping[str, Any]:
        return {**self.series.summary(), **self.estimate.summary(), "level": self.query.level}


class ReadingOfPeriod(ReadingPage, PeriodPage):
    """The page of a period that is read as a table, as sets, by a search or as numbers."""

    @cached_property
    def reading(self) -> Reading:
        return self.data.reading(self.counted, "total", self.options)

    def figures(self) -> Iterator[tuple[str, str]]:
        yield "Reports", f"{self.counted.num_reports:,}"
        yield epsilon_of_a_year(self.metric, self.data.registry.budget)

    def notices(self) -> Iterable[Block]:
        return self.state(self.counted.periods[-1])


def group_blocks(data: ConsoleData, counted: PeriodCounts, options: EstimateOptions) -> Iterator[Block]:
    """Return a table of the groups: their devices, their reports, and the shares of the most frequent values."""
    metric, groups = counted.metric, counted.metric.groups
    if groups is None:
        return
    names = [name for name in groups.names if not groups.hidden(name)]
    of_groups = [data.counts(metric, counted.first, counted.last, name) for name in names]
    whole, *series = data.all_estimates([counted, *of_groups], "total", options)
    values = [row["value"] for row in whole.parts[0].estimate.rows(MOST_SHARES)]
    path = f"/m/{metric.id}/{counted.label(counted.first)}"
    columns = (
        Column("group", groups.by, is_left=True, link=lambda row: f"{path}?group={quote(row['group'])}"),
        Column("expected", "expected devices", "{:,.0f}".format),
        Column("reports", text="{:,}".format),
        *(Column(f"share{place}", str(value)) for place, value in enumerate(values)),
    )
    rows = [
        {"group": name, "expected": groups.expected(name), "reports": own.counted.num_reports, **_shares(own, values)}
        for name, own in zip(names, series, strict=True)
    ]
    yield Heading(2, f"By {groups.by}", "groups")
    yield Paragraph(
        f"Each group is estimated by itself; expected devices are by public shares. Reports name their {groups.by} in "
        "clear: no noise protects it."
    )
    yield Table("", columns, rows)


def _shares(series: EstimateSeries, values: Sequence[Any]) -> dict[str, str]:
    rows = {row["value"]: row for part in series.parts for row in part.estimate.rows()}
    return {f"share{place}": _share_words(rows.get(value)) for place, value in enumerate(values)}


def _share_words(row: Mapping[str, Any] | None) -> str:
    if row is None or None in (row["frequency"], row["frequency_low"], row["frequency_high"]):
        return "unknown"
    return f"{percent(row['frequency'])} ({interval(percent)(row['frequency_low'], row['frequency_high'])})"


MOST_COMPARED: Final = 50  # values in the picture and in the page's table; the downloads have all
NEIGHBOURS: Final = 4  # periods before and after a release, or those of a week where a period is shorter than a day
Span = tuple[int, int]


class ComparisonQuery(Query):
    """What is compared: two ranges, the kind of intervals, and what is known of the devices."""

    a: str | None = None
    b: str | None = None
    interval: IntervalKind = "population"
    alpha: float = Parameter(0.05, gt=0, lt=1)
    reports_per_device: float | None = Parameter(None, ge=1)


def show_comparison(data: ConsoleData, query: ComparisonQuery, **path: str) -> View:
    """Show the shares of one range less those of another."""
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
        return map(for_a_page, self.compared.tables(everything=False, limit=MOST_COMPARED))

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
