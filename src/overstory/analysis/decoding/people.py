r"""How the sampling of people varies decoded counts: counted string by string, where the fit counts bit by bit.

The weights of a fit take every (cohort, bit) count for a binomial of its own: :math:`\theta (1 - \theta)` is the noise
of the bit and :math:`(p^* - q^*)^2 x (1 - x)`, x being the share of the cohort that truly sets it. But a person brings
all bits of a string at once. Let :math:`a_j` be the coefficients of one candidate on the bits of cohort j (of
:math:`(X' W X)^{-1} X' W`), and :math:`b_{js}` the bits of string s. For people who are drawn independently, who is in
the cohorts varies the estimate by

.. math:: P = \sum_j \frac{1}{N_j} \Bigl( \sum_s f_s (a_j' b_{js})^2 - (a_j' x_j)^2 \Bigr) , \quad\text{not by}\quad
          D = \sum_j \frac{1}{N_j} \sum_i a_{ji}^2 x_{ji} (1 - x_{ji}) .

Strings outside the list are taken to set each bit with probability o. So the variance over all devices like these is
the fit's plus P - D. The estimate is unbiased whoever reported, so by the law of total variance that over these reports
is f (1 - f) / N less: what is left of P is which cohort people were put into. With R reports of a device all of these
are R times as large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.analysis.candidates import CandidateMap
    from overstory.analysis.decoding.model import LinearModel

    F64 = NDArray[np.float64]


def people_correction(
    model: LinearModel, shares: F64, columns: NDArray[np.intp], covariance: F64, centre: float
) -> F64:
    """Return what to add to a fit's variances, shape (M,), for those over these reports: P - f (1 - f) / N - D.

    It is 0 for candidates of share 0, and never more negative than D: the noise stays.

    Parameters
    ----------
    model
        With the weights of the fit.
    shares : ndarray, shape (M,)
        Of all candidates, not negative; with those outside the list they add up to at most 1.
    columns : ndarray, shape (S,)
        Which candidates were fitted together.
    covariance : ndarray, shape (S, S)
        (X' W X)^-1 of their columns, as the fit constrains it.
    centre
        What the fit subtracts from the columns.
    """
    correction = np.zeros(shares.size)
    held = np.flatnonzero(shares[columns] > 0.0)
    if not held.size:
        return correction
    together, by_bit = _variances(model, shares[columns], held, columns, covariance[held], centre)
    own = shares[columns[held]]
    kept = np.maximum(together - own * (1.0 - own) / (model.reports.sum() / model.candidates.num_bits), 0.0)
    correction[columns[held]] = model.reports_per_device * (kept - by_bit)
    return correction


def _variances(
    model: LinearModel, shares: F64, held: NDArray[np.intp], columns: NDArray[np.intp], covariance: F64, centre: float
) -> tuple[F64, F64]:
    """Return P and D of the held candidates."""
    fill, bits, hidden = model.fill, model.candidates.num_bits, max(0.0, 1.0 - float(shares.sum()))
    together, by_bit = np.zeros(held.size), np.zeros(held.size)
    for cohort, reports in enumerate(model.reports[::bits]):
        if not reports:
            continue
        design = _of_cohort(model.candidates, columns, cohort)
        fitted = covariance @ (design - centre) * model.weights[cohort * bits : (cohort + 1) * bits]
        load = np.clip(shares @ design + hidden * fill, 0.0, 1.0)
        others = hidden * (fill * (1.0 - fill) * (fitted**2).sum(axis=1) + fill**2 * fitted.sum(axis=1) ** 2)
        listed = (fitted @ design[held].T) ** 2 @ shares[held]
        together += (listed + others - (fitted @ load) ** 2) / reports
        by_bit += fitted**2 @ (load * (1.0 - load)) / reports
    return together, by_bit


def _of_cohort(candidates: CandidateMap, columns: NDArray[np.intp], cohort: int) -> F64:
    """Return the bits that some candidates set in a cohort, a row for each."""
    design = np.zeros((columns.size, candidates.num_bits))
    design[np.arange(columns.size)[:, None], candidates.positions[cohort, columns]] = 1.0
    return design
