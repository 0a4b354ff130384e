"""Which mechanism of numbers meets a metric's needs: the mean with the least error in the worst case, or all of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from overstory.privacy.attacks import Linkability, linkability
from overstory.protocol.domains.intervals import Interval
from overstory.protocol.errors import ParameterError
from overstory.protocol.numeric.means import Duchi, Hybrid, MeanRandomizer, Piecewise
from overstory.protocol.numeric.randomizer import NumericRandomizer
from overstory.protocol.numeric.windows import SquareWave

NEEDS: Final = ("epsilon_report", "reports", "estimate", "resolution")
ESTIMATES: Final = ("mean", "distribution")
RESOLUTION: Final = 64
"""Positions of a planned metric: values then come again, and are moved by at most a 64th of the range."""
MEANS: Final[tuple[type[MeanRandomizer], ...]] = (Hybrid, Piecewise, Duchi)


@dataclass(frozen=True)
class PlannedNumbers:
    """What was derived for one metric of numbers."""

    metric: str
    mechanism: NumericRandomizer
    parameters: Mapping[str, Any]  # those to write down
    num_reports: int
    group: tuple[str, float] | None = None  # the rarest group that reports name, with its share of all devices

    @property
    def standard_error(self) -> float:
        """Of the mean, where everybody holds the worst value: the middle or an end of the range."""
        return worst_error(self.mechanism, self.num_reports)

    @property
    def linkable(self) -> Linkability:
        return linkability(self.mechanism, self.group)

    def toml(self) -> str:
        given = ", ".join(f"{name} = {number!r}" for name, number in self.parameters.items())
        return f'oracle = "{self.mechanism.name}"\nparameters = {{{given}}}'

    def plain_words(self) -> str:
        lines, learned = self.toml().replace("\n", ", "), self.mechanism.reading
        error = f"standard error of the mean at most {self.standard_error:.3g} at {self.num_reports:,} reports"
        return f"{self.metric}: {lines}; for the {learned}; {error}; {self.linkable.words()}"

    def to_json(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "oracle": self.mechanism.name,
            "parameters": dict(self.parameters),
            "epsilon_report": self.mechanism.epsilon_report,
            "estimate": self.mechanism.reading,
            "standard_error": self.standard_error,
            "reports": self.num_reports,
            "linkable": self.linkable.to_json(),
        }


def worst_error(built: NumericRandomizer, reports: int) -> float:
    """Return the standard error of the mean of people who all hold the worst value.

    Examples
    --------
    >>> round(worst_error(Hybrid(1.0), 10_000), 4)
    0.0207
    """
    low, high = Fraction(built.domain.minimum), Fraction(built.domain.maximum)
    width = high - low
    worst = max(built.variance(value) / width**2 for value in (low, (low + high) / 2, high))
    return math.sqrt(worst / reports) * float(width)


def best_for_mean(epsilon: float, domain: Interval, resolution: int) -> MeanRandomizer:
    """Return the mechanism whose mean has the least error in the worst case; of equal ones the smaller reports.

    Examples
    --------
    >>> best_for_mean(0.5, Interval(0, 1), 64).name, best_for_mean(2.0, Interval(0, 1), 64).name
    ('duchi', 'hybrid')
    """
    built = [kind(epsilon, domain, resolution) for kind in MEANS]
    return min(built, key=lambda each: (round(worst_error(each, 1), 9), each.payload_bits))


def plan_numbers(name: str, domain: Interval, needs: Mapping[str, Any], reports: int) -> PlannedNumbers:
    """Return the plan of a metric.

    Raises
    ------
    ParameterError
        When a need is missing or is none.
    """
    if "epsilon_report" not in needs:
        raise ParameterError("needs lack epsilon_report")
    estimate, resolution = needs.get("estimate", "mean"), needs.get("resolution", RESOLUTION)
    if estimate not in ESTIMATES:
        raise ParameterError(f"estimate = {estimate!r}: choose one of {', '.join(ESTIMATES)}")
    epsilon = needs["epsilon_report"]
    built: NumericRandomizer = SquareWave(epsilon, domain, resolution)
    if estimate == "mean":
        built = best_for_mean(epsilon, domain, resolution)
    return PlannedNumbers(name, built, {"epsilon": epsilon, "resolution": resolution}, reports)
