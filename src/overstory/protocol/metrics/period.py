"""Periods: the stretches of time within which a device reports a metric once, numbered alike everywhere, in UTC."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from overstory.protocol.errors import ParameterError

MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
WEEK: Final = 7 * DAY
YEAR: Final = 366 * DAY  # any 366 days in a row, and so every year of the calendar
MONDAY: Final = 3 * DAY  # the week of 1 January 1970, a Thursday, began three days before it

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LAST: Final = 253_402_300_800  # the first second of the year 10000, which ISO 8601's four digits cannot name
_UNITS: Final = {"minute": MINUTE, "hour": HOUR, "day": DAY, "week": WEEK}
_WORDS: Final = re.compile(r"(?:([1-9][0-9]{0,3}) )?(minute|hour|day|week)(s?)", re.ASCII)
_LABELS: Final = {WEEK: "[0-9]{4}-W[0-9]{2}", DAY: "[0-9]{4}-[0-9]{2}-[0-9]{2}"}
_MINUTE_LABEL: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}Z"


@dataclass(frozen=True, order=True)
class Period:
    """A stretch of time that divides a day, a day, or a week that starts on Monday.

    Raises
    ------
    ParameterError
        When it is neither a week, nor a day, nor some minutes that divide a day.

    Examples
    --------
    >>> day = Period.parse("day")
    >>> day.number(1795254000), day.label(20778), day.parse_label("2026-11-21")
    (20778, '2026-11-21', 20778)
    >>> half_hour = Period.parse("30 minutes")
    >>> half_hour.label(half_hour.number(1795254000)), Period.parse("week").label(2968)
    ('2026-11-21T09:30Z', '2026-W47')
    """

    seconds: int  # the length of a period in seconds

    def __post_init__(self) -> None:
        length = self.seconds
        if not isinstance(length, int) or isinstance(length, bool) or length < MINUTE:
            raise ParameterError(f"a period of {length!r} seconds: give at least a minute, {_EXAMPLES}")
        if length not in {WEEK, DAY} and (length % MINUTE or DAY % length):
            raise ParameterError(f"a period of {length} seconds does not divide a day: give {_EXAMPLES}")

    @classmethod
    def parse(cls, text: str) -> Period:
        """Return the period of that name: "hour", "day", "week", "30 minutes", "6 hours".

        Raises
        ------
        ParameterError
            When it is none.
        """
        matched = _WORDS.fullmatch(text) if isinstance(text, str) else None
        if matched is None or (matched[1] in {None, "1"}) == bool(matched[3]):
            raise ParameterError(f"{text!r} is no period: give {_EXAMPLES}")
        return cls(int(matched[1] or 1) * _UNITS[matched[2]])

    def __str__(self) -> str:
        for unit, length in reversed(_UNITS.items()):
            if self.seconds % length == 0:
                count = self.seconds // length
                return unit if count == 1 else f"{count} {unit}s"
        raise AssertionError(self.seconds)

    @cached_property
    def _shift(self) -> int:
        return MONDAY if self.seconds == WEEK else 0

    def number(self, unix_time: float) -> int:
        """Return the number of the period that a time lies in; period 0 holds the first second of 1970."""
        return int((unix_time + self._shift) // self.seconds)

    def start(self, number: int) -> int:
        """Return the first second of a period, in unix time; it ends where the next one starts."""
        return number * self.seconds - self._shift

    def last_ended(self, unix_time: float, days: int) -> int:
        """Return the last period that had ended `days` days before a time."""
        return self.number(unix_time - days * DAY) - 1

    @property
    def numbers(self) -> range:
        """The periods that have a label: those that start in the years 1970 to 9999."""
        return range(1 if self._shift else 0, self.number(_LAST - 1) + 1)

    def label(self, number: int) -> str:
        """Return what a period is called: ISO 8601, in UTC.

        Raises
        ------
        ParameterError
            When it starts outside of the years 1970 to 9999.
        """
        if not isinstance(number, int) or number not in self.numbers:  # a range searches for a float one by one
            raise ParameterError(f"period {number!r} is outside of the years 1970 to 9999: give {self._wanted}")
        start = _EPOCH + dt.timedelta(seconds=self.start(number))
        if self.seconds == WEEK:
            year, week, _ = start.isocalendar()
            return f"{year}-W{week:02}"
        return start.strftime("%Y-%m-%d" if self.seconds == DAY else "%Y-%m-%dT%H:%MZ")

    def parse_label(self, text: str) -> int:
        """Return the number of the period of that label, the inverse of `label`.

        Raises
        ------
        ParameterError
            When no period of this length is called so.
        """
        number = self.number(self._read(text))
        if number not in self.numbers or self.label(number) != text:
            raise ParameterError(f"{text!r} is no {self}: give {self._wanted}")
        return number

    def _read(self, text: str) -> float:
        try:
            if re.fullmatch(_LABELS.get(self.seconds, _MINUTE_LABEL), text, re.ASCII):
                return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC).timestamp()
        except (ValueError, OverflowError, TypeError):
            pass
        raise ParameterError(f"{text!r} is no {self}: give {self._wanted}")

    @property
    def _wanted(self) -> str:
        example = {WEEK: "2026-W47", DAY: "2026-11-21"}.get(self.seconds, "2026-11-21T09:00Z")
        return f"one such as {example}"


_EXAMPLES: Final = '"hour", "day", "week", or minutes or hours that divide a day, such as "30 minutes" or "6 hours"'
