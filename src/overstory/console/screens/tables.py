"""What the page of a table adds: a picture of each two variables, and each variable's own shares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from overstory.analysis.association.picture import table_picture
from overstory.presentation.document import Block, Column, Heading, Table
from overstory.presentation.formats import interval, percent

if TYPE_CHECKING:
    from overstory.presentation.svg import Picture
    from overstory.queries.tables import TableSeries


def table_pictures(name: str, reading: TableSeries) -> Iterator[Picture]:
    """Yield a picture of each table of the last range."""
    for number, summary in enumerate(reading.parts[-1].tables if reading.parts else (), start=1):
        if summary.table.num_reports:
            yield table_picture(f"{name}-{number}", summary)


def marginal_tables(reading: TableSeries) -> Iterator[Block]:
    """Yield the shares of each variable's values, each variable once."""
    if not reading.parts:
        return
    shown = dict.fromkeys(name for summary in reading.parts[-1].tables for name in summary.table.names)
    yield Heading(2, "Each variable by itself")
    for summary in reading.parts[-1].tables:
        for name, rows in summary.to_json()["marginals"].items():
            if name in shown:
                del shown[name]
                yield _marginal(name, rows, summary.level)


def _marginal(name: str, rows: list[dict[str, object]], level: float) -> Table:
    columns = (
        Column("value", name, is_left=True),
        Column("share", "share", percent),
        Column("interval_ends", f"{level:.0%} interval", interval(percent), ("low", "high")),
    )
    return Table(name, columns, rows)
