"""Pages of metrics that are read in another way than as shares of values: words, pictures, groups and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from overstory.console.screens.facts import (
    NO_DIMENSIONS,
    sentence,
)
from overstory.console.view import ScreenError
from overstory.presentation.document import (
    Block,
    Column,
    Heading,
    Lines,
    Paragraph,
    Table,
)
from overstory.presentation.formats import interval, percent

if TYPE_CHECKING:
    from overstory.console.data import ConsoleData
    from overstory.presentation.svg import Picture
    from overstory.protocol.metrics import Metric
    from overstory.queries.comparison import Comparison
    from overstory.queries.counts import PeriodCounts
    from overstory.queries.estimates import EstimateSeries
    from overstory.queries.readings import EstimateOptions, Reading


MOST_SHARES: Final = 4
"""Values in the table of groups: the most frequent of all devices."""


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


def is_shares(metric: Metric) -> bool:
    """Whether a metric's estimates are shares of values, which the screens draw themselves."""
    return metric.reading == SHARES


def reading_words(metric: Metric) -> str:
    """Return what a metric's reading is."""
    return WORDS.get(metric.reading, metric.reading)


def reading_parts(reading: Reading) -> tuple[tuple[Picture, ...], tuple[Block, ...]]:
    """Return the pictures of a reading, and what a person reads of it."""
    metric = reading.metric
    pictures = () if metric.reading == "mean" else tuple(reading.pictures())  # a mean by itself is a number
    more = marginal_tables(reading) if metric.reading == "table" else ()
    return pictures, (*map(for_a_page, reading.blocks()), *more)


def ends(counted: PeriodCounts) -> str:
    """Return the periods with reports, from the first to the last."""
    first, last = (counted.label(counted.periods[end]) for end in (0, -1))
    return str(first) if first == last else f"{first} to {last}"


def for_a_page(block: Block) -> Block:
    """Return a block of a reading as a page shows it: headings below the page's own, sentences for notes."""
    if isinstance(block, Heading):
        return replace(block, level=max(block.level, 2))
    if isinstance(block, Lines):
        return Lines(*(sentence(text.removeprefix("note: ").removesuffix(".")) for text in block.texts))
    return block


def facts_of(answer: Reading | Comparison) -> dict[str, Any]:
    """Return what JSON says of an answer next to its rows."""
    return {name: value for name, value in answer.to_json().items() if name != "title"}


def refuse_options(given: Mapping[str, object], metric: Metric) -> None:
    """Refuse, with status 400, what an address asks for that such a page does not have."""
    for name, value in given.items():
        if value:
            raise ScreenError(400, f"{name}: {metric.id} is {reading_words(metric)}, whose page has no such choice")
