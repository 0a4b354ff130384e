"""From z values to a decision: p-values, and two corrections for looking at every candidate.

What is needed of the normal and the chi-square distribution is here, without the fifth of a second that importing SciPy
takes; the tests hold it to SciPy's.
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    F64 = NDArray[np.float64]

Correction = Literal["fdr", "bonferroni"]


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
    return np.where(silent, 1.0, upper_tail(z_values(raw, standard_errors)))


def upper_tail(z: F64) -> F64:
    """Return P(Z > z) of a standard normal Z, exact in all digits however small; no library need be loaded for it."""
    return np.asarray(np.frompyfunc(math.erfc, 1, 1)(z / math.sqrt(2.0)), np.float64) / 2.0


def normal_quantile(probability: float) -> float:
    """Return the z that a standard normal variable stays below with this probability, between 0 and 1.

    Examples
    --------
    >>> round(normal_quantile(0.975), 6)
    1.959964
    """
    return statistics.NormalDist().inv_cdf(probability)


_STIRLING: Final = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_LARGE: Final = 10.0
"""From here on Stirling's series gives the gamma function to the last place."""


def chi2_tail(degrees: float, value: float) -> float:
    """Return the probability that chi-square with as many degrees of freedom exceeds a value.

    It is the incomplete gamma function Q(degrees / 2, value / 2): one minus its power series below the mean, and
    Legendre's continued fraction above (Abramowitz and Stegun 6.5.29 and 6.5.31).

    Examples
    --------
    >>> round(chi2_tail(1, 3.841459), 6), chi2_tail(4, 0.0), chi2_tail(4_000, 1e-20)
    (0.05, 1.0, 1.0)
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


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values adjusted by Holm: the chance that any true hypothesis has one below alpha is at most alpha.

    Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 1979.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
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


def needed_p_value(
    alpha: float, correction: Correction, num_selected: int, num_tested: int, share: float = 1.0
) -> float:
    """Return the p-value that each selected candidate had to reach.

    With R selected of m tested, Benjamini and Hochberg's rule asks for alpha R / m, Bonferroni's for alpha / m.

    Parameters
    ----------
    share : float
        Share of absent candidates that the rule was given; see `adjusted_p_values`.

    Examples
    --------
    >>> needed_p_value(0.05, "fdr", 10, 1000), needed_p_value(0.05, "bonferroni", 10, 1000)
    (0.0005, 5e-05)
    """
    admitted = max(num_selected, 1) / share if correction == "fdr" else 1.0
    return min(alpha * admitted / max(num_tested, num_selected, 1), alpha)


def bound_text(correction: str, alpha: float) -> str:
    """Return what a level bounds.

    Examples
    --------
    >>> bound_text("fdr", 0.05), bound_text("bonferroni", 0.01)
    ('false discovery rate at most 5%', 'chance of any false detection at most 1%')
    """
    bounded = {"fdr": "false discovery rate", "bonferroni": "chance of any false detection"}
    return f"{bounded[correction]} at most {100 * alpha:.3g}%"
