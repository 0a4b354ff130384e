r"""More candidates than rows: orthogonal matching pursuit, then a decorrelated z for every candidate.

Pursuit [1]_ adds the candidate that explains the residual best, refits all members, and stops when the best of the rest
would be no surprise among M absent ones. Then every candidate, member or not, is tested against the same
background: for a candidate outside the members S, with its column's part orthogonal to S,

.. math:: \tilde x_s = (I - P_S) x_s, \quad \hat f_s = \tilde x_s' W y / \tilde x_s' W \tilde x_s,
          \quad \operatorname{Var} \hat f_s = \phi / \tilde x_s' W \tilde x_s ,

which is what least squares on S and s would give it, and the decorrelated score of [2]_ when S holds the strings that
matter. Counting all M in the correction pays for the search. Columns are centred as in ``gls``.

References
----------
.. [1] Pati, Rezaiifar, Krishnaprasad, "Orthogonal matching pursuit", Asilomar 1993.
.. [2] Ning and Liu, "A general theory of hypothesis tests and confidence regions for sparse high dimensional models",
   Annals of Statistics 45 (2017).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from overstory.analysis.decoding.model import Fit, LinearModel, dispersion
from overstory.analysis.decoding.simplex import simplex_least_squares
from overstory.analysis.design import correlate, predict, squared_lengths
from overstory.analysis.selection import adjusted_p_values, upper_p_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    F64 = NDArray[np.float64]
    Indices = NDArray[np.intp]

SCREEN = 768
"""Candidates looked at closely between two looks at all of them."""
MAX_PASSES = 20
TOGETHER = 0.75
"""Candidates with at least this share of the best one's z join with it."""
REPORT_RATE = 0.2
DEPENDENT = 1e-6
"""Share of a column's length that must be its own for the candidate to be told from the members."""


@dataclass(frozen=True, eq=False)
class _Background:
    """The members' joint fit: orthonormal directions Q (in weighted rows), coefficients, residuals."""

    members: Indices
    directions: F64
    coefficients: F64
    variances: F64
    unallocated_variance: float
    residuals: F64
    dispersion: float
    degrees_of_freedom: int


def fit_pursuit(model: LinearModel) -> Fit:
    """Decode by pursuit; any number of candidates and rows.

    The reported shares are maximum likelihood on the simplex over the members, the candidates that a false discovery
    rate of `REPORT_RATE` admits, and the strings outside; the other candidates are reported as 0.
    """
    background = _search(model, _join(model, np.empty(0, np.intp)))
    shares = predict(model.candidates, _spread(model, background)) + model.fill * (1.0 - background.coefficients.sum())
    model = model.reweighted(shares)
    background = _search(model, _join(model, background.members))
    raw, variances = _test_all(model, background)
    return Fit(
        raw,
        variances,
        _reported(model, background, raw, variances),
        1.0 - float(background.coefficients.sum()),
        background.unallocated_variance,
        background.dispersion,
        background.degrees_of_freedom,
        "pursuit",
    )


def _search(model: LinearModel, background: _Background) -> _Background:
    """Pursue in passes over all candidates until the members stay."""
    lengths = _squared_lengths(model)
    for _ in range(MAX_PASSES):
        members = _pursue(model, background, lengths)
        if np.array_equal(members, background.members):
            break
        background = _join(model, members)
    return background


def _pursue(model: LinearModel, background: _Background, lengths: F64) -> Indices:
    """Add members from among the candidates that now look best, and drop those the others made superfluous."""
    entry = _entry(lengths.size)
    z = _scores(model, background.residuals) / np.sqrt(lengths * max(1.0, background.dispersion))
    z[background.members] = -np.inf
    if float(z.max()) < entry:
        return background.members
    best = np.argpartition(-z, SCREEN)[:SCREEN] if z.size > SCREEN else np.arange(z.size)
    screen = np.union1d(background.members, best)
    design, response = _weighted(model, screen)
    gram, moment = design.T @ design, design.T @ response
    own = np.diag(gram)
    inside = np.isin(screen, background.members)
    blocked = np.zeros(screen.size, bool)
    most = max(1, model.used_rows // 2)
    while True:
        held = np.flatnonzero(inside)
        inverse = np.linalg.pinv(gram[np.ix_(held, held)], hermitian=True)
        f = inverse @ moment[held]
        noise = max(1.0, float(response @ response - moment[held] @ f) / max(1, model.used_rows - held.size))
        gain = (moment - gram[:, held] @ f) / np.sqrt(own * noise)
        gain[inside | blocked] = -np.inf
        adding = np.flatnonzero(gain >= max(entry, TOGETHER * float(gain.max())))
        if not adding.size or held.size + adding.size > most:
            break
        free = _independent(gram, inverse, held, adding)
        blocked[adding[~free]] = True
        inside[adding[free]] = True
    weak = f < (entry - 1.0) * np.sqrt(noise * np.diag(inverse))
    return screen[held[~weak]]


def _independent(gram: F64, inverse: F64, held: Indices, adding: Indices) -> NDArray[np.bool_]:
    """Whether each new column has a part of its own beside the held ones and the new ones before it."""
    cross = gram[np.ix_(held, adding)]
    left = gram[np.ix_(adding, adding)] - cross.T @ inverse @ cross
    free = np.ones(adding.size, bool)
    for i in range(adding.size):
        free[i] = left[i, i] > DEPENDENT * gram[adding[i], adding[i]]
        if free[i] and i + 1 < adding.size:
            left[i + 1 :, i + 1 :] -= np.outer(left[i + 1 :, i], left[i, i + 1 :]) / left[i, i]
    return free


def _join(model: LinearModel, members: Indices) -> _Background:
    """Fit the members jointly."""
    design, response = _weighted(model, members)
    directions, triangle = np.linalg.qr(design)
    upper = np.linalg.inv(triangle)
    f = upper @ (directions.T @ response)
    root = np.sqrt(model.weights)
    weighted = response - design @ f
    residuals = np.divide(weighted, root, out=np.zeros_like(root), where=root > 0)
    phi, degrees = dispersion(model, residuals, members.size)
    variances = (upper**2).sum(axis=1)
    left = float((upper.sum(axis=0) ** 2).sum())
    return _Background(members, directions, f, variances, left, residuals, phi, degrees)


def _test_all(model: LinearModel, background: _Background) -> tuple[F64, F64]:
    """Return every candidate's estimate and variance beside the members."""
    root = np.sqrt(model.weights)
    lengths = _squared_lengths(model)
    basis = background.directions * root[:, None]
    own = lengths - squared_lengths(model.candidates, basis, model.fill * basis.sum(axis=0))
    told = own > DEPENDENT * lengths
    scores = _scores(model, background.residuals)
    raw = np.divide(scores, own, out=np.zeros_like(own), where=told)
    variances = np.divide(1.0, own, out=np.full_like(own, np.inf), where=told)
    raw[background.members], variances[background.members] = background.coefficients, background.variances
    return raw, variances


def _reported(model: LinearModel, background: _Background, raw: F64, variances: F64) -> F64:
    """Return simplex shares of the candidates worth a share."""
    errors = np.sqrt(variances * max(1.0, background.dispersion))
    rates = adjusted_p_values(upper_p_values(raw, errors), "fdr")
    worth = np.union1d(background.members, np.flatnonzero(rates <= REPORT_RATE))
    root = np.sqrt(model.weights)[:, None]
    listed = model.candidates.dense(worth)
    design = root * np.column_stack((listed, np.full(listed.shape[0], model.fill)))
    shares = simplex_least_squares(design.T @ design, design.T @ (root[:, 0] * model.response))
    reported = np.zeros(raw.size)
    reported[worth] = shares[:-1]
    return reported


def _weighted(model: LinearModel, columns: Indices) -> tuple[F64, F64]:
    """Return the centred, weighted columns and response."""
    root = np.sqrt(model.weights)
    centred = model.candidates.dense(columns) - model.fill
    return root[:, None] * centred, root * (model.response - model.fill)


def _squared_lengths(model: LinearModel) -> F64:
    """Return ||W^(1/2) (x_s - o)||^2 for every candidate."""
    o = model.fill
    lengths = (1.0 - 2.0 * o) * correlate(model.candidates, model.weights) + o * o * model.weights.sum()
    return np.asarray(np.maximum(lengths, np.finfo(float).tiny))


def _scores(model: LinearModel, residuals: F64) -> F64:
    """Return (x_s - o)' W r for every candidate."""
    weighted = model.weights * residuals
    return np.asarray(correlate(model.candidates, weighted) - model.fill * weighted.sum())


def _spread(model: LinearModel, background: _Background) -> F64:
    """Return the members' coefficients, not negative, over all candidates."""
    shares = np.zeros(model.candidates.num_candidates)
    shares[background.members] = np.maximum(background.coefficients, 0.0)
    return shares


def _entry(candidates: int) -> float:
    """Return the z that one of that many absent candidates passes, on average."""
    from scipy.special import ndtri

    return float(-ndtri(1.0 / (candidates + 1.0)))
