"""The paper's own procedure: Lasso picks candidates, ordinary least squares estimates the picked ones.

RAPPOR (CCS 2014), section 4. The paper names no penalty; ours is the one at which about an eighth as many
candidates that nobody has would enter as there are rows: with unit columns of length l and noise s it is
``l * s * z``, z the normal quantile that leaves rows / (8 M) above it, and never less than one standard error.
Standard errors are the ordinary regression's, unaware that picking came first, as in the paper.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import numpy as np

from overstory.analysis.decoding.candidates import column_rows, correlate, gram, is_small, predict
from overstory.analysis.decoding.gls import SingularDesignError, inverse
from overstory.analysis.decoding.model import Fit, LinearModel
from overstory.analysis.selection import normal_quantile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.analysis.decoding.candidates import CandidateMap

    F64 = NDArray[np.float64]

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


def lasso(candidates: CandidateMap, response: F64, penalty: float, *, positive: bool = True) -> F64:
    """Minimize ||y - X b||^2 / 2 + penalty * sum |b| (over b >= 0 when ``positive``), no intercept.

    The penalty is scikit-learn's ``alpha`` times ``num_rows``.
    """
    coefficients = np.zeros(candidates.num_candidates)
    residual = response.copy()
    working = np.empty(0, np.intp)
    while True:
        # KKT: outside the working set |x_s'r| <= penalty; those that break it enter.
        slope = correlate(candidates, residual)
        reach = slope if positive else np.abs(slope)
        reach[working] = 0.0
        new = np.flatnonzero(reach > penalty * (1.0 + 1e-9))
        if not new.size:
            return coefficients
        # The worst offenders first: most of the others stop offending once these are in.
        new = new[np.argsort(-reach[new])[: max(256, working.size)]]
        working = np.concatenate((working, new))
        block, tolerance = coefficients[working], 1e-10 * float(np.abs(response).max())
        if not _descend(candidates, working, residual, block, penalty, tolerance, positive=positive):
            from overstory.kernels import design_matrix

            rows = column_rows(candidates, working)
            design_matrix.descend(rows, residual, block, penalty, positive, tolerance, 100_000)
        coefficients[working] = block


def _descend(
    candidates: CandidateMap,
    working: NDArray[np.intp],
    residual: F64,
    block: F64,
    penalty: float,
    tolerance: float,
    *,
    positive: bool,
) -> bool:
    """Do what `overstory.kernels.design_matrix.descend` does, in place and by NumPy, while steps are few.

    Return whether they were enough: if not, the kernel goes on from there. Loading the compiler takes a second.
    """
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
            soft = max(pull - penalty, 0.0) if positive or pull > 0 else min(pull + penalty, 0.0)
            step = soft / products[s, s] - block[s]
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
    inverted = _inverse(gram(candidates, used.astype(np.float64), picked))
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


def _inverse(matrix: F64) -> F64:
    """Invert, or where the picked columns depend on each other give the pseudo-inverse."""
    try:
        return inverse(matrix)
    except SingularDesignError:
        return np.asarray(np.linalg.pinv(matrix, hermitian=True))
