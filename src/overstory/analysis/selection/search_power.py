"""What a search can see: the share that survives every level, and the last test, nine times in ten."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Final

from overstory.analysis.selection.detection import check_alpha
from overstory.analysis.variance import frequency_variance
from overstory.protocol.mechanisms.base import Mechanism
from overstory.protocol.search.plans import PrefixPlan

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


def detectable_frequency(
    plan: PrefixPlan, num_reports: int, *, alpha: float = 0.05, power: float = POWER
) -> float | None:
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
    return smallest_found([z * e for z, e in zip(quantiles, errors, strict=True)], errors, power)
