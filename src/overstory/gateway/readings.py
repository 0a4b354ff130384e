"""Lines of CSV or JSON into readings: a time and a value each. No file is opened here, and no bad line stops it.

Times as meters write them: ISO 8601 with an offset, or local times of a zone; or unix seconds.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any, Final, Literal

from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.metrics import Metric

_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]*)?", re.ASCII)
_LAST: Final = 253_402_300_800  # the first second of the year 10000


def zone_named(name: str) -> tzinfo:
    """Return a time zone by its IANA name.

    Parameters
    ----------
    name
        The IANA name, such as ``Europe/Berlin``; "UTC" needs no database.

    Raises
    ------
    ParameterError
        When this machine's database has no such zone.

    Examples
    --------
    >>> zone_named("UTC")
    datetime.timezone.utc
    """
    if name.upper() == "UTC":
        return UTC
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ParameterError(
            f"no time zone {name!r} is known here: give one such as Europe/Berlin (on Windows: pip install tzdata)"
        ) from None


def unix_time(raw: Any, zone: tzinfo, after: float | None = None) -> float:
    """Return the unix time that is written.

    A local time that comes twice, when clocks are set back, is the first one, unless that is not after the reading
    before it: then it is the second. So a file in order is read in order.

    Parameters
    ----------
    raw
        ISO 8601 text; or unix seconds, as a number or its digits.

    Examples
    --------
    >>> unix_time("2026-11-21T10:00+01:00", UTC), unix_time("2026-11-21 09:00", UTC), unix_time(1795251600, UTC)
    (1795251600.0, 1795251600.0, 1795251600.0)
    """
    if isinstance(raw, int | float) and not isinstance(raw, bool):
        return _within(float(raw), raw)
    if not isinstance(raw, str):
        raise ParameterError(f"{raw!r} is no time: give ISO 8601 or unix seconds")
    text = raw.strip()
    if _NUMBER.fullmatch(text):
        return _within(float(text), raw)
    try:
        written = datetime.fromisoformat(text)
        return _within(written.timestamp() if written.tzinfo is not None else _local(written, zone, after), raw)
    except ParameterError:
        raise
    except (ValueError, OverflowError, OSError):
        raise ParameterError(f"{raw!r:.60} is no time: give ISO 8601 or unix seconds") from None


def _local(written: datetime, zone: tzinfo, after: float | None) -> float:
    first, second = (written.replace(tzinfo=zone, fold=fold).timestamp() for fold in (0, 1))
    if first > second:
        raise ParameterError(f"{written.isoformat(' ')} does not exist in {zone}: clocks leap over it")
    return second if after is not None and first <= after else first


def _within(seconds: float, raw: Any) -> float:
    if not 0 <= seconds < _LAST:
        raise ParameterError(f"{raw!r:.60} is no time from 1970 to 9999; unix times are in seconds")
    return seconds


Format = Literal["csv", "jsonl"]
LONGEST: Final = 1 << 16
"""Bytes of a line; longer ones are bad."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A value that was true at a time (unix seconds); `line` is its line in the file.

    Attributes
    ----------
    line
        The number of the line that it was read from, from 1.
    time
        When the value was true, in unix seconds.
    value
        The value, of the kind that the metric's domain takes.
    """

    line: int
    time: float
    value: Any


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no reading, and why.

    Attributes
    ----------
    line
        The number of the line, from 1.
    field
        The name of the column at fault, where it is one.
    detail
        What is wrong, and what would be right.
    """

    line: int
    field: str | None
    detail: str

    def error(self, source: str) -> FormatError:
        """Return the error that it is where nothing bad is let pass."""
        return FormatError(self.detail, source=source, line=self.line, field=self.field)


@dataclass(frozen=True)
class Layout:
    """How lines are written.

    Attributes
    ----------
    format
        How a line is written: "csv", or "jsonl" for a JSON object in each line.
    time, value
        Columns: names, or numbers from 1. CSV by names begins with a header; by numbers it may.
    zone
        The time zone of times that state no offset.
    """

    format: Format = "csv"
    time: str = "time"
    value: str = "value"
    zone: tzinfo = UTC


class _Refused(Exception):  # noqa: N818 - not an error: a line that is counted
    def __init__(self, field: str | None, detail: str) -> None:
        super().__init__(detail)
        self.field, self.detail = field, detail


def read_lines(lines: Iterable[bytes], layout: Layout, metric: Metric, source: str) -> Iterator[Reading | BadLine]:
    """Yield a reading or a bad line for each line that is not blank.

    Parameters
    ----------
    lines
        The lines as bytes, UTF-8, such as `bounded_lines` yields.
    layout
        The format, the columns and the time zone.
    metric
        The metric, whose domain decides what a value must be.
    source
        What errors call the lines: the file's name.

    Examples
    --------
    >>> from overstory.protocol.metrics import parse_registry
    >>> from overstory.protocol.metrics.registry import EXAMPLE
    >>> colour = parse_registry(EXAMPLE)["colour"]
    >>> list(read_lines([b"time,value", b"2026-11-21,red", b"noon,red"], Layout(), colour, "file"))
    [Reading(line=2, time=1795219200.0, value='red'), BadLine(line=3, field='time', detail="'noon' is no time: ...")]
    """
    cells = _CsvCells(layout, source) if layout.format == "csv" else _json_cells(layout)
    convert, before = _converter(metric), None
    for number, raw in enumerate(lines, start=1):
        try:
            cell_pair = cells(number, _text(raw, number))
            if cell_pair is None:
                continue
            time, value = cell_pair
            try:
                before = unix_time(time, layout.zone, before)
            except ParameterError as error:
                if number == 1 and layout.format == "csv":
                    continue  # a header over columns that were given by number
                raise _Refused("time", str(error)) from None
            yield Reading(number, before, convert(value))
        except _Refused as refused:
            yield BadLine(number, refused.field, refused.detail)


def _text(raw: bytes, number: int) -> str:
    if len(raw) > LONGEST:
        raise _Refused(None, f"the line has more than {LONGEST} bytes")
    try:
        return raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise _Refused(None, f"expected UTF-8 text ({error.reason})") from None


class _CsvCells:
    """Finds the two cells of a line of CSV."""

    def __init__(self, layout: Layout, source: str) -> None:
        self._layout, self._source = layout, source
        numbered = [name.isdecimal() for name in (layout.time, layout.value)]
        self._places: tuple[int, int] | None = None
        if all(numbered):
            self._places = int(layout.time) - 1, int(layout.value) - 1
            if min(self._places) < 0:
                raise ParameterError("columns are numbered from 1")
        elif any(numbered):
            raise ParameterError(f"columns {layout.time!r} and {layout.value!r}: give two names, or two numbers")

    def __call__(self, number: int, text: str) -> tuple[str, str] | None:
        if not text.strip():
            return None
        try:
            cells = next(csv.reader([text], strict=True))
        except csv.Error as error:
            raise _Refused(None, f"this is no line of CSV: {error}") from None
        if self._places is None:
            self._places = self._found(number, [cell.strip() for cell in cells])
            return None
        if len(cells) <= max(self._places):
            raise _Refused(None, f"expected at least {max(self._places) + 1} cells, found {len(cells)}")
        return cells[self._places[0]], cells[self._places[1]]

    def _found(self, number: int, header: list[str]) -> tuple[int, int]:
        for name in (self._layout.time, self._layout.value):
            if name not in header:
                raise FormatError(
                    f"there is no column {name!r} in {', '.join(header)}: name the columns, or number them",
                    source=self._source,
                    line=number,
                )
        return header.index(self._layout.time), header.index(self._layout.value)


def _json_cells(layout: Layout) -> Callable[[int, str], tuple[Any, Any] | None]:
    def cells(_: int, text: str) -> tuple[Any, Any] | None:
        if not text.strip():
            return None
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError):
            raise _Refused(None, "this is no line of JSON") from None
        if not isinstance(fields, dict):
            raise _Refused(None, "expected a JSON object")
        for name in (layout.time, layout.value):
            if name not in fields:
                raise _Refused(name, "it is missing")
        return fields[layout.time], fields[layout.value]

    return cells


def _converter(metric: Metric) -> Callable[[Any], Any]:
    """Return what turns a cell into a value; a value outside the domain is noticed when it is reported."""
    return {float: _number, int: _whole, str: _word}[metric.domain.value_type]


def _number(raw: Any) -> float:
    try:
        number = math.nan if isinstance(raw, bool) else float(raw)
    except (ValueError, TypeError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise _Refused("value", f"{raw!r:.60} is no finite number")
    return number


def _whole(raw: Any) -> int:
    try:
        number = _number(raw) if not isinstance(raw, int | str) else None if isinstance(raw, bool) else int(raw)
    except ValueError:
        number = None
    if number is None or number != int(number):
        raise _Refused("value", f"{raw!r:.60} is no whole number")
    return int(number)


def _word(raw: Any) -> str:
    if not isinstance(raw, str):
        raise _Refused("value", f"{raw!r:.60} is no text")
    return raw.strip()
