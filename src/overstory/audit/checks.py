"""A check of one property of a channel, and what the checks of every kind of report share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.selection import binomial_law, clopper_pearson
from overstory.audit.probabilities import joined, most_extreme, too_many, two_sided

if TYPE_CHECKING:
    from overstory.audit.answers import Answers
    from overstory.audit.declared import Declared

Column = NDArray[np.int64]
Floats = NDArray[np.float64]

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


def rate(name: str, count: int, total: int, probability: float) -> Check:
    """Check how often something came against its exact probability."""
    low, high = clopper_pearson(count, total, 1 - LEVEL) if total else (0.0, 1.0)
    share = count / total if total else probability
    p_value = float(two_sided(count, total, probability))
    return Check(name, f"{probability:.4f}", f"{share:.4f}", share, p_value, low, high)


def binned(numbers: Column, limit: int) -> Column:
    """Return numbers below `limit` as one of at most `BINS` neighbouring groups."""
    return numbers if limit <= BINS else (numbers.astype(np.uint64) * np.uint64(BINS) // np.uint64(limit)).astype(int)


def rates_by(name: str, groups: Column, counts: Column, totals: Column, probability: float) -> Check:
    """Check that a rate is the same in every group of lines; `counts` and `totals` are those of each line."""
    many = int(groups.max()) + 1 if len(groups) else 0
    count, total = np.bincount(groups, counts, many), np.bincount(groups, totals, many)
    return alike(name, count, total, np.full(many, probability))


def alike(name: str, counts: Any, totals: Any, probabilities: Any) -> Check:
    """Check independent counts, each against its own probability; the one furthest from it is shown."""
    each = two_sided(counts, totals, probabilities)
    p_value = joined(each)
    worst = int(np.argmin(each)) if each.size else 0
    share = float(counts[worst] / max(totals[worst], 1)) if each.size else 0.0
    shown = f"{share:.4f}, expected {probabilities[worst]:.4f}" if each.size else "nothing"
    return Check(name, AS_DECLARED, f"furthest: {shown}", p_value, p_value)


def identical(name: str, count: int, chances: Floats) -> Check:
    """Check that no more pairs of reports are equal than chance makes."""
    return Check(name, f"about {chances.sum():,.1f} of {len(chances):,}", f"{count:,}", count, too_many(count, chances))


def pairs_of(ones: NDArray[Any], lines: NDArray[Any]) -> tuple[Floats, Floats, Floats]:
    """Return on how many lines each two columns are both 1, both 0, and both in question, as `lines` says.

    Only the first lines are looked at where all would take too long: `WORK`.
    """
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


@dataclass(frozen=True)
class Levels:
    """How far reports of the pair speak for one of its values, by level."""

    ratios: Floats  # the size of each log ratio, as declared
    counts: Floats  # how many reports a client is expected to send
    right: Floats  # how likely a guess is right, with that client


LevelsOf = Callable[[float], list[Levels]]
"""The levels of clients whose epsilon is above the declared one by a share of it: less noise, in each way there is."""


def one_level(ratio: float, count: float, excess: float) -> list[Levels]:
    """Return the levels of a mechanism whose reports speak for a value with all of epsilon, or for none.

    >>> one_level(1.0, 50.0, 0.5)[0].right.round(4).tolist()
    [0.8176]
    """
    right = 1 / (1 + math.exp(-ratio * (1 + excess)))
    return [Levels(np.array([ratio]), np.array([count]), np.array([right]))]


class Conformance(ABC):
    """What reports of one kind are held to."""

    def __init__(self, declared: Declared) -> None:
        self.declared = declared

    @abstractmethod
    def fresh(self, answers: Answers) -> Iterator[Check]:
        """Yield the checks of reports of fresh devices."""

    @abstractmethod
    def memory(self, answers: Answers, repeats: int, after: str = "") -> Iterator[Check]:
        """Yield the checks of `repeats` reports each of some devices, which take turns."""

    @abstractmethod
    def encoded(self, answers: Answers) -> NDArray[Any]:
        """Return what each line's value encodes to in its cohort: values with one encoding may share noise."""

    @abstractmethod
    def noise(self, answers: Answers, repeats: int) -> tuple[NDArray[np.bool_], Floats]:
        """Return what `repeats` reports of each device say of its noise, as independent coins, and their chances."""

    def apart(self, first: Answers, second: Answers, repeats: int) -> float:
        """Return the p-value of how often the coins of the same devices agree, in all reports and in the first ones."""
        p_values = []
        for times in {1, repeats}:
            rows = slice(len(first) // repeats * times)
            (ones, chances), (others, more) = (self.noise(each.take(rows), times) for each in (first, second))
            agreement = chances * more + (1 - chances) * (1 - more)
            levels, places = np.unique(agreement, return_inverse=True)
            totals, same = (np.bincount(places.ravel(), weights) for weights in (None, (ones == others).ravel()))
            p_values.append(joined(two_sided(same, totals, levels)))
        return most_extreme(p_values)

    @abstractmethod
    def likeness(self, first: Answers, second: Answers, *, same_devices: bool) -> float:
        """Return a bound of how rarely two runs are as alike by chance; devices may be the same in both."""

    @abstractmethod
    def scores(self, answers: Answers) -> Floats:
        """Return ln P(report | second value) - ln P(report | first value), of the pair, as declared."""

    @abstractmethod
    def levels(self, answers: Answers) -> LevelsOf:
        """Return the sizes that `scores` can have, for the declared client and for those with less noise."""

    @abstractmethod
    def features(self, answers: Answers) -> NDArray[np.uint8] | None:
        """Return what a report says, as bits; None where that is too much to learn from."""

    def true_sides(self, answers: Answers) -> Column | None:  # noqa: ARG002 - of most kinds, nothing
        """Return which of the pair a report is without noise (0, 1, or -1); None where `scores` says the same."""
        return None

    def remarks(self, answers: Answers) -> Iterator[str]:  # noqa: ARG002 - of most kinds, nothing
        """Yield what else fresh devices' reports say."""
        yield from ()


def one_of(numbers: NDArray[Any], limit: int) -> NDArray[np.uint8]:
    """Return a row for each number below `limit`, with a single 1."""
    rows: NDArray[np.bool_] = numbers[:, None] == np.arange(limit)
    return rows.view(np.uint8)


def halfway(repeats: int, *rates: float) -> tuple[int, list[float]]:
    """Return the count halfway between two rates, and how likely more than it come at each of them."""
    cut = math.floor(repeats * sum(rates) / 2)
    return cut, [float(binomial_law(repeats, chance)[cut + 1 :].sum()) for chance in rates]


def turns(answers: Answers, repeats: int) -> tuple[Answers, NDArray[Any]]:
    """Return the first report of each device, and all reports with an axis of repeats before that of devices."""
    devices = len(answers) // repeats
    return answers.take(slice(devices)), answers.reports.reshape(repeats, devices, *answers.reports.shape[1:])


def neighbours(answers: Answers) -> tuple[Answers, Answers]:
    """Return pairs of devices, one after the other; no device is in two pairs."""
    even = len(answers) - len(answers) % 2
    return answers.take(slice(0, even, 2)), answers.take(slice(1, even, 2))
