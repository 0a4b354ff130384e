r"""The entry point of decoding: choose the decoder, run it, and turn shares into counts with their caveats.

*How the errors of two candidates go together* is computed from the counts on demand.
Every decoder's estimate is linear in the counts, :math:`\hat f_s = a_s' y` and a constant. The noise of the bits gives
:math:`\sum a_s a_t / w` over the rows, w being the fit's weights, times the dispersion. As in
`overstory.analysis.decoding.model`, a person brings all bits of a string at once:

.. math:: P_{st} = \sum_j \frac{1}{N_j} \Bigl( \sum_u f_u (a_{sj}' b_{ju}) (a_{tj}' b_{ju})
          - (a_{sj}' x_j) (a_{tj}' x_j) \Bigr)

takes the place of :math:`D_{st} = \sum_j \frac{1}{N_j} \sum_i a_{sji} a_{tji} x_{ji} (1 - x_{ji})`. Over these reports
:math:`- f_s f_t / N`, the sampling of people, is taken away.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from overstory.analysis.decoding.candidates import CandidateGroups, CandidateMap, correlate
from overstory.analysis.decoding.model import (
    Fit,
    LinearModel,
    NormalEquations,
    SingularDesignError,
    fit_gls,
    linear_model,
    median,
    solution,
)
from overstory.analysis.decoding.sparse import fit_lasso, fit_pursuit, members_coefficients
from overstory.analysis.estimate import Estimate
from overstory.analysis.selection import (
    check_alpha,
    check_correction,
    chi2_tail,
    null_share,
    people_covariance,
    upper_p_values,
)
from overstory.presentation.formats import plural, repeated_note
from overstory.protocol.channels import check_reports_per_device
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from overstory.analysis.reports import SupportCounts
    from overstory.analysis.selection import Correction, IntervalKind
    from overstory.protocol.channels import BinaryChannel

    F64 = NDArray[np.float64]
    Indices = NDArray[np.intp]


SURE = 4.0  # standard errors past which a diagnostic is no chance
UNBALANCED = 1e-4
NEEDED_SHARE = 0.25


WHY_RESIDUALS = (
    "strings are missing from the list, devices reported nothing or more than once, reports are crafted, or the map is "
    "not the clients' own"
)
WHY_COHORTS = "devices do not draw their cohorts at random, or somebody sends reports of few cohorts"


def residuals_vary(dispersion: float) -> str:
    """Return what residuals past the channel's noise mean."""
    return f"residuals vary {dispersion:.2f} times as much as the channel's noise: {WHY_RESIDUALS}"


def cohorts_differ(statistic: str) -> str:
    """Return what cohorts of different sizes mean."""
    return f"cohort sizes differ more than chance ({statistic}): {WHY_COHORTS}"


def dispersion_reach(degrees_of_freedom: int) -> float:
    """Return how far from 1 chance may take a dispersion; infinite where no rows are left to judge it by."""
    return SURE * math.sqrt(2.0 / degrees_of_freedom) if degrees_of_freedom else math.inf


def misses_strings(unallocated: float, standard_error: float) -> bool:
    """Whether this share of the reports surely holds strings that are not in the list; past 1 no string is missing."""
    return bool(SURE * standard_error < unallocated < 1.0 + SURE * standard_error)


def cohort_balance(counts: SupportCounts, reports_per_device: float = 1.0) -> tuple[float, float]:
    """Return chi-square and p-value of the cohorts' sizes against equal ones; (0, 1) for one cohort or no report."""
    expected = counts.num_reports / counts.num_cohorts
    if counts.num_cohorts == 1 or not expected:
        return 0.0, 1.0
    # Devices are drawn with all of their reports: sizes vary `reports_per_device` times as much.
    chi_square = float(((counts.totals - expected) ** 2).sum() / expected / reports_per_device)
    return chi_square, chi2_tail(counts.num_cohorts - 1, chi_square)


def caveats(
    counts: SupportCounts,
    candidates: CandidateMap,
    fit: Fit,
    standard_errors: NDArray[np.float64],
    balance: tuple[float, float],
    *,
    colliding: int,
) -> Iterator[str]:
    """Yield the notes that apply."""
    reports = counts.num_reports
    if not reports:
        yield "there are no reports: nothing can be estimated"
        return
    yield from _of_fit(fit, reports)
    if empty := int(np.count_nonzero(counts.totals == 0)):
        yield f"{empty} of {counts.num_cohorts} cohorts sent no report"
    if balance[1] < UNBALANCED:
        yield cohorts_differ(f"chi-square {balance[0]:.0f}")
    if colliding:
        yield (
            f"{colliding} group(s) of candidates set the same bits in every cohort: only each group's sum can be "
            "estimated"
        )
    if fit.method == "pursuit":
        rows = int(np.count_nonzero(counts.totals)) * counts.num_bits
        yield (
            f"{candidates.num_candidates:,} candidates on {rows:,} rows: estimates are unbiased as far as the strings "
            "that were not fitted spread evenly. 95% intervals hold on average over the strings; a single string's, "
            "which shares bits with some of those, can hold in fewer than 90% of collections"
        )
    finite = standard_errors[np.isfinite(standard_errors)]
    typical = median(finite) / reports if finite.size else 0.0
    if typical > NEEDED_SHARE:
        yield f"fewer reports than needed: a count is uncertain by {typical:.0%} of all reports"


def _of_fit(fit: Fit, reports: int) -> Iterator[str]:
    yield from fit.notes
    if fit.num_aside:
        yield (
            f"{plural(fit.num_aside, 'bit')} are set far more often than your list explains, and were set aside: one "
            f"string outside it, or a few together, hold about {fit.missing:.0%} of the reports. To test a guess, add "
            "it to the candidates and decode again"
        )
    reach = dispersion_reach(fit.degrees_of_freedom)
    if fit.dispersion > 1.0 + reach:
        widened = "" if fit.method == "lasso" else f"; standard errors are {fit.widening:.2f} times wider for it"
        yield f"{residuals_vary(fit.dispersion)}{widened}"
    elif fit.dispersion < 1.0 - reach:
        yield (
            f"residuals vary only {fit.dispersion:.2f} times as much as the channel's noise: "
            "the parameters are not those of the clients"
        )
    error = np.sqrt(fit.unallocated_variance) * fit.widening
    if misses_strings(fit.unallocated, error):
        rare = ", or that are too rare to fit" if fit.method == "pursuit" else ""
        about, spread = (f"{share * reports:,.0f}" for share in (min(fit.unallocated, 1.0), error))
        yield f"about {about} of the reports (standard error {spread}) hold strings that are not in your list{rare}"


@dataclass(frozen=True, eq=False)
class DecodedErrors:
    """How the errors of two candidates go together: see the module."""

    fit: Fit
    member: Indices | None  # which candidate of the model each value is; None where all columns differ
    complete: bool  # the shares were made to add up to one

    def covariance(self, estimate: Estimate, kind: IntervalKind, places: Indices) -> F64:
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


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Decoded(Estimate):
    """A decoded collection; `counts` are not negative and, with those outside the list, add up to the reports."""

    is_bounded: ClassVar[bool] = True
    method: str  # ``gls``, ``pursuit`` or ``lasso``: what really ran
    unallocated: float  # reports whose string is not in the list (by pursuit: or was too rare to fit), raw and unbiased
    unallocated_standard_error: float
    dispersion: float  # residual variance over the channel's own; standard errors carry its root when it is above 1
    degrees_of_freedom: int  # rows left to judge the dispersion by
    cohort_chi_square: float  # test of the cohorts' sizes against equal shares
    cohort_p_value: float
    colliding: tuple[tuple[str, ...], ...] = ()  # candidates that no cohort distinguishes: each shows its group's count

    def summary(self) -> dict[str, Any]:
        error = self.unallocated_standard_error
        return {
            **super().summary(),
            "method": self.method,
            "allocated_mass": float(self.frequencies.sum()),
            "unallocated_count": self.unallocated,
            "unallocated_standard_error": error if np.isfinite(error) else None,
            "residual_dispersion": self.dispersion,
            "degrees_of_freedom": self.degrees_of_freedom,
            "cohort_chi_square": self.cohort_chi_square,
            "cohort_p_value": self.cohort_p_value,
            "colliding_candidates": [list(group) for group in self.colliding],
        }


INFLATION = 2.5  # variance inflation past which pursuit decodes better, though there are fewer candidates than rows
PASSES = 6  # fits at most, each without the bits that the one before could not explain
GLS_CANDIDATES = 2500  # past this many candidates the normal equations (a square matrix of them) give way to pursuit


def decode(
    counts: SupportCounts,
    candidate_map: CandidateMap,
    *,
    p_star: float,  # P(report bit is 1 | Bloom bit is 1), over all rounds of randomization
    q_star: float,  # P(1 | Bloom bit is 0)
    method: str = "gls",
    correction: Correction = "fdr",
    alpha: float = 0.05,
    complete: bool = False,
    # The memoized round, where devices report more than once; without it all noise is taken to be memoized, which makes
    # standard errors too large rather than too small.
    permanent: BinaryChannel | None = None,
    reports_per_device: float = 1.0,
    interval_kind: IntervalKind = "reports",
) -> Decoded:
    """Estimate how many reports hold each candidate; see `FrequencyOracle.estimate` for the choices.

    Two strings in one cohort, without noise in the counts:

    >>> shelf = CandidateMap(["ash", "elm"], np.array([[[0, 1], [2, 3]]]), num_bits=6)
    >>> from overstory.analysis.reports import SupportCounts
    >>> ones = 0.25 * 10_000 + 0.5 * np.array([7_000, 7_000, 3_000, 3_000, 0, 0])
    >>> decoded = decode(SupportCounts([10_000], [ones.astype(int)]), shelf, p_star=0.75, q_star=0.25)
    >>> decoded.counts.round().tolist(), decoded.detected().tolist()
    ([7000.0, 3000.0], [True, True])
    """
    check_alpha(alpha)
    check_correction(correction)
    if method not in {"gls", "lasso"}:
        raise ParameterError(f"method must be gls or lasso, not {method!r}")
    # Equal columns are decoded once, as one candidate: only their sum can be estimated.
    groups = CandidateGroups.of(candidate_map)
    per_device = check_reports_per_device(reports_per_device)
    first = None if permanent is None else (float(permanent.keep_one), float(permanent.raise_zero))
    model = linear_model(counts, groups.map, p_star, q_star, permanent=first, reports_per_device=per_device)
    fit = _fit(model, method, complete=complete) if counts.num_reports else Fit.of_nothing(groups.map.num_candidates)
    choices = {"alpha": alpha, "correction": correction, "interval_kind": interval_kind}
    return _decoded(counts, candidate_map, groups, fit, per_device, complete=complete, **choices)


def _decoded(
    counts: SupportCounts,
    candidate_map: CandidateMap,
    groups: CandidateGroups,
    fit: Fit,
    per_device: float,
    *,
    complete: bool,
    **choices: Any,
) -> Decoded:
    """Return what a fit says of the candidates: shares times N, each reported count divided among equal columns."""
    reports = counts.num_reports
    scale = reports or 1
    raw = groups.spread(fit.raw) * scale
    errors = groups.spread(fit.standard_errors) * scale
    balance = cohort_balance(counts, per_device)
    notes = tuple(caveats(counts, groups.map, fit, errors, balance, colliding=len(groups.colliding)))
    names = candidate_map.candidates
    return Decoded(
        values=names,
        counts=groups.spread(fit.reported, divide=True) * scale,
        raw_counts=raw,
        standard_errors=errors,
        num_reports=reports,
        reports_per_device=per_device,
        # Storey's share of absent candidates, where all candidates were tested alike.
        null_share=null_share(upper_p_values(raw, errors)) if fit.method == "gls" else 1.0,
        notes=notes + (repeated_note(per_device) if reports else ()),
        joint_errors=None if fit.model is None else DecodedErrors(fit, groups.member, complete),
        method=fit.method,
        unallocated=fit.unallocated * scale,
        unallocated_standard_error=float(np.sqrt(fit.unallocated_variance)) * scale * fit.widening,
        dispersion=fit.dispersion,
        degrees_of_freedom=fit.degrees_of_freedom,
        cohort_chi_square=balance[0],
        cohort_p_value=balance[1],
        colliding=tuple(tuple(str(names[index]) for index in group) for group in groups.colliding),
        **choices,
    )


def _fit(model: LinearModel, method: str, *, complete: bool) -> Fit:
    if method == "lasso":
        return fit_lasso(model)
    fit = _fit_all(model, complete=complete)
    for _ in range(PASSES):
        if fit.residuals is None or (better := model.set_aside(fit.residuals)) is model:
            break
        model = better
        fit = _fit_all(model, complete=complete)
    if model.aside is None:
        return fit
    return replace(fit, num_aside=int(np.count_nonzero(model.aside)), missing=model.lift / model.fill)


def _fit_all(model: LinearModel, *, complete: bool) -> Fit:
    if model.candidates.num_candidates <= min(model.used_rows, GLS_CANDIDATES):
        try:
            fit = fit_gls(model, complete=complete)
        except SingularDesignError:
            return fit_pursuit(model)
        # Variance inflation: the fit's variance over 1 / x'Wx, that of a candidate alone, at the median candidate.
        # Among M others on n rows of random bits it is about n / (n - M): past `INFLATION`, finding the few that
        # matter costs less than telling all apart.
        if median(fit.variances * correlate(model.candidates, model.weights)) <= INFLATION:
            return fit
    return fit_pursuit(model)
