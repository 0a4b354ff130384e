"""p-values that are exact, or proven never to be too small, and checks of one property by them.

A two-sided p-value of a count is twice the smaller tail of its binomial. Several independent ones are joined by Fisher:
where none is too small, neither is theirs, and that holds for p-values that are drawn one after the other, each given
those before it. So the counts of several outcomes, each a binomial given those before it, need no approximation either.

Hoeffding, "On the distribution of the number of successes in independent trials", Annals of Mathematical Statistics
1956.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from overstory.analysis.selection import clopper_pearson

if TYPE_CHECKING:
    pass

Floats = NDArray[np.float64]

SMALLEST: Final = 20.0  # outcomes that are expected more rarely are counted together with their neighbours


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


Column = NDArray[np.int64]
Floats = NDArray[np.float64]
Marks = NDArray[np.uint8]

LEVEL: Final = 0.001  # intervals of rates have confidence 1 - `LEVEL`, whatever alpha is
BINS: Final = 64
WORK: Final = 2e10  # products that the check of all pairs of bits may take
BLOCK: Final = 1 << 14
AS_DECLARED: Final = "as declared"


@dataclass(frozen=True)
class Check:
    """One property: what was expected, what came, and how rarely a right client is as far from it."""

    name: str
    expected: str
    observed: str
    statistic: float
    p_value: float  # exact, or an upper bound of it
    low: float | None = None  # of a rate's interval
    high: float | None = None
    seconds: float = 0.0  # of processor time that its part of the audit took


def rate(name: str, count: int, total: int, probability: float) -> Check:
    """Check how often something came against its exact probability."""
    low, high = clopper_pearson(count, total, 1 - LEVEL) if total else (0.0, 1.0)
    share = count / total if total else probability
    p_value = float(two_sided(count, total, probability))
    return Check(name, f"{probability:.4f}", f"{share:.4f}", share, p_value, low, high)


def binned(numbers: Column, limit: int) -> Column:
    """Return numbers below `limit` as one of at most `BINS` neighbouring groups."""
    return numbers if limit <= BINS else (numbers.astype(np.uint64) * np.uint64(BINS) // np.uint64(limit)).astype(int)


def alike(name: str, counts: Any, totals: Any, probabilities: Any) -> Check:
    """Check independent counts, each against its own probability; the one furthest from it is shown."""
    each = two_sided(counts, totals, probabilities)
    p_value, worst = joined(each), int(np.argmin(each))
    share = float(counts[worst] / max(totals[worst], 1))
    shown = f"furthest: {share:.4f}, expected {probabilities[worst]:.4f}"
    return Check(name, AS_DECLARED, shown, p_value, p_value)


def identical(name: str, count: int, chances: Floats) -> Check:
    """Check that no more pairs of reports are equal than chance makes."""
    return Check(name, f"about {chances.sum():,.1f} of {len(chances):,}", f"{count:,}", count, too_many(count, chances))


def furthest(name: str, p_values: list[Floats]) -> Check:
    """Check many counts, whatever their dependence, by their p-values."""
    p_value = most_extreme(np.concatenate(p_values))
    return Check(name, AS_DECLARED, f"furthest: p = {p_value:.1e}", p_value, p_value)


def pairs_of(ones: NDArray[Any], lines: NDArray[Any]) -> tuple[Floats, Floats, Floats]:
    """Return on how many lines (the first, for `WORK`) each two columns are both 1, both 0, and both in question."""
    width = lines.shape[1]
    high, low, asked = (np.zeros((width, width)) for _ in range(3))
    end = min(len(lines), max(int(WORK) // width**2, 1))
    for start in range(0, end, BLOCK):
        rows = slice(start, min(start + BLOCK, end))
        valid = lines[rows].astype(np.float32)
        raised = ones[rows] * valid
        lowered = valid - raised
        high += raised.T @ raised
        low += lowered.T @ lowered
        asked += valid.T @ valid
    return high, low, asked
