"""One period of a metric, decoded again with other candidates where that is asked for, and two ranges compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote

from pydantic import Field as Parameter

from overstory.analysis.selection import INTERVAL_KINDS, IntervalKind
from overstory.analysis.tables.output import MOST_DRAWN, estimate_picture, interval_caption
from overstory.console.data import MOST_CANDIDATES
from overstory.console.screens.page import (
    WHOLE_RANGE,
    Page,
    epsilon_of_a_year,
    estimate_blocks,
    facts_of,
    for_a_page,
    is_shares,
    not_listed,
    number_field,
    options_of,
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
from overstory.queries.comparison import check_comparable, compare, compare_series, parse_span
from overstory.queries.counts import parse_range
from overstory.queries.readings import WORDS

if TYPE_CHECKING:
    from overstory.analysis.difference import Difference
    from overstory.console.data import ConsoleData
    from overstory.protocol.metrics import Metric
    from overstory.queries.counts import PeriodCounts
    from overstory.queries.estimates import EstimateSeries
    from overstory.queries.readings import EstimateOptions


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
    counted = data.counts(metric, *parse_range(metric, label, label), query.group)
    page = Page(data, metric, query, counted, label)
    page.fields = [number_field("alpha", "Alpha", query.alpha, 0.0001, 0.5, 0.0001)]
    page.facts = {"metric": metric.id, "period": label, "reports": counted.num_reports}
    if is_shares(metric):
        _show_shares(page)
    elif counted.periods:
        refuse_options({name: getattr(query, name) for name in OF_SHARES}, metric)
        page.show_reading(data.read(counted, "total", options_of(query)))
        page.figures = [("Reports", f"{counted.num_reports:,}"), epsilon_of_a_year(metric, data.registry.budget)]
        page.notices = page.state(counted.periods[-1])
    if not counted.periods:
        page.notices = [page.no_reports("period")]
    return page.view()


def _show_shares(page: Page) -> None:
    """Show shares, and offer to look for other strings, where these can be named after the reports were sent."""
    query, metric, names = page.query, page.metric, _candidates(page.data, page.query)
    page.asks = "What counts as detected"
    page.fields = [
        *page.fields,
        Field("correction", "Alpha bounds", query.correction, "choice", CORRECTIONS),
        number_field("level", "Interval level", query.level, 0.5, 0.999, 0.001),
        number_field("rank", "Draw from rank", query.rank, 1, None, 1, "2 leaves out the first"),
        *_hidden_fields(candidates=query.candidates, list=query.list),
    ]
    if page.counted.periods and (names or metric.labels):
        _show_values(page, names)
    else:
        page.notices = [Notice("Type the strings to look for: one a line. The registry has no list.", "faint")]
    encoding = metric.oracle.encoding
    if encoding.decoded or (encoding.uneven and metric.domain.size is None):
        page.tables = [
            *page.tables,
            Heading(2, "Look for other strings", "candidates"),
            Paragraph("Decoding again reads the same counts: it costs no privacy, and changes nothing in the store."),
            _list_form(page, names or metric.labels),
            *([] if names is None else [Link("Back to the registry's list", page.address)]),
        ]


def _candidates(data: ConsoleData, query: PeriodQuery) -> tuple[str, ...] | None:
    held = data.lists.find(query.list) if query.list else query.candidates.splitlines()
    if held is None:
        raise ScreenError(404, "list: this list of candidates is no longer held; send it again")
    names = tuple(dict.fromkeys(filter(None, held)))
    return names if names or query.list else None


def _list_form(page: Page, names: Sequence[str]) -> Form:
    query, text = page.query, "\n".join(names) if len(names) <= MOST_ROWS else ""
    fields = (
        Field("candidates", "Candidates, one a line", text, "lines"),
        Field("candidates", "or a file of them", kind="file", hint=f"At most {MOST_CANDIDATES:,}, in UTF-8."),
        *_hidden_fields(alpha=f"{query.alpha:g}", correction=query.correction, group=query.group),
    )
    return Form("Candidates", fields, "Decode again", page.address, "post")


def _hidden_fields(**values: str) -> Iterator[Field]:
    return (Field(name, "", value, "hidden") for name, value in values.items() if value)


def _show_values(page: Page, names: tuple[str, ...] | None) -> None:
    query, metric, data = page.query, page.metric, page.data
    series = data.read(page.counted, "total", replace(options_of(query), candidates=names))
    (part,) = series.parts
    estimate, reports = part.estimate, part.estimate.num_reports
    rows = sorted(estimate.rows(level=query.level), key=lambda row: not row["detected"])
    page.words = f"{sum(row['detected'] for row in rows):,} of {len(rows):,} detected"
    shown = share_that_shows(metric.mechanism, reports, len(estimate.values), query.alpha)
    page.figures = [("Reports", f"{reports:,}"), ("Smallest share, nine times in ten", shown)]
    if hasattr(estimate, "unallocated"):
        share, *ends = not_listed(estimate, query.level)
        page.figures.append((f"Not listed ({interval(percent)(*ends)})", percent(share)))
    page.figures.append(epsilon_of_a_year(metric, data.registry.budget))
    noted = page.noted((*estimate.notes, *series.notes), "bad")
    page.notices = [*page.state(part.last, "This period"), *noted]
    # Without the most frequent values, the others have room.
    first = min(query.rank, len(rows)) - 1
    drawn = rows[first : first + MOST_DRAWN]
    which = f"; ranks {first + 1:,} to {first + len(drawn):,} of {len(rows):,}" if len(drawn) < len(rows) else ""
    shares = f"Share of each value in {with_article(data.words(page.period))}"
    caption = f"{shares}, with {interval_caption(query.level)}{which}."
    page.pictures = [estimate_picture(f"{metric.id}-{page.period}", caption, drawn)]
    page.tables = [
        Heading(2, "Every value"),
        *estimate_blocks(rows, MOST_ROWS, query.level),
        *([] if query.group else group_blocks(data, page.counted, series.options)),
    ]
    page.table = series.as_table(query.level)
    page.facts = {**series.summary(), **estimate.summary(), "level": query.level}


def group_blocks(data: ConsoleData, counted: PeriodCounts, options: EstimateOptions) -> Iterator[Block]:
    """Return a table of the groups: their devices, their reports, and the shares of the most frequent values."""
    metric, groups = counted.metric, counted.metric.groups
    if groups is None:
        return
    names = [name for name in groups.names if not groups.hidden(name)]
    of_groups = [data.counts(metric, counted.first, counted.last, name) for name in names]
    whole, *series = data.read_all([counted, *of_groups], "total", options)
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
    metric, reason, status = data.metric(path["metric"]), "", 200
    page = Page(data, metric, query, data.counts(metric), end="compare", place="Compare", words="nothing to compare")
    page.asks, page.submit, page.rests_on = "What is compared", "Compare", ()
    spans = _spans(page)
    labels = [_span_label(metric, *span) for span in spans] or [query.a or "", query.b or ""]
    page.fields, page.more = list(_comparison_fields(query, *labels)), list(_releases(page))
    if not spans:
        reason = "There are reports in fewer than two periods: there is nothing to compare yet."
    elif metric.reading in WHOLE_RANGE:
        reason = f"Two ranges of {WORDS[metric.reading]} are not compared on a page."
    elif is_shares(metric) and not metric.labels:
        reason = "The registry has no list of candidates for this metric: there are no shares."
    else:
        a, b = (data.counts(metric, *span) for span in spans)
        try:
            check_comparable(a, b)
        except ParameterError as error:
            reason, status = sentence(str(error)), 400
        else:
            _show_difference(page, a, b, [" to ".join(map(data.words, label.split(".."))) for label in labels])
    if reason:
        page.notices, page.facts = [Notice(reason)], {"metric": metric.id, "reason": reason}
    return page.view(status)


def _spans(page: Page) -> tuple[Span, ...]:
    """Return the two ranges; by default the newest period that is over, and the one with reports before it."""
    a, b, periods = page.query.a, page.query.b, page.counted.periods
    if (a is None) != (b is None):
        raise ParameterError(f"{'b' if b is None else 'a'}: give both ranges, as FIRST..LAST")
    if a is not None:
        return parse_span(page.metric, a), parse_span(page.metric, b)
    over = [period for period in periods if page.data.state(page.metric, period) != "running"]
    chosen = (over if len(over) > 1 else list(periods))[-2:]
    return tuple((one, one) for one in reversed(chosen)) if len(chosen) == 2 else ()


def _span_label(metric: Metric, first: int, last: int) -> str:
    return metric.period.label(first) if first == last else f"{metric.period.label(first)}..{metric.period.label(last)}"


def _comparison_fields(query: ComparisonQuery, a: str, b: str) -> Iterator[Field]:
    kinds = tuple((kind, words.partition(" (")[0]) for kind, words in INTERVAL_KINDS.items())
    yield Field("a", "Range a", a, hint="FIRST..LAST, or one period")
    yield Field("b", "Range b, taken away from a", b, hint="FIRST..LAST, or one period")
    yield Field("interval", "Intervals", query.interval, "choice", kinds)
    yield number_field("alpha", "False discovery rate", query.alpha, 0.001, 0.5, 0.001)
    each, hint = query.reports_per_device, "empty: one in each period"
    yield number_field("reports_per_device", "Reports of one device in a range", each, 1, None, 0.1, hint)


def _releases(page: Page) -> Iterator[Block]:
    """Offer to compare what came before and after each release, where both have reports."""
    period, periods = page.metric.period, page.counted.periods
    near = NEIGHBOURS if period.seconds >= DAY else 7 * DAY // period.seconds
    links = []
    for note in page.data.store.notes(page.metric.id):
        first, last = period.number(note.day * DAY), period.number((note.day + 1) * DAY - 1)
        spans = (last + 1, last + near), (first - near, first - 1)
        if note.kind == "release" and all(any(a <= one <= b for one in periods) for a, b in spans):
            a, b = (f"{period.label(span[0])}..{period.label(span[1])}" for span in spans)
            links.append(Link(note.text, page.query.address(page.address, a=a, b=b)))
    if links:
        yield Heading(2, "Before and after a release")
        yield Paragraph("The period of the release itself is in neither range: some devices had it already.")
        yield from links


def _show_difference(page: Page, a: PeriodCounts, b: PeriodCounts, ranges: Sequence[str]) -> None:
    query, metric = page.query, page.metric
    options = replace(options_of(query), interval_kind=query.interval)
    both = {"a": a, "b": b}
    page.words = " against ".join(ranges)
    page.figures = [
        (f"Reports in {name}, {when}", f"{counted.num_reports:,}")
        for (name, counted), when in zip(both.items(), ranges, strict=True)
    ]
    if is_shares(metric):
        compared = compare_series(*page.data.read_all([a, b], "total", options))
        difference: Difference = compared.difference
        page.lead = [Notice(sentence(difference.sentence()), "" if difference.changed().any() else "faint")]
        of = f"Shares in {ranges[0]} less those in {ranges[1]}"
        page.pictures = [difference.plot(name=f"{metric.id}-compare", of=of)]
    else:
        compared = compare(a, b, options)
    page.tables = list(map(for_a_page, compared.tables(everything=False, limit=MOST_COMPARED)))
    ends = ((f"Last period of {name}", page.when(counted.periods[-1])) for name, counted in both.items())
    page.rests_on = [KeyValues((("Differences", "range a less range b"), *ends))]
    page.table = compared.as_table()
    page.facts = {name: value for name, value in facts_of(compared).items() if name != "differences"}
