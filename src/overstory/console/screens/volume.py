"""How many reports a metric has, period by period, and whether the newest period that is over stands out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from overstory.analysis.alarms.alarm import BEFORE, HIGHEST_VOLUME, LOWEST_VOLUME
from overstory.collector.settings import DAY
from overstory.console.screens.facts import state_words

if TYPE_CHECKING:
    from overstory.console.data import ConsoleData
    from overstory.presentation.document import Tone
    from overstory.protocol.metrics import Metric

DRAWN: Final = 26
WEEK: Final = 7 * DAY


@dataclass(frozen=True)
class Volume:
    """The reports of a metric: of each period, and of the newest one that is over against those before.

    Examples
    --------
    >>> from overstory.protocol.metrics.registry import EXAMPLE, parse_registry
    >>> metric = parse_registry(EXAMPLE)["colour"]
    >>> volume = Volume(metric, 2968, {2958: 10, 2960: 90, 2961: 110, 2967: 30, 2968: 5})
    >>> volume.reports, volume.median, volume.tone
    (30, 0.0, '')
    >>> Volume(metric, 2968, dict.fromkeys(range(2950, 2967), 100) | {2967: 30}).words
    '30 reports in 2026-W46, the median of the 8 periods before is 100'
    """

    metric: Metric
    current: int  # the running period
    by_period: Mapping[int, int]

    @classmethod
    def of(cls, data: ConsoleData, metric: Metric) -> Volume:
        """Read the reports of a metric, whatever parameters they were made with."""
        current = metric.period.number(data.clock())
        week = metric.period.number(data.clock() - WEEK)
        tally = data.store.tally(metric.id, min(week, current - DRAWN - BEFORE), current + 1)
        by_period: dict[int, int] = {}
        for (period, _), reports in tally.items():
            by_period[period] = by_period.get(period, 0) + reports
        return cls(metric, current, by_period)

    @property
    def reports(self) -> int:
        """Reports of the newest period that is over."""
        return self.by_period.get(self.current - 1, 0)

    @property
    def median(self) -> float | None:
        """The median of the periods before it; None when the metric is younger."""
        began = min(self.by_period, default=self.current)
        first = self.current - 1 - BEFORE
        if began > first:
            return None
        return median(self.by_period.get(period, 0) for period in range(first, self.current - 1))

    @property
    def share(self) -> float | None:
        """Its reports as a share of the median."""
        return None if not self.median else self.reports / self.median

    @property
    def tone(self) -> Tone:
        """Whether it stands out; an ended metric has no reports, and should have none."""
        ended = self.metric.expired(self.metric.period.start(self.current - 1))
        return "" if ended or self.share is None else volume_tone(self.share)

    @property
    def words(self) -> str:
        """The comparison in words."""
        label = self.metric.period.label(self.current - 1)
        return f"{self.reports:,} reports in {label}, the median of the {BEFORE} periods before is {self.median:,.0f}"

    @property
    def line(self) -> Sequence[int]:
        """The reports of the last periods that are over, from the first that has any."""
        first = max(min(self.by_period, default=self.current), self.current - DRAWN)
        return [self.by_period.get(period, 0) for period in range(first, self.current)]

    def of_a_week(self, now: float) -> int:
        """Return the reports of the periods that ended within seven days."""
        ends = self.metric.period.start
        return sum(n for period, n in self.by_period.items() if now - WEEK < ends(period + 1) <= now)

    def row(self, data: ConsoleData) -> dict[str, Any]:
        """Return its row of the table."""
        periods = data.store.periods(self.metric.id)
        last = periods[-1] if periods else None
        return {
            "metric": self.metric.id,
            "title": self.metric.title,
            "last": "none" if last is None else self.metric.period.label(last),
            "state": "" if last is None else state_words(data, self.metric, last),
            "period": self.metric.period.label(self.current - 1),
            "reports": self.reports,
            "median": self.median,
            "share": self.share,
            "running": self.by_period.get(self.current, 0),
        }


def volume_tone(share: float | None) -> Tone:
    """Return whether a share of the median stands out."""
    return "bad" if share is not None and not LOWEST_VOLUME <= share <= HIGHEST_VOLUME else ""
