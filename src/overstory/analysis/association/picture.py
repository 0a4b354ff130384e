"""A table as a picture: the shares in each row, and which of them surely differ from those of all rows together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overstory.analysis.selection import normal_reach
from overstory.presentation.charts.heat_map import Cells, heat_map

if TYPE_CHECKING:
    from overstory.analysis.association.summary import TableSummary
    from overstory.presentation.svg import Picture


def table_cells(summary: TableSummary) -> Cells:
    """Return the numbers of a table's picture."""
    table, given = summary.table, summary.conditional
    return Cells(
        table.names,
        table.labels,
        given.shares,
        normal_reach(summary.level) * given.standard_errors,
        table.marginals[1].shares,
        summary.departures.sure & given.estimable[:, None],
    )


def table_picture(name: str, summary: TableSummary) -> Picture:
    """Return the picture of a table."""
    first, second = summary.table.names
    caption = (
        f"{second} in each {first}, in percent, with what {summary.level:.0%} intervals reach to either side. Coloured "
        f"shares differ from those of all rows together, at a false discovery rate of {100 * summary.alpha:.3g}%."
    )
    return heat_map(name, caption, table_cells(summary))
