r"""Weighted least squares over all candidates: the default decoder while there are fewer candidates than rows.

It attains the Cramer-Rao bound of the (cohort, bit) counts. The strings outside the list enter through the centred
design :math:`X - o`, since :math:`E\,y - o = (X - o) f`: they cost no parameter, because every report holds one string.

`NormalEquations` are the few sums over rows that least squares needs, and `simplex_least_squares` solves them for
non-negative shares that sum to one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from overstory.analysis.decoding.candidates import correlate, gram, predict
from overstory.analysis.decoding.model import Fit, LinearModel, dispersion, people_correction

if TYPE_CHECKING:
    from numpy.typing import NDArray

    F64 = NDArray[np.float64]

PATIENCE = 3
MAX_EXCHANGES = 5000


def simplex_least_squares(gram: F64, moment: F64) -> F64:
    """Minimize f'Gf/2 - b'f over f >= 0, sum f = 1, for G = X'WX, positive semi-definite, and b = X'Wy.

    Weighted least squares at the model's own variances is the Gauss-Newton form of binomial maximum likelihood.
    Block principal pivoting: every share of the wrong sign changes sides at once, and when that stops helping,
    one at a time, which always ends (Portugal, Judice, Vicente, "A comparison of block pivoting and interior-point
    algorithms for linear least squares problems with nonnegative variables", Math. Comp. 63, 1994).
    """
    size = moment.size
    inside = np.ones(size, bool)
    fewest, patience = size + 1, PATIENCE
    for _ in range(MAX_EXCHANGES):
        # KKT conditions: shares >= 0 inside, slope of the Lagrangian >= 0 outside; what breaks them is `wrong`.
        shares, slope = _equality_solution(gram, moment, inside)
        scale = 1e-12 * max(1.0, float(np.abs(moment).max()))
        wrong = np.flatnonzero((inside & (shares < 0.0)) | (~inside & (slope < -scale)))
        if not wrong.size:
            break
        # Exchange all wrong ones while their number falls; after PATIENCE failures only the last one (Murty's rule).
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
    # G f = b - mu 1 with 1'f = 1: f = G^-1 b - mu G^-1 1 and mu = (1'G^-1 b - 1) / (1'G^-1 1).
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


MANY: Final = 256
"""Unknowns from which on importing SciPy pays: LAPACK knows that a matrix is symmetric, and a factor triangular."""


def cholesky_solve(matrix: F64, right: F64) -> F64:
    """Solve a positive definite system."""
    if len(matrix) >= MANY:
        from scipy.linalg import cho_factor, cho_solve

        return np.asarray(cho_solve(cho_factor(matrix), right))
    factor = np.linalg.cholesky(np.asarray_chkfinite(matrix))
    return np.asarray(np.linalg.solve(factor.T, np.linalg.solve(factor, right)))


def cholesky_inverse(matrix: F64) -> tuple[F64, float]:
    """Return the inverse of a positive definite matrix and its reciprocal condition number (in the 1-norm).

    From `MANY` unknowns on, the number is LAPACK's estimate.
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


SINGULAR = 1e-11
"""Reciprocal condition number under which a (scaled) system says that candidates cannot be distinguished."""


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
    """Invert a positive definite matrix by Cholesky."""
    if not matrix.size:
        return matrix
    # Scaled to a unit diagonal, the condition number does not depend on how much a candidate weighs.
    size = np.sqrt(np.maximum(np.diag(matrix), np.finfo(float).tiny))
    scale = size[:, None] * size
    try:
        inverted, condition = cholesky_inverse(matrix / scale)
    except np.linalg.LinAlgError:
        raise SingularDesignError from None
    if condition < SINGULAR:
        raise SingularDesignError
    return np.asarray(inverted / scale)


Solution = tuple[Fit, "F64", float]
"""A fit, the covariance of its shares, and what was subtracted from the columns."""

_UNEVEN = (
    "The counts do not fit these parameters (total share {:.0%}). Check params.csv, or whether devices sent no or "
    "several values."
)
SUSPICIOUS = 4.0
"""Standard errors by which the reports' sum may miss the model's before the fit lets go of it."""


def fit_gls(model: LinearModel, *, complete: bool) -> Fit:
    """Fit by iteratively reweighted least squares; of a `complete` list of strings, frequencies sum to one."""
    normal = NormalEquations.of(model)
    # First fit for the shares, then the weights 1 / Var y that hold at them (one Gauss-Newton step).
    reported = _reported(normal, complete=complete)
    better = model.reweighted(_shares(model, reported))
    if better is not model:
        model, normal = better, NormalEquations.of(better)
        reported = _reported(normal, complete=complete)
    listed = reported[: normal.moment.size]
    fit, covariance, centre = solution(model, normal, complete=complete)
    people = people_correction(model, listed, np.arange(listed.size), covariance, centre)
    return replace(fit, reported=listed, people=people, model=None if fit.is_freed else model)


def solution(model: LinearModel, normal: NormalEquations, *, complete: bool) -> Solution:
    """Solve the normal equations."""
    return _fit_complete(model, normal) if complete else _fit_open(model, normal)


def _reported(normal: NormalEquations, *, complete: bool) -> F64:
    """Return maximum-likelihood shares on the simplex; the last is the strings outside the list, unless complete."""
    if complete:
        return simplex_least_squares(normal.matrix, normal.moment)
    return simplex_least_squares(*normal.bordered())


def _shares(model: LinearModel, reported: F64) -> F64:
    listed = reported[: model.candidates.num_candidates]
    return np.asarray(predict(model.candidates, listed) + model.fill * (1.0 - listed.sum()))


def _fit_open(model: LinearModel, normal: NormalEquations) -> Solution:
    """Least squares when strings may be missing from the list; without a term for them where it cannot be estimated."""
    o = model.fill
    try:
        covariance = inverse(normal.centred_matrix)
    except SingularDesignError:
        return _fit_plain(model, normal)
    # f = ((X - o)'W(X - o))^-1 (X - o)'W(y - o): E y - o = (X - o) f.
    f = covariance @ normal.centred_moment
    residuals = model.response - o - predict(model.candidates, f) + o * f.sum()
    phi, degrees = dispersion(model, residuals, f.size)
    fit = Fit(f, np.diag(covariance).copy(), f, 1.0 - f.sum(), covariance.sum(), phi, degrees, "gls", storey=True)
    fit = replace(fit, residuals=residuals)
    return _let_go(model, fit, covariance, normal.centred_edge, residuals), covariance, o


def _let_go(model: LinearModel, fit: Fit, covariance: F64, edge: F64, residuals: F64) -> Fit:
    """Free the level if the reports' bits do not add up to one string a report (values that set no bit, say)."""
    # Score test of a free level: 1'W r against its information 1'W1 - e'C e, e = (X - o)'W1.
    level = float(model.weights @ residuals)
    slope = covariance @ edge
    information = float(model.weights.sum() - edge @ slope)
    if information <= 1e-9 * model.weights.sum():
        return fit
    if abs(level) < SUSPICIOUS * np.sqrt(information * max(1.0, fit.dispersion)):
        return fit
    # Add the level as one more column: f moves by -C e lift, and each variance by (C e)^2 / information.
    lift = level / information
    raw = fit.raw - slope * lift
    left = 1.0 - raw.sum() + lift / model.fill
    variance = covariance.sum() + (slope.sum() + 1.0 / model.fill) ** 2 / information
    residuals = residuals + lift * (predict(model.candidates, slope) - model.fill * slope.sum() - 1.0)
    phi, degrees = dispersion(model, residuals, raw.size + 1)
    return replace(
        fit,
        residuals=residuals,
        raw=raw,
        variances=fit.variances + slope**2 / information,
        unallocated=left,
        unallocated_variance=variance,
        dispersion=phi,
        degrees_of_freedom=degrees,
        notes=(_UNEVEN.format(raw.sum() + left),),
        is_freed=True,
    )


def _fit_plain(model: LinearModel, normal: NormalEquations) -> Solution:
    """Least squares with no strings outside the list."""
    covariance = inverse(normal.matrix)
    f = covariance @ normal.moment
    phi, degrees = dispersion(model, model.response - predict(model.candidates, f), f.size)
    note = "the candidates fill the bits so evenly that strings outside the list cannot be distinguished from them"
    variances = np.diag(covariance).copy()
    fit = Fit(f, variances, f, 1.0 - f.sum(), covariance.sum(), phi, degrees, "gls", storey=True, notes=(note,))
    return fit, covariance, 0.0


def _fit_complete(model: LinearModel, normal: NormalEquations) -> Solution:
    """Least squares under sum f = 1, by Lagrange's multiplier."""
    covariance = inverse(normal.matrix)
    free = covariance @ normal.moment
    # Lagrange: f = free - C 1 (1'free - 1) / (1'C 1), with covariance C - C 1 1'C / (1'C 1).
    spread = covariance.sum(axis=1)
    total = float(spread.sum())
    excess = float(free.sum() - 1.0)
    f = free - spread * (excess / total)
    phi, degrees = dispersion(model, model.response - predict(model.candidates, f), f.size - 1)
    notes: tuple[str, ...] = ()
    if abs(excess) > SUSPICIOUS * np.sqrt(total * max(1.0, phi)):
        notes = (f"the list is declared complete, but its strings hold {1.0 + excess:.1%} of the reports",)
    constrained = covariance - np.outer(spread, spread) / total
    variances = np.maximum(np.diag(constrained), 0.0)
    return Fit(f, variances, f, 0.0, 0.0, phi, degrees, "gls", storey=True, notes=notes), constrained, 0.0
