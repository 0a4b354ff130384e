"""A check of one property of a channel, and the family of checks that every kind of report is held to.

A report shows marks: the bits of a vector, or whether an output is of the value's own set. Given the value they are
independent, so that counts of them are binomial, exactly.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.selection import binomial_law, clopper_pearson
from overstory.audit.probabilities import joined, most_extreme, too_many, two_sided

if TYPE_CHECKING:
    from overstory.audit.answers import Answers, Declared

Column = NDArray[np.int64]
Floats = NDArray[np.float64]
Marks = NDArray[np.uint8]

LEVEL: Final = 0.001
"""Intervals of rates have confidence 1 - `LEVEL`, whatever alpha is."""
BINS: Final = 64
WORK: Final = 2e10
"""Products that the check of all pairs of bits may take."""
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


class Part(NamedTuple):
    """Marks that are alike: on each line how many there are, and how many of them came; how likely each comes."""

    name: str
    came: Column
    many: Column
    chance: float


@dataclass(frozen=True)
class Levels:
    """How far reports of the pair speak for one of its values, by level."""

    ratios: Floats  # the size of each log ratio, as declared
    counts: Floats  # how many reports a client is expected to send
    right: Floats  # how likely a guess is right, with that client


LevelsOf = Callable[[float], Iterator[Levels]]
"""The levels of clients whose epsilon is above the declared one by a share of it: less noise, in each way there is."""


class Conformance(ABC):
    """What reports of one kind are held to."""

    permanent: tuple[float, float]  # P(a mark of the permanent response | the value lacks it, the value has it)
    instantaneous: tuple[float, float]  # P(a mark of a report | the permanent response lacks it, has it)
    losses: tuple[float, float]  # the log likelihood ratio of a mark that the value has, where it came and where not

    def __init__(self, declared: Declared) -> None:
        self.declared = declared

    def encoded(self, answers: Answers) -> NDArray[Any]:
        """Return what each line's value encodes to in its cohort: values with one encoding may share noise."""
        return self.declared.encoded(answers.values, answers.cohorts)

    @abstractmethod
    def marks(self, answers: Answers) -> Marks:
        """Return the marks of each line's report, in a row."""

    @abstractmethod
    def truth(self, answers: Answers) -> Marks:
        """Return which marks each line's value has."""

    @abstractmethod
    def parts(self, answers: Answers) -> list[Part]:
        """Return the marks of each line in parts that are alike."""

    def fresh(self, answers: Answers) -> Iterator[Check]:
        """Yield the checks of fresh devices: rates, in all and by place, value and cohort; outcomes; neighbours."""
        parts = self.parts(answers)
        for part in parts:
            yield rate(f"rate of {part.name}", int(part.came.sum()), int(part.many.sum()), part.chance)
        yield from self.places(answers)
        groups = [("values alike", answers.values, len(self.declared.values))]
        if self.declared.num_cohorts > 1:
            groups.append(("cohorts alike", answers.cohorts, self.declared.num_cohorts))
        for name, numbers, limit in groups:
            group = binned(numbers, limit)
            each = []
            for part in parts:
                came, many = (np.bincount(group, counts) for counts in (part.came, part.many))
                each.append(alike(name, came, many, np.full(len(many), part.chance)))
            p_value = joined([check.p_value for check in each])
            shown = min(each, key=lambda check: check.p_value).observed
            yield Check(name, AS_DECLARED, shown, p_value, p_value)
        yield from self.outcomes(answers)
        even = len(answers) - len(answers) % 2  # no device is in two pairs
        first, second = (answers.take(slice(start, even, 2)) for start in (0, 1))
        yield from self.agreement(first, second)
        same = int(self.same(first, second).sum())
        yield identical("identical neighbouring reports", same, self.equal_chances(first, second))

    def places(self, answers: Answers) -> Iterator[Check]:  # noqa: ARG002 - of most kinds, there are none
        """Yield the check of each mark's place by itself."""
        yield from ()

    @abstractmethod
    def outcomes(self, answers: Answers) -> Iterator[Check]:
        """Yield the checks of whole reports."""

    def agreement(self, first: Answers, second: Answers) -> Iterator[Check]:  # noqa: ARG002 - of most kinds, none
        """Yield the check of how often single marks of pairs of devices agree."""
        yield from ()

    def same(self, first: Answers, second: Answers) -> NDArray[np.bool_]:
        """Return which reports of two lists are equal, line by line."""
        equal: NDArray[np.bool_] = (first.reports == second.reports).reshape(len(first), -1).all(axis=1)
        return equal

    @abstractmethod
    def equal_chances(self, first: Answers, second: Answers, *, same_devices: bool = False) -> Floats:
        """Return how likely the reports of each line are equal, from permanent responses of their own, or from one."""

    @abstractmethod
    def comparable(self, first: Answers, second: Answers) -> NDArray[np.bool_]:
        """Return on which lines both values have one encoding."""

    @abstractmethod
    def memory(self, answers: Answers, repeats: int, after: str = "") -> Iterator[Check]:
        """Yield the checks of `repeats` reports each of some devices, which take turns."""

    def apart(self, first: Answers, second: Answers, repeats: int) -> float:
        """Return the p-value of how often the coins of the same devices agree, in all reports and in the first ones."""
        p_values = []
        for times in {1, repeats}:
            rows = slice(len(first) // repeats * times)
            (ones, chances), (others, more) = (self._noise(each.take(rows), times) for each in (first, second))
            agreement = chances * more + (1 - chances) * (1 - more)
            levels, places = np.unique(agreement, return_inverse=True)
            totals, same = (np.bincount(places.ravel(), weights) for weights in (None, (ones == others).ravel()))
            p_values.append(joined(two_sided(same, totals, levels)))
        return most_extreme(p_values)

    def _noise(self, answers: Answers, repeats: int) -> tuple[NDArray[np.bool_], Floats]:
        """Return what `repeats` reports of each device say of its noise, as independent coins, and their chances."""
        first = answers.take(slice(len(answers) // repeats))
        marks = self.marks(replace(answers, cohorts=np.tile(first.cohorts, repeats)))
        counts = marks.reshape(repeats, len(first), -1).sum(axis=0, dtype=np.int64)
        cut = math.floor(repeats * sum(self.instantaneous) / 2)
        zero, one = (float(binomial_law(repeats, chance)[cut + 1 :].sum()) for chance in self.instantaneous)
        chances = np.array([share * one + (1 - share) * zero for share in self.permanent])
        return counts > cut, chances[self.truth(first)]

    def likeness(self, first: Answers, second: Answers, *, same_devices: bool) -> float:
        """Return a bound of how rarely two runs are as alike by chance; devices may be the same in both."""
        equal, same = self.comparable(first, second), self.same(first, second)
        chances = self.equal_chances(first, second, same_devices=same_devices)
        return too_many(int(same[equal].sum()), chances[equal])

    def scores(self, answers: Answers) -> Floats:
        """Return ln P(report | second value) - ln P(report | first value), of the pair, as declared."""
        came, lacks = self.losses
        likelihoods = []
        for side in (answers.holding(0), answers.holding(1)):
            true = self.truth(side)
            both = (self.marks(side) & true).sum(axis=1, dtype=np.int64)
            likelihoods.append(both * came + (true.sum(axis=1, dtype=np.int64) - both) * lacks)
        return np.asarray(likelihoods[1] - likelihoods[0], np.float64)

    @abstractmethod
    def levels(self, answers: Answers) -> LevelsOf:
        """Return the sizes that `scores` can have, for the declared client and for those with less noise."""

    @abstractmethod
    def features(self, answers: Answers) -> Marks | None:
        """Return what a report says, as bits; None where that is too much to learn from."""

    def true_sides(self, answers: Answers) -> Column | None:  # noqa: ARG002 - of most kinds, nothing
        """Return which of the pair a report is without noise (0, 1, or -1); None where `scores` says the same."""
        return None

    def remarks(self, answers: Answers) -> Iterator[str]:  # noqa: ARG002 - of most kinds, nothing
        """Yield what else fresh devices' reports say."""
        yield from ()
