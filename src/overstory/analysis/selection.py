r"""From z values to a decision: p-values and two corrections; intervals; and what a search can see.

Of the 95% intervals of all candidates 95% hold the truth; of those of the *detected* ones fewer do, because a value is
detected more easily where the noise added to it.

With R selected of m tested by a rule such as Benjamini and Hochberg's, intervals of level :math:`1 - a R / m` have a
false coverage rate of at most a: the expected share of the selected values' intervals that miss [1]_.

References
----------
.. [1] Benjamini and Yekutieli, "False discovery rate-adjusted multiple confidence intervals for selected parameters",
   Journal of the American Statistical Association 100 (2005).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from overstory.protocol.kinds.base import Mechanism
    from overstory.protocol.search import Plan

    F64 = NDArray[np.float64]
    Interval = tuple[F64, F64]


Correction = Literal["fdr", "bonferroni"]


def z_values(raw: F64, standard_errors: F64) -> F64:
    """Return estimate over standard error; 0 where nothing is known, infinite where nothing is uncertain."""
    finite = np.isfinite(standard_errors)
    exact = finite & (standard_errors == 0.0)
    z = np.divide(raw, standard_errors, out=np.zeros_like(raw), where=finite & ~exact)
    return np.asarray(np.where(exact & (raw != 0.0), np.copysign(np.inf, raw), z))


def upper_p_values(raw: F64, standard_errors: F64) -> F64:
    """Return P(an absent candidate looks at least this frequent); 1 where nothing is known."""
    silent = ~np.isfinite(standard_errors) | ((standard_errors == 0.0) & (raw == 0.0))
    return np.where(silent, 1.0, upper_tail(z_values(raw, standard_errors)))


def upper_tail(z: F64) -> F64:
    """Return P(Z > z) of a standard normal Z, exact in all digits however small; no library need be loaded for it."""
    return np.asarray(np.frompyfunc(math.erfc, 1, 1)(z / math.sqrt(2.0)), np.float64) / 2.0


def normal_quantile(probability: float) -> float:
    """Return the z that a standard normal variable stays below with this probability, between 0 and 1."""
    return statistics.NormalDist().inv_cdf(probability)


_STIRLING: Final = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_LARGE: Final = 10.0  # from here on Stirling's series gives the gamma function to the last place


def chi2_tail(degrees: float, value: float) -> float:
    """Return P(chi-square > value) = Q(degrees / 2, value / 2); SciPy would take a fifth of a second to load."""
    a, x = degrees / 2, value / 2
    if x <= 0:
        return 1.0
    if math.isinf(x):
        return 0.0
    density = _gamma_density(a, x)
    # Below the mean the power series, above it Legendre's continued fraction (Abramowitz, Stegun 6.5.29, 6.5.31).
    return 1.0 - density * _series(a, x) if x < a + 1 else density * _continued_fraction(a, x)


def _gamma_density(a: float, x: float) -> float:
    """Return x^a exp(-x) / gamma(a), without the large numbers whose difference its logarithm is."""
    if a < _LARGE:
        return math.exp(a * math.log(x) - x) / math.gamma(a)
    excess = (x - a) / a
    if excess <= -1.0:  # x is nothing next to a, and the density less than any float
        return 0.0
    rest = sum(term / a ** (2 * power + 1) for power, term in enumerate(_STIRLING))
    return math.sqrt(a / (2 * math.pi)) * math.exp(a * (math.log1p(excess) - excess) - rest)


def _series(a: float, x: float) -> float:
    total = term = 1 / a
    above = a
    while term > total * 1e-17:
        above += 1
        term *= x / above
        total += term
    return total


def _continued_fraction(a: float, x: float) -> float:
    """Return 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / ...)), by Lentz's method."""
    below = x + 1 - a
    over, under = 1e300, 1 / below
    fraction = under
    for step in range(1, 1_000_000):
        # Lentz: numerators and denominators of the convergents enter as two ratios, which cannot overflow.
        numerator = step * (a - step)
        below += 2
        under = 1 / (numerator * under + below)
        over = below + numerator / over
        fraction *= over * under
        if abs(over * under - 1) < 1e-16:
            break
    return fraction


def null_share(p_values: F64) -> float:
    """Estimate the share of candidates that nobody has (Storey 2002, at lambda = 1/2), from above."""
    # One is added: it keeps the false discovery rate in small lists (Storey, Taylor and Siegmund 2004).
    return float(min(1.0, (1 + np.count_nonzero(p_values > 0.5)) / (0.5 * p_values.size)))


def adjusted_p_values(p_values: F64, correction: Correction, share: float = 1.0, *, tested: int | None = None) -> F64:
    """Return the smallest alpha at which each candidate is detected, of all that were `tested`.

    The p-values are of all of them; or the smallest: others left out can only raise what is returned.
    """
    check_correction(correction)
    many = p_values.size if tested is None else tested
    if correction == "bonferroni":
        return np.asarray(np.minimum(p_values * many, 1.0))
    # Benjamini and Hochberg: q_(i) = min over j >= i of share M p_(j) / j.
    order = np.argsort(p_values)
    ranks = np.arange(1, p_values.size + 1)
    steps = share * many * p_values[order] / ranks
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum.accumulate(steps[::-1])[::-1]
    # Where nearly every candidate is present, a q-value falls below the p-value itself. That controls the rate on
    # average, but would call detected what by itself looks like noise, so no candidate gets below its own p-value.
    return np.clip(adjusted, p_values, 1.0)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values adjusted for each other (Holm, Scandinavian Journal of Statistics 1979)."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, largest = [1.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted


def step_up(p_values: F64, rate: float) -> NDArray[np.intp]:
    """Return the indices that Benjamini and Hochberg's rule admits at a rate, looking only at p-values up to it."""
    # The largest k with p_(k) <= rate k / M; every p-value up to p_(k) passes.
    small = np.flatnonzero(p_values <= rate)
    ordered = np.sort(p_values[small])
    passed = np.flatnonzero(ordered * p_values.size <= rate * np.arange(1, small.size + 1))
    return np.asarray(small[p_values[small] <= ordered[passed[-1]]] if passed.size else small[:0])


def check_alpha(alpha: float) -> None:
    """Refuse a level outside the open interval (0, 1)."""
    if not 0.0 < alpha < 1.0:
        raise ParameterError(f"alpha is a fraction between 0 and 1, not {alpha}")


def check_correction(correction: str) -> None:
    """Refuse a way to pay for many tests that there is not."""
    if correction not in {"fdr", "bonferroni"}:
        raise ParameterError(f"correction must be fdr or bonferroni, not {correction!r}")


def needed_p_value(alpha: float, correction: Correction, num_selected: int, num_tested: int) -> float:
    """Return the p-value that each of R selected of m had to reach: alpha R / m (Benjamini, Hochberg), or alpha / m."""
    admitted = max(num_selected, 1) if correction == "fdr" else 1
    return min(alpha * admitted / max(num_tested, num_selected, 1), alpha)


def bound_text(correction: str, alpha: float) -> str:
    """Return what a level bounds, in words."""
    bounded = {"fdr": "false discovery rate", "bonferroni": "chance of any false detection"}
    return f"{bounded[correction]} at most {100 * alpha:.3g}%"


def binomial_law(trials: int, probability: float, most: int | None = None) -> F64:
    """Return P(0), ..., P(trials) of a binomial distribution, or up to P(most), beyond which nothing is left."""
    last = trials if most is None else min(trials, most)
    if not 0.0 < probability < 1.0:
        return np.asarray(np.arange(last + 1) == (trials if probability else 0), np.float64)
    successes = np.arange(last)
    steps = np.log(trials - successes) - np.log(successes + 1) + math.log(probability) - math.log1p(-probability)
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def binomial_tails(trials: int, probability: float) -> F64:
    """Return P(at least c) of a binomial count, c = 0, 1, ... until nothing is left of it; the last one is 0.

    >>> binomial_tails(3, 0.5).round(6).tolist()
    [1.0, 0.875, 0.5, 0.125, 0.0]
    """
    return _tails(binomial_law(trials, probability, _reach(trials * probability, 1)))


LEAST: Final = 1e-13  # of a law by the Fourier transform, smaller tails are its rounding


def clustered_tails(trials: int, each: float, chances: tuple[float, float], second: float) -> F64:
    """Return P(at least c) of the successes of trials in clusters of `each`, which share their chance of success.

    It is the first of `chances`, or with probability `second` the other one. Where `each` is no whole number, clusters
    have the one below or above it.
    """
    clusters = max(round(trials / each), 1)
    size, larger = divmod(trials, clusters)
    expected = trials * ((1 - second) * chances[0] + second * chances[1])
    length = 1 << min(trials + 1, _reach(expected, size + 1)).bit_length()
    # The generating function of a sum is a product: at the roots of unity, by the fast Fourier transform.
    product = np.ones(length // 2 + 1, np.complex128)
    for reports, many in ((size, clusters - larger), (size + 1, larger)):
        one = (1 - second) * binomial_law(reports, chances[0]) + second * binomial_law(reports, chances[1])
        product *= np.fft.rfft(one, length) ** many
    law = np.fft.irfft(product, length)
    return np.maximum(_tails(np.maximum(law, 0.0)), LEAST)


def _reach(expected: float, size: int) -> int:
    """Return a count of clusters' successes that is surpassed less often than any float can say: 50 deviations."""
    return int(expected + 50 * math.sqrt(expected * size) + 50 * size)


def _tails(law: F64) -> F64:
    return np.append(np.minimum(law[::-1].cumsum()[::-1], 1.0), 0.0)


def at_least(count: Any, total: Any, probability: Any) -> F64:
    """Return P(X >= count), X being binomial."""
    from scipy.special import betainc

    k, n, p = (np.asarray(each, np.float64) for each in (count, total, probability))
    inside = betainc(np.maximum(k, 1.0), np.maximum(n - k, 0.0) + 1.0, p)
    return np.asarray(np.where(k <= 0, 1.0, np.where(k > n, 0.0, inside)), np.float64)


def lower_bound(hits: int, trials: int, alpha: float) -> float:
    """Return the probability that is too small with confidence 1 - alpha (Clopper and Pearson, one-sided)."""
    from scipy.special import betaincinv

    return float(betaincinv(hits, trials - hits + 1, alpha)) if hits else 0.0


def clopper_pearson(hits: int, trials: int, level: float) -> tuple[float, float]:
    """Return the chances under which so few, or so many, hits are not rarer than (1 - level) / 2: exact."""
    tail = (1 - level) / 2
    return lower_bound(hits, trials, tail), 1.0 - lower_bound(trials - hits, trials, tail)


IntervalKind = Literal["reports", "population"]
"""What an interval is for: the devices that reported, or all devices like these."""

INTERVAL_KINDS: Final[Mapping[IntervalKind, str]] = MappingProxyType(
    {
        "reports": "of these reports (noise of randomization alone)",
        "population": "of all devices like these (noise, and the sampling of people)",
    }
)
"""Each kind in words, for tables and notes."""


def check_interval_kind(kind: str) -> None:
    """Refuse what is no kind of interval."""
    if kind not in INTERVAL_KINDS:
        raise ParameterError(f"interval_kind = {kind!r}: choose one of {', '.join(INTERVAL_KINDS)}")


def interval_words(kind: IntervalKind, selected: str = "detected") -> str:
    """Return in words what intervals are for, and what they are for selected values."""
    wider = f"wider for {selected} values, so that the level holds for them too (false coverage rate)"
    return f"{INTERVAL_KINDS[kind]}; {wider}"


def people_variance(counts: F64, num_reports: int, reports_per_device: float) -> F64:
    """Return what the sampling of people adds to counts' variance: sum r_i^2 f (1 - f), that is ``R N f (1 - f)``."""
    shares = np.clip(counts / max(num_reports, 1), 0.0, 1.0)
    return np.asarray(reports_per_device * num_reports * shares * (1.0 - shares))


def people_covariance(counts: F64, num_reports: int, reports_per_device: float) -> F64:
    """Return what the sampling of people adds to the covariances of counts: ``R N f (1 - f)`` and ``- R N f g``."""
    shares = np.clip(counts / max(num_reports, 1), 0.0, 1.0)
    # Estimated shares may add up to more than 1; no people do.
    possible = shares / max(1.0, float(shares.sum()))
    together = -reports_per_device * num_reports * np.outer(possible, possible)
    np.fill_diagonal(together, people_variance(counts, num_reports, reports_per_device))
    return np.asarray(together)


def normal_reach(level: float) -> float:
    """Return how many standard errors an interval of that level reaches to either side."""
    if not 0.0 < level < 1.0:
        raise ParameterError(f"a confidence level lies between 0 and 1, not {level}")
    return normal_quantile(0.5 + level / 2.0)


def bounded_interval(counts: F64, raw: F64, reach: F64, num_reports: int) -> tuple[F64, F64]:
    """Return an interval for each true count, within 0 and the reports, that holds the reported count.

    >>> low, high = bounded_interval(np.array([0.0, 95.0]), np.array([-30.0, 95.0]), np.array([19.6, 19.6]), 100)
    >>> low.round(1).tolist(), high.round(1).tolist()
    ([0.0, 75.4], [19.6, 100.0])
    """
    # Around the nearest possible count: what the raw interval loses is impossible, so it covers no less often.
    centre = np.clip(raw, 0.0, num_reports)
    low = np.where(np.isfinite(reach), np.minimum(np.maximum(centre - reach, 0.0), counts), -np.inf)
    high = np.where(np.isfinite(reach), np.maximum(np.minimum(centre + reach, num_reports), counts), np.inf)
    return low, high


@dataclass(frozen=True, eq=False)
class Selected:
    """Which of several estimates were selected, and by what test."""

    chosen: NDArray[np.bool_]  # shape (M,), as all arrays
    p_values: F64  # what each was judged by
    num_tested: int  # how many were tested, of which these M are some or all
    two_sided: bool = False  # small estimates were selected as well as large ones

    def interval(
        self, errors: F64, level: float, around: Callable[[F64], Interval], *, adjusted: bool = True
    ) -> Interval:
        """Return the estimates' intervals, of selected ones wider; `around` returns those that reach so far."""
        reach = np.full(errors.shape, normal_reach(level))
        if adjusted and (number := int(np.count_nonzero(self.chosen))):
            # Benjamini and Yekutieli: level 1 - a R / m.
            missing = (1.0 - level) * number / max(self.num_tested, number)
            reach[self.chosen] = -normal_quantile(missing / 2.0)
        low, high = around(reach * errors)
        if self.two_sided:
            return low, high
        # Where few supports are expected, a p-value is not that of a normal variable: no interval of a level excludes
        # 0 unless the test of 0 does at that level.
        return np.where(self.p_values > upper_tail(reach), np.minimum(low, 0.0), low), high


POWER: Final = 0.9
_NORMAL: Final = NormalDist()


def null_error(mechanism: Mechanism, num_reports: int) -> float:
    """Standard error of the frequency of a value that nobody has; infinite without reports."""
    from overstory.analysis.variance import frequency_variance

    return math.sqrt(frequency_variance(mechanism, num_reports)) if num_reports else math.inf


def smallest_found(boundaries: Sequence[float], errors: Sequence[float], power: float = POWER) -> float | None:
    """Return the frequency that passes all boundaries with probability `power`; None where even 1 does not."""

    def chance(frequency: float) -> float:
        steps = zip(boundaries, errors, strict=True)
        return math.prod(_NORMAL.cdf((frequency - b) / e) if math.isfinite(e) else 0.0 for b, e in steps)

    low, high = 0.0, 1.0
    if chance(high) < power:
        return None
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if chance(middle) >= power else (middle, high)
    return high


def found_words(boundaries: Sequence[float], errors: Sequence[float]) -> str:
    """Return from which shares a value is found half the time, and nine times in ten, as every command words it."""
    half, nine = (smallest_found(boundaries, errors, power) for power in (0.5, POWER))
    if half is None:
        return "too few reports: even a value that everybody has would be found less than half the time"
    often = f"a value is found about half the time from a share of {half:.3%}"
    if nine is None:
        return f"too few reports: {often}, none nine times in ten"
    return f"{often}, nine times in ten from {nine:.3%}"


def detectable_frequency(plan: Plan, num_reports: int, *, alpha: float = 0.05, power: float = POWER) -> float | None:
    """Return the smallest frequency that a plan finds nine times in ten, before anything is collected.

    Noise fills the beam at every level, and the last level's estimate must pass Bonferroni's threshold. It counts on
    nothing else: a heavy tail of values makes it a little worse, prefixes that heavy values share make it better.

    Parameters
    ----------
    plan
        The plan that the devices would follow.
    num_reports
        How many devices answer, all groups together.
    alpha
        The chance of any false detection, above 0 and below 1.
    power
        How often it is to be found, if not nine times in ten.

    Raises
    ------
    ParameterError
        When alpha is no level.

    Examples
    --------
    >>> from overstory.protocol.search import discover
    >>> 0.003 < detectable_frequency(discover(epsilon=4.0), 10**6) < 0.005
    True
    """
    check_alpha(alpha)
    errors = [null_error(plan.mechanism, round(num_reports * share)) for share in plan.shares]
    tried = plan.tried
    quantiles = [_NORMAL.inv_cdf(1 - min(plan.beam / many, 0.5)) for many in tried[:-1]]
    quantiles.append(_NORMAL.inv_cdf(1 - alpha / (tried[-1] + len(plan.known))))
    return smallest_found([z * e for z, e in zip(quantiles, errors, strict=True)], errors, power)
