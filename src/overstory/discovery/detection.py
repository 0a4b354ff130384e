"""What is detected, and how surely.

From support counts to frequencies, standard errors and exact p-values; values of one question or several, joined under
one selection rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.selection import Correction, adjusted_p_values, needed_p_value
from overstory.analysis.variance import support_noise
from overstory.discovery.codes import Rows, values_of
from overstory.discovery.result import F64, Discovered
from overstory.protocol.mechanisms.base import Mechanism
from overstory.protocol.search.plans import Plan


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
