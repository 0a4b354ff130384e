"""Notes that a reader of decoded numbers needs, in plain words, and the limits past which each is given."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from overstory.analysis.decoding.chi_square import chi2_tail
from overstory.analysis.decoding.model import median
from overstory.privacy.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from overstory.analysis.decoding.candidates import CandidateMap
    from overstory.analysis.decoding.model import Fit
    from overstory.analysis.reports import SupportCounts

SURE = 4.0
"""Standard errors past which a diagnostic is no chance."""
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
    """Return chi-square and p-value of the cohorts' sizes against equal ones; (0, 1) for one cohort or no report.

    Devices are drawn into cohorts, with all of their reports: sizes vary `reports_per_device` times as much.
    """
    expected = counts.num_reports / counts.num_cohorts
    if counts.num_cohorts == 1 or not expected:
        return 0.0, 1.0
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
