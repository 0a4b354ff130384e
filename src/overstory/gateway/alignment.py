"""Aligns readings to periods: one value per period, with late and missing readings counted. No clock, no files."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from overstory.gateway.readings import Reading
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import Metric

Pick = Literal["last", "mean", "sum"]
"""How several readings of a period become its value."""

Missing = Literal["skip", "repeat", "zero"]
"""What is reported for a period without readings: nothing, the value before, or zero."""

MOST_FILLED: Final = 1000
"""Periods filled in one gap; a longer gap is an outage, or a time that is wrong."""


@dataclass(frozen=True, slots=True)
class Due:
    """A period that is over, and the value to report for it."""

    period: int
    value: Any


@dataclass
class Seen:
    """Counts of readings by what became of them.

    Attributes
    ----------
    missing, filled
        Periods without a reading, and those of them that were reported all the same.
    """

    used: int = 0  # readings that entered a period's value
    late: int = 0  # of a period that had been reported
    duplicate: int = 0  # at the very time of another one of its period: the first stands
    already: int = 0  # of a period that an earlier run reported
    missing: int = 0
    filled: int = 0


@dataclass
class _Open:
    """The period that is still open."""

    period: int
    times: set[float] = field(default_factory=set)
    values: list[Any] = field(default_factory=list)
    newest: float = -math.inf


class Alignment:
    """Aligns readings to a metric's periods.

    Parameters
    ----------
    done
        The last period that an earlier run reported: nothing up to it is reported again.

    Examples
    --------
    >>> from overstory.protocol.metrics import parse_registry
    >>> from overstory.protocol.metrics.registry import EXAMPLE
    >>> weekly = Alignment(parse_registry(EXAMPLE)["colour"])
    >>> [list(weekly.feed(Reading(1, t, v))) for t, v in ((0.0, "red"), (1.0, "blue"), (900_000.0, "red"))]
    [[], [], [Due(period=0, value='blue')]]
    """

    def __init__(
        self, metric: Metric, *, pick: Pick = "last", missing: Missing = "skip", done: int | None = None
    ) -> None:
        _check(metric, pick, missing)
        self._period, self._pick, self._missing = metric.period, pick, missing
        self._whole = metric.domain.value_type is int
        self._done, self._settled = done, done
        self._open: _Open | None = None
        self._before: Any = None
        self.seen = Seen()

    @property
    def ends(self) -> float | None:
        """When the open period is over, in unix time; None where none is open."""
        return None if self._open is None else float(self._period.start(self._open.period + 1))

    def feed(self, reading: Reading) -> Iterator[Due]:
        """Take a reading; yield the periods that are over now that it has come."""
        number = self._period.number(reading.time)
        if self._open is not None and number > self._open.period:
            yield from self._close()
        if self._open is None:
            if self._settled is not None and number <= self._settled and not self._resuming(number):
                self.seen.late += 1
                return
            yield from self._fill(number)
            self._open = _Open(number)
        self._add(self._open, number, reading)

    def pass_time(self, now: float) -> Iterator[Due]:
        """Yield the periods that are over at a time, whether readings come or not."""
        number = self._period.number(now)
        if self._open is not None and number > self._open.period:
            yield from self._close()
        if self._open is None and self._settled is not None:
            yield from self._fill(number)

    def finish(self) -> Iterator[Due]:
        """Yield the open period: nothing more will come."""
        if self._open is not None:
            yield from self._close()

    def _resuming(self, number: int) -> bool:
        """Whether a reading of a period that is done comes again from its file's beginning, in order."""
        return self._done is not None and self._settled == self._done and number <= self._done

    def _add(self, current: _Open, number: int, reading: Reading) -> None:
        if number < current.period:
            done = self._done is not None and number <= self._done
            self.seen.already += done
            self.seen.late += not done
        elif reading.time in current.times:
            self.seen.duplicate += 1
        else:
            current.times.add(reading.time)
            if self._pick != "last":
                current.values.append(reading.value)
            elif reading.time > current.newest:
                current.values = [reading.value]
            current.newest = max(current.newest, reading.time)
            self._count_used(number)

    def _count_used(self, number: int) -> None:
        if self._done is not None and number <= self._done:
            self.seen.already += 1
        else:
            self.seen.used += 1

    def _close(self) -> Iterator[Due]:
        assert self._open is not None
        current, self._open = self._open, None
        self._before = self._value(current.values)
        if self._done is not None and current.period <= self._done:
            return
        self._settled = current.period
        yield Due(current.period, self._before)

    def _value(self, values: list[Any]) -> Any:
        if self._pick == "last":
            return values[-1]
        if self._whole:
            return sum(values)
        try:
            return math.fsum(values) / (len(values) if self._pick == "mean" else 1)
        except OverflowError:  # past the largest float, which no domain takes
            return math.inf

    def _fill(self, until: int) -> Iterator[Due]:
        """Close the periods before `until` that had no reading."""
        if self._settled is None or until <= self._settled + 1:
            return
        gap = range(self._settled + 1, until)
        self._settled = until - 1
        self.seen.missing += len(gap)
        value = 0 if self._missing == "zero" else self._before
        if self._missing == "skip" or value is None:
            return
        for period in gap[:MOST_FILLED]:
            self.seen.filled += 1
            yield Due(period, value)


def _check(metric: Metric, pick: str, missing: str) -> None:
    for name, choice, choices in (("pick", pick, get_args(Pick)), ("missing", missing, get_args(Missing))):
        if choice not in choices:
            raise ParameterError(f"{name} = {choice!r}: choose one of {', '.join(choices)}")
    if metric.domain.value_type is tuple:
        raise ParameterError(f"{metric.id} takes several values together, and a reading is one: record it in a program")
    if pick != "last" and metric.domain.value_type is str:
        raise ParameterError(f"{metric.id} has no numbers: of several readings only the last can be picked")
    if pick == "mean" and metric.domain.value_type is int:
        raise ParameterError(f"{metric.id} takes whole numbers, and a mean is none: pick the last, or the sum")
    if missing == "zero" and metric.domain.value_type is str:
        raise ParameterError(f"{metric.id} has no zero: skip what is missing, or repeat the value before")
