r"""Which cells of a table are surely more, or less, frequent than independence would make them.

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

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.analysis.association.table import TableEstimate

    F64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Departures:
    """How far each cell is from the product of its row's and its column's share.

    Attributes
    ----------
    differences : ndarray of float64, shape (k_x, k_y)
        P - a b'.
    standard_errors : ndarray of float64, shape (k_x, k_y)
        Of the differences, where the variables are independent.
    sure : ndarray of bool, shape (k_x, k_y)
        Which differ from 0, at a false discovery rate over all cells.
    """

    differences: F64
    standard_errors: F64
    sure: NDArray[np.bool_]


def departures(table: TableEstimate, alpha: float = 0.05) -> Departures:
    """Return the departures of all cells; of more than 2,500 cells none is sure, and their errors are not known.

    Parameters
    ----------
    alpha
        The false discovery rate.

    Examples
    --------
    >>> import overstory
    >>> from overstory.analysis.association.table import pair_table
    >>> oracle = overstory.oracle("grr", domain_size=4, epsilon=3.0)
    >>> counts = oracle.accumulate(oracle.simulate([0, 0, 1, 3] * 5_000, rng=1))
    >>> table = pair_table(oracle.mechanism, oracle.estimate(counts), ["os", "crash"], [["a", "b"], ["no", "yes"]])
    >>> departures(table).differences.round(1).tolist(), departures(table).sure.tolist()
    ([[0.1, -0.1], [-0.1, 0.1]], [[True, True], [True, True]])
    """
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
