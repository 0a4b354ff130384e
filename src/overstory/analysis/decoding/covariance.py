r"""How the errors of two decoded candidates go together; computed from the counts on demand.

Every decoder's estimate is linear in the counts, :math:`\hat f_s = a_s' y` and a constant. The noise of the bits gives
:math:`\sum a_s a_t / w` over the rows, w being the fit's weights, times the dispersion. As in
`overstory.analysis.decoding.model`, a person brings all bits of a string at once:

.. math:: P_{st} = \sum_j \frac{1}{N_j} \Bigl( \sum_u f_u (a_{sj}' b_{ju}) (a_{tj}' b_{ju})
          - (a_{sj}' x_j) (a_{tj}' x_j) \Bigr)

takes the place of :math:`D_{st} = \sum_j \frac{1}{N_j} \sum_i a_{sji} a_{tji} x_{ji} (1 - x_{ji})`. Over these reports
:math:`- f_s f_t / N`, the sampling of people, is taken away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from overstory.analysis.decoding.gls import NormalEquations, solution
from overstory.analysis.decoding.pursuit import members_coefficients
from overstory.analysis.selection import people_covariance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.analysis.decoding.model import Fit, LinearModel
    from overstory.analysis.estimate import Estimate
    from overstory.analysis.selection import IntervalKind

    F64 = NDArray[np.float64]
    Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class DecodedErrors:
    """See the module.

    Parameters
    ----------
    fit
        The decoder's result, with the model that it fitted last.
    member
        Which candidate of the model each value is; None where all columns differ.
    complete
        Whether the shares were made to add up to one.
    """

    fit: Fit
    member: Indices | None
    complete: bool

    def covariance(self, estimate: Estimate, kind: IntervalKind, places: Indices) -> F64:
        """Return the covariances of the raw counts at `places`; only what is off the diagonal means something."""
        model = self.fit.model
        assert model is not None
        chosen = places if self.member is None else self.member[places]
        fitted = self._coefficients(model, chosen)
        used = model.weights > 0
        noise = (fitted[:, used] / model.weights[used]) @ fitted[:, used].T * self.fit.widening**2
        together = noise + model.reports_per_device * _people(model, self.fit.reported, fitted)
        reports, each = estimate.num_reports, estimate.reports_per_device
        if kind == "reports":
            drawn = people_covariance(estimate.raw_counts[places], reports, each) / reports**2
            same = chosen[:, None] == chosen
            drawn = np.where(same, np.diag(drawn)[:, None], drawn)
            together = together - drawn
        return np.asarray(together * reports**2)

    def _coefficients(self, model: LinearModel, chosen: Indices) -> F64:
        """Return the chosen candidates' weights on every row's response, shape (P, num_rows)."""
        if self.fit.members is not None:
            return members_coefficients(model, self.fit.members, chosen)
        _, covariance, centre = solution(model, NormalEquations.of(model), complete=self.complete)
        return np.asarray(covariance[chosen] @ (model.candidates.dense() - centre).T * model.weights)


def _people(model: LinearModel, shares: F64, fitted: F64) -> F64:
    """Return P - D."""
    held = np.flatnonzero(shares > 0)
    fill, bits, hidden = model.fill, model.candidates.num_bits, max(0.0, 1.0 - float(shares.sum()))
    correction = np.zeros((len(fitted), len(fitted)))
    design, weights = model.candidates.dense(held), shares[held]
    for cohort, reports in enumerate(model.reports[::bits]):
        if not reports:
            continue
        rows = slice(cohort * bits, (cohort + 1) * bits)
        own, filters = fitted[:, rows], design[rows]
        load = np.clip(filters @ weights + hidden * fill, 0.0, 1.0)
        strings, mean, level = own @ filters, own @ load, own.sum(axis=1)
        # E (a'b)(c'b) over a cohort's strings; those outside the list set each bit with probability o.
        people = (strings * weights) @ strings.T - np.outer(mean, mean)
        people += hidden * (fill * (1 - fill) * own @ own.T + fill**2 * np.outer(level, level))
        correction += (people - (own * (load * (1 - load))) @ own.T) / reports
    return correction
