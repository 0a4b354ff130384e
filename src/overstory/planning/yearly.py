"""Ways to keep within a yearly bound, at equal bound: how sure one period's share is.

With D devices, M metrics, and epsilon E for everything in any year:

- one panel of the application: a period asks the share of the devices that `Panel.share_asked` says for one of M
  questions. Where a device gives k answers in any 366 days, each has E / k;
- a panel for each metric: of all D, with E / M;
- every device in every period: all D, with E / (N M), as any 366 days touch N periods;
- one answer of a device, ever: D / (P M) devices in each of P periods, with E; after that nobody is left.

A share f among n answers has the variance of the noise, and f (1 - f) / n of who was asked: its interval is for all
devices like these.

Memoized answers (RAPPOR's two rounds and their kin) are listed for comparison, with E for one unchanged value: of two
reports of one device that are linked, they tell whether its value changed, and what bounds that for any history rises
with every report.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Final

from overstory.analysis.variance import frequency_variance
from overstory.planning.plan import oracle_toml
from overstory.presentation.document import Column, Table
from overstory.presentation.formats import epsilon_text, finite, percent, plural, thousands
from overstory.presentation.formats import share as percentage
from overstory.presentation.result import Result
from overstory.privacy.terms import terms_of
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Mechanism, check_count, check_epsilon
from overstory.protocol.kinds.registry import oracles_for
from overstory.protocol.metrics.panel import Panel
from overstory.protocol.metrics.period import Period

if TYPE_CHECKING:
    from overstory.presentation.svg import Picture

PANELS: Final = (Panel("year"), Panel("year", 2), Panel("year", 4), Panel("quarter"), Panel("month"))
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
    epsilon_any: float  # of any year, whatever a device holds and however it changes
    panel: Panel | None = None  # the one that all metrics share, if that is the way

    def toml(self) -> str:
        """Return the oracle and its parameters as a registry has them."""
        given = self.oracle.parameters.items()
        written = {name: value for name, value in given if name != "domain_size" and value not in (None, "")}
        return oracle_toml(self.oracle.name, written)

    def to_json(self) -> dict[str, Any]:
        own = {"way": self.name, "oracle": self.oracle.name, "epsilon": self.epsilon, "reports": self.reports}
        return own | {"standard_error": finite(self.error), "epsilon_any": finite(self.epsilon_any)}


@dataclass(frozen=True, repr=False)
class YearPlan(Result):
    """What can be learned of one period within a bound on any year."""

    devices: int
    domain_size: int  # the values of each metric
    epsilon: float  # of everything in any year
    metrics: int = 1
    period: str = "week"
    share: float = SHARE

    def __post_init__(self) -> None:
        check_count("devices", self.devices, 1, 1 << 53)
        check_count("metrics", self.metrics, 1, 1 << 20)
        check_epsilon("epsilon", self.epsilon)
        if not 0 < self.share < 1:
            raise ParameterError(f"share = {self.share!r}: give a fraction between 0 and 1")

    def ways(self) -> Iterator[Way]:
        """Yield the ways, each with its oracle of least error; the memoized one, which keeps to no bound, is last."""
        of_one = self.devices / self.metrics
        period = Period.parse(self.period)
        cycle = PANELS[0].periods(period)
        for panel in PANELS:
            reports = self.devices * float(panel.share_asked(period, Fraction(1, self.metrics)))
            name = f"one panel, {plural(panel.answers, 'answer')} a {panel.cycle}"
            yield self._way(name, self.epsilon / panel.most_in_a_year, reports, panel=panel)
        if self.metrics > 1:
            yield self._way("a panel for each metric", self.epsilon / self.metrics, self.devices / cycle)
        each = self.epsilon / (cycle * self.metrics)
        yield self._way("every device in every period", each, self.devices)
        yield self._way(f"one answer ever, over {YEARS} years", self.epsilon, of_one / (YEARS * cycle))
        permanent = self.epsilon / self.metrics
        yield self._way("every device, noise kept for each value", permanent / 2, self.devices, permanent=permanent)

    def _way(
        self, name: str, epsilon: float, reports: float, *, permanent: float | None = None, panel: Panel | None = None
    ) -> Way:
        oracles = oracles_for(self.domain_size, epsilon, permanent)
        best = min(oracles, key=lambda oracle: frequency_variance(oracle, 1, self.share))
        variance = frequency_variance(best, reports, self.share) + self.share * (1 - self.share) / reports
        bound = self.epsilon
        if permanent is not None:
            periods = PANELS[0].periods(Period.parse(self.period))
            bound = self.metrics * terms_of(best).epsilon_any(periods)
        return Way(name, best, epsilon, reports, math.sqrt(variance), bound, panel)

    def best_panel(self) -> Way:
        """Return the panel of the application with the least error."""
        return min((way for way in self.ways() if way.panel is not None), key=lambda way: way.error)

    def as_table(self) -> Table:
        columns = (
            Column("way", is_left=True),
            Column("oracle", is_left=True),
            Column("epsilon", text=epsilon_text),
            Column("reports", text=thousands),
            Column("standard_error", "standard error", percent),
            Column("epsilon_any", "any year", epsilon_text),
        )
        title = f"One {self.period}'s share of {percentage(self.share)}, from {self.devices:,} devices"
        return Table(title, columns, [way.to_json() for way in self.ways()])

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know before trusting the numbers."""
        return (
            "epsilon is of one report, and any year of all reports, whatever a device holds and however it changes",
            "the last way keeps to its bound only while a value never changes; its year is the first one",
        )

    def _headline(self) -> str:
        best = self.best_panel()
        return f"epsilon {epsilon_text(self.epsilon)} of any year: {best.name}, {best.oracle.name}"

    def plot(self) -> Picture:
        """Return the share with the interval that each way would give it."""
        import numpy as np

        from overstory.presentation.charts.numbers import Dots

        ways = list(self.ways())
        half = NormalDist().inv_cdf(0.975) * np.array([way.error for way in ways])
        keeps, shares = np.array([way.epsilon_any <= self.epsilon for way in ways]), np.full(len(ways), self.share)
        caption = f"{self.as_table().caption}: 95% intervals; filled where the bound on any year holds."
        names = [way.name for way in ways]
        low, high, words = shares - half, shares + half, ("bound holds", "bound does not hold")
        drawn = Dots(names=names, shares=shares, low=low, high=high, sure=keeps, words=words).picture("year", caption)
        kept = [f" {names[at]}: {percent(low[at])} to {percent(high[at])}." for at in np.flatnonzero(keeps)]
        alt = f"The bound on any year holds for {len(kept)} of {len(ways)} ways, with 95% intervals.{''.join(kept)}"
        return replace(drawn, alt=alt)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"ways": [way.to_json() for way in self.ways()]}

    def sentences(self) -> Iterator[str]:
        best = self.best_panel()
        panel = best.panel
        assert panel is not None
        yield "The registry of the panel with the least error:"
        yield f'panel = {{cycle = "{panel.cycle}", answers = {panel.answers}}}'
        yield f'budget = {{epsilon = {self.epsilon!r}, per = "year"}}'
        yield from best.toml().split("\n")
