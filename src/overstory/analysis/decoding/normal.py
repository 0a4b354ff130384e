"""Normal equations: the few sums over rows that least squares needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from overstory.analysis.design import correlate, gram
from overstory.analysis.numerics import cholesky_inverse

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.analysis.decoding.model import LinearModel

    F64 = NDArray[np.float64]

SINGULAR = 1e-11
"""Reciprocal condition number under which a (scaled) system says that candidates cannot be told apart."""


class SingularDesignError(Exception):
    """The candidates' columns are linearly dependent: least squares has no one answer."""


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """X'WX, X'W1, X'Wy, and the sums of w and wy, for some columns; ``fill`` as in the model."""

    matrix: F64
    edge: F64
    moment: F64
    weight: float
    total: float
    fill: float

    @classmethod
    def of(cls, model: LinearModel) -> NormalEquations:
        """Sum over the rows, for every candidate."""
        w, y = model.weights, model.response
        return cls(
            gram(model.candidates, w),
            correlate(model.candidates, w),
            correlate(model.candidates, w * y),
            float(w.sum()),
            float(w @ y),
            model.fill,
        )

    @property
    def centred_matrix(self) -> F64:
        """(X - o)'W(X - o)."""
        o = self.fill
        return np.asarray(self.matrix - o * (self.edge[:, None] + self.edge) + o * o * self.weight)

    @property
    def centred_edge(self) -> F64:
        """(X - o)'W1."""
        return np.asarray(self.edge - self.fill * self.weight)

    @property
    def centred_moment(self) -> F64:
        """(X - o)'W(y - o)."""
        return np.asarray(self.moment - self.fill * (self.edge + self.total - self.fill * self.weight))

    def bordered(self) -> tuple[F64, F64]:
        """Return X'WX and X'Wy with a last column, ``fill`` in every row, for the strings outside the list."""
        o = self.fill
        border = o * self.edge
        matrix = np.block([[self.matrix, border[:, None]], [border[None, :], np.full((1, 1), o * o * self.weight)]])
        return matrix, np.append(self.moment, o * self.total)


def inverse(matrix: F64) -> F64:
    """Invert a positive definite matrix by Cholesky.

    Raises
    ------
    SingularDesignError
        If it is numerically singular.

    Examples
    --------
    >>> inverse(np.array([[2.0, 1.0], [1.0, 2.0]])).round(4).tolist()
    [[0.6667, -0.3333], [-0.3333, 0.6667]]
    """
    if not matrix.size:
        return matrix
    size = np.sqrt(np.maximum(np.diag(matrix), np.finfo(float).tiny))
    scale = size[:, None] * size
    try:
        inverted, condition = cholesky_inverse(matrix / scale)
    except np.linalg.LinAlgError:
        raise SingularDesignError from None
    if condition < SINGULAR:
        raise SingularDesignError
    return np.asarray(inverted / scale)
