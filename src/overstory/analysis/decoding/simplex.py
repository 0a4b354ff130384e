"""Least squares over the simplex: non-negative shares that sum to one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from overstory.analysis.numerics import cholesky_solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    F64 = NDArray[np.float64]

PATIENCE = 3
MAX_EXCHANGES = 5000


def simplex_least_squares(gram: F64, moment: F64) -> F64:
    """Minimize f'Gf/2 - b'f over f >= 0, sum f = 1.

    Weighted least squares at the model's own variances is the Gauss-Newton form of binomial maximum likelihood.
    Block principal pivoting: every share of the wrong sign changes sides at once, and when that stops helping,
    one at a time, which always ends [1]_.

    Parameters
    ----------
    gram : ndarray, shape (M, M)
        X'WX, positive semi-definite.
    moment : ndarray, shape (M,)
        X'Wy.

    References
    ----------
    .. [1] Portugal, Judice, Vicente, "A comparison of block pivoting and interior-point algorithms for linear
       least squares problems with nonnegative variables", Math. Comp. 63 (1994).

    Examples
    --------
    >>> simplex_least_squares(np.eye(3), np.array([0.9, 0.3, -1.0])).round(6).tolist()
    [0.8, 0.2, 0.0]
    """
    size = moment.size
    inside = np.ones(size, bool)
    fewest, patience = size + 1, PATIENCE
    for _ in range(MAX_EXCHANGES):
        shares, slope = _equality_solution(gram, moment, inside)
        scale = 1e-12 * max(1.0, float(np.abs(moment).max()))
        wrong = np.flatnonzero((inside & (shares < 0.0)) | (~inside & (slope < -scale)))
        if not wrong.size:
            break
        if wrong.size < fewest:
            fewest, patience = wrong.size, PATIENCE
        else:
            patience -= 1
        inside[wrong if patience > 0 else wrong[-1:]] ^= True
        if not inside.any():
            inside[int(np.argmax(moment))] = True
    shares = np.maximum(shares, 0.0)
    return np.asarray(shares / shares.sum())


def _equality_solution(gram: F64, moment: F64, inside: NDArray[np.bool_]) -> tuple[F64, F64]:
    """Minimize over the shares inside, summing to one; also return the slope of the Lagrangian everywhere."""
    held = np.flatnonzero(inside)
    block = gram[np.ix_(held, held)]
    both = _solve(block, np.column_stack((moment[held], np.ones(held.size))))
    multiplier = (both[:, 0].sum() - 1.0) / both[:, 1].sum()
    shares = np.zeros(moment.size)
    shares[held] = both[:, 0] - multiplier * both[:, 1]
    return shares, gram[:, held] @ shares[held] - moment + multiplier


def _solve(block: F64, right: F64) -> F64:
    """Solve a positive semi-definite system; a hair of ridge where it is singular."""
    ridge = 0.0
    size = float(np.trace(block)) / block.shape[0] or 1.0
    while True:
        try:
            return cholesky_solve(block + ridge * np.eye(block.shape[0]), right)
        except np.linalg.LinAlgError:
            ridge = max(10.0 * ridge, 1e-12 * size)
