r"""The table to show: shares that are not negative and add up to 1, as near to the unbiased cells as their errors ask.

It is the maximum of the normal likelihood, :math:`(p - P)' \Sigma^{-1} (p - P)` at its smallest over distributions p.
With :math:`\mu \ge 0` on the cells that are 0, and a multiplier :math:`\lambda` for the sum,
:math:`p = P + \Sigma (\mu + \lambda)`; which cells are 0 is decided by
exchanging all that are wrong at once, and one by one where that does not end [1]_.
Intervals are never taken from it: they belong to the unbiased cells.

Where independence is not rejected, most of :math:`\Delta = P - a b'` is noise: before that it is shrunk by
:math:`1 - d / T`, d being the degrees of freedom of the test's statistic T.

References
----------
.. [1] Portugal, Judice, Vicente, "A comparison of block pivoting and interior-point algorithms for linear least squares
   problems with nonnegative variables", Mathematics of Computation 63 (1994).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from overstory.analysis.association.independence import MOST_CELLS, independence
from overstory.analysis.postprocess.steps import project_simplex

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.analysis.association.independence import Independence
    from overstory.analysis.association.table import TableEstimate

    F64 = NDArray[np.float64]

AT_ONCE: Final = 20
"""Exchanges of all wrong cells at once, before they are exchanged one by one."""
NEARLY: Final = 1e-11


@dataclass(frozen=True, eq=False)
class Reported:
    """A table to show, and how it came about.

    Attributes
    ----------
    shares : ndarray of float64, shape (k_x, k_y)
        Not negative, of sum 1.
    shrunk : float
        What is left of the unbiased table's departure from independence: 1 where nothing was shrunk.
    """

    shares: F64
    shrunk: float = 1.0

    @property
    def note(self) -> str:
        """How the table came about, for its reader."""
        made = "the shares shown are the likeliest that are not negative and add up to 100%"
        if self.shrunk < 1.0:
            return (
                f"{made}; as independence is not rejected, they were first moved towards it "
                f"({self.shrunk:.0%} of the departure is left)"
            )
        return made


def reported(table: TableEstimate, tested: Independence | None = None) -> Reported:
    """Return the table to show.

    Parameters
    ----------
    tested
        The test of independence, where it was made already.

    Examples
    --------
    >>> import overstory
    >>> from overstory.analysis.association.table import pair_table
    >>> oracle = overstory.oracle("oue", domain_size=4, epsilon=1.0)
    >>> counts = oracle.accumulate(oracle.simulate([0, 0, 1, 3] * 50, rng=1))
    >>> table = pair_table(oracle.mechanism, oracle.estimate(counts), ["os", "crash"], [["a", "b"], ["no", "yes"]])
    >>> shown = reported(table).shares
    >>> bool(shown.min() >= 0), round(float(shown.sum()), 9)
    (True, 1.0)
    """
    if not table.num_reports:
        return Reported(np.full(table.shares.shape, 1.0 / table.shares.size))
    asked = independence(table) if tested is None else tested
    left = 1.0
    cells = table.shares
    if asked is not None and not asked.rejected:
        left = max(1.0 - asked.degrees / asked.statistic, 0.0) if asked.statistic > 0 else 0.0
        product = np.outer(cells.sum(axis=1), cells.sum(axis=0))
        cells = product + left * (cells - product)
    if cells.size > MOST_CELLS:
        return Reported(project_simplex(cells.ravel()).reshape(cells.shape), left)
    unit = np.eye(cells.size).reshape(-1, *cells.shape)
    covariance = table.covariance.apply(unit).reshape(cells.size, cells.size)
    return Reported(nearest_distribution(cells.ravel(), covariance).reshape(cells.shape), left)


def nearest_distribution(estimate: F64, covariance: F64) -> F64:
    """Return the distribution nearest to an estimate in the metric of its errors.

    Parameters
    ----------
    estimate : ndarray of float64, shape (K,)
    covariance : ndarray of float64, shape (K, K)
        Of the estimate; of rank K, or K - 1 where the estimate's sum is always 1.

    Examples
    --------
    >>> nearest_distribution(np.array([0.7, 0.5, -0.2]), np.eye(3)).round(6).tolist()
    [0.6, 0.4, 0.0]
    """
    size = estimate.size
    at_zero, best, patience = np.zeros(size, bool), size + 1, AT_ONCE
    for _ in range(50 * size):
        shares, pull = _with_zeros(estimate, covariance, at_zero)
        wrong = np.where(at_zero, pull < -NEARLY, shares < -NEARLY)
        count = int(np.count_nonzero(wrong))
        if not count:
            break
        if count < best:
            best, patience = count, AT_ONCE
        elif patience:
            patience -= 1
        else:  # Murty's rule, which ends: the last wrong one alone.
            wrong[: np.flatnonzero(wrong)[-1]] = False
        at_zero ^= wrong
    positive = np.maximum(shares, 0.0)
    return np.asarray(positive / positive.sum())


def _with_zeros(estimate: F64, covariance: F64, at_zero: NDArray[np.bool_]) -> tuple[F64, F64]:
    """Return the nearest vector of sum 1 with these zeros, and the pull that holds each of them at 0."""
    spread = covariance.sum(axis=1)
    total = float(spread.sum())
    scale = float(np.diag(covariance).mean())
    zeros = np.flatnonzero(at_zero)
    free_sum = total > NEARLY * scale * estimate.size
    pull = np.zeros(estimate.size)
    if free_sum:  # The estimate of sum 1 first, and what is left of its errors then.
        estimate = estimate + spread * ((1.0 - float(estimate.sum())) / total)
    if zeros.size:
        block = covariance[np.ix_(zeros, zeros)]
        if free_sum:
            block = block - np.outer(spread[zeros], spread[zeros]) / total
        pull[zeros] = np.linalg.solve(block, -estimate[zeros])
    shares = estimate + covariance @ pull
    if free_sum:
        shares -= spread * float(spread @ pull) / total
    shares[zeros] = 0.0
    return shares, pull * scale
