"""Checks of one collection for crafted reports: what honest devices cannot have sent, whatever their values are.

Any share of the devices may report *nothing*, for want of a value that can be reported. `dispersion` alone is raised by
honest devices, too: it is a decoder's measure of fit, and strings missing from the list and reports of nothing count.
Each check has a p-value; Holm's rule over all checks of a reading admits alarms at .001: the chance of any false one.
A check never changes an estimate. docs/explanation/crafted-reports.md says what each sees, and what none can see.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from overstory.analysis.alarms import nulls
from overstory.analysis.alarms.sums import HASHED, WATCHED, Watch, expected_buckets
from overstory.analysis.decoding.caveats import WHY_COHORTS, WHY_RESIDUALS
from overstory.analysis.selection import chi2_tail, upper_p_values
from overstory.analysis.selection.detection import holm
from overstory.analysis.support.base import pair_covariance
from overstory.presentation.formats import finite
from overstory.protocol.encodings.bits import Bloom, OneHot, SampledBits
from overstory.protocol.encodings.symbols import LinearHash, LocalHash, SignMatrix
from overstory.protocol.mechanisms.base import Mechanism

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.analysis.alarms.sums import ReportSums
    from overstory.analysis.decoding.decoder import Decoded
    from overstory.analysis.estimate import Estimate
    from overstory.analysis.reports import SupportCounts
    from overstory.protocol.mechanisms.base import LocalRandomizer

ALPHA: Final = 0.001
"""The chance of any false alarm among the checks of a reading."""
LEAST_REPORTS: Final = 1_000
"""Fewer reports are not checked: distributions are not normal yet."""
LEAST_VALUES: Final = 20
"""With fewer values the correlation of their noise is taken as 0: somebody holds each of them."""

MEANINGS: Final[dict[str, tuple[str, str]]] = {
    "ones": (
        "Reports vote for more or fewer values than honest ones do: some are crafted, or devices run other parameters.",
        "reports with a usual number of votes",
    ),
    "pairs": (
        "The same reports vote for both values more often than chance: some are crafted to raise several values.",
        f"reports crafted for one value, and values past the first {WATCHED}",
    ),
    "sum": (
        "The shares add up to more than 100%, or to less than reports of nothing explain: some are crafted.",
        "reports with a usual number of votes, or with fewer",
    ),
    "below-zero": (
        "Too many shares are far below zero: some reports raise a few values as no honest ones would.",
        "few liars, and reports that vote for as many values as honest ones",
    ),
    "seeds": (
        "Some public seeds are in too many reports: reports are copied, or crafted from few seeds.",
        "liars who each search a seed of their own",
    ),
    "cohorts": (f"Cohorts differ in size more than chance: {WHY_COHORTS}.", "liars who spread over the cohorts"),
    "dispersion": (
        f"Residuals vary more than the channel's noise: {WHY_RESIDUALS}.",
        "reports that fit the strings of the list",
    ),
}
"""By name: what an alarm means, and what its check cannot see."""

DECODERS_OWN: Final = frozenset({"cohorts", "dispersion"})
"""Checks that a decoder makes itself, and notes at its own limits."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One check of a collection.

    Attributes
    ----------
    name
        A key of `MEANINGS`.
    statistic, p_value
        The number it is decided by, and how often honest reports have one as extreme, at most.
    detail
        The statistic in words.
    adjusted
        The smallest chance of any false alarm among all checks of the reading at which this one is an alarm (Holm).
    period
        The label of the period; None for a collection without one.
    """

    name: str
    statistic: float
    p_value: float
    detail: str
    adjusted: float = 1.0
    period: str | None = None

    @property
    def raised(self) -> bool:
        """Whether it is an alarm."""
        return self.adjusted <= ALPHA

    @property
    def means(self) -> str:
        """What an alarm means."""
        return MEANINGS[self.name][0]

    @property
    def cannot_see(self) -> str:
        """What the check cannot see."""
        return MEANINGS[self.name][1]

    @property
    def text(self) -> str:
        """The alarm in sentences, for a person."""
        chance = f"{self.p_value:.0e}" if self.p_value > 1e-15 else "below 1e-15"
        return f"{self.means} ({self.detail}, p = {chance}; not seen by this check: {self.cannot_see})"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "name": self.name,
            **({} if self.period is None else {"period": self.period}),
            "statistic": finite(self.statistic),
            "p_value": self.p_value,
            "adjusted": self.adjusted,
            "alarm": self.raised,
            "means": self.means,
            "cannot_see": self.cannot_see,
        }


def check_collection(
    mechanism: LocalRandomizer,
    counts: SupportCounts,
    estimate: Estimate | None = None,
    *,
    sums: ReportSums | None = None,
    labels: Sequence[str] = (),
    period: str | None = None,
) -> tuple[Check, ...]:
    """Return the checks of one collection, in which a device reported once, adjusted for each other.

    Parameters
    ----------
    counts
        Its support counts.
    estimate
        What was estimated from these counts; None: checks that need it are left out.
    sums
        What was summed of its reports; None: checks that need the reports are left out.
    labels
        The strings that were looked for, where the mechanism has no domain.
    period
        The label of its period.

    Examples
    --------
    >>> import numpy as np, overstory
    >>> oue = overstory.oracle("oue", domain_size=10, epsilon=1.0)
    >>> counts = oue.accumulate(oue.simulate(np.arange(20_000) % 10, 1))
    >>> [(check.name, check.raised) for check in check_collection(oue.mechanism, counts, oue.estimate(counts))]
    [('sum', False), ('below-zero', False)]
    """
    if not isinstance(mechanism, Mechanism) or counts.num_reports < LEAST_REPORTS:
        return ()
    checks = [*_of_counts(mechanism, counts, estimate), *_of_sums(mechanism, sums, labels)]
    return adjust_checks(replace(check, period=period) for check in checks)


def adjust_checks(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Return checks with p-values adjusted for all of them, by Holm's rule, in their order.

    Examples
    --------
    >>> three = [Check(name="sum", statistic=0.0, p_value=p, detail="") for p in (0.02, 0.01, 0.5)]
    >>> [check.adjusted for check in adjust_checks(three)]
    [0.04, 0.03, 0.5]
    """
    given = list(checks)
    adjusted = holm([check.p_value for check in given])
    return tuple(replace(check, adjusted=p_value) for check, p_value in zip(given, adjusted, strict=True))


def alarm_notes(checks: Iterable[Check], *, decoded: bool = False) -> tuple[str, ...]:
    """Return the alarms as notes to read with an estimate.

    Parameters
    ----------
    decoded
        Whether the estimate is a decoder's, which has notes of its own on cohorts and residuals.
    """
    own = DECODERS_OWN if decoded else frozenset[str]()
    return tuple(
        f"alarm{'' if check.period is None else f', in {check.period}'}: {check.text}"
        for check in checks
        if check.raised and check.name not in own
    )


def _of_counts(mechanism: Mechanism, counts: SupportCounts, estimate: Estimate | None) -> Iterator[Check]:
    """Yield what can be checked by counts alone."""
    if counts.num_cohorts > 1:
        statistic, p_value = nulls.balance(counts.totals, np.full(counts.num_cohorts, 1 / counts.num_cohorts))
        detail = f"chi-square {statistic:,.0f} over {counts.num_cohorts:,} cohorts"
        yield Check(name="cohorts", statistic=statistic, p_value=p_value, detail=detail)
    p, q = float(mechanism.p_star), float(mechanism.q_star)
    encoding: Any = mechanism.encoding
    if isinstance(encoding, OneHot | LocalHash | SignMatrix) and encoding.domain_size == counts.num_bits:
        yield _sum(counts, 1, _own_bits_of_nothing(encoding), p, q)
    if isinstance(encoding, Bloom) and encoding.ones[0] == encoding.ones[1]:
        yield _sum(counts, encoding.num_hashes, _own_bits_of_nothing(encoding), p, q)
    if encoding.decoded and estimate is not None:
        yield from _dispersion(cast("Decoded", estimate))
    elif estimate is not None and len(estimate) and not (encoding.by_seed or isinstance(encoding, LinearHash)):
        yield _below_zero(mechanism, estimate, p, q)


def _dispersion(decoded: Decoded) -> Iterator[Check]:
    degrees = decoded.degrees_of_freedom
    if degrees:
        p_value = chi2_tail(degrees, decoded.dispersion * degrees)
        detail = f"{decoded.dispersion:.2f} times the channel's noise"
        yield Check(name="dispersion", statistic=decoded.dispersion, p_value=p_value, detail=detail)


def _sum(counts: SupportCounts, own: int, of_nothing: int, p: float, q: float) -> Check:
    """Check what all shares add up to: a report has `own` bits of its value, or `of_nothing` bits without one.

    Where that is none, every sum from 0 to 1 is honest. The error is that of the mixture that varies most.
    """
    reports, bits = counts.num_reports, counts.num_bits
    span = reports * own * (p - q)
    total = (float(counts.ones.sum()) - reports * bits * q) / span
    variance = max(part * p * (1 - p) + (bits - part) * q * (1 - q) for part in (own, of_nothing))
    error = math.sqrt(reports * variance) / abs(span)
    z = (total - min(max(total, of_nothing / own), 1.0)) / error
    p_value = min(1.0, 2.0 * float(upper_p_values(np.array([abs(z)]), np.ones(1))[0]))
    return Check(name="sum", statistic=z, p_value=p_value, detail=f"{total:.2%} (standard error {error:.2%})")


def _below_zero(mechanism: Mechanism, estimate: Estimate, p: float, q: float) -> Check:
    errors = estimate.standard_errors
    z = np.divide(estimate.raw_counts, errors, out=np.zeros(len(errors)), where=np.isfinite(errors) & (errors > 0))
    correlation = pair_covariance(mechanism, p, q)[1] / (q * (1 - q)) if len(z) >= LEAST_VALUES else 0.0
    statistic, p_value = nulls.below_zero(z, correlation)
    detail = f"{statistic:,.0f} squared standard errors over {len(z):,} values, where noise gives {len(z) / 2:,.0f}"
    return Check(name="below-zero", statistic=statistic, p_value=p_value, detail=detail)


def _of_sums(mechanism: Mechanism, sums: ReportSums | None, labels: Sequence[str]) -> Iterator[Check]:
    """Yield what is checked by sums over reports."""
    watch = None if sums is None else Watch.of(mechanism, labels)
    if watch is None or sums is None:
        return
    if sums.seeds.sum() >= LEAST_REPORTS:
        shares = expected_buckets(mechanism.num_cohorts, len(sums.seeds))
        statistic, p_value = nulls.balance(sums.seeds, shares)
        detail = f"chi-square {statistic:,.0f} over {len(sums.seeds):,} remainders of the seed"
        yield Check(name="seeds", statistic=statistic, p_value=p_value, detail=detail)
    if sums.ones.sum() >= LEAST_REPORTS:
        statistic, degrees, p_value = nulls.chi_square_of_mixture(sums.ones, *ones_chances(watch))
        detail = f"chi-square {statistic:,.0f} with {degrees} degrees of freedom"
        yield Check(name="ones", statistic=statistic, p_value=p_value, detail=detail)
    if sums.pair_reports >= LEAST_REPORTS and len(sums.pairs) > 1:
        p, q = float(mechanism.p_star), float(mechanism.q_star)
        covariance = pair_covariance(mechanism, p, q)
        z, p_value, pair = nulls.most_frequent_pair(sums.pairs, sums.pair_reports, p, q, covariance)
        first, second = (labels[place] if labels else f"value {watch.values[place]}" for place in pair)
        detail = f"{z:.1f} standard errors, of {first} and {second} in the first {sums.pair_reports:,} reports"
        yield Check(name="pairs", statistic=z, p_value=p_value, detail=detail)


def _own_bits_of_nothing(encoding: Any) -> int:
    """Return how many bits a report of nothing holds up as its own; a uniform symbol is noise to every value."""
    return encoding.nothing.bit_count() if isinstance(encoding, OneHot | Bloom | SampledBits) else 0


def ones_chances(watch: Watch) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the chances of the cells of the histogram of ones: in reports of values, and in those of nothing."""
    mechanism, bits = watch.mechanism, watch.num_bits
    p, q = float(mechanism.p_star), float(mechanism.q_star)
    encoding: Any = mechanism.encoding
    value = nulls.ones_distribution(bits, encoding.num_hashes if isinstance(encoding, Bloom) else 1, p, q)
    nothing = nulls.ones_distribution(bits, _own_bits_of_nothing(encoding), p, q)
    if isinstance(encoding, SampledBits):  # a device's cohort asks it for its value, or not
        value = encoding.asked * value + (1.0 - encoding.asked) * nothing
    assert not isinstance(encoding, HASHED) or watch.counts_ones
    cells = watch.cells(np.arange(bits + 1))
    of_value, of_nothing = (
        np.asarray(np.bincount(cells, weights=chances, minlength=watch.num_cells), np.float64)
        for chances in (value, nothing)
    )
    return of_value, of_nothing
