"""How many people a share needs, and what share a number of people shows: for every oracle, before anybody reports.

A value is detected when its estimate passes Q of its own standard errors, Q being Bonferroni's critical value over all
candidates. The estimate of a share x is normal around it, with variance ``v(x) / n`` from n people, and nine times in
ten above ``y = x - z sqrt(v(x) / n)``, z = 1.28. So x is detected that often when ``y >= Q sqrt(v(y) / n)``: where v
hardly changes between y and x, ``n = v (Q + z)**2 / x**2``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from overstory.analysis.variance import check_reports_per_device, design_effect, frequency_variance, lasting_variance
from overstory.planning.detection import NINE_IN_TEN, check_share, count_error, critical_value, fitted_candidates
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import Mechanism

MANY: Final = 1e12
MOST_PEOPLE: Final = 1 << 62


def variance_per_person(
    mechanism: Mechanism, frequency: float, num_candidates: int, *, reports_per_device: float = 1.0
) -> float:
    """Return the variance of a share's estimate from one person, who sends `reports_per_device` reports of one value.

    What no number of people makes smaller is left out: see `overstory.analysis.variance.lasting_variance`.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> oue = mechanism("oue", domain_size=100, epsilon=1.0)
    >>> round(variance_per_person(oue, 0.0, 100), 2)  # 4 e / (e - 1)^2
    3.68
    """
    each = check_reports_per_device(reports_per_device)
    if mechanism.encoding.decoded:
        fitted = fitted_candidates(mechanism, num_candidates, max(frequency, 1e-12))
        naive = count_error(mechanism, each, frequency, fitted) ** 2 / each**2
    elif mechanism.encoding.uneven:  # with enough people for every seed
        lasting = lasting_variance(mechanism, frequency, num_candidates=num_candidates)
        naive = (frequency_variance(mechanism, each * MANY, frequency, num_candidates=num_candidates) - lasting) * MANY
    else:
        naive = frequency_variance(mechanism, each, frequency)
    return naive * design_effect(mechanism, each, frequency)


def required_sample_size(
    mechanism: Mechanism,
    share: float,
    num_candidates: int,
    *,
    alpha: float = 0.05,
    reports_per_device: float = 1.0,
) -> int:
    """Return the fewest people with whom a value of that share, above 0, is detected nine times in ten.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> oue = mechanism("oue", domain_size=100, epsilon=1.0)
    >>> [required_sample_size(oue, share, 100) for share in (0.1, 0.01, 0.001)]
    [7866, 771496, 76999362]
    """
    check_share(share)
    shown = _shown(mechanism, num_candidates, alpha, reports_per_device)
    variance = variance_per_person(mechanism, share, num_candidates, reports_per_device=reports_per_device)
    few, enough = 0, math.ceil(variance * ((critical_value(alpha, num_candidates) + NINE_IN_TEN) / share) ** 2) + 1
    while not shown(share, enough):
        few, enough = enough, 2 * enough
        if enough > MOST_PEOPLE:
            raise ParameterError(
                f"no number of people shows a share of {share:g} by {mechanism.name}: its "
                f"{mechanism.num_cohorts} seeds are too few for so many values; take an oracle without seeds"
            )
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if shown(share, middle) else (middle, enough)
    return enough


def smallest_share(
    mechanism: Mechanism,
    num_people: int,
    num_candidates: int,
    *,
    alpha: float = 0.05,
    reports_per_device: float = 1.0,
) -> float | None:
    """Return the smallest share that so many people show nine times in ten; None when they show none.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> oue = mechanism("oue", domain_size=100, epsilon=1.0)
    >>> round(smallest_share(oue, 771_496, 100), 6), smallest_share(oue, 50, 100)
    (0.01, None)
    """
    shown = _shown(mechanism, num_candidates, alpha, reports_per_device)
    if num_people < 1 or not shown(1.0, num_people):
        return None
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if shown(middle, num_people) else (middle, high)
    return high


def _shown(
    mechanism: Mechanism, num_candidates: int, alpha: float, reports_per_device: float
) -> Callable[[float, int], bool]:
    """Return whether (a share, so many people) is detected nine times in ten."""
    quantile = critical_value(alpha, num_candidates)

    def error(share: float, people: int) -> float:
        variance = variance_per_person(mechanism, share, num_candidates, reports_per_device=reports_per_device)
        return math.sqrt(variance / people + lasting_variance(mechanism, share, num_candidates=num_candidates))

    def shown(share: float, people: int) -> bool:
        nearly_lowest = share - NINE_IN_TEN * error(share, people)
        return nearly_lowest > 0 and nearly_lowest >= quantile * error(nearly_lowest, people)

    return shown
