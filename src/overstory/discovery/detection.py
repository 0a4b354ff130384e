"""What is detected, how surely, and what a search cannot see.

From support counts to frequencies, standard errors and exact p-values; values of one question or several, joined under
one selection rule; and the smallest frequency that a search finds nine times in ten.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.selection import Correction, adjusted_p_values, check_alpha, needed_p_value
from overstory.analysis.variance import frequency_variance, support_noise
from overstory.discovery.codes import Rows, values_of
from overstory.discovery.result import F64, Discovered
from overstory.protocol.mechanisms.base import Mechanism
from overstory.protocol.search.plans import Plan, PrefixPlan

POWER: Final = 0.9
_NORMAL: Final = NormalDist()


def null_error(mechanism: Mechanism, num_reports: int) -> float:
    """Standard error of the frequency of a value that nobody has; infinite without reports."""
    return math.sqrt(frequency_variance(mechanism, num_reports)) if num_reports else math.inf


def smallest_found(boundaries: Sequence[float], errors: Sequence[float], power: float = POWER) -> float | None:
    """Return the frequency that passes all boundaries with probability `power`; None where even 1 does not.

    Examples
    --------
    >>> round(smallest_found([0.01], [0.001]), 5)
    0.01128
    """

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
    """Return from which shares a value is found half the time, and nine times in ten, as every command words it.

    Examples
    --------
    >>> found_words([0.01], [0.001])
    'a value is found about half the time from a share of 1.000%, nine times in ten from 1.128%'
    """
    half, nine = (smallest_found(boundaries, errors, power) for power in (0.5, POWER))
    if half is None:
        return "too few reports: even a value that everybody has would be found less than half the time"
    often = f"a value is found about half the time from a share of {half:.3%}"
    if nine is None:
        return f"too few reports: {often}, none nine times in ten"
    return f"{often}, nine times in ten from {nine:.3%}"


def detectable_frequency(plan: PrefixPlan, num_reports: int, *, alpha: float = 0.05) -> float | None:
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

    Raises
    ------
    ParameterError
        When alpha is no level.

    Examples
    --------
    >>> from overstory.protocol.search.protocols import prefix_extension
    >>> 0.003 < detectable_frequency(prefix_extension(epsilon=4.0), 10**6) < 0.005
    True
    """
    check_alpha(alpha)
    errors = [
        null_error(question.mechanism, round(num_reports * plan.share(group)))
        for question, group in zip(plan.levels, plan.level_groups, strict=True)
    ]
    tried = plan.tried
    quantiles = [_NORMAL.inv_cdf(1 - min(plan.beam / many, 0.5)) for many in tried[:-1]]
    quantiles.append(_NORMAL.inv_cdf(1 - alpha / (tried[-1] + len(plan.known))))
    return smallest_found([z * e for z, e in zip(quantiles, errors, strict=True)], errors)


def frequencies_of(mechanism: Mechanism, supports: NDArray[Any], num_reports: int) -> F64:
    """Return the unbiased frequencies (c / n - q*) / (p* - q*) (Wang et al., USENIX Security 2017, section 3)."""
    p_star, q_star = float(mechanism.p_star), float(mechanism.q_star)
    return np.asarray((supports / max(num_reports, 1) - q_star) / (p_star - q_star), np.float64)


def counts_of(mechanism: Mechanism, supports: NDArray[Any], num_reports: int, num_devices: int) -> tuple[F64, F64]:
    """Return the counts among all devices, and their standard errors, from a group of them.

    Of a group of m, h of which hold the value, the noise has variance ``(h p*(1 - p*) + (m - h) q*(1 - q*)) /
    (p* - q*)^2``; that the group is a sample without replacement of n devices adds ``m x (1 - x) (1 - m / n)`` with
    x = h / m.
    """
    p_star, q_star = float(mechanism.p_star), float(mechanism.q_star)
    frequency = frequencies_of(mechanism, supports, num_reports)
    held = np.clip(frequency, 0.0, 1.0)
    noise = support_noise(held, 1 - held, p_star, q_star) / (p_star - q_star) ** 2
    sampling = held * (1 - held) * (1 - num_reports / num_devices)
    return frequency * num_devices, num_devices * np.sqrt((noise + sampling) / num_reports)


def exact_p_values(mechanism: Mechanism, supports: NDArray[Any], num_reports: int) -> F64:
    """Return P(at least this support) for a value that nobody has: supports are then Binomial(n, q*).

    Exact because a report supports such a value with probability q* whatever its device holds, and reports are
    independent; hashed into buckets, as far as no bucket is shared.
    """
    from scipy.special import betainc

    # P(Binomial(n, q) >= c) is the regularized incomplete beta function at q.
    c = np.asarray(supports, np.float64)
    inside = betainc(np.maximum(c, 1), np.maximum(num_reports - c + 1, 1), float(mechanism.q_star))
    return np.asarray(np.where(c <= 0, 1.0, np.where(c > num_reports, 0.0, inside)), np.float64)


def needed_support(mechanism: Mechanism, num_reports: int, level: float) -> int:
    """Return the least support with a p-value of at most `level`; one more than there are reports where there is none.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> needed_support(mechanism("blh", epsilon=1.0), 4, 0.07), needed_support(mechanism("blh", epsilon=1.0), 4, 0.06)
    (4, 5)
    """
    low, high = 0, num_reports + 1
    while low < high:
        middle = (low + high) // 2
        if exact_p_values(mechanism, np.array([middle]), num_reports)[0] <= level:
            high = middle
        else:
            low = middle + 1
    return low


def adjusted(p_values: F64, tried: int, correction: Correction) -> F64:
    """Return q-values over all that was tried, of which `p_values` holds the smallest (and perhaps others).

    The values left out have larger p-values, or were counted but are not shown: leaving them out of the step-up can
    only raise a q-value, so the level holds.
    """
    if not p_values.size:
        return p_values
    if correction == "bonferroni":
        return np.asarray(np.minimum(p_values * tried, 1.0))
    return adjusted_p_values(p_values, correction, tried / p_values.size)


@dataclass(frozen=True, eq=False)
class Tested:
    """Values that a question tested.

    Attributes
    ----------
    counts, standard_errors
        Among all devices.
    """

    rows: Rows  # the values' codes
    counts: F64
    standard_errors: F64
    p_values: F64  # of the values in `rows`: the smallest of all that were tried
    tried: int  # how many values were tried
    source: str  # which question


def joined(plan: Plan, parts: Sequence[Tested], num_devices: int, alpha: float, correction: Correction) -> Discovered:
    """Return all values, most frequent first, tested together over all that any question tried."""
    tried = sum(part.tried for part in parts)
    counts, errors, p_values = (
        np.concatenate([np.zeros(0), *(getattr(part, name) for part in parts)])
        for name in ("counts", "standard_errors", "p_values")
    )
    q_values = adjusted(p_values, tried, correction)
    values = [value for part in parts for value in values_of(plan.domain, part.rows)]
    sources = [part.source for part in parts for _ in range(len(part.rows))]
    order = np.argsort(-counts, kind="stable")
    return Discovered(
        values=tuple(plan.domain.text(values[i]) for i in order),
        raw_values=tuple(values[i] for i in order),
        counts=counts[order],
        standard_errors=errors[order],
        p_values=p_values[order],
        q_values=q_values[order],
        sources=tuple(sources[i] for i in order),
        num_reports=num_devices,
        tried=tried,
        alpha=alpha,
        correction=correction,
        threshold=None,
        detectable_frequency=None,
        epsilon=plan.epsilon,
    )


def selection_level(result: Discovered) -> float:
    """Return the p-value that the least surely detected value had to reach."""
    detections = int(np.count_nonzero(result.detected()))
    return needed_p_value(result.alpha, result.correction, detections, result.tried)
