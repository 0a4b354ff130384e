r"""The linear model behind every decoder: what each (cohort, bit) count says about the candidates' frequencies.

In cohort ``j`` of ``N_j`` reports, bit ``i`` is set :math:`c_{ij}` times. With :math:`p^*` = P(report bit 1 | Bloom bit
1) and :math:`q^*` = P(1 | Bloom bit 0), the share of reports whose Bloom bit was truly set is estimated by

.. math:: y_{ij} = \frac{c_{ij} / N_j - q^*}{p^* - q^*}, \qquad
          \operatorname{Var} y_{ij} = \frac{\theta_{ij} (1 - \theta_{ij})}{N_j (p^* - q^*)^2},
          \qquad \theta_{ij} = E\, c_{ij} / N_j ,

which is :math:`t_{ij} / N_j` of RAPPOR (CCS 2014), section 4, whose p and q are P(1|0) and P(1|1) of its second round.
A candidate of frequency :math:`f_s` adds :math:`f_s` to every bit it sets: :math:`E\,y = X f + o\,(1 - \sum_s f_s)`.
The last term stands for the strings that are not in the list: together they hold what is left, spread evenly
over the bits, ``o`` being the mean share of bits that one string sets.

Where a device sends R reports of one string, they share its permanent bits, which are 1 with probability
:math:`\phi_{ij}`, and :math:`\theta (1 - \theta)` becomes :math:`\theta (1 - \theta) + (R - 1) \phi (1 - \phi)
s^2`, s being the second round's P(1|1) - P(1|0): docs/explanation/repeated.md.

The sampling of people varies decoded counts string by string, where the fit counts bit by bit (`people_correction`).

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

Weighted least squares over all candidates is the default decoder while there are fewer candidates than rows. It attains
the Cramer-Rao bound of the (cohort, bit) counts. The strings outside the list enter through the centred design
:math:`X - o`, since :math:`E\,y - o = (X - o) f`: they cost no parameter, because every report holds one string.
`NormalEquations` are the few sums over rows that least squares needs, and `simplex_least_squares` solves them for
non-negative shares that sum to one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from overstory.analysis.decoding.candidates import correlate, gram, predict
from overstory.analysis.selection import step_up, upper_p_values
from overstory.protocol.channels import check_channel
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.analysis.decoding.candidates import CandidateMap
    from overstory.analysis.reports import SupportCounts

    F64 = NDArray[np.float64]


REWEIGHT = 0.02
BY_CHANCE: Final = 0.01  # in this share of collections whose list is complete, chance alone sets a bit aside
FURTHER: Final = 0.1
"""Of the bits that are set aside, this share may be of no missing string: `lift` makes up for what they exceed."""
MOST_ASIDE: Final = 0.25


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Responses and weights, one per row of the design matrix (cohort-major), in frequency units."""

    candidates: CandidateMap
    response: F64  # y, shape (num_rows,)
    weights: F64  # its inverse variances; 0 in rows of empty cohorts, and in those that are `aside`
    reports: F64
    p_star: float
    q_star: float
    permanent: tuple[float, float]  # P(permanent bit 1 | Bloom bit 1), P(1 | Bloom bit 0)
    reports_per_device: float = 1.0
    aside: NDArray[np.bool_] | None = None
    lift: float = 0.0  # what was added to the response for the rows aside: see `set_aside`

    @property
    def fill(self) -> float:
        """The share of bits that an unlisted string is taken to set, ``o`` above."""
        return self.candidates.fill

    @property
    def used_rows(self) -> int:
        """Rows that hold reports, and are not set aside."""
        return int(np.count_nonzero(self.weights))

    def weights_at(self, shares: F64) -> F64:
        """Return the inverse variances that hold if bit ``row`` is truly set in ``shares[row]`` of the reports."""
        # theta = q* + (p* - q*) x; Var of a count of R reports a device: theta (1 - theta) + (R - 1) shared.
        rates = self.q_star + (self.p_star - self.q_star) * np.clip(shares, 0.0, 1.0)
        noise = rates * (1.0 - rates) + (self.reports_per_device - 1.0) * self._shared(shares)
        # A channel without noise would weigh infinitely; one report more of each kind keeps it finite.
        spread = np.maximum(noise, 1.0 / (self.reports + 2.0))
        reports = self.reports if self.aside is None else np.where(self.aside, 0.0, self.reports)
        return np.asarray(reports * (self.p_star - self.q_star) ** 2 / spread)

    def _shared(self, shares: F64) -> F64:
        keep_one, raise_zero = self.permanent
        # phi (1 - phi) s^2, s = (p* - q*) / (P1(1|1) - P1(1|0)) being the second round's span.
        drawn = raise_zero + (keep_one - raise_zero) * np.clip(shares, 0.0, 1.0)
        return np.asarray(drawn * (1.0 - drawn) * ((self.p_star - self.q_star) / (keep_one - raise_zero)) ** 2)

    def reweighted(self, shares: F64) -> LinearModel:
        """Return the model with the weights at these shares; itself where none would change by more than `REWEIGHT`."""
        weights = self.weights_at(shares)
        if np.all(np.abs(weights - self.weights) <= REWEIGHT * self.weights):
            return self
        return replace(self, weights=weights)

    def set_aside(self, residuals: F64) -> LinearModel:
        r"""Return the model without the bits that are set far more often than a fit says: a missing string's.

        In the rest, a string of share g that is missing adds nothing, where the model gives it o g with all that is
        outside the list. So o g is added to the response: :math:`E\,y + o\,g = X f + o\,(1 - \sum_s f_s)`, as if no row
        had been left out. The string sets a share o of the rows, each g above the fit: o g is the sum of these excesses
        over the number of rows.
        """
        fitted, used = self.response - residuals, self.reports > 0
        scores = residuals * np.sqrt(replace(self, aside=None).weights_at(fitted))
        # A normal's median distance from 0 is .6745: noise that is larger in every row makes none of them stand out.
        typical = max(1.0, median(np.abs(scores[used])) / 0.6745)
        rows = np.flatnonzero(used)
        aside, p_values = np.zeros_like(used), upper_p_values(scores[rows], np.full(rows.size, typical))
        if step_up(p_values, BY_CHANCE).size:
            aside[rows[step_up(p_values, FURTHER)]] = True
        before = np.zeros_like(aside) if self.aside is None else self.aside
        lift = float(residuals[aside].sum() / rows.size)
        same = np.array_equal(aside, before) and (not lift or abs(lift - self.lift) <= REWEIGHT * lift)
        # More than `MOST_ASIDE` are not a few strings that are missing.
        if same or np.count_nonzero(aside) > MOST_ASIDE * rows.size:
            return self
        other = replace(self, response=self.response - self.lift + lift, lift=lift, aside=aside)
        return replace(other, weights=other.weights_at(fitted))


@dataclass(frozen=True, eq=False)
class Fit:
    """A decoder's result, in frequency units; `decoder` turns it into counts."""

    raw: F64  # the unbiased estimates, shape (M,)
    variances: F64  # of `raw`, under binomial noise times `dispersion`
    reported: F64  # not negative; with what is not allocated, of sum one
    unallocated: float
    unallocated_variance: float
    dispersion: float
    degrees_of_freedom: int
    method: str
    notes: tuple[str, ...] = ()
    people: F64 | None = None  # what variances over these reports have more: `people_correction`
    model: LinearModel | None = None  # fitted last; None where it does not say how errors go together
    members: NDArray[np.intp] | None = None  # of a pursuit
    is_freed: bool = False
    residuals: F64 | None = None
    num_aside: int = 0  # rows set aside, for strings outside the list that hold about `missing` of the reports
    missing: float = 0.0

    @classmethod
    def of_nothing(cls, size: int) -> Fit:
        return cls(np.zeros(size), np.full(size, np.inf), np.zeros(size), 0.0, np.inf, 1.0, 0, "gls")

    @property
    def widening(self) -> float:
        """What standard errors are multiplied by: the root of the dispersion where it is above 1."""
        if self.method == "lasso":
            return 1.0  # ordinary least squares has its residual variance already in `variances`
        # Pursuit chose its members by the same residuals, which makes these a little too small: one standard error of
        # the dispersion, sqrt(2 / df) of it, is added.
        searched = np.sqrt(2.0 / max(1, self.degrees_of_freedom)) if self.method == "pursuit" else 0.0
        return float(np.sqrt(max(1.0, self.dispersion * (1.0 + searched))))

    @property
    def standard_errors(self) -> F64:
        """Of ``raw``, over these reports."""
        people = 0.0 if self.people is None else self.people
        return np.asarray(np.sqrt(np.maximum(self.variances * self.widening**2 + people, 0.0)))


def linear_model(
    counts: SupportCounts,
    candidates: CandidateMap,
    p_star: float,
    q_star: float,
    *,
    permanent: tuple[float, float] | None = None,
    reports_per_device: float = 1.0,
) -> LinearModel:
    """Build the model; without `permanent`, all noise is taken to be permanent, which is never too little."""
    check_channel(p_star, q_star)
    if (counts.num_cohorts, counts.num_bits) != (candidates.num_cohorts, candidates.num_bits):
        raise ParameterError(
            f"counts of {counts.num_cohorts} cohorts x {counts.num_bits} bits, but a candidate map of "
            f"{candidates.num_cohorts} cohorts x {candidates.num_bits} bits",
        )
    reports = np.repeat(counts.totals.astype(np.float64), counts.num_bits)
    # y = (c / N - q*) / (p* - q*); a cohort without reports gets y = 0 and no weight.
    rates = np.divide(counts.ones.ravel(), reports, out=np.full(reports.shape, q_star), where=reports > 0)
    response = (rates - q_star) / (p_star - q_star)
    first = (p_star, q_star) if permanent is None else permanent
    model = LinearModel(candidates, response, reports, reports, p_star, q_star, first, reports_per_device)
    # First weights: every bit of a cohort set as often as its mean.
    level = np.repeat(response.reshape(counts.ones.shape).mean(axis=1), counts.num_bits)
    return replace(model, weights=model.weights_at(level))


def dispersion(model: LinearModel, residuals: F64, parameters: int) -> tuple[float, int]:
    """Return the weighted residual sum of squares per degree of freedom, and those degrees; 1 with none left."""
    degrees = model.used_rows - parameters
    if degrees <= 0:
        return 1.0, 0
    return float((model.weights * residuals**2).sum()) / degrees, degrees


def people_correction(
    model: LinearModel, shares: F64, columns: NDArray[np.intp], covariance: F64, centre: float
) -> F64:
    """Return what to add to a fit's variances, shape (M,), for those over these reports: P - f (1 - f) / N - D."""
    correction = np.zeros(shares.size)
    held = np.flatnonzero(shares[columns] > 0.0)
    if not held.size:
        return correction
    together, by_bit = _variances(model, shares[columns], held, columns, covariance[held], centre)
    own = shares[columns[held]]
    # P - f (1 - f) / N by the law of total variance, not below 0; less D, which the fit holds already.
    cohort_luck = np.maximum(together - own * (1.0 - own) / (model.reports.sum() / model.candidates.num_bits), 0.0)
    correction[columns[held]] = model.reports_per_device * (cohort_luck - by_bit)
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
        design = np.zeros((columns.size, bits))  # the bits that the candidates set in this cohort, a row for each
        design[np.arange(columns.size)[:, None], model.candidates.positions[cohort, columns]] = 1.0
        # a_j, the candidates' coefficients on the cohort's bits: (X'WX)^-1 X'W.
        fitted = covariance @ (design - centre) * model.weights[cohort * bits : (cohort + 1) * bits]
        load = np.clip(shares @ design + hidden * fill, 0.0, 1.0)
        # E (a'b)^2 for a string outside the list, its bits set independently with probability o.
        others = hidden * (fill * (1.0 - fill) * (fitted**2).sum(axis=1) + fill**2 * fitted.sum(axis=1) ** 2)
        listed = (fitted @ design[held].T) ** 2 @ shares[held]
        # P = sum over j of (sum_s f_s (a'b_s)^2 - (a'x)^2) / N_j, and D = sum a_i^2 x_i (1 - x_i) / N_j.
        together += (listed + others - (fitted @ load) ** 2) / reports
        by_bit += fitted**2 @ (load * (1.0 - load)) / reports
    return together, by_bit


def median(values: F64) -> float:
    """Return the median; NumPy's own imports masked arrays first."""
    ordered = np.sort(values)
    middle = ordered[(ordered.size - 1) // 2 : ordered.size // 2 + 1].mean()
    return float(middle if not np.isnan(ordered[-1]) else ordered[-1])


PATIENCE = 3
MAX_EXCHANGES = 5000


def simplex_least_squares(gram: F64, moment: F64) -> F64:
    """Minimize f'Gf/2 - b'f over f >= 0, sum f = 1, for G = X'WX, positive semi-definite, and b = X'Wy.

    Block principal pivoting (Portugal, Judice, Vicente, Math. Comp. 63, 1994). At the model's own variances this is the
    Gauss-Newton form of binomial maximum likelihood.
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
    """Return a positive definite matrix's inverse and its reciprocal condition number (in the 1-norm)."""
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


Solution = tuple[Fit, "F64", float]  # A fit, the covariance of its shares, and what was subtracted from the columns

_UNEVEN = (
    "The counts do not fit these parameters (total share {:.0%}). Check params.csv, or whether devices sent no or "
    "several values."
)
SUSPICIOUS = 4.0  # standard errors by which the reports' sum may miss the model's before the fit lets go of it


def fit_gls(model: LinearModel, *, complete: bool) -> Fit:
    """Fit by iteratively reweighted least squares; of a `complete` list of strings, frequencies sum to one."""
    normal = NormalEquations.of(model)
    # First fit for the shares, then the weights 1 / Var y that hold at them (one Gauss-Newton step).
    reported = _reported(normal, complete=complete)
    listed = reported[: normal.moment.size]
    better = model.reweighted(predict(model.candidates, listed) + model.fill * (1.0 - listed.sum()))
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
    fit = Fit(
        f, np.diag(covariance).copy(), f, 1.0 - f.sum(), covariance.sum(), phi, degrees, "gls", residuals=residuals
    )
    edge = np.asarray(normal.edge - o * normal.weight)  # (X - o)'W1
    return _let_go(model, fit, covariance, edge, residuals), covariance, o


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
    fit = Fit(f, variances, f, 1.0 - f.sum(), covariance.sum(), phi, degrees, "gls", notes=(note,))
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
    return Fit(f, variances, f, 0.0, 0.0, phi, degrees, "gls", notes=notes), constrained, 0.0
