"""From z values to a decision: p-values, two corrections for looking at every candidate, intervals and their kinds.

What small analyses need of SciPy's distributions is here, without the fifth of a second that importing it takes; the
tests hold it to SciPy's.
"""

from __future__ import annotations

import math
import statistics
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    F64 = NDArray[np.float64]

Correction = Literal["fdr", "bonferroni"]

IntervalKind = Literal["reports", "population"]
"""What an interval is for: the devices that reported, or all devices like these."""

INTERVAL_KINDS: Final[Mapping[IntervalKind, str]] = MappingProxyType(
    {
        "reports": "of these reports (noise of randomization alone)",
        "population": "of all devices like these (noise, and the sampling of people)",
    }
)
"""Each kind in words, for tables and notes."""


def z_values(raw: F64, standard_errors: F64) -> F64:
    """Return estimate over standard error; 0 where nothing is known, infinite where nothing is uncertain."""
    finite = np.isfinite(standard_errors)
    exact = finite & (standard_errors == 0.0)
    z = np.divide(raw, standard_errors, out=np.zeros_like(raw), where=finite & ~exact)
    return np.asarray(np.where(exact & (raw != 0.0), np.copysign(np.inf, raw), z))


def upper_p_values(raw: F64, standard_errors: F64) -> F64:
    """Return P(an absent candidate looks at least this frequent); 1 where nothing is known.

    Examples
    --------
    >>> upper_p_values(np.array([196.0, 0.0, 50.0]), np.array([100.0, 100.0, np.inf])).round(3).tolist()
    [0.025, 0.5, 1.0]
    """
    silent = ~np.isfinite(standard_errors) | ((standard_errors == 0.0) & (raw == 0.0))
    return np.where(silent, 1.0, _upper_tail(z_values(raw, standard_errors)))


def _upper_tail(z: F64) -> F64:
    """Return P(Z > z) of a standard normal Z, exact in all digits however small; no library need be loaded for it."""
    return np.asarray(np.frompyfunc(math.erfc, 1, 1)(z / math.sqrt(2.0)), np.float64) / 2.0


def null_share(p_values: F64) -> float:
    """Estimate the share of candidates that nobody has (Storey 2002, at lambda = 1/2), from above.

    Absent candidates spread evenly over p = 0 .. 1 and present ones gather near 0, so the upper half is mostly
    theirs. One is added, which keeps the false discovery rate under its level in small lists (Storey, Taylor and
    Siegmund 2004).
    """
    return float(min(1.0, (1 + np.count_nonzero(p_values > 0.5)) / (0.5 * p_values.size)))


def adjusted_p_values(p_values: F64, correction: Correction, share: float = 1.0) -> F64:
    """Return, for each candidate, the smallest alpha at which it is detected.

    Parameters
    ----------
    p_values : ndarray, shape (M,)
        Of all candidates, not only of picked ones: picking first and counting afterwards loses control.
    correction : {"fdr", "bonferroni"}
        ``fdr`` is Benjamini and Hochberg's step-up rule (these are q-values); ``bonferroni`` multiplies by M.
    share : float
        Share of absent candidates, if estimated (`null_share`); 1 is Benjamini and Hochberg's own.

    Examples
    --------
    >>> adjusted_p_values(np.array([0.01, 0.04, 0.03]), "fdr").round(3).tolist()
    [0.03, 0.04, 0.04]
    >>> adjusted_p_values(np.array([0.01, 0.04, 0.03]), "bonferroni").round(3).tolist()
    [0.03, 0.12, 0.09]
    """
    if correction == "bonferroni":
        return np.asarray(np.minimum(p_values * p_values.size, 1.0))
    if correction != "fdr":
        raise ParameterError(f"correction must be fdr or bonferroni, not {correction!r}")
    # Benjamini and Hochberg: q_(i) = min over j >= i of share M p_(j) / j.
    order = np.argsort(p_values)
    ranks = np.arange(1, p_values.size + 1)
    steps = share * p_values.size * p_values[order] / ranks
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum.accumulate(steps[::-1])[::-1]
    # Where nearly every candidate is present, a q-value falls below the p-value itself. That controls the rate on
    # average, but would call detected what by itself looks like noise, so no candidate gets below its own p-value.
    return np.clip(adjusted, p_values, 1.0)


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


def check_interval_kind(kind: str) -> None:
    """Refuse what is no kind of interval."""
    if kind not in INTERVAL_KINDS:
        raise ParameterError(f"interval_kind = {kind!r}: choose one of {', '.join(INTERVAL_KINDS)}")


def people_variance(counts: F64, num_reports: int, reports_per_device: float) -> F64:
    """Return what the sampling of people adds to the variance of counts: ``R N f (1 - f)``.

    With ``r_i`` reports of device i, of one value, a count over devices that were drawn from a population with share
    f varies by ``sum r_i^2 f (1 - f)``, which is ``R N f (1 - f)`` with ``R = sum r_i^2 / sum r_i``: of the share,
    ``f (1 - f)`` over N / R devices. f is the estimate itself, moved into 0 .. 1.

    Examples
    --------
    >>> people_variance(np.array([50.0, -3.0]), 100, 1.0).tolist()
    [25.0, 0.0]
    """
    shares = np.clip(counts / max(num_reports, 1), 0.0, 1.0)
    return np.asarray(reports_per_device * num_reports * shares * (1.0 - shares))


def people_covariance(counts: F64, num_reports: int, reports_per_device: float) -> F64:
    """Return what the sampling of people adds to the covariances of counts: ``R N f (1 - f)`` and ``- R N f g``.

    Estimated shares that add up to more than 1 are divided by their sum off the diagonal, as no people are.

    Examples
    --------
    >>> people_covariance(np.array([50.0, 20.0]), 100, 1.0).tolist()
    [[25.0, -10.0], [-10.0, 16.0]]
    """
    shares = np.clip(counts / max(num_reports, 1), 0.0, 1.0)
    possible = shares / max(1.0, float(shares.sum()))
    together = -reports_per_device * num_reports * np.outer(possible, possible)
    np.fill_diagonal(together, people_variance(counts, num_reports, reports_per_device))
    return np.asarray(together)


def normal_reach(level: float) -> float:
    """Return how many standard errors an interval of that level reaches to either side.

    Examples
    --------
    >>> round(normal_reach(0.95), 2)
    1.96
    """
    if not 0.0 < level < 1.0:
        raise ParameterError(f"a confidence level lies between 0 and 1, not {level}")
    return normal_quantile(0.5 + level / 2.0)


def bounded_interval(
    counts: F64, raw: F64, standard_errors: F64, num_reports: int, level: float = 0.95
) -> tuple[F64, F64]:
    """Return an interval for each true count that holds the reported count, and lies between 0 and the reports.

    It is the raw count's normal interval after the raw count was moved to the nearest possible one, stretched where
    the reported count lies outside. What it leaves out of the raw interval is impossible, so it covers no less often,
    and it is never empty.

    Examples
    --------
    Raw counts of -30 and 95 with a standard error of 10, in 100 reports:

    >>> low, high = bounded_interval(np.array([0.0, 95.0]), np.array([-30.0, 95.0]), np.array([10.0, 10.0]), 100)
    >>> low.round(1).tolist(), high.round(1).tolist()
    ([0.0, 75.4], [19.6, 100.0])
    """
    reach = normal_reach(level) * standard_errors
    centre = np.clip(raw, 0.0, num_reports)
    low = np.where(np.isfinite(reach), np.minimum(np.maximum(centre - reach, 0.0), counts), -np.inf)
    high = np.where(np.isfinite(reach), np.maximum(np.minimum(centre + reach, num_reports), counts), np.inf)
    return low, high


_STIRLING: Final = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_LARGE: Final = 10.0
"""From here on Stirling's series gives the gamma function to the last place."""


def normal_quantile(probability: float) -> float:
    """Return the z that a standard normal variable stays below with this probability, between 0 and 1.

    Examples
    --------
    >>> round(normal_quantile(0.975), 6)
    1.959964
    """
    return statistics.NormalDist().inv_cdf(probability)


def median(values: F64) -> float:
    """Return the median; NumPy's own imports masked arrays first.

    Examples
    --------
    >>> median(np.array([3.0, 1.0, 10.0, 2.0]))
    2.5
    """
    ordered = np.sort(values)
    middle = ordered[(ordered.size - 1) // 2 : ordered.size // 2 + 1].mean()
    return float(middle if not np.isnan(ordered[-1]) else ordered[-1])


def chi2_tail(degrees: float, value: float) -> float:
    """Return the probability that chi-square with as many degrees of freedom exceeds a value.

    It is the incomplete gamma function Q(degrees / 2, value / 2): one minus its power series below the mean, and
    Legendre's continued fraction above (Abramowitz and Stegun 6.5.29 and 6.5.31).

    Examples
    --------
    >>> round(chi2_tail(1, 3.841459), 6), chi2_tail(4, 0.0)
    (0.05, 1.0)
    """
    a, x = degrees / 2, value / 2
    if x <= 0:
        return 1.0
    if math.isinf(x):
        return 0.0
    density = _gamma_density(a, x)
    return 1.0 - density * _series(a, x) if x < a + 1 else density * _continued_fraction(a, x)


def _gamma_density(a: float, x: float) -> float:
    """Return x^a exp(-x) / gamma(a), without the large numbers whose difference its logarithm is."""
    if a < _LARGE:
        return math.exp(a * math.log(x) - x) / math.gamma(a)
    excess = (x - a) / a
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


def bound_text(correction: str, alpha: float) -> str:
    """Return what a level bounds.

    Examples
    --------
    >>> bound_text("fdr", 0.05), bound_text("bonferroni", 0.01)
    ('false discovery rate at most 5%', 'chance of any false detection at most 1%')
    """
    bounded = {"fdr": "false discovery rate", "bonferroni": "chance of any false detection"}
    return f"{bounded[correction]} at most {100 * alpha:.3g}%"
