"""What draws each reading, and what its page shows below what the reading says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.analysis.association.picture import table_picture
from overstory.console.screens.facts import estimate_picture
from overstory.presentation.charts.numbers import estimates_over_time, histogram
from overstory.presentation.charts.scale import F64
from overstory.presentation.document import Block, Column, Heading, Table
from overstory.presentation.formats import interval, percent

if TYPE_CHECKING:
    from collections.abc import Callable

    from overstory.analysis.numeric.quantities import Quantity
    from overstory.presentation.svg import Picture
    from overstory.queries.items import ItemSeries
    from overstory.queries.numbers import NumberSeries
    from overstory.queries.tables import TableSeries

MOST_DOTS: Final = 50
FEW: Final = 10


def table_pictures(name: str, reading: TableSeries) -> Iterator[Picture]:
    """Yield a picture of each table of the last range."""
    for number, summary in enumerate(reading.parts[-1].tables if reading.parts else (), start=1):
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


def numbers_over_time(name: str, reading: NumberSeries) -> Iterator[Picture]:
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
    """Return the estimates and the ends of their intervals."""
    ends = ("value", "low", "high")
    value, low, high = (np.array([float(getattr(row, end)) for row in rows]) for end in ends)
    return value, low, high


def marginal_tables(reading: TableSeries) -> Iterator[Block]:
    """Yield the shares of each variable's values, each variable once."""
    if not reading.parts:
        return
    left = dict.fromkeys(name for summary in reading.parts[-1].tables for name in summary.table.names)
    yield Heading(2, "Each variable by itself")
    for summary in reading.parts[-1].tables:
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

OVER_TIME: Final[Mapping[str, Callable[[str, Any], Iterator[Picture]]]] = dict.fromkeys(
    ("mean", "distribution", "ranges"), numbers_over_time
)
"""By reading: what draws all periods, from a name for files and the reading of each period."""

MORE: Final[Mapping[str, Callable[[Any], Iterator[Block]]]] = {"table": marginal_tables}
"""By reading: what its page shows below what the reading says."""
