r"""Fits that pick candidates: pursuit where there are more of them than rows, and the paper's Lasso.

Pursuit [1]_ adds the candidate that explains the residual best, refits all members, and stops when the best of the rest
would be no surprise among M absent ones. Then every candidate, member or not, is tested against the same
background: for a candidate outside the members S, with its column's part orthogonal to S,

.. math:: \tilde x_s = (I - P_S) x_s, \quad \hat f_s = \tilde x_s' W y / \tilde x_s' W \tilde x_s,
          \quad \operatorname{Var} \hat f_s = \phi / \tilde x_s' W \tilde x_s ,

which is what least squares on S and s would give it, and the decorrelated score of [2]_ when S holds the strings that
matter. Counting all M in the correction pays for the search. Columns are centred as in ``gls``.

The paper's own procedure, RAPPOR (CCS 2014), section 4: Lasso picks candidates, ordinary least squares estimates the
picked ones. The paper names no penalty; ours is the one at which about an eighth as many candidates that nobody has
would enter as there are rows: with unit columns of length l and noise s it is ``l * s * z``, z the normal quantile that
leaves rows / (8 M) above it, and never less than one standard error. Standard errors are the ordinary regression's,
unaware that picking came first, as in the paper.

References
----------
.. [1] Pati, Rezaiifar, Krishnaprasad, "Orthogonal matching pursuit", Asilomar 1993.
.. [2] Ning and Liu, "A general theory of hypothesis tests and confidence regions for sparse high dimensional models",
   Annals of Statistics 45 (2017).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from overstory.analysis.decoding.candidates import column_rows, correlate, gram, is_small, predict, squared_lengths
from overstory.analysis.decoding.model import (
    Fit,
    LinearModel,
    NormalEquations,
    SingularDesignError,
    dispersion,
    inverse,
    people_correction,
    simplex_least_squares,
)
from overstory.analysis.selection import normal_quantile, step_up, upper_p_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    F64 = NDArray[np.float64]
    Indices = NDArray[np.intp]
    from overstory.analysis.decoding.candidates import CandidateMap


SCREEN = 384  # candidates looked at closely between two looks at all of them
MAX_PASSES = 20
TOGETHER = 0.75  # candidates with at least this share of the best one's z join with it
REPORT_RATE = 0.2
DEPENDENT = 1e-6
"""Share of a column's length that must be its own for the candidate to be distinguished from the members."""


@dataclass(frozen=True, eq=False)
class _Columns:
    """What every candidate's centred column has with the weights, the response and itself; each of shape (M,)."""

    model: LinearModel
    edge: F64
    moment: F64

    @classmethod
    def of(cls, model: LinearModel) -> _Columns:
        w, y = model.weights, model.response
        return cls(model, correlate(model.candidates, w), correlate(model.candidates, w * y))

    @cached_property
    def lengths(self) -> F64:
        """||W^(1/2) (x_s - o)||^2."""
        o = self.model.fill
        # x_s is 0 or 1, so sum w (x - o)^2 = (1 - 2 o) sum w x + o^2 sum w.
        lengths = (1.0 - 2.0 * o) * self.edge + o * o * self.model.weights.sum()
        return np.asarray(np.maximum(lengths, np.finfo(float).tiny))

    @cached_property
    def energy(self) -> float:
        """||W^(1/2) (y - o)||^2."""
        return float(self.model.weights @ (self.model.response - self.model.fill) ** 2)

    def equations(self, columns: Indices) -> NormalEquations:
        model = self.model
        w = model.weights
        block = gram(model.candidates, w, columns)
        total = float(w @ model.response)
        return NormalEquations(block, self.edge[columns], self.moment[columns], float(w.sum()), total, model.fill)


@dataclass(frozen=True, eq=False)
class _Background:
    """The members' joint fit and what it leaves."""

    members: Indices
    coefficients: F64
    covariance: F64
    residuals: F64
    dispersion: float
    degrees_of_freedom: int

    @classmethod
    def of(cls, columns: _Columns, members: Indices) -> _Background:
        model, equations = columns.model, columns.equations(members)
        covariance = inverse(equations.centred_matrix)
        f = covariance @ equations.centred_moment
        shares = np.zeros(columns.edge.size)
        shares[members] = f
        # r = y - o - (X_S - o) f = y - o (1 - sum f) - X_S f.
        residuals = model.response - model.fill * (1.0 - f.sum()) - predict(model.candidates, shares)
        return cls(members, f, covariance, residuals, *dispersion(model, residuals, members.size))


def fit_pursuit(model: LinearModel) -> Fit:
    """Decode by pursuit; candidates that a false discovery rate of `REPORT_RATE` does not admit are reported as 0."""
    columns = _Columns.of(model)
    background = _search(columns, _Background.of(columns, np.empty(0, np.intp)))
    # The fitted shares give the weights that hold there; pursue again under them, from the same members.
    better = model.reweighted(np.clip(model.response - background.residuals, 0.0, 1.0))
    if better is not model:
        columns = _Columns.of(better)
        background = _search(columns, _Background.of(columns, background.members))
    raw, variances = _test_all(columns, background)
    reported = _reported(columns, background, raw, variances)
    model, members, centre = columns.model, background.members, columns.model.fill
    return Fit(
        raw,
        variances,
        reported,
        1.0 - float(background.coefficients.sum()),
        float(background.covariance.sum()),
        background.dispersion,
        background.degrees_of_freedom,
        "pursuit",
        people=people_correction(model, reported, members, background.covariance, centre),
        model=model,
        members=members,
        residuals=background.residuals,
    )


def members_coefficients(model: LinearModel, members: Indices, chosen: Indices) -> F64:
    """Return the weights of the chosen estimates on every row's response, given the members: (P, num_rows)."""
    background = _Background.of(_Columns.of(model), members)
    joint = model.candidates.dense(members) - model.fill
    solved = background.covariance @ joint.T * model.weights
    # x~ = x - P_S x, and f_s = x~'W y / x~'W x~; a member has its row of the joint fit.
    own = model.candidates.dense(chosen) - model.fill
    own = own - joint @ (solved @ own)
    lengths = np.maximum((model.weights[:, None] * own**2).sum(axis=0), np.finfo(float).tiny)
    fitted = np.asarray((own * model.weights[:, None] / lengths).T)
    place = {int(member): row for row, member in enumerate(members)}
    for row, candidate in enumerate(chosen.tolist()):
        if candidate in place:
            fitted[row] = solved[place[candidate]]
    return fitted


def _search(columns: _Columns, background: _Background) -> _Background:
    """Pursue in passes over all candidates until the members stay."""
    for _ in range(MAX_PASSES):
        members = _pursue(columns, background)
        if np.array_equal(members, background.members):
            break
        background = _Background.of(columns, members)
    return background


def _pursue(columns: _Columns, background: _Background) -> Indices:
    """Add members from among the candidates that now look best, and drop those the others made superfluous."""
    # The z that one of that many absent candidates passes, on average.
    entry = -normal_quantile(1.0 / (columns.edge.size + 1.0))
    # Marginal z of each candidate given the members: (x_s - o)'W r / (phi^(1/2) ||x_s - o||_W).
    z = _scores(columns.model, background) / np.sqrt(columns.lengths * max(1.0, background.dispersion))
    z[background.members] = -np.inf
    if float(z.max()) < entry:
        return background.members
    best = np.argpartition(-z, SCREEN)[:SCREEN] if z.size > SCREEN else np.arange(z.size)
    screen = np.union1d(background.members, best)
    equations = columns.equations(screen)
    matrix, moment = equations.centred_matrix, equations.centred_moment
    inside = np.isin(screen, background.members)
    blocked = np.zeros(screen.size, bool)
    rows = columns.model.used_rows
    while True:
        held = np.flatnonzero(inside)
        covariance = inverse(matrix[np.ix_(held, held)])
        f = covariance @ moment[held]
        # Residual sum of squares by Pythagoras: ||y - o||^2_W - b'f, per degree of freedom.
        noise = max(1.0, (columns.energy - float(moment[held] @ f)) / max(1, rows - held.size))
        gain = (moment - matrix[:, held] @ f) / np.sqrt(np.diag(matrix) * noise)
        gain[inside | blocked] = -np.inf
        # Orthogonal matching pursuit, several at a time: all with nearly the best one's z.
        adding = np.flatnonzero(gain >= max(entry, TOGETHER * float(gain.max())))
        if not adding.size or held.size + adding.size > max(1, rows // 2):
            break
        free = _independent(matrix, covariance, held, adding)
        blocked[adding[~free]] = True
        inside[adding[free]] = True
    # Backward step: members that the later ones have made superfluous leave.
    weak = f < (entry - 1.0) * np.sqrt(noise * np.diag(covariance))
    return np.asarray(screen[held[~weak]])


def _independent(matrix: F64, covariance: F64, held: Indices, adding: Indices) -> NDArray[np.bool_]:
    """Whether each new column has a part that neither the held ones nor the new ones before it explain."""
    cross = matrix[np.ix_(held, adding)]
    # Schur complement: the Gram matrix of the new columns' parts orthogonal to the held ones.
    left = matrix[np.ix_(adding, adding)] - cross.T @ covariance @ cross
    free = np.ones(adding.size, bool)
    for i in range(adding.size):
        free[i] = left[i, i] > DEPENDENT * matrix[adding[i], adding[i]]
        # Eliminate column i from the later ones, as Cholesky does.
        if free[i] and i + 1 < adding.size:
            left[i + 1 :, i + 1 :] -= np.outer(left[i + 1 :, i], left[i, i + 1 :]) / left[i, i]
    return free


def _test_all(columns: _Columns, background: _Background) -> tuple[F64, F64]:
    """Return every candidate's estimate and variance, given the members."""
    model, members = columns.model, background.members
    explained = np.zeros(columns.edge.size)
    if members.size:
        centred = model.candidates.dense(members) - model.fill
        # C = L L', so ||L' Xc_S' W (x - o)||^2 is the length of x - o that the members explain.
        basis = (model.weights[:, None] * centred) @ np.linalg.cholesky(background.covariance)
        explained = squared_lengths(model.candidates, basis, model.fill * basis.sum(axis=0))
    own = columns.lengths - explained
    distinct = own > DEPENDENT * columns.lengths
    # f_s = x~_s'W r / x~_s'W x~_s and Var = phi / x~_s'W x~_s, x~_s being the part orthogonal to S.
    raw = np.divide(_scores(model, background), own, out=np.zeros_like(own), where=distinct)
    variances = np.divide(1.0, own, out=np.full_like(own, np.inf), where=distinct)
    raw[members], variances[members] = background.coefficients, np.diag(background.covariance)
    return raw, variances


def _reported(columns: _Columns, background: _Background, raw: F64, variances: F64) -> F64:
    """Return simplex shares of the candidates worth a share."""
    p_values = upper_p_values(raw, np.sqrt(variances * max(1.0, background.dispersion)))
    worth = np.union1d(background.members, step_up(p_values, REPORT_RATE))
    shares = simplex_least_squares(*columns.equations(worth).bordered())
    reported = np.zeros(raw.size)
    reported[worth] = shares[:-1]
    return reported


def _scores(model: LinearModel, background: _Background) -> F64:
    """Return (x_s - o)' W r for every candidate."""
    weighted = model.weights * background.residuals
    return np.asarray(correlate(model.candidates, weighted) - model.fill * weighted.sum())


ENTRY_SHARE = 8
COMPILED: Final = "overstory.kernels.design_matrix"
MOST_COLUMNS: Final = 256
MOST_STEPS: Final = 1 << 16
"""Coefficients that are looked at by NumPy (a tenth of a second) before the compiled kernel is loaded."""


def fit_lasso(model: LinearModel) -> Fit:
    """Pick by Lasso, then fit the picked by least squares; the others are 0 with unknown uncertainty."""
    # The Lasso weighs all rows alike: one noise, the root mean square over the rows that hold reports.
    used = model.weights > 0
    candidates = model.candidates
    response = np.where(used, model.response, 0.0)
    noise = float(np.sqrt((1.0 / model.weights[used]).mean()))
    coefficients = lasso(candidates, response, penalty(candidates, noise))
    # At most half as many candidates as rows, or no degree of freedom is left to judge them by.
    picked = np.flatnonzero(coefficients)
    most = max(1, (model.used_rows - 1) // 2)
    notes: tuple[str, ...] = ()
    if picked.size > most:
        picked = np.sort(picked[np.argsort(-coefficients[picked])[:most]])
        notes = (f"the Lasso picked more candidates than there are rows for; the {most} largest remain",)
    return _least_squares(model, picked, notes)


def penalty(candidates: CandidateMap, noise: float) -> float:
    """Return the Lasso penalty for responses with standard deviation ``noise`` (see the module's text)."""
    # l s z: column length times noise times the normal quantile that lets rows / (8 M) absent ones enter.
    length = np.sqrt(candidates.fill * candidates.num_rows)
    entering = candidates.num_rows / (ENTRY_SHARE * candidates.num_candidates)
    return float(noise * length * max(1.0, -normal_quantile(min(entering, 0.5))))


def lasso(candidates: CandidateMap, response: F64, penalty: float) -> F64:
    """Minimize ||y - X b||^2 / 2 + penalty sum b over b >= 0; scikit-learn's ``alpha`` is penalty / num_rows."""
    coefficients = np.zeros(candidates.num_candidates)
    residual = response.copy()
    working = np.empty(0, np.intp)
    while True:
        # KKT: outside the working set x_s'r <= penalty; those that break it enter.
        reach = correlate(candidates, residual)
        reach[working] = 0.0
        new = np.flatnonzero(reach > penalty * (1.0 + 1e-9))
        if not new.size:
            return coefficients
        # The worst offenders first: most of the others stop offending once these are in.
        new = new[np.argsort(-reach[new])[: max(256, working.size)]]
        working = np.concatenate((working, new))
        block, tolerance = coefficients[working], 1e-10 * float(np.abs(response).max())
        if not _descend(candidates, working, residual, block, penalty, tolerance):
            from overstory.kernels import design_matrix

            rows = column_rows(candidates, working)
            design_matrix.descend(rows, residual, block, penalty, tolerance, 100_000)
        coefficients[working] = block


def _descend(
    candidates: CandidateMap,
    working: NDArray[np.intp],
    residual: F64,
    block: F64,
    penalty: float,
    tolerance: float,
) -> bool:
    """Do what `kernels.design_matrix.descend` does, by NumPy, while steps are few; return whether they were enough."""
    if COMPILED in sys.modules or working.size > MOST_COLUMNS or not is_small(candidates, working):
        return False
    columns = candidates.dense(working)
    products, slopes, before = columns.T @ columns, residual @ columns, block.copy()
    steps, everything, done = 0, True, False
    while steps < MOST_STEPS and not done:
        swept = np.arange(block.size) if everything else np.flatnonzero(block)
        largest = 0.0
        for s in swept[products[swept, swept] > 0]:
            # Soft thresholding of the pull x_s'r + ||x_s||^2 b_s, then r and all slopes move with b_s.
            pull = slopes[s] + products[s, s] * block[s]
            step = max(pull - penalty, 0.0) / products[s, s] - block[s]
            if step:
                block[s] += step
                slopes -= step * products[s]
                largest = max(largest, abs(float(step)))
        steps += swept.size
        done, everything = everything and largest <= tolerance, largest <= tolerance
    residual -= columns @ (block - before)
    return done


def _least_squares(model: LinearModel, picked: NDArray[np.intp], notes: tuple[str, ...]) -> Fit:
    """Ordinary least squares on the picked columns, with the residual variance of the regression."""
    candidates = model.candidates
    size = candidates.num_candidates
    raw, variances = np.zeros(size), np.full(size, np.inf)
    used = model.weights > 0
    moment = correlate(candidates, np.where(used, model.response, 0.0))[picked]
    # Ordinary least squares: f = (X'X)^-1 X'y, Var f = s^2 (X'X)^-1, s^2 the residual variance.
    matrix = gram(candidates, used.astype(np.float64), picked)
    try:
        inverted = inverse(matrix)
    except SingularDesignError:  # the picked columns depend on each other
        inverted = np.asarray(np.linalg.pinv(matrix, hermitian=True))
    f = inverted @ moment
    raw[picked] = f
    # s^2 = ||y - X f||^2 / (rows - picked); the channel's own noise where no degree of freedom is left.
    degrees = max(int(used.sum()) - picked.size, 0)
    residuals = (model.response - predict(candidates, raw))[used]
    noise = float((1.0 / model.weights[used]).mean())
    variance = float(residuals @ residuals) / degrees if degrees else noise
    variances[picked] = variance * np.diag(inverted)
    reported = np.maximum(raw, 0.0)
    return Fit(
        raw,
        variances,
        reported,
        1.0 - float(f.sum()),
        variance * float(inverted.sum()),
        variance / noise,
        degrees,
        "lasso",
        notes=notes,
    )
