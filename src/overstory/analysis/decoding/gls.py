r"""Weighted least squares over all candidates: the default decoder while there are fewer candidates than rows.

It attains the Cramer-Rao bound of the (cohort, bit) counts. The strings outside the list enter through the centred
design :math:`X - o`, since :math:`E\,y - o = (X - o) f`: they cost no parameter, because every report holds one string.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from overstory.analysis.decoding.model import Fit, LinearModel, dispersion
from overstory.analysis.decoding.normal import NormalEquations, SingularDesignError, inverse
from overstory.analysis.decoding.people import people_correction
from overstory.analysis.decoding.simplex import simplex_least_squares
from overstory.analysis.design import predict

if TYPE_CHECKING:
    from numpy.typing import NDArray

    F64 = NDArray[np.float64]

Solution = tuple[Fit, "F64", float]
"""A fit, the covariance of its shares, and what was subtracted from the columns."""

_UNEVEN = (
    "The counts do not fit these parameters (total share {:.0%}). Check params.csv, or whether devices sent no or "
    "several values."
)
SUSPICIOUS = 4.0
"""Standard errors by which the reports' sum may miss the model's before the fit lets go of it."""


def fit_gls(model: LinearModel, *, complete: bool) -> Fit:
    """Fit by iteratively reweighted least squares.

    Parameters
    ----------
    model : LinearModel
        At least as many used rows as candidates.
    complete : bool
        Whether the list is declared to hold every string: frequencies then sum to one.

    Raises
    ------
    SingularDesignError
        If the columns are linearly dependent.
    """
    normal = NormalEquations.of(model)
    reported = _reported(normal, complete=complete)
    better = model.reweighted(_shares(model, reported))
    if better is not model:
        model, normal = better, NormalEquations.of(better)
        reported = _reported(normal, complete=complete)
    solve = _fit_complete if complete else _fit_open
    listed = reported[: normal.moment.size]
    fit, covariance, centre = solve(model, normal)
    people = people_correction(model, listed, np.arange(listed.size), covariance, centre)
    return replace(fit, reported=listed, people=people)


def _reported(normal: NormalEquations, *, complete: bool) -> F64:
    """Return maximum-likelihood shares on the simplex; the last is the strings outside the list, unless complete."""
    if complete:
        return simplex_least_squares(normal.matrix, normal.moment)
    return simplex_least_squares(*normal.bordered())


def _shares(model: LinearModel, reported: F64) -> F64:
    """Return the share of reports with each bit set, by the fit."""
    listed = reported[: model.candidates.num_candidates]
    return np.asarray(predict(model.candidates, listed) + model.fill * (1.0 - listed.sum()))


def _fit_open(model: LinearModel, normal: NormalEquations) -> Solution:
    """Least squares when strings may be missing from the list; without a place for them where none can be told."""
    o = model.fill
    try:
        covariance = inverse(normal.centred_matrix)
    except SingularDesignError:
        return _fit_plain(model, normal)
    f = covariance @ normal.centred_moment
    residuals = model.response - o - predict(model.candidates, f) + o * f.sum()
    phi, degrees = dispersion(model, residuals, f.size)
    fit = Fit(f, np.diag(covariance).copy(), f, 1.0 - f.sum(), covariance.sum(), phi, degrees, "gls", storey=True)
    return _let_go(model, fit, covariance, normal.centred_edge, residuals), covariance, o


def _let_go(model: LinearModel, fit: Fit, covariance: F64, edge: F64, residuals: F64) -> Fit:
    """Free the level if the reports' bits do not add up to one string a report (values that set no bit, say)."""
    level = float(model.weights @ residuals)
    slope = covariance @ edge
    information = float(model.weights.sum() - edge @ slope)
    if information <= 1e-9 * model.weights.sum():
        return fit
    if abs(level) < SUSPICIOUS * np.sqrt(information * max(1.0, fit.dispersion)):
        return fit
    lift = level / information
    raw = fit.raw - slope * lift
    left = 1.0 - raw.sum() + lift / model.fill
    variance = covariance.sum() + (slope.sum() + 1.0 / model.fill) ** 2 / information
    phi, degrees = dispersion(model, residuals + _projected(model, slope, lift), raw.size + 1)
    return replace(
        fit,
        raw=raw,
        variances=fit.variances + slope**2 / information,
        unallocated=left,
        unallocated_variance=variance,
        dispersion=phi,
        degrees_of_freedom=degrees,
        notes=(_UNEVEN.format(raw.sum() + left),),
    )


def _projected(model: LinearModel, slope: F64, lift: float) -> F64:
    """Return what letting go adds to the residuals."""
    return np.asarray(lift * (predict(model.candidates, slope) - model.fill * slope.sum() - 1.0))


def _fit_plain(model: LinearModel, normal: NormalEquations) -> Solution:
    """Least squares with no strings outside the list."""
    covariance = inverse(normal.matrix)
    f = covariance @ normal.moment
    phi, degrees = dispersion(model, model.response - predict(model.candidates, f), f.size)
    note = "the candidates fill the bits so evenly that strings outside the list cannot be told from them"
    variances = np.diag(covariance).copy()
    fit = Fit(f, variances, f, 1.0 - f.sum(), covariance.sum(), phi, degrees, "gls", storey=True, notes=(note,))
    return fit, covariance, 0.0


def _fit_complete(model: LinearModel, normal: NormalEquations) -> Solution:
    """Least squares under sum f = 1, by Lagrange's multiplier."""
    covariance = inverse(normal.matrix)
    free = covariance @ normal.moment
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
