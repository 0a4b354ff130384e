r"""Whether two variables have to do with each other at all: a test that noise does not fool.

With a and b the marginals, :math:`\Delta = P - a b'` is 0 where the variables are independent. It is looked at through
contrasts, weights that add up to 0 in every row and every column; its derivative is
:math:`d\Delta = dP - (dP\, 1)\, b' - a\, (1'\, dP)`. With C the covariances of the contrasts d of :math:`\Delta`, if
the cells were the products of the marginals,

.. math:: T = d' C^{-1} d

is chi-square with :math:`(k_x - 1)(k_y - 1)` degrees of freedom under independence. The usual chi-square of a table
whose negative cells were removed first is not: noise alone makes it reject nearly always.

What T would have detected is stated as Cramer's V, in the mean over all ways in which variables can depend.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.analysis.association.covariance import orthogonal
from overstory.analysis.selection import check_alpha, chi2_tail

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.analysis.association.table import TableEstimate

    F64 = NDArray[np.float64]

MOST_CELLS: Final = 2_500
"""Cells whose errors are compared with each other at once: a matrix of 50 MB."""
POWER: Final = 0.8
"""The chance at which an association counts as one that would have been detected."""


@dataclass(frozen=True)
class Independence:
    """The result of a test of independence.

    Attributes
    ----------
    statistic : float
        T, which is chi-square under independence.
    degrees : int
        Its degrees of freedom.
    p_value : float
        The chance of a T at least as large where the variables are independent.
    alpha : float
        The chance of rejecting wrongly.
    detectable : float
        The Cramer's V that is detected 8 times in 10 with as many reports; 1 at most, nan where that is unknown.
    """

    statistic: float
    degrees: int
    p_value: float
    alpha: float = 0.05
    detectable: float = math.nan

    @property
    def rejected(self) -> bool:
        """Whether the variables depend on each other, at level `alpha`."""
        return self.p_value <= self.alpha

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "statistic": self.statistic,
            "degrees": self.degrees,
            "p_value": self.p_value,
            "alpha": self.alpha,
            "independence_rejected": self.rejected,
            "detectable_cramers_v": None if math.isnan(self.detectable) else self.detectable,
        }


def independence(table: TableEstimate, alpha: float = 0.05) -> Independence | None:
    """Test whether the two variables of a table are independent.

    Parameters
    ----------
    alpha
        The chance of rejecting where they are.

    Returns
    -------
    Independence or None
        None without reports, for tables of more than 2,500 cells, and where the reports are so few that their errors
        are not known.

    Examples
    --------
    >>> import overstory
    >>> from overstory.analysis.association.table import pair_table
    >>> oracle = overstory.oracle("grr", domain_size=4, epsilon=3.0)
    >>> counts = oracle.accumulate(oracle.simulate([0, 0, 1, 3] * 5_000, rng=1))
    >>> table = pair_table(oracle.mechanism, oracle.estimate(counts), ["os", "crash"], [["a", "b"], ["no", "yes"]])
    >>> tested = independence(table)
    >>> tested.rejected, tested.degrees, round(tested.detectable, 2)
    (True, 1, 0.03)
    """
    check_alpha(alpha)
    if not table.num_reports or table.shares.size > MOST_CELLS:
        return None
    from scipy import linalg

    difference, covariance = _contrasts(table)
    degrees = len(difference)
    try:
        factor = linalg.cho_factor(covariance)
    except linalg.LinAlgError:
        return None
    statistic = float(difference @ linalg.cho_solve(factor, difference))
    p_value = chi2_tail(degrees, statistic)
    detectable = _detectable(table, linalg.cho_solve(factor, np.eye(degrees)), degrees, alpha)
    return Independence(statistic, degrees, p_value, alpha, detectable)


def _contrasts(table: TableEstimate) -> tuple[F64, F64]:
    """Return the contrasts of P - ab', and their covariances if the variables are independent."""
    cells = table.shares
    rows, columns = cells.sum(axis=1), cells.sum(axis=0)
    product = np.outer(rows, columns)
    by_row, by_column = (orthogonal(np.ones(size)) for size in cells.shape)
    # (B_x (x) B_y)' J, a row of weights on the cells for each contrast: dP - (dP 1) b' - a (1' dP), contrasted.
    weights = np.einsum("ia,jb->abij", by_row, by_column)
    weights = weights - np.einsum("ia,b->abi", by_row, by_column.T @ columns)[..., None]
    weights = weights - np.einsum("a,jb->abj", by_row.T @ rows, by_column)[..., None, :]
    flat = weights.reshape(-1, *cells.shape)
    spread = table.covariance.at(product).apply(flat).reshape(len(flat), -1)
    difference = (by_row.T @ (cells - product) @ by_column).ravel()
    return difference, np.asarray(spread @ flat.reshape(len(flat), -1).T)


def _detectable(table: TableEstimate, precision: F64, degrees: int, alpha: float) -> float:
    """Return the V at which T has its power, T's noncentrality being averaged over the directions of dependence."""
    from scipy import special

    critical = special.chdtri(degrees, alpha)
    needed = float(special.chndtrinc(critical, degrees, 1.0 - POWER))
    roots = [np.sqrt(_possible(marginal.shares)) for marginal in table.marginals]
    # Delta = sqrt(a b') z, z of length phi and orthogonal to the roots of a and b: every direction is as likely.
    ways = [orthogonal(np.ones(len(root))).T @ (root[:, None] * orthogonal(root)) for root in roots]
    shape = np.kron(*ways)
    mean = float(np.einsum("ij,ik,kj->", precision, shape, shape, optimize=True)) / degrees
    return min(math.sqrt(needed / mean / (min(table.shares.shape) - 1)), 1.0)


def _possible(shares: F64) -> F64:
    held = np.maximum(shares, 1e-9)
    return np.asarray(held / held.sum())
