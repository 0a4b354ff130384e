r"""What sums over honest reports look like, whatever the values are: p-values that hold for all unknown shares.

*Ones.* A report of d bits has :math:`\mathrm{Bin}(h, p^*) + \mathrm{Bin}(d - h, q^*)` ones, h of them its value's. A
report of *nothing* has h = 0, and which share of the reports it is nobody knows: chi-square is taken against the
nearest mixture of the two laws. Its p-value has a degree of freedom for each cell but one, none less for the share
that was fitted, so it is the largest of all mixtures, and right also where nobody reports nothing.

*Pairs.* A report holds one of two values at most, so one factor of :math:`X = (b_i - q^*)(b_j - q^*)` has mean 0 given
the value, or given none, and is independent of the other: :math:`E X = 0`. The p-value is Chernoff's bound,
:math:`\min_t (E e^{t X} e^{-t x})^n`, because X is far from normal where q* is small.

*Shares below zero.* With z the noise of an estimated share over its standard error, and a true share of at least 0,

.. math:: N = \sum_j \min(\hat f_j / \sigma_j, 0)^2 \le \sum_j \min(z_j, 0)^2 ,

the largest where nobody holds any value. That sum has mean d/2 and variance ``5/4 d + d (d - 1) c``, where c, for
normal z of correlation rho, is ``((1 + 2 rho^2)(pi / 2 + asin rho) + 3 rho sqrt(1 - rho^2)) / (2 pi) - 1/4``. A gamma
distribution with these moments has the heavier tail: its skewness is .45 at d = 100, that of the sum .39.

*Seeds and cohorts.* Devices draw them evenly. Where reports are few, chi-square is replaced by the number of pairs of
reports that share one, which is nearly Poisson; of the two p-values the larger is taken.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from overstory.analysis.selection import chi2_tail
from overstory.analysis.selection.proportions import binomial_law

if TYPE_CHECKING:
    from numpy.typing import NDArray

    F64 = NDArray[np.float64]
    I64 = NDArray[np.int64]

EXPECTED: Final = 20.0
"""Reports that a cell of a chi-square test is expected to have, at least: cells with fewer are merged."""
HALVINGS: Final = 50
"""Of the interval in which the share of a mixture is searched."""
FEW_EACH: Final = 100.0
"""Reports a cohort from which on chi-square is exact enough."""
STRONGEST: Final = 64
"""Pairs of values whose p-value is computed, the strongest by z: their variances hardly differ."""


def ones_distribution(bits: int, own: int, p_star: float, q_star: float) -> F64:
    """Return the chances of 0 to `bits` ones in a report of which `own` bits are its value's."""
    return np.convolve(binomial_law(own, p_star), binomial_law(bits - own, q_star))


def chi_square(observed: I64, chances: F64) -> tuple[float, int, float]:
    """Return chi-square of counts against fixed chances, its degrees of freedom and its p-value.

    Neighbouring cells are merged until each is expected to have `EXPECTED` counts.

    Examples
    --------
    >>> chi_square(np.array([60, 40]), np.array([0.5, 0.5]))[:2]
    (4.0, 1)
    """
    return chi_square_of_mixture(observed, chances, chances)


def chi_square_of_mixture(observed: I64, first: F64, second: F64) -> tuple[float, int, float]:
    """Return the same against the nearest mixture of two laws, whose shares are not known; see the module.

    Cells are merged by the smaller of the two chances, so that every mixture fills them.

    Examples
    --------
    >>> first, second = np.array([0.5, 0.25, 0.25]), np.array([0.25, 0.25, 0.5])
    >>> statistic, degrees, p_value = chi_square_of_mixture(np.array([35, 25, 40]), first, second)
    >>> round(statistic, 6), degrees, round(p_value, 6)  # 40% of the first law
    (0.0, 2, 1.0)
    >>> chi_square_of_mixture(np.array([60, 20, 20]), first, second)[:2]  # past the first law
    (4.0, 2)
    """
    reports = float(observed.sum())
    cells = _merged(reports * np.minimum(first, second))
    if cells[-1] < 1:
        return 0.0, 0, 1.0
    counted = np.bincount(cells, observed).astype(np.float64)
    wanted = _nearest(counted, *(np.bincount(cells, reports * law).astype(np.float64) for law in (first, second)))
    statistic = float(((counted - wanted) ** 2 / wanted).sum())
    return statistic, len(wanted) - 1, chi2_tail(len(wanted) - 1, statistic)


def _merged(expected: F64) -> I64:
    """Return for each cell the number of that which it is merged into; what is left over joins its neighbour."""
    cells, filled = np.zeros(len(expected), np.int64), 0.0
    for place, number in enumerate(expected[:-1]):
        filled += number
        cells[place + 1] = cells[place] + (filled >= EXPECTED)
        filled = 0.0 if filled >= EXPECTED else filled
    left_over = filled + float(expected[-1]) < EXPECTED
    return np.minimum(cells, max(int(cells[-1]) - left_over, 0))


def _nearest(counted: F64, first: F64, second: F64) -> F64:
    """Return the mixture of two rows of expected counts that has the least chi-square.

    Chi-square is convex in the share, so its slope is searched for a change of sign.
    """
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        share = (low + high) / 2
        slope = (counted**2 * (first - second) / ((1.0 - share) * first + share * second) ** 2).sum()
        low, high = (share, high) if slope < 0.0 else (low, share)
    share = high if low > 0.0 else 0.0
    return (1.0 - share) * first + share * second


def balance(sizes: I64, shares: F64) -> tuple[float, float]:
    """Return chi-square of the sizes of cohorts or seeds against their shares, and its p-value; (0, 1) for one.

    Examples
    --------
    >>> statistic, p_value = balance(np.array([600, 400]), np.array([0.5, 0.5]))
    >>> statistic, p_value < 1e-9
    (40.0, True)
    """
    reports = int(sizes.sum())
    if len(sizes) < 2 or not reports:
        return 0.0, 1.0
    expected = reports * shares
    statistic = float(((sizes - expected) ** 2 / expected).sum())
    p_value = chi2_tail(len(sizes) - 1, statistic)
    if reports < FEW_EACH * len(sizes):
        together = float((sizes * (sizes - 1)).sum()) / 2
        usual = reports * (reports - 1) / 2 * float((shares**2).sum())
        # P(Poisson(usual) >= together), as a gamma distribution.
        p_value = max(p_value, 1.0 - chi2_tail(2 * together, 2 * usual) if together else 1.0)
    return statistic, max(p_value, 0.0)


def below_zero(z: F64, correlation: float) -> tuple[float, float]:
    """Return N of shares over their standard errors, and its p-value; see the module.

    Parameters
    ----------
    correlation
        Of the noise of two values that nobody holds.

    Examples
    --------
    >>> below_zero(np.zeros(100), 0.0)
    (0.0, 1.0)
    >>> below_zero(np.full(100, -1.2), 0.0)[1] < 1e-8
    True
    """
    values, rho = len(z), min(max(correlation, -1.0), 1.0)
    statistic = float((np.minimum(z, 0.0) ** 2).sum())
    shared = (1 + 2 * rho**2) * (math.pi / 2 + math.asin(rho)) + 3 * rho * math.sqrt(1 - rho**2)
    variance = 1.25 * values + values * (values - 1) * (shared / (2 * math.pi) - 0.25)
    # A gamma distribution of mean d/2 and this variance is chi-square, stretched.
    mean, scale = values / 2, max(variance, 0.1 * values) / (values / 2)
    return statistic, chi2_tail(2 * mean / scale, 2 * statistic / scale)


def most_frequent_pair(
    pairs: I64, reports: int, p_star: float, q_star: float, covariance: tuple[float, float] = (0.0, 0.0)
) -> tuple[float, float, tuple[int, int]]:
    """Return z of the pair of values that most reports support together beyond chance, its p-value, and the pair.

    The p-value is times the number of pairs (Bonferroni).

    Parameters
    ----------
    pairs : ndarray of int64, shape (w, w)
        How many of the reports support both values.
    covariance
        Of two values' support in one report that holds one of them, and in one that holds neither: 0 unless an
        encoding fixes how many values a report supports; see `pair_covariance`.

    Examples
    --------
    1,000 reports, each of two coin flips, and 200 that set both bits:

    >>> z, p_value, pair = most_frequent_pair(np.array([[700, 450], [450, 700]]), 1_200, 0.75, 0.5)
    >>> pair, p_value < 1e-6
    ((0, 1), True)
    """
    support = np.diag(pairs) / reports
    shares = np.clip((support - q_star) / (p_star - q_star), 0.0, 1.0)
    own = np.minimum(shares[:, None] + shares, 1.0)
    usual = own * covariance[0] + (1.0 - own) * covariance[1]
    excess = pairs / reports - q_star * (support[:, None] + support) + q_star**2 - usual
    free = q_star * (1.0 - q_star)
    held = p_star * (1.0 - p_star) + (p_star - q_star) ** 2
    z = excess * np.sqrt(reports / (free * ((1.0 - own) * free + own * held)))
    rows, columns = np.triu_indices(len(pairs), 1)
    if not rows.size:
        return 0.0, 1.0, (0, 0)
    scores = z[rows, columns]
    order = np.argsort(-scores, kind="stable")[:STRONGEST]
    tails = [
        _chernoff(float(excess[i, j]), float(own[i, j]), reports, p_star, q_star)
        for i, j in zip(rows[order], columns[order], strict=True)
    ]
    best = int(np.argmin(tails))
    pair = int(rows[order[best]]), int(columns[order[best]])
    return float(scores[order[best]]), min(1.0, rows.size * math.exp(min(tails[best], 0.0))), pair


def _chernoff(excess: float, own: float, reports: int, p_star: float, q_star: float) -> float:
    """Return the logarithm of Chernoff's bound on P(the mean of X is at least `excess`)."""
    if excess <= 0.0:
        return 0.0
    moves = np.array([1.0 - q_star, -q_star])
    other = np.array([q_star, 1.0 - q_star])
    chances = np.outer((1.0 - own) * other + own * np.array([p_star, 1.0 - p_star]), other)
    products = np.outer(moves, moves)
    variance = float((chances * products**2).sum())
    # A tail to the right needs less than the normal distribution's t.
    t = excess / variance * np.geomspace(1e-3, 1.5, 200)
    with np.errstate(over="ignore"):  # such a t gives no bound, a smaller one does
        mean = (np.exp(t[:, None, None] * products) * chances).sum(axis=(1, 2))
    return float((reports * (np.log(mean) - t * excess)).min())
