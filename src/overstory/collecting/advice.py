"""What would you learn? Which oracle is best for a column, how many people shares need, what these people can show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from overstory.analysis.choosing import Choice, recommend
from overstory.collecting.simulating import Learned
from overstory.planning.people import people_needed, smallest_share
from overstory.protocol.mechanisms.mechanism import Mechanism
from overstory.protocol.mechanisms.registry import mechanism

SHARES: Final = (0.1, 0.01, 0.001)
ALPHA: Final = 0.05


@dataclass(frozen=True)
class AtOracle:
    """What one oracle would show.

    Attributes
    ----------
    name
        The oracle.
    people
        How many people each of `SHARES` needs, to be detected nine times in ten.
    smallest
        The smallest share that the people of this column show so; None when they show none.
    """

    name: str
    people: tuple[int, ...]
    smallest: float | None

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        needed = {f"{share:g}": count for share, count in zip(SHARES, self.people, strict=True)}
        return {"oracle": self.name, "people_needed": needed, "detectable_frequency": self.smallest}


@dataclass(frozen=True)
class Advice:
    """What would be learned of such a column.

    Attributes
    ----------
    ranking
        The oracles that keep the budget, the most accurate first.
    best
        The one to choose.
    at_used, at_best
        What the oracle that was used, and the best, would show.
    """

    ranking: tuple[Choice, ...]
    best: Choice
    at_used: AtOracle
    at_best: AtOracle

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "recommended": self.best.name,
            "alpha": ALPHA,
            "used": self.at_used.to_json(),
            "best": self.at_best.to_json(),
            "oracles": [choice.to_json() for choice in self.ranking],
        }


def advise(learned: Learned) -> Advice:
    """Return the advice for a column that was collected."""
    ranking = learned.budget.ranking(len(learned.people.labels), len(learned.people))
    best = recommend(ranking)
    built = mechanism(best.name, **best.parameters)
    return Advice(ranking, best, _at(learned.mechanism, learned), _at(built, learned))


def _at(built: Mechanism, learned: Learned) -> AtOracle:
    values, each = len(learned.people.labels), learned.reports_per_device
    # With uneven devices, people are counted as so many that all send the mean number over the reports.
    people = round(len(learned.people) * learned.budget.reports / each)
    return AtOracle(
        built.name,
        tuple(people_needed(built, share, values, alpha=ALPHA, reports_per_device=each) for share in SHARES),
        smallest_share(built, people, values, alpha=ALPHA, reports_per_device=each),
    )
