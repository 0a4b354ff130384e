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
    """The equations for Delta, in bases of the vectors of sum 0."""

    def solve(self, right: F64) -> F64:
        """Return D of M D = right, shape (..., K_x - 1, K_y - 1)."""
        ...

    def diagonal(self, first: F64, second: F64) -> F64:
        """Return the diagonal of the covariance of ``first D second'`` where D has the inverse of M."""
        ...


@dataclass(frozen=True, eq=False)
class DenseSystem:
    """The inverse of M as a matrix."""

    inverse: F64

    def solve(self, right: F64) -> F64:
        """Multiply by it."""
        flat = right.reshape(*right.shape[:-2], -1)
        return np.asarray((flat @ self.inverse).reshape(right.shape))

    def diagonal(self, first: F64, second: F64) -> F64:
        """Return it row by row of the first basis."""
        a, b = first.shape[1], second.shape[1]
        table = self.inverse.reshape(a, b, a, b)
        rows = []
        for row in first:
            between = np.einsum("a,abcd,c->bd", row, table, row, optimize=True)
            rows.append(np.einsum("jb,bd,jd->j", second, between, second, optimize=True))
        return np.asarray(rows)


@dataclass(frozen=True, eq=False)
class IterativeSystem:
    """Conjugate gradients, all right sides at once.

    Parameters
    ----------
    first, second : ndarray of float64, shapes (num_cohorts, a, a) and (num_cohorts, b, b)
        The J of each cohort, the first ones weighted by the cohort's share.
    inverses : tuple of two ndarray of float64
        The inverses of both means: the preconditioner.
    """

    first: F64
    second: F64
    inverses: tuple[F64, F64]

    def _multiply(self, unknown: F64) -> F64:
        parts = [x @ unknown @ y for x, y in zip(self.first, self.second, strict=True)]
        return np.asarray(np.sum(parts, axis=0))

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
            moved = self._multiply(step)
            length = size / np.maximum(_inner(step, moved), np.finfo(float).tiny)
            unknown += length * step
            residual -= length * moved
            turned = self._precondition(residual)
            before, size = size, _inner(residual, turned)
            step = turned + size / np.maximum(before, np.finfo(float).tiny) * step
        raise ParameterError("the candidates cannot be told apart: their pairs of bits overlap too much; name fewer")

    def diagonal(self, first: F64, second: F64) -> F64:
        """Return that of the preconditioner: the cohorts' information hardly varies."""
        parts = [
            np.einsum("ia,ab,ib->i", b, inverse, b) for b, inverse in zip((first, second), self.inverses, strict=True)
        ]
        return np.outer(*parts)


def _inner(left: F64, right: F64) -> F64:
    return np.asarray((left * right).sum(axis=(-2, -1), keepdims=True))


def system_of(first: F64, second: F64) -> System:
    """Return the equations of all cohorts.

    Parameters
    ----------
    first, second : ndarray of float64, shapes (num_cohorts, a, a) and (num_cohorts, b, b)
        The J of each cohort, the first ones weighted by the cohort's share.

    Raises
    ------
    ParameterError
        If they have no one solution.
    """
    size = first.shape[1] * second.shape[1]
    try:
        if size <= DENSE:
            together = np.einsum("cab,cde->adbe", first, second, optimize=True).reshape(size, size)
            return DenseSystem(inverse(together))
        return IterativeSystem(first, second, (inverse(first.sum(axis=0)), inverse(second.mean(axis=0))))
    except SingularDesignError:
        raise ParameterError(
            "the candidates cannot be told apart: there are too many of them for these bits and cohorts; name fewer"
        ) from None


def zero_sum(size: int) -> F64:
    """Return an orthonormal basis of the vectors of sum 0, shape (size, size - 1)."""
    return np.asarray(np.linalg.qr(np.column_stack((np.ones(size), np.eye(size)[:, 1:])))[0][:, 1:])
