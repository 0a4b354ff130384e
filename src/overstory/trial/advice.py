"""What would you learn? Which oracle is best for a column, how many people shares need, what these people can show."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from overstory.analysis.comparison import Choice, recommend
from overstory.planning.detection import NINE_IN_TEN, critical_value
from overstory.planning.sample_size import required_sample_size, smallest_share, variance_per_person
from overstory.protocol.mechanisms.base import Mechanism
from overstory.protocol.mechanisms.registry import mechanism
from overstory.trial.run import TrialResult

SHARES: Final = (0.1, 0.01, 0.001)
ALPHA: Final = 0.05


@dataclass(frozen=True)
class AtOracle:
    """What one oracle would show.

    Attributes
    ----------
    people
        How many people each of `SHARES` needs, to be detected nine times in ten with a chance of `ALPHA` of any false
        detection.
    half, nine_in_ten
        Shares that these people show about half the time, and nine times in ten, by the rule that `detected` used; None
        where no share is shown so often.
    """

    name: str  # the oracle
    people: tuple[int, ...]
    smallest: float | None  # the smallest share that the people of this column show so; None when they show none
    half: float | None
    nine_in_ten: float | None

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        needed = {f"{share:g}": count for share, count in zip(SHARES, self.people, strict=True)}
        return {
            "oracle": self.name,
            "people_needed": needed,
            "detectable_frequency": self.smallest,
            "detected_half_the_time": self.half,
            "detected_nine_times_in_ten": self.nine_in_ten,
        }


@dataclass(frozen=True)
class Advice:
    """What would be learned of such a column.

    Attributes
    ----------
    at_used, at_best
        What the oracle that was used, and the best, would show.
    """

    ranking: tuple[Choice, ...]  # the oracles that keep the budget, the most accurate first
    best: Choice  # the one to choose
    at_used: AtOracle
    at_best: AtOracle

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "detected_half_the_time": self.at_used.half,
            "detected_nine_times_in_ten": self.at_used.nine_in_ten,
            "recommended": self.best.name,
            "alpha": ALPHA,
            "used": self.at_used.to_json(),
            "best": self.at_best.to_json(),
            "oracles": [choice.to_json() for choice in self.ranking],
        }


def advise(result: TrialResult) -> Advice:
    """Return the advice for a column that was collected."""
    ranking = result.budget.ranking(len(result.population.labels), len(result.population))
    best = recommend(ranking)
    built = mechanism(best.name, **best.parameters)
    return Advice(ranking, best, _at(result.mechanism, result), _at(built, result))


def _threshold(built: Mechanism, result: TrialResult, reach: float) -> float | None:
    """Return the share whose estimate passes what was detected by, with `reach` standard errors to spare.

    Benjamini and Hochberg's rule let through the p-values up to `alpha R / M` when R of M passed; when none did, the
    first must be `alpha / M`.
    """
    estimate = result.estimate
    values, each = len(estimate), result.reports_per_device
    passed = max(int(np.count_nonzero(estimate.detected())), 1)
    needed = critical_value(estimate.alpha, values / passed)
    people = _people(result)

    def error(share: float) -> float:
        return math.sqrt(variance_per_person(built, share, values, reports_per_device=each) / people)

    def passes(share: float) -> bool:
        nearly_lowest = share - reach * error(share)
        return nearly_lowest > 0 and nearly_lowest >= needed * error(nearly_lowest)

    if people < 1 or not passes(1.0):
        return None
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high


def _at(built: Mechanism, result: TrialResult) -> AtOracle:
    values, each = len(result.population.labels), result.reports_per_device
    people = _people(result)
    return AtOracle(
        built.name,
        tuple(required_sample_size(built, share, values, alpha=ALPHA, reports_per_device=each) for share in SHARES),
        smallest_share(built, people, values, alpha=ALPHA, reports_per_device=each),
        _threshold(built, result, 0.0),
        _threshold(built, result, NINE_IN_TEN),
    )


def _people(result: TrialResult) -> int:
    """Return how many people report; where they are uneven, so many as would all send the mean over the reports."""
    return round(len(result.population) * result.budget.reports / result.reports_per_device)
