"""Periods as the columns of a chart: where there are too many, counts are added up over neighbours. None is dropped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.analysis.reports import SupportCounts
from overstory.presentation.charts.numbers import counts_over_time
from overstory.presentation.charts.series import MOST_COLUMNS, Event
from overstory.protocol.metrics.period import DAY, Period
from overstory.queries.counts import PeriodCounts
from overstory.queries.estimates import EstimateSeries
from overstory.queries.readings import Aggregation, EstimateOptions, PeriodEstimate

if TYPE_CHECKING:
    from overstory.collector.store.operations import Note
    from overstory.console.data import ConsoleData
    from overstory.presentation.svg import Picture
    from overstory.protocol.metrics import Metric

MOST_CUMULATIVE: Final = 60
"""Each of them adds up all counts before it."""
EVENTS: Final = ("release", "incident")


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a chart, `every` periods in each.

    Column c has the periods ``c * every`` to ``(c + 1) * every - 1``: the same ones whichever range is shown.
    """

    counted: PeriodCounts
    every: int
    first: int  # the number of the first column
    number: int  # of columns

    @classmethod
    def of(cls, counted: PeriodCounts, every: int | None, most: int = MOST_COLUMNS) -> Columns:
        """Return columns of `every` periods; unless given, of as few as `most` columns need."""
        periods = counted.periods
        if not periods:
            return cls(counted, every or 1, 0, 0)
        span = periods[-1] - periods[0] + 1
        width = every or max(1, -(-span // most))
        while (number := periods[-1] // width - periods[0] // width + 1) > most:
            width += 1
        return cls(counted, width, periods[0] // width, number)

    @property
    def labels(self) -> list[str]:
        """The name of each column: that of its first period."""
        label = self.counted.metric.period.label
        return [label(max(column * self.every, 0)) for column in range(self.first, self.first + self.number)]

    @property
    def unit(self) -> str:
        """What a column is, for the axis."""
        unit = str(self.counted.metric.period)
        return unit if self.every == 1 else f"each column adds up {self.every:,} periods of {unit}"

    def events(self, notes: Iterable[Note]) -> list[Event]:
        """Return releases and incidents of the range at the place of their day; a column's middle is at its number."""
        period = self.counted.metric.period
        return [
            Event(place, note.text, "incident" if note.kind == "incident" else "release")
            for note in notes
            if note.kind in EVENTS and -0.5 <= (place := self._place(period, note.day * DAY)) <= self.number - 0.5
        ]

    def _place(self, period: Period, unix_time: int) -> float:
        number = period.number(unix_time)
        part = (unix_time - period.start(number)) / period.seconds
        return (number + part) / self.every - self.first - 0.5

    def reports(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return the reports of each column."""
        numbers = np.zeros(self.number)
        for period in self.counted.periods:
            numbers[period // self.every - self.first] += self.counted.counts[period].num_reports
        return numbers

    def estimates(self, data: ConsoleData, reading: Aggregation, options: EstimateOptions) -> EstimateSeries:
        """Return an estimate for each column with reports, as `overstory decode` gives it for the same periods."""
        chosen = replace(options, interval_kind=options.kind_of_intervals(reading))
        if self.every == 1 or reading == "total":
            return data.estimates(self.counted, reading, chosen)
        stretches: list[PeriodCounts] = []
        taken: dict[int, SupportCounts] = {}
        for group in self._groups():
            taken = {**taken, **group} if reading == "cumulative" else group
            of_stretch = {period: n for period, n in self.counted.taken_out.items() if period in taken}
            stretches.append(
                PeriodCounts(
                    self.counted.metric, min(taken), max(taken), taken, self.counted.others, taken_out=of_stretch
                )
            )
        if chosen.reports_per_device is None:
            series = data.all_estimates(stretches, "total", chosen)
        else:
            series = [data.estimates(some, "total", _limited(chosen, len(some.periods))) for some in stretches]
        parts = tuple(part for stretch in series for part in stretch.parts)
        return EstimateSeries(self.counted, reading, chosen, parts, series[-1].notes if series else ())

    def _groups(self) -> Sequence[dict[int, SupportCounts]]:
        groups: dict[int, dict[int, SupportCounts]] = {}
        for period in self.counted.periods:
            groups.setdefault(period // self.every, {})[period] = self.counted.counts[period]
        return list(groups.values())

    def column(self, part: PeriodEstimate) -> int:
        """Return the column that a part ends in."""
        return part.last // self.every - self.first


def _limited(options: EstimateOptions, periods: int) -> EstimateOptions:
    """Return options for fewer periods: a device reports once in each."""
    given = options.reports_per_device
    return options if given is None else replace(options, reports_per_device=min(given, periods))


def reports_picture(metric: Metric, columns: Columns) -> Picture:
    """Draw the reports of each column."""
    return counts_over_time(
        f"{metric.id}-reports",
        f"Reports by {columns.unit}." if columns.every == 1 else f"Reports; {columns.unit}.",
        columns.labels,
        columns.reports(),
        xlabel=columns.unit,
    )
