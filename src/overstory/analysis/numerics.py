"""What small analyses need of SciPy, without the fifth of a second that importing it takes.

Systems of more than `MANY` unknowns are left to SciPy, whose LAPACK calls know that a matrix is symmetric and a factor
triangular. The tests hold both ways, and the functions of probability, to SciPy's.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    F64 = NDArray[np.float64]

MANY: Final = 256
"""Unknowns from which on importing SciPy pays."""
_STIRLING: Final = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_LARGE: Final = 10.0
"""From here on Stirling's series gives the gamma function to the last place."""
_STANDARD: Final = NormalDist()


def normal_quantile(probability: float) -> float:
    """Return the z that a standard normal variable stays below with this probability, between 0 and 1.

    Examples
    --------
    >>> round(normal_quantile(0.975), 6)
    1.959964
    """
    return _STANDARD.inv_cdf(probability)


def median(values: F64) -> float:
    """Return the median; NumPy's own imports masked arrays first.

    Examples
    --------
    >>> median(np.array([3.0, 1.0, 10.0, 2.0]))
    2.5
    """
    ordered = np.sort(values)
    middle = ordered[(ordered.size - 1) // 2 : ordered.size // 2 + 1].mean()
    return float(middle if not np.isnan(ordered[-1]) else ordered[-1])


def chi2_tail(degrees: int, value: float) -> float:
    """Return the probability that chi-square with as many degrees of freedom, at least 1, exceeds a value.

    It is the incomplete gamma function Q(degrees / 2, value / 2): one minus its power series below the mean, and
    Legendre's continued fraction above (Abramowitz and Stegun 6.5.29 and 6.5.31).

    Examples
    --------
    >>> round(chi2_tail(1, 3.841459), 6), chi2_tail(4, 0.0)
    (0.05, 1.0)
    """
    a, x = degrees / 2, value / 2
    if x <= 0:
        return 1.0
    if math.isinf(x):
        return 0.0
    density = _gamma_density(a, x)
    return 1.0 - density * _series(a, x) if x < a + 1 else density * _continued_fraction(a, x)


def _gamma_density(a: float, x: float) -> float:
    """Return x^a exp(-x) / gamma(a), without the large numbers whose difference its logarithm is."""
    if a < _LARGE:
        return math.exp(a * math.log(x) - x) / math.gamma(a)
    excess = (x - a) / a
    rest = sum(term / a ** (2 * power + 1) for power, term in enumerate(_STIRLING))
    return math.sqrt(a / (2 * math.pi)) * math.exp(a * (math.log1p(excess) - excess) - rest)


def _series(a: float, x: float) -> float:
    total = term = 1 / a
    above = a
    while term > total * 1e-17:
        above += 1
        term *= x / above
        total += term
    return total


def _continued_fraction(a: float, x: float) -> float:
    """Return 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / ...)), by Lentz's method."""
    below = x + 1 - a
    over, under = 1e300, 1 / below
    fraction = under
    for step in range(1, 1_000_000):
        numerator = step * (a - step)
        below += 2
        under = 1 / (numerator * under + below)
        over = below + numerator / over
        fraction *= over * under
        if abs(over * under - 1) < 1e-16:
            break
    return fraction


def cholesky_solve(matrix: F64, right: F64) -> F64:
    """Solve a positive definite system.

    Parameters
    ----------
    matrix : ndarray, shape (n, n)
    right : ndarray, shape (n, m)
    """
    if len(matrix) >= MANY:
        from scipy.linalg import cho_factor, cho_solve

        return np.asarray(cho_solve(cho_factor(matrix), right))
    factor = np.linalg.cholesky(np.asarray_chkfinite(matrix))
    return np.asarray(np.linalg.solve(factor.T, np.linalg.solve(factor, right)))


def cholesky_inverse(matrix: F64) -> tuple[F64, float]:
    """Return the inverse of a positive definite matrix and its reciprocal condition number (in the 1-norm).

    From `MANY` unknowns on, the number is LAPACK's estimate.

    Parameters
    ----------
    matrix : ndarray, shape (n, n)
    """
    if len(matrix) >= MANY:
        return _lapack_inverse(matrix)
    lower = np.linalg.cholesky(matrix)
    root = np.linalg.solve(lower, np.eye(len(matrix)))
    inverted = root.T @ root
    return inverted, float(1 / (np.abs(matrix).sum(axis=0).max() * np.abs(inverted).sum(axis=0).max()))


def _lapack_inverse(matrix: F64) -> tuple[F64, float]:
    from scipy.linalg import lapack

    factor, failed = lapack.dpotrf(matrix, lower=1)
    if failed:
        raise np.linalg.LinAlgError
    condition, _ = lapack.dpocon(factor, np.abs(matrix).sum(axis=0).max(), uplo="L")
    inverted, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
    return np.asarray(np.tril(inverted) + np.tril(inverted, -1).T), float(condition)
