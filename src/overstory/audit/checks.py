"""p-values that are exact, or proven never to be too small, checks of one property by them, and the guessing game.

A two-sided p-value of a count is twice the smaller tail of its binomial. Several independent ones are joined by Fisher:
where none is too small, neither is theirs, and that holds for p-values that are drawn one after the other, each given
those before it. So the counts of several outcomes, each a binomial given those before it, need no approximation either.

Hoeffding, "On the distribution of the number of successes in independent trials", Annals of Mathematical Statistics
1956.

*The guessing game*: for each fresh device a fair coin decides which of two values it holds, and the auditor guesses it
from the report, or does not guess. Under epsilon local differential privacy every guess is right with probability at
most e^eps / (1 + e^eps), whatever the guesses before it were: so the number of right guesses bounds epsilon from below,
exactly (Clopper and Pearson), both values of the pair counting. When to guess is fixed before the reports are looked
at: by the declaration, or by half of the reports for the other. Several games share alpha.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from overstory.analysis.selection import at_least, clopper_pearson, lower_bound

if TYPE_CHECKING:
    from overstory.audit.answers import Answers
    from overstory.audit.conformance import Conformance, Levels, LevelsOf

Floats = NDArray[np.float64]

SMALLEST: Final = 20.0  # outcomes that are expected more rarely are counted together with their neighbours


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


SHARES: Final = {"likelihood": 0.8, "truth": 0.1, "learned": 0.1}
"""How the games share alpha: that of the declared likelihood is the sharpest for a client that does as declared."""
POWER: Final = 0.9  # an excess is called detectable if it is seen nine times in ten
LARGEST: Final = 100.0  # no epsilon above this is called detectable: a guess can hardly be more certain
STEPS: Final = 30
FEWEST: Final = 40  # reports of the pair with fewer than this, no score is learned
MOST_GROUPS: Final = 64  # cohorts up to which a score is learned for each


@dataclass(frozen=True)
class Game:
    """One game's outcome."""

    name: str
    guesses: int
    correct: int
    alpha: float  # the chance that `lower` is above the true epsilon, at most

    @property
    def lower(self) -> float:
        """The epsilon that is certainly lost; 0 where nothing is certain."""
        return max(0.0, odds(lower_bound(self.correct, self.guesses, self.alpha)))

    def needed(self, declared: float) -> int | None:
        """Return the fewest right guesses that give a bound above `declared`."""
        low, high, chance = 0, self.guesses + 1, 1 / (1 + math.exp(-declared))
        while low < high:
            middle = (low + high) // 2
            if float(at_least(middle, self.guesses, chance)) < self.alpha:
                high = middle
            else:
                low = middle + 1
        return low if low <= self.guesses else None


def odds(chance: float) -> float:
    """Return ln(p / (1 - p))."""
    if chance <= 0:
        return -math.inf
    return math.inf if chance >= 1 else math.log(chance / (1 - chance))


def play(conformance: Conformance, answers: Answers, alpha: float) -> list[Game]:
    """Return the games that fresh devices' reports allow, the declared likelihood's first."""
    pair = answers.take(answers.values < 2)
    coins, share = pair.values, {name: part * alpha for name, part in SHARES.items()}
    scores = conformance.scores(pair)
    limit = threshold(next(conformance.levels(pair)(0.0)), share["likelihood"])
    games = [_game("likelihood", np.abs(scores) >= limit, scores > 0, coins, share["likelihood"])]
    sides = conformance.true_sides(pair)
    if sides is not None:
        games.append(_game("truth", sides >= 0, sides == 1, coins, share["truth"]))
    if len(pair) >= FEWEST and (learned := _learned(conformance, pair, share["learned"])):
        games.append(learned)
    return games


def _game(name: str, guessed: Any, guess: Any, coins: Any, alpha: float) -> Game:
    correct = int((guess[guessed] == (coins[guessed] == 1)).sum())
    return Game(name, int(guessed.sum()), correct, alpha)


def threshold(levels: Levels, alpha: float) -> float:
    """Return the log ratio from which on guesses promise the largest lower bound, if all is as declared."""
    order = np.argsort(-levels.ratios, kind="stable")
    ratios = levels.ratios[order]
    counts = levels.counts[order]
    guesses = np.cumsum(counts)
    right = np.cumsum(counts * levels.right[order])
    ends = np.flatnonzero(np.append(np.diff(ratios) < -1e-9, True))
    ends = ends[ratios[ends] > 1e-9]
    if not len(ends):
        return math.inf
    best = max(ends.tolist(), key=lambda end: lower_bound(int(right[end]), max(math.ceil(guesses[end]), 1), alpha))
    return float(ratios[best]) - 1e-9


def detectable_excess(levels_of: LevelsOf, declared: float, alpha: float) -> float | None:
    """Return by which share less noise must raise epsilon to be seen nine times in ten; None where nothing would be."""
    if not 0 < declared < LARGEST:
        return None
    share = SHARES["likelihood"] * alpha
    limit = threshold(next(levels_of(0.0)), share)

    def is_seen(excess: float) -> bool:
        # Of several ways to have less noise, the one that is hardest to see counts.
        return all(_power(levels, limit, declared, share) >= POWER for levels in levels_of(excess))

    low, high = math.inf, math.inf
    for epsilon in np.geomspace(LARGEST, declared, STEPS).tolist():  # from above: every larger fault is seen, too
        low, high = epsilon / declared - 1.0, low
        if not is_seen(low):
            break
    if math.isinf(high):
        return None
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if is_seen(middle) else (middle, high)
    return high


def _power(levels: Levels, limit: float, declared: float, alpha: float) -> float:
    """Return how likely the expected number of guesses gives a bound above `declared`."""
    # Each guess is right with a chance of its level's: the right ones are binomial.
    guessed = levels.ratios >= limit
    guesses = float(levels.counts[guessed].sum())
    needed = Game("likelihood", int(guesses), 0, alpha).needed(declared)
    if needed is None:
        return 0.0
    right = float((levels.counts * levels.right)[guessed].sum()) / guesses
    return float(at_least(needed, int(guesses), right))


def _learned(conformance: Conformance, pair: Answers, alpha: float) -> Game | None:
    """Learn each bit's weight in one half of the reports, and guess in the other half."""
    features = conformance.features(pair)
    if features is None:
        return None
    many, half = conformance.declared.num_cohorts, len(pair) // 2
    groups = pair.cohorts if many <= MOST_GROUPS else np.zeros(len(pair), np.int64)
    scores = np.zeros(len(pair))
    for group in np.unique(groups).tolist():
        rows = np.flatnonzero(groups == group)
        scores[rows] = _weighed(features[rows], pair.values[rows], rows < half)
    order = np.argsort(-np.abs(scores[:half]), kind="stable")
    sizes, right = np.abs(scores[:half][order]), (scores[:half] > 0)[order] == (pair.values[:half] == 1)[order]
    tried = np.unique(np.geomspace(8, half, 40).astype(int)) - 1
    correct = np.cumsum(right)
    best = max(tried.tolist(), key=lambda end: lower_bound(int(correct[end]), end + 1, alpha))
    rest = scores[half:]
    return _game("learned", np.abs(rest) >= max(sizes[best], 1e-12), rest > 0, pair.values[half:], alpha)


def _weighed(features: NDArray[np.uint8], values: Any, learning: Any) -> NDArray[np.float64]:
    """Return the log ratio of each report, bits taken as independent, by the rates of the reports to learn from."""
    rates = []
    for value in (0, 1):
        chosen = features[learning & (values == value)]
        rates.append((chosen.sum(axis=0, dtype=np.int64) + 0.5) / (len(chosen) + 1.0))
    lit, dark = np.log(rates[1] / rates[0]), np.log((1 - rates[1]) / (1 - rates[0]))
    return np.asarray(features @ (lit - dark) + dark.sum(), np.float64)
