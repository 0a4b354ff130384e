r"""Checks of one collection for crafted reports: what honest devices cannot have sent, whatever their values are.

Each check has a p-value; Holm's rule over all checks of a reading admits alarms at .001: the chance of any false one.
docs/explanation/crafted-reports.md says what each sees, and what none can see. Any share of the devices may report
*nothing*: sums over honest reports have p-values that hold for all unknown shares.

*Ones.* A report of d bits has :math:`\mathrm{Bin}(h, p^*) + \mathrm{Bin}(d - h, q^*)` ones, h of them its value's. A
report of *nothing* has h = 0, and which share of the reports it is nobody knows: chi-square is taken against the
nearest mixture of the two laws. Its p-value has a degree of freedom for each cell but one, none less for the share
that was fitted, so it is the largest of all mixtures, and right also where nobody reports nothing.

*Pairs.* A report holds one of two values at most, so one factor of :math:`X = (b_i - q^*)(b_j - q^*)` has mean 0 given
the value, or given none, and is independent of the other: :math:`E X = 0`. The p-value is Chernoff's bound,
:math:`\min_t (E e^{t X} e^{-t x})^n`, because X is far from normal where q* is small.

*Shares below zero.* With z the noise of an estimated share over its standard error, and a true share of at least 0,

.. math:: N = \sum_j \min(\hat f_j / \sigma_j, 0)^2 \le \sum_j \min(z_j, 0)^2 ,

the largest where nobody holds any value. That sum has mean d/2 and variance ``5/4 d + d (d - 1) c``, where c, for
normal z of correlation rho, is ``((1 + 2 rho^2)(pi / 2 + asin rho) + 3 rho sqrt(1 - rho^2)) / (2 pi) - 1/4``. A gamma
distribution with these moments has the heavier tail: its skewness is .45 at d = 100, that of the sum .39.

*Seeds and cohorts.* Devices draw them evenly. Where reports are few, chi-square is replaced by the number of pairs of
reports that share one, which is nearly Poisson; of the two p-values the larger is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.analysis.alarms.sums import WATCHED, Watch, expected_buckets
from overstory.analysis.decoding.decoder import WHY_COHORTS
from overstory.analysis.kinds.base import pair_covariance, server_half
from overstory.analysis.selection import binomial_law, chi2_tail, holm, upper_p_values
from overstory.presentation.formats import finite

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.analysis.alarms.sums import ReportSums
    from overstory.analysis.estimate import Estimate
    from overstory.analysis.kinds.base import Support
    from overstory.analysis.reports import I64, SupportCounts
    from overstory.analysis.selection import F64
    from overstory.protocol.kinds.base import Kind


EXPECTED: Final = 20.0
"""Reports that a cell of a chi-square test is expected to have, at least: cells with fewer are merged."""
HALVINGS: Final = 50  # of the interval in which the share of a mixture is searched
FEW_EACH: Final = 100.0  # reports a cohort from which on chi-square is exact enough
STRONGEST: Final = 64  # pairs of values whose p-value is computed, the strongest by z: their variances hardly differ


def ones_distribution(bits: int, own: int, p_star: float, q_star: float) -> F64:
    """Return the chances of 0 to `bits` ones in a report of which `own` bits are its value's."""
    return np.convolve(binomial_law(own, p_star), binomial_law(bits - own, q_star))


def chi_square_of_mixture(observed: I64, first: F64, second: F64) -> tuple[float, int, float]:
    """Return chi-square of counts against the nearest mixture of two laws, its degrees of freedom and its p-value."""
    reports = float(observed.sum())
    # By the smaller of the two chances, so that every mixture fills each cell.
    cells = _merged(reports * np.minimum(first, second))
    if cells[-1] < 1:
        return 0.0, 0, 1.0
    counted = np.bincount(cells, observed).astype(np.float64)
    wanted = _nearest(counted, *(np.bincount(cells, reports * law).astype(np.float64) for law in (first, second)))
    statistic = float(((counted - wanted) ** 2 / wanted).sum())
    return statistic, len(wanted) - 1, chi2_tail(len(wanted) - 1, statistic)


def _merged(expected: F64) -> I64:
    """Return for each cell the number of that which it is merged into; what is left over joins its neighbour."""
    cells, filled = np.zeros(len(expected), np.int64), 0.0
    for place, number in enumerate(expected[:-1]):
        filled += number
        cells[place + 1] = cells[place] + (filled >= EXPECTED)
        filled = 0.0 if filled >= EXPECTED else filled
    left_over = filled + float(expected[-1]) < EXPECTED
    return np.minimum(cells, max(int(cells[-1]) - left_over, 0))


def _nearest(counted: F64, first: F64, second: F64) -> F64:
    """Return the mixture of two rows of expected counts of least chi-square, which is convex in the share."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        share = (low + high) / 2
        slope = (counted**2 * (first - second) / ((1.0 - share) * first + share * second) ** 2).sum()
        low, high = (share, high) if slope < 0.0 else (low, share)
    share = high if low > 0.0 else 0.0
    return (1.0 - share) * first + share * second


def balance(sizes: I64, shares: F64) -> tuple[float, float]:
    """Return chi-square of the sizes of cohorts or seeds against their shares, and its p-value; (0, 1) for one."""
    reports = int(sizes.sum())
    if len(sizes) < 2 or not reports:
        return 0.0, 1.0
    expected = reports * shares
    statistic = float(((sizes - expected) ** 2 / expected).sum())
    p_value = chi2_tail(len(sizes) - 1, statistic)
    if reports < FEW_EACH * len(sizes):
        together = float((sizes * (sizes - 1)).sum()) / 2
        usual = reports * (reports - 1) / 2 * float((shares**2).sum())
        # P(Poisson(usual) >= together), as a gamma distribution.
        p_value = max(p_value, 1.0 - chi2_tail(2 * together, 2 * usual) if together else 1.0)
    return statistic, max(p_value, 0.0)


def below_zero(z: F64, correlation: float) -> tuple[float, float]:
    """Return N and its p-value; `correlation` is that of the noise of two values that nobody holds."""
    values, rho = len(z), min(max(correlation, -1.0), 1.0)
    statistic = float((np.minimum(z, 0.0) ** 2).sum())
    shared = (1 + 2 * rho**2) * (math.pi / 2 + math.asin(rho)) + 3 * rho * math.sqrt(1 - rho**2)
    variance = 1.25 * values + values * (values - 1) * (shared / (2 * math.pi) - 0.25)
    # A gamma distribution of mean d/2 and this variance is chi-square, stretched.
    mean, scale = values / 2, max(variance, 0.1 * values) / (values / 2)
    return statistic, chi2_tail(2 * mean / scale, 2 * statistic / scale)


def most_frequent_pair(
    pairs: I64, reports: int, p_star: float, q_star: float, covariance: tuple[float, float] = (0.0, 0.0)
) -> tuple[float, float, tuple[int, int]]:
    """Return z of the pair of values most often voted for together beyond chance, its p (Bonferroni), and the pair."""
    support = np.diag(pairs) / reports
    shares = np.clip((support - q_star) / (p_star - q_star), 0.0, 1.0)
    own = np.minimum(shares[:, None] + shares, 1.0)
    # Covariances of two values' support in a report that holds one of them, and in one that holds neither.
    usual = own * covariance[0] + (1.0 - own) * covariance[1]
    excess = pairs / reports - q_star * (support[:, None] + support) + q_star**2 - usual
    free = q_star * (1.0 - q_star)
    held = p_star * (1.0 - p_star) + (p_star - q_star) ** 2
    z = excess * np.sqrt(reports / (free * ((1.0 - own) * free + own * held)))
    rows, columns = np.triu_indices(len(pairs), 1)
    if not rows.size:
        return 0.0, 1.0, (0, 0)
    scores = z[rows, columns]
    order = np.argsort(-scores, kind="stable")[:STRONGEST]
    tails = [
        _chernoff(float(excess[i, j]), float(own[i, j]), reports, p_star, q_star)
        for i, j in zip(rows[order], columns[order], strict=True)
    ]
    best = int(np.argmin(tails))
    pair = int(rows[order[best]]), int(columns[order[best]])
    return float(scores[order[best]]), min(1.0, rows.size * math.exp(min(tails[best], 0.0))), pair


def _chernoff(excess: float, own: float, reports: int, p_star: float, q_star: float) -> float:
    """Return the logarithm of Chernoff's bound on P(the mean of X is at least `excess`)."""
    if excess <= 0.0:
        return 0.0
    moves = np.array([1.0 - q_star, -q_star])
    other = np.array([q_star, 1.0 - q_star])
    chances = np.outer((1.0 - own) * other + own * np.array([p_star, 1.0 - p_star]), other)
    products = np.outer(moves, moves)
    variance = float((chances * products**2).sum())
    # A tail to the right needs less than the normal distribution's t.
    t = excess / variance * np.geomspace(1e-3, 1.5, 200)
    with np.errstate(over="ignore"):  # such a t gives no bound, a smaller one does
        mean = (np.exp(t[:, None, None] * products) * chances).sum(axis=(1, 2))
    return float((reports * (np.log(mean) - t * excess)).min())


ALPHA: Final = 0.001  # the chance of any false alarm among the checks of a reading
LEAST_REPORTS: Final = 1_000  # fewer reports are not checked: distributions are not normal yet
LEAST_VALUES: Final = 20  # with fewer values the correlation of their noise is taken as 0: somebody holds each of them

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
}
"""By name: what an alarm means, and what its check cannot see."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One check of a collection."""

    name: str  # a key of `MEANINGS`
    statistic: float
    p_value: float  # how often honest reports have one as extreme, at most
    detail: str  # the statistic in words
    adjusted: float = 1.0  # the smallest chance of any false alarm in the reading at which this is an alarm (Holm)
    period: str | None = None  # its label; None for a collection without one

    @property
    def raised(self) -> bool:
        return self.adjusted <= ALPHA

    @property
    def means(self) -> str:
        return MEANINGS[self.name][0]

    @property
    def cannot_see(self) -> str:
        return MEANINGS[self.name][1]

    @property
    def text(self) -> str:
        chance = f"{self.p_value:.0e}" if self.p_value > 1e-15 else "below 1e-15"
        return f"{self.means} ({self.detail}, p = {chance}; not seen by this check: {self.cannot_see})"

    def to_json(self) -> dict[str, Any]:
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
    mechanism: Kind,
    counts: SupportCounts,
    estimate: Estimate | None = None,
    *,
    sums: ReportSums | None = None,
    labels: Sequence[str] = (),  # the strings that were looked for, where the mechanism has no domain
    period: str | None = None,
) -> tuple[Check, ...]:
    """Return the checks of one collection, in which a device reported once, but those that need what is None."""
    half: Any = server_half(mechanism)
    if not half.is_oracle or counts.num_reports < LEAST_REPORTS:
        return ()
    checks = [*_of_counts(half, counts, estimate), *_of_sums(mechanism, sums, labels)]
    return adjust_checks(replace(check, period=period) for check in checks)


def adjust_checks(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Return checks with p-values adjusted for all of them, by Holm's rule, in their order."""
    given = list(checks)
    adjusted = holm([check.p_value for check in given])
    return tuple(replace(check, adjusted=p_value) for check, p_value in zip(given, adjusted, strict=True))


def alarm_notes(checks: Iterable[Check]) -> tuple[str, ...]:
    """Return the alarms as notes to read with an estimate."""
    return tuple(
        f"alarm{'' if check.period is None else f', in {check.period}'}: {check.text}"
        for check in checks
        if check.raised
    )


def _of_counts(half: Support[Any], counts: SupportCounts, estimate: Estimate | None) -> Iterator[Check]:
    encoding, own = half.encoding, half.own_bits
    if counts.num_cohorts > 1 and not encoding.decoded:  # a decoder looks at its cohorts itself
        statistic, p_value = balance(counts.totals, np.full(counts.num_cohorts, 1 / counts.num_cohorts))
        detail = f"chi-square {statistic:,.0f} over {counts.num_cohorts:,} cohorts"
        yield Check(name="cohorts", statistic=statistic, p_value=p_value, detail=detail)
    if own is not None and (encoding.decoded or (encoding.pure and encoding.domain_size == counts.num_bits)):
        yield _sum(counts, own, encoding.nothing.bit_count(), *half.rates)
    if estimate is not None and len(estimate) and not (encoding.decoded or half.independent_seeds):
        yield _below_zero(half, estimate)


def _sum(counts: SupportCounts, own: int, of_nothing: int, p: float, q: float) -> Check:
    """Check what all shares add up to: a report has `own` bits of its value, or `of_nothing` bits without one."""
    reports, bits = counts.num_reports, counts.num_bits
    span = reports * own * (p - q)
    total = (float(counts.ones.sum()) - reports * bits * q) / span
    # Of the mixture that varies most.
    variance = max(part * p * (1 - p) + (bits - part) * q * (1 - q) for part in (own, of_nothing))
    error = math.sqrt(reports * variance) / abs(span)
    z = (total - min(max(total, of_nothing / own), 1.0)) / error
    p_value = min(1.0, 2.0 * float(upper_p_values(np.array([abs(z)]), np.ones(1))[0]))
    return Check(name="sum", statistic=z, p_value=p_value, detail=f"{total:.2%} (standard error {error:.2%})")


def _below_zero(half: Support[Any], estimate: Estimate) -> Check:
    (p, q), errors = half.rates, estimate.standard_errors
    z = np.divide(estimate.raw_counts, errors, out=np.zeros(len(errors)), where=np.isfinite(errors) & (errors > 0))
    correlation = pair_covariance(half.mechanism, p, q)[1] / (q * (1 - q)) if len(z) >= LEAST_VALUES else 0.0
    statistic, p_value = below_zero(z, correlation)
    detail = f"{statistic:,.0f} squared standard errors over {len(z):,} values, where noise gives {len(z) / 2:,.0f}"
    return Check(name="below-zero", statistic=statistic, p_value=p_value, detail=detail)


def _of_sums(mechanism: Kind, sums: ReportSums | None, labels: Sequence[str]) -> Iterator[Check]:
    watch = None if sums is None else Watch.of(mechanism)
    if watch is None or sums is None:
        return
    if sums.seeds.sum() >= LEAST_REPORTS:
        shares = expected_buckets(mechanism.num_cohorts, len(sums.seeds))
        statistic, p_value = balance(sums.seeds, shares)
        detail = f"chi-square {statistic:,.0f} over {len(sums.seeds):,} remainders of the seed"
        yield Check(name="seeds", statistic=statistic, p_value=p_value, detail=detail)
    if sums.ones.sum() >= LEAST_REPORTS:
        statistic, degrees, p_value = chi_square_of_mixture(sums.ones, *ones_chances(watch))
        detail = f"chi-square {statistic:,.0f} with {degrees} degrees of freedom"
        yield Check(name="ones", statistic=statistic, p_value=p_value, detail=detail)
    if sums.pair_reports >= LEAST_REPORTS and len(sums.pairs) > 1:
        p, q = watch.half.rates
        covariance = pair_covariance(watch.half.mechanism, p, q)
        z, p_value, pair = most_frequent_pair(sums.pairs, sums.pair_reports, p, q, covariance)
        first, second = (labels[place] if labels else f"value {watch.values[place]}" for place in pair)
        detail = f"{z:.1f} standard errors, of {first} and {second} in the first {sums.pair_reports:,} reports"
        yield Check(name="pairs", statistic=z, p_value=p_value, detail=detail)


def ones_chances(watch: Watch) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the chances of the cells of the histogram of ones: in reports of values, and in those of nothing."""
    half, bits = watch.half, watch.num_bits
    encoding, (p, q) = half.encoding, half.rates
    nothing = ones_distribution(bits, encoding.nothing.bit_count(), p, q)
    # A device's cohort asks it for its value, or not.
    value = encoding.asked * ones_distribution(bits, half.own_bits or 0, p, q) + (1.0 - encoding.asked) * nothing
    cells = watch.cells(np.arange(bits + 1))
    of_value, of_nothing = (
        np.asarray(np.bincount(cells, weights=chances, minlength=watch.num_cells), np.float64)
        for chances in (value, nothing)
    )
    return of_value, of_nothing
