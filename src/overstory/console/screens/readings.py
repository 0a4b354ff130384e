"""Pages of metrics that are read in another way than as shares of values: words, pictures, groups and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import numpy as np

from overstory.analysis.association.picture import table_picture
from overstory.console.screens.columns import Columns, reports_picture
from overstory.console.screens.facts import (
    NO_DIMENSIONS,
    adjustment_field,
    epsilons,
    estimate_picture,
    number_field,
    page_head,
    rests_on,
    sentence,
    state_notice,
    state_words,
)
from overstory.console.view import ScreenError, View
from overstory.presentation.charts.drawing import F64
from overstory.presentation.charts.numbers import estimates_over_time, histogram
from overstory.presentation.document import (
    Block,
    Column,
    Field,
    Figure,
    Form,
    Heading,
    KeyValues,
    Lines,
    Paragraph,
    Table,
)
from overstory.presentation.formats import interval, percent, thousands

if TYPE_CHECKING:
    from overstory.analysis.numeric.quantities import Quantity
    from overstory.console.data import ConsoleData
    from overstory.presentation.svg import Picture
    from overstory.protocol.metrics import Metric
    from overstory.queries.comparison import Comparison
    from overstory.queries.counts import PeriodCounts
    from overstory.queries.estimates import EstimateSeries, ItemSeries
    from overstory.queries.numbers import NumberSeries
    from overstory.queries.readings import Aggregation, EstimateOptions, Reading
    from overstory.queries.tables import TableSeries


MOST_SHARES: Final = 4
"""Values in the table of groups: the most frequent of all devices."""


def group_field(metric: Metric, chosen: str) -> tuple[Field, ...]:
    """Return the field that asks for a group; none where the metric has no groups."""
    groups = metric.groups
    if groups is None:
        return ()
    shown = [(name, name) for name in groups.names if not groups.hidden(name)]
    return (Field("group", f"Group by {groups.by}", chosen, "choice", (("", "all devices"), *shown)),)


def group_words(metric: Metric, chosen: str) -> str:
    """Return what a title says of the chosen group."""
    return f", {metric.groups.by} {chosen}" if metric.groups is not None and chosen else ""


def dimension_words(metric: Metric) -> str:
    """Say what a report holds in addition to its value."""
    if metric.groups is None:
        return NO_DIMENSIONS
    return (
        f"A report names the {metric.groups.by} of its device in clear, and no noise protects that. Nothing else that "
        "goes together with its value can be looked up afterwards."
    )


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
        *(
            Column(f"share{place}", str(value), _share_words, (f"share{place}", f"low{place}", f"high{place}"))
            for place, value in enumerate(values)
        ),
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


def _shares(series: EstimateSeries, values: Sequence[Any]) -> dict[str, float | None]:
    rows = {row["value"]: row for part in series.parts for row in part.estimate.rows()}
    keys = {"share": "frequency", "low": "frequency_low", "high": "frequency_high"}
    return {
        f"{short}{place}": rows[value][key] if value in rows else None
        for place, value in enumerate(values)
        for short, key in keys.items()
    }


def _share_words(share: float | None, low: float | None, high: float | None) -> str:
    if share is None or low is None or high is None:
        return "unknown"
    return f"{percent(share)} ({interval(percent)(low, high)})"


MOST_DOTS: Final = 50
FEW: Final = 10


def table_pictures(name: str, reading: TableSeries) -> Iterator[Picture]:
    """Yield a picture of each table of the last range."""
    for number, summary in enumerate(reading.parts[-1].estimate if reading.parts else (), start=1):
        if summary.table.num_reports:
            yield table_picture(f"{name}-{number}", summary)


def item_pictures(name: str, reading: ItemSeries) -> Iterator[Picture]:
    """Yield a picture of the share of devices that have each item."""
    if reading.parts:
        caption = "Share of the devices that have each item, with its interval."
        yield estimate_picture(name, caption, reading.parts[-1].estimate.rows(MOST_DOTS))


def search_pictures(name: str, reading: Any) -> Iterator[Picture]:
    """Yield a picture of the values that a `SearchReading` detected, or of the first few that it kept."""
    every = reading.discovered.rows(everything=True)
    detected = sum(row["detected"] for row in every)
    rows = every[: min(max(detected, FEW), MOST_DOTS)]
    if rows:
        caption = f"Share of the {len(rows)} most frequent values that the search kept, each with its interval."
        yield estimate_picture(name, caption, rows)


def number_pictures(name: str, reading: NumberSeries) -> Iterator[Picture]:
    """Yield the histogram of the last range; none of a mean alone."""
    rows = list(reading.parts[-1].estimate.of_kind("share")) if reading.parts else []
    if rows:
        caption = "Share of the devices in each range of numbers, with its 95% interval."
        names = [row.of if row.start is None else f"{row.start:g}" for row in rows]
        values, low, high = _numbers(rows)
        yield histogram(name, caption, names, values=values, low=low, high=high)


def numbers_over_time(name: str, reading: Any) -> Iterator[Picture]:
    """Yield the means of the periods with their intervals, or the medians where no mean is estimated."""
    for kind, of, what in (("mean", "", "mean"), ("quantile", "0.5", "median")):
        pairs = [
            (str(reading.counted.label(part.last)), row)
            for part in reading.parts
            for row in part.estimate.of_kind(kind)
            if row.of == of and not isinstance(row.value, str)
        ]
        if len(pairs) > 1:
            caption = f"The {what} of each {reading.metric.period}, with its 95% interval."
            labels, (values, low, high) = [label for label, _ in pairs], _numbers([row for _, row in pairs])
            yield estimates_over_time(f"{name}-{what}", caption, labels, values=values, low=low, high=high)
            return


def _numbers(rows: Sequence[Quantity]) -> tuple[F64, F64, F64]:
    ends = ("value", "low", "high")
    value, low, high = (np.array([float(getattr(row, end)) for row in rows]) for end in ends)
    return value, low, high


def marginal_tables(reading: Any) -> Iterator[Block]:
    """Yield the shares of each variable's values, each variable once."""
    if not reading.parts:
        return
    left = dict.fromkeys(name for summary in reading.parts[-1].estimate for name in summary.table.names)
    yield Heading(2, "Each variable by itself")
    for summary in reading.parts[-1].estimate:
        for name, rows in summary.to_json()["marginals"].items():
            if name in left:
                del left[name]
                yield _marginal(name, rows, summary.level)


def _marginal(name: str, rows: list[dict[str, object]], level: float) -> Table:
    columns = (
        Column("value", name, is_left=True),
        Column("share", "share", percent),
        Column("interval_ends", f"{level:.0%} interval", interval(percent), ("low", "high")),
    )
    return Table(name, columns, rows)


PICTURES: Final[Mapping[str, Callable[[str, Any], Iterator[Picture]]]] = {
    "table": table_pictures,
    "items": item_pictures,
    "search": search_pictures,
    "distribution": number_pictures,
    "ranges": number_pictures,
}
"""By reading: what draws it, from a name for files and the reading."""

OF_NUMBERS: Final = frozenset({"mean", "distribution", "ranges"})
"""Readings of which a number is drawn over all periods."""

SHARES: Final = "shares"
"""The reading whose pages are the screens' own."""

WORDS: Final[Mapping[str, str]] = {
    "table": "a table of several variables",
    "items": "sets of items",
    "search": "a search for values that nobody listed",
    "mean": "a mean",
    "distribution": "a distribution of numbers",
    "ranges": "numbers in ranges",
}
"""What each reading is, in an overview."""

DETECTING: Final = frozenset({"items", "search"})
"""Readings of which some values are detected."""

WHOLE_RANGE: Final = frozenset({"search"})
"""Readings of all periods together: a device answers once."""

MOST_PERIODS: Final = 60
"""Periods that a page reads one by one; the newest ones."""


def is_shares(metric: Metric) -> bool:
    """Whether a metric's estimates are shares of values, which the screens draw themselves."""
    return metric.reading == SHARES


def reading_words(metric: Metric) -> str:
    """Return what a metric's reading is."""
    return WORDS.get(metric.reading, metric.reading)


def period_view(data: ConsoleData, metric: Metric, label: str, counted: PeriodCounts, options: EstimateOptions) -> View:
    """Return the page of one period with reports."""
    page = ReadingPage(data, metric, counted, options)
    title = f"{metric.title}, {label}{group_words(metric, counted.group or '')}"
    reading, picture, shown_blocks = page.read()
    blocks = (
        *page_head(data, metric, label, f"{title}: {counted.num_reports:,} reports", label),
        KeyValues((("Reports", f"{counted.num_reports:,}"), *epsilons(metric)[:2]), "figures"),
        *state_notice(data, metric, counted.periods[-1]),
        *shown_blocks,
        _form(metric, counted.group or "", options, f"/m/{metric.id}/{label}"),
        *page.tail(),
    )
    return View(title, blocks, reading.as_table(), picture, _facts(reading))


def series_view(
    data: ConsoleData, metric: Metric, counted: PeriodCounts, kind: Aggregation, options: EstimateOptions, form: Form
) -> View:
    """Return the page of a metric over time: what its newest period says, or all periods together, and all periods."""
    whole = metric.reading in WHOLE_RANGE or kind == "total"
    newest = counted.periods[-1]
    group = counted.group or ""
    shown = counted if whole else data.counts(metric, newest, newest, group)
    page = ReadingPage(data, metric, shown, options)
    reading, picture, shown_blocks = page.read()
    periods = counted.periods[-MOST_PERIODS:]
    every = reading
    if not whole and len(periods) > 1:
        every = data.reading(data.counts(metric, periods[0], newest, group), kind, options)
    when = metric.period.label(newest) if not whole else _ends(metric, counted)
    reports, title = reports_picture(metric, Columns.of(counted, None)), f"{metric.title}{group_words(metric, group)}"
    blocks = (
        *page_head(data, metric, "Over time", f"{title}: {shown.num_reports:,} reports, {when}"),
        KeyValues(epsilons(metric), "figures"),
        *state_notice(data, metric, shown.periods[-1]),
        *shown_blocks,
        Heading(2, "Over time"),
        *map(Figure, numbers_over_time(metric.id, every) if metric.reading in OF_NUMBERS else ()),
        Figure(reports),
        _periods(metric, counted),
        *_left_out(len(counted.periods) - len(periods), whole=whole),
        form,
        *page.tail(),
    )
    return View(metric.title, blocks, every.as_table(), picture or reports, _facts(every))


def compared_view(
    data: ConsoleData, metric: Metric, compared: Comparison, head: Sequence[Block], tail: Sequence[Block]
) -> View:
    """Return the page of two ranges whose numbers are no shares, between the blocks `head` and `tail`."""
    last = compared.a.periods[-1]
    newest = f"{metric.period.label(last)} ({state_words(data, metric, last)})"
    blocks = (
        *head,
        *(_for_a_page(block) for block in compared.table()),
        *tail,
        Heading(2, "What these numbers rest on"),
        KeyValues((("Differences", "range a less range b"), ("Last period of a", newest))),
    )
    return View(metric.title, blocks, compared.as_table(), None, _facts(compared))


def _ends(metric: Metric, counted: PeriodCounts) -> str:
    first, last = (metric.period.label(counted.periods[end]) for end in (0, -1))
    return first if first == last else f"{first} to {last}"


class ReadingPage:
    """A reading of some periods, and the parts of its page; `change` makes of a reading the one that is shown."""

    def __init__(
        self,
        data: ConsoleData,
        metric: Metric,
        counted: PeriodCounts,
        options: EstimateOptions,
        change: Callable[[Reading], Reading] = lambda reading: reading,
    ) -> None:
        self.data, self.metric, self.counted, self.options = data, metric, counted, options
        self.change = change

    def read(self) -> tuple[Reading, Picture | None, tuple[Block, ...]]:
        """Return the reading, its first picture, and what a person reads of it."""
        reading = self.change(self.data.reading(self.counted, "total", self.options))
        label = _ends(self.metric, self.counted).replace(" ", "-")
        draw = PICTURES.get(self.metric.reading)
        pictures = tuple(draw(f"{self.metric.id}-{label}", reading)) if draw else ()
        more = marginal_tables(reading) if self.metric.reading == "table" else ()
        own = tuple(_for_a_page(block) for block in reading.blocks())
        return reading, (pictures[0] if pictures else None), (*map(Figure, pictures), *own, *more)

    def tail(self) -> Iterator[Block]:
        """Say what the numbers rest on."""
        kind = self.options.interval_kind or "population"
        adjustment = self.options.adjustment if self.metric.reading in DETECTING else None
        yield Heading(2, "What these numbers rest on")
        yield rests_on(self.data, self.metric, self.counted.num_reports, self.counted.periods, kind, adjustment)
        if self.metric.reading != "table":
            yield Lines(dimension_words(self.metric))


def _for_a_page(block: Block) -> Block:
    """Return a block of a reading as a page shows it: headings below the page's own, sentences for notes."""
    if isinstance(block, Heading):
        return replace(block, level=max(block.level, 2))
    if isinstance(block, Lines):
        return Lines(*(sentence(text.removeprefix("note: ").removesuffix(".")) for text in block.texts))
    return block


def _facts(reading: Reading | Comparison) -> dict[str, Any]:
    return {name: value for name, value in reading.to_json().items() if name != "title"}


def _periods(metric: Metric, counted: PeriodCounts) -> Table:
    rows = [
        {"period": metric.period.label(period), "reports": counted.counts[period].num_reports}
        for period in reversed(counted.periods[-MOST_PERIODS:])
    ]
    link = Column("period", is_left=True, link=lambda row: f"/m/{metric.id}/{row['period']}")
    return Table("", (link, Column("reports", text=thousands)), rows)


def _left_out(number: int, *, whole: bool) -> Iterator[Block]:
    if number > 0:
        read = "All periods are read together; this table has" if whole else "This page and its downloads have"
        yield Paragraph(f"{read} the newest {MOST_PERIODS} periods; {number:,} older ones can be asked for below.")


def unused_fields(metric: Metric) -> set[str]:
    """Return the fields of a form over time that mean nothing for a metric's reading."""
    unused = set() if metric.reading in DETECTING else {"adjustment"}
    return unused | ({"reading", "reports_per_device"} if metric.reading in WHOLE_RANGE else set())


def _form(metric: Metric, group: str, options: EstimateOptions, address: str) -> Form:
    alpha = number_field("alpha", "Alpha", options.alpha, 0.0001, 0.5, 0.0001)
    fields = (alpha, adjustment_field(options.adjustment)) if metric.reading in DETECTING else (alpha,)
    return Form("What is shown", (*group_field(metric, group), *fields), "Show", address, is_live=True)


def refuse_options(given: Mapping[str, object], metric: Metric) -> None:
    """Refuse, with status 400, what an address asks for that such a page does not have."""
    for name, value in given.items():
        if value:
            raise ScreenError(400, f"{name}: {metric.id} is {reading_words(metric)}, whose page has no such choice")
