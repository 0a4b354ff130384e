"""Ways to keep within a yearly bound, at equal bound: how sure one period's share is.

With D devices, M metrics, N periods in a cycle of a year, and epsilon E for everything in any year:

- one panel of the application: D / (N M) devices answer a question in a period, each with the whole epsilon E;
- several answers: k times as many, each with E / k;
- a panel for each metric: D / N devices, with E / M;
- every device in every period: all D, with E / (N M), as any 365 days touch N periods;
- one answer in several years: D / (P M) devices in each of the P periods, with E; after that nobody is left.

A share f among n answers has the variance of the noise, and f (1 - f) / n of who was asked: its interval is for all
devices like these. Memoized answers (RAPPOR's two rounds and their kin) are no row: of two reports of one device that
are linked, they tell whether its value changed, and what bounds that for any history rises with every report.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from overstory.analysis.variance import frequency_variance
from overstory.presentation.formats import finite
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Mechanism, check_count, check_epsilon
from overstory.protocol.kinds.registry import oracles_for
from overstory.protocol.metrics.panel import Panel
from overstory.protocol.metrics.period import Period

ANSWERS: Final = (2, 4)
SHARE: Final = 0.1
YEARS: Final = 5


@dataclass(frozen=True)
class Way:
    """One way to keep within the bound."""

    name: str
    oracle: Mechanism  # the one of least error at this epsilon
    epsilon: float  # of one report
    reports: float  # of one metric in one period, on average
    error: float  # the standard error of a share, as a fraction

    def to_json(self) -> dict[str, Any]:
        own = {"way": self.name, "oracle": self.oracle.name, "epsilon": self.epsilon, "reports": self.reports}
        return own | {"standard_error": finite(self.error)}


def ways_of_a_year(
    devices: int,
    domain_size: int,
    epsilon: float,
    *,
    metrics: int = 1,
    period: str = "week",
    share: float = SHARE,
    answers: Sequence[int] = ANSWERS,
) -> list[Way]:
    """Return the ways to ask `metrics` questions of `domain_size` values within `epsilon` a year, for any history.

    Raises
    ------
    ParameterError
        When a number is out of range.
    """
    check_count("devices", devices, 1, 1 << 53)
    check_count("metrics", metrics, 1, 1 << 20)
    check_epsilon("epsilon", epsilon)
    if not 0 < share < 1:
        raise ParameterError(f"share = {share!r}: give a fraction between 0 and 1")
    cycle = Panel("year").periods(Period.parse(period))

    def way(name: str, each: float, reports: float) -> Way:
        best = min(oracles_for(domain_size, each), key=lambda oracle: frequency_variance(oracle, 1, share))
        variance = frequency_variance(best, reports, share) + share * (1 - share) / reports
        return Way(name, best, each, reports, math.sqrt(variance))

    def ways() -> Iterator[Way]:
        yield way("one panel, 1 answer a year", epsilon, devices / (cycle * metrics))
        for number in answers:
            yield way(f"one panel, {number} answers a year", epsilon / number, number * devices / (cycle * metrics))
        if metrics > 1:
            yield way("a panel for each metric", epsilon / metrics, devices / cycle)
        yield way("every device in every period", epsilon / (cycle * metrics), devices)
        yield way(f"1 answer in {YEARS} years", epsilon, devices / (YEARS * cycle * metrics))

    return [*ways()]
