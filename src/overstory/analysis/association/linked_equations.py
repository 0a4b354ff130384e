"""The equations for a table's departure from independence, in bases of the vectors of sum 0.

The unknown D is a matrix, and the equations are the sum over cohorts of ``J_x D J_y``: solved as one large matrix, or
by conjugate gradients, the product of the two summed J being the preconditioner.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from overstory.analysis.decoding.gls import SingularDesignError, inverse
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    F64 = NDArray[np.float64]

DENSE: Final = 2_000
"""Unknowns up to which the system is a matrix."""
ACCURACY: Final = 1e-9
"""Of conjugate gradients: the residual over the right side."""
MOST_STEPS: Final = 500


class System(Protocol):
    """The equations M D = R for Delta, in bases of the vectors of sum 0."""

    def solve(self, right: F64) -> F64:
        """Return D of M D = right, shape (..., K_x - 1, K_y - 1)."""
        ...

    def covary(self, weights: F64) -> F64:
        """Return the covariances of D, times n, with weighted sums of it."""
        ...

    def diagonal(self, first: F64, second: F64) -> F64:
        """Return the variances, times n, of ``first D second'``."""
        ...


@dataclass(frozen=True, eq=False)
class DenseSystem:
    """The inverse of M, and the covariance of D times n, as matrices."""

    inverse: F64
    covariance: F64

    def solve(self, right: F64) -> F64:
        """Multiply by the inverse."""
        return _times(right, self.inverse)

    def covary(self, weights: F64) -> F64:
        """Multiply by the covariance."""
        return _times(weights, self.covariance)

    def diagonal(self, first: F64, second: F64) -> F64:
        """Return it row by row of the first basis."""
        a, b = first.shape[1], second.shape[1]
        table = self.covariance.reshape(a, b, a, b)
        rows = []
        for row in first:
            between = np.einsum("a,abcd,c->bd", row, table, row, optimize=True)
            rows.append(np.einsum("jb,bd,jd->j", second, between, second, optimize=True))
        return np.asarray(rows)


def _times(right: F64, matrix: F64) -> F64:
    return np.asarray((right.reshape(*right.shape[:-2], -1) @ matrix).reshape(right.shape))


@dataclass(frozen=True, eq=False)
class IterativeSystem:
    """Conjugate gradients, all right sides at once.

    Parameters
    ----------
    working, spread : tuples of two ndarray of float64, shapes (num_cohorts, a, a) and (num_cohorts, b, b)
        The J of each cohort, and the covariances of what they stand for; the first ones weighted by the cohort's share.
    inverses : tuple of two ndarray of float64
        The inverses of both means of J: the preconditioner.
    """

    working: tuple[F64, F64]
    spread: tuple[F64, F64]
    inverses: tuple[F64, F64]

    def _precondition(self, residual: F64) -> F64:
        return np.asarray(self.inverses[0] @ residual @ self.inverses[1])

    def solve(self, right: F64) -> F64:
        """Iterate until every residual is `ACCURACY` of its right side."""
        unknown, residual = np.zeros_like(right), right.copy()
        step = self._precondition(residual)
        size = _inner(residual, step)
        end = ACCURACY**2 * _inner(right, right)
        for _ in range(MOST_STEPS):
            if (_inner(residual, residual) <= end).all():
                return unknown
            moved = _multiply(self.working, step)
            length = size / np.maximum(_inner(step, moved), np.finfo(float).tiny)
            unknown += length * step
            residual -= length * moved
            turned = self._precondition(residual)
            before, size = size, _inner(residual, turned)
            step = turned + size / np.maximum(before, np.finfo(float).tiny) * step
        raise ParameterError("the candidates cannot be told apart: their pairs of bits overlap too much; name fewer")

    def covary(self, weights: F64) -> F64:
        """Return M^-1 S M^-1 of the weights, S being the covariances of the right side."""
        return self.solve(_multiply(self.spread, self.solve(weights)))

    def diagonal(self, first: F64, second: F64) -> F64:
        """Return that of the cohorts' means: their information hardly varies."""
        middles = self.spread[0].sum(axis=0), self.spread[1].mean(axis=0)
        parts = []
        for basis, inverted, middle in zip((first, second), self.inverses, middles, strict=True):
            turned = basis @ inverted
            parts.append(np.einsum("ia,ab,ib->i", turned, middle, turned))
        return np.outer(parts[0], parts[1])


def _multiply(parts: tuple[F64, F64], unknown: F64) -> F64:
    return np.asarray(np.sum([x @ unknown @ y for x, y in zip(*parts, strict=True)], axis=0))


def _inner(left: F64, right: F64) -> F64:
    return np.asarray((left * right).sum(axis=(-2, -1), keepdims=True))


def system_of(working: tuple[F64, F64], spread: tuple[F64, F64]) -> System:
    """Return the equations of all cohorts.

    Parameters
    ----------
    working : tuple of two ndarray of float64, shapes (num_cohorts, a, a) and (num_cohorts, b, b)
        The J of each cohort, the first ones weighted by the cohort's share.
    spread : tuple of two ndarray of float64, of the same shapes
        What J would be if the weights were the supports' real precision: their covariances go beyond the diagonal, for
        a string sets all its bits at once.

    Raises
    ------
    ParameterError
        If they have no one solution.
    """
    first, second = working
    try:
        if first.shape[1] * second.shape[1] <= DENSE:
            inverted = inverse(_together(working))
            return DenseSystem(inverted, inverted @ _together(spread) @ inverted)
        return IterativeSystem(working, spread, (inverse(first.sum(axis=0)), inverse(second.mean(axis=0))))
    except SingularDesignError:
        raise ParameterError(
            "the candidates cannot be told apart: there are too many of them for these bits and cohorts; name fewer"
        ) from None


def _together(parts: tuple[F64, F64]) -> F64:
    """Return the sum over cohorts of the Kronecker products."""
    first, second = parts
    size = first.shape[1] * second.shape[1]
    return np.asarray(np.einsum("cab,cde->adbe", first, second, optimize=True).reshape(size, size))
