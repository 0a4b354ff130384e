r"""A table as a picture: the shares in each row, and which of them surely differ from those of all rows together.

:math:`\Delta = P - a b'` of one cell has the derivative :math:`e_{ij} - b_j 1_{i \cdot} - a_i 1_{\cdot j}`; its error
is taken as if the variables were independent. Of all cells those are marked that a false discovery rate admits, so a
picture of noise is nearly always blank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from overstory.analysis import selection
from overstory.analysis.association.independence import MOST_CELLS
from overstory.analysis.selection import normal_reach
from overstory.presentation.charts.heat_map import Cells, heat_map

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.analysis.association.summary import TableSummary
    from overstory.analysis.association.table import TableEstimate
    from overstory.analysis.selection import F64
    from overstory.presentation.svg import Picture


@dataclass(frozen=True, eq=False)
class Departures:
    """How far each cell is from the product of its row's and its column's share: shapes (k_x, k_y)."""

    differences: F64  # P - a b'
    standard_errors: F64  # of the differences, where the variables are independent
    sure: NDArray[np.bool_]  # which differ from 0, at a false discovery rate over all cells


def departures(table: TableEstimate, alpha: float = 0.05) -> Departures:
    """Return the departures of all cells; of more than 2,500 cells none is sure, and their errors are not known."""
    cells = table.shares
    rows, columns = cells.sum(axis=1), cells.sum(axis=0)
    product = np.outer(rows, columns)
    difference = cells - product
    if not table.num_reports or cells.size > MOST_CELLS:
        return Departures(difference, np.full(cells.shape, np.inf), np.zeros(cells.shape, bool))
    weights = np.einsum("ia,jb->ijab", np.eye(len(rows)), np.eye(len(columns)))
    weights = weights - np.einsum("ia,j->ija", np.eye(len(rows)), columns)[..., None]
    weights = weights - np.einsum("i,jb->ijb", rows, np.eye(len(columns)))[..., None, :]
    flat = weights.reshape(-1, *cells.shape)
    variances = (flat * table.covariance.at(product).apply(flat)).sum(axis=(1, 2)).reshape(cells.shape)
    errors = np.sqrt(np.maximum(variances, 0.0))
    p_values = np.minimum(2.0 * selection.upper_p_values(np.abs(difference), errors), 1.0)
    sure = selection.adjusted_p_values(p_values.ravel(), "fdr").reshape(cells.shape) <= alpha
    return Departures(difference, errors, sure)


def table_cells(summary: TableSummary) -> Cells:
    """Return the numbers of a table's picture."""
    table, given = summary.table, summary.conditional
    return Cells(
        table.names,
        table.labels,
        given.shares,
        normal_reach(summary.level) * given.standard_errors,
        table.marginals[1].shares,
        departures(table, summary.alpha).sure & given.estimable[:, None],
    )


def table_picture(name: str, summary: TableSummary) -> Picture:
    """Return the picture of a table."""
    first, second = summary.table.names
    caption = (
        f"{second} in each {first}, in percent, with what {summary.level:.0%} intervals reach to either side. Coloured "
        f"shares differ from those of all rows together, at a false discovery rate of {100 * summary.alpha:.3g}%."
    )
    return heat_map(name, caption, table_cells(summary))
