"""What draws each reading, and what its page shows below what the reading says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.analysis.association.picture import table_picture
from overstory.console.screens.facts import estimate_picture
from overstory.presentation.charts.intervals import dots
from overstory.presentation.document import Block, Column, Heading, Table
from overstory.presentation.formats import interval, percent

if TYPE_CHECKING:
    from collections.abc import Callable

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
    """Yield a picture of the shares of the numbers' ranges; none of a mean alone."""
    if not reading.parts:
        return
    shares = [row for row in reading.parts[-1].estimate.quantities if row.kind == "share"]
    if not shares:
        return
    value, low, high = (np.array([getattr(row, key) for row in shares], float) for key in ("value", "low", "high"))
    names = [row.of for row in shares]
    caption = "Share of each range of numbers, with its 95% interval; filled where that does not hold 0."
    yield dots(name, caption, names, shares=value, low=low, high=high, detected=low > 0)


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

MORE: Final[Mapping[str, Callable[[Any], Iterator[Block]]]] = {"table": marginal_tables}
"""By reading: what its page shows below what the reading says."""
