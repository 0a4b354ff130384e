"""p-values that are exact, or proven never to be too small.

A two-sided p-value of a count is twice the smaller tail of its binomial. Several independent ones are joined by Fisher:
where none is too small, neither is theirs, and that holds for p-values that are drawn one after the other, each given
those before it. So the counts of several outcomes, each a binomial given those before it, need no approximation either.

References
----------
Hoeffding, "On the distribution of the number of successes in independent trials", Annals of Mathematical Statistics
1956.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

SMALLEST: Final = 20.0
"""Outcomes that are expected more rarely are counted together with their neighbours."""


def at_least(count: ArrayLike, total: ArrayLike, probability: ArrayLike) -> Floats:
    """Return P(X >= count), X being binomial."""
    from scipy.special import betainc

    k, n, p = (np.asarray(each, np.float64) for each in (count, total, probability))
    inside = betainc(np.maximum(k, 1.0), np.maximum(n - k, 0.0) + 1.0, p)
    return np.where(k <= 0, 1.0, np.where(k > n, 0.0, inside))


def two_sided(count: ArrayLike, total: ArrayLike, probability: ArrayLike) -> Floats:
    """Return twice the smaller tail of a binomial count, at most 1."""
    k, n, p = (np.asarray(each, np.float64) for each in (count, total, probability))
    low = at_least(n - k, n, 1.0 - p)
    return np.minimum(1.0, 2.0 * np.minimum(low, at_least(k, n, p)))


def joined(p_values: ArrayLike) -> float:
    """Return Fisher's p-value of several: of independent ones, or of each given those before it."""
    from scipy.special import gammaincc

    each = np.atleast_1d(np.asarray(p_values, np.float64))
    if not each.size:
        return 1.0
    if not each.all():
        return 0.0
    return float(gammaincc(each.size, -np.log(each).sum()))


def most_extreme(p_values: ArrayLike) -> float:
    """Return Bonferroni's p-value of several, whatever their dependence."""
    each = np.atleast_1d(np.asarray(p_values, np.float64))
    return min(1.0, float(each.min()) * each.size) if each.size else 1.0


def outcomes_p(counts: ArrayLike, probabilities: ArrayLike) -> float:
    """Return the p-value of how often each of several outcomes came, given their probabilities."""
    seen, expected = np.asarray(counts, np.float64), np.asarray(probabilities, np.float64)
    if seen[expected <= 0].sum() > 0:
        return 0.0
    seen, expected = _grouped(seen[expected > 0], expected[expected > 0])
    left = seen[::-1].cumsum()[::-1]
    rest = np.maximum(expected[::-1].cumsum()[::-1], expected)
    return joined(two_sided(seen[:-1], left[:-1], np.minimum(expected[:-1] / rest[:-1], 1.0)))


def _grouped(seen: Floats, expected: Floats) -> tuple[Floats, Floats]:
    """Add up neighbouring outcomes until each group is expected often enough; which ones depends on no outcome."""
    share = min(SMALLEST / max(seen.sum(), 1.0), 0.5)
    group, weight, groups = 0, 0.0, np.zeros(len(expected), np.int64)
    for place, probability in enumerate(expected.tolist()):
        if weight >= share:
            group, weight = group + 1, 0.0
        groups[place] = group
        weight += probability
    if group and weight < share:
        groups[groups == group] = group - 1
    counts, chances = (np.bincount(groups, each).astype(np.float64) for each in (seen, expected))
    return counts, chances


def too_many(count: int, probabilities: ArrayLike) -> float:
    """Bound P(as many or more of independent events): no heavier than a binomial of the same mean (Hoeffding)."""
    chances = np.atleast_1d(np.asarray(probabilities, np.float64))
    if not count or count < chances.sum() + 1.0:
        return 1.0
    return float(at_least(count, chances.size, chances.mean()))
