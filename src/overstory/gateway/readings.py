"""Lines of CSV or JSON into readings, a time and a value each, and readings into one value per period.

No file is opened here, there is no clock, and no bad line stops it. Late and missing readings are counted.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Any, Final, Literal, get_args

from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.metrics import Metric
from overstory.protocol.wire import parse_digits

_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]*)?", re.ASCII)
_LAST: Final = 253_402_300_800  # the first second of the year 10000


def zone_named(name: str) -> tzinfo:
    """Return a time zone by its IANA name; "UTC" needs no database."""
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
    """Return the unix time that is written: ISO 8601 text, or unix seconds as a number or its digits."""
    if isinstance(raw, int | float) and not isinstance(raw, bool):
        return _within(float(raw), raw)
    if not isinstance(raw, str):
        raise ParameterError(f"{raw!r} is no time: give ISO 8601 or unix seconds")
    text = raw.strip()
    if _NUMBER.fullmatch(text):
        return _within(float(text), raw)
    try:
        written = datetime.fromisoformat(text)
        # A local time that comes twice is the first one, unless only the second is after the reading before it.
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
LONGEST: Final = 1 << 16  # bytes of a line; longer ones are bad


@dataclass(frozen=True, slots=True)
class Reading:
    """A value that was true at a time; one that was none is reported as nothing, for silence would show."""

    line: int  # its number, from 1
    time: float  # unix seconds
    value: Any  # what the metric's domain takes
    fault: BadLine | None = None  # why there is no value, where there is none


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no reading, and why."""

    line: int  # its number, from 1
    field: str | None  # the column at fault, where it is one
    detail: str

    def error(self, source: str) -> FormatError:
        return FormatError(self.detail, source=source, line=self.line, field=self.field)


@dataclass(frozen=True)
class Layout:
    """How lines are written."""

    format: Format | None = None  # None: JSON where the first line that is not blank begins with {
    time: str = "time"  # a column: its name, or its number from 1; with names, CSV begins with a header
    value: str = "value"
    zone: tzinfo = UTC  # of times that state no offset


class _Refused(Exception):  # noqa: N818 - not an error: a line that is counted
    def __init__(self, field: str | None, detail: str) -> None:
        super().__init__(detail)
        self.field, self.detail = field, detail


def read_lines(lines: Iterable[bytes], layout: Layout, metric: Metric, source: str) -> Iterator[Reading | BadLine]:
    """Yield a reading for each line with a time, and a bad line for any other that is not blank."""
    form = layout.format
    cells: Callable[[int, str], tuple[Any, Any] | None] | None = None
    # A value outside the domain is noticed when it is reported.
    convert, before = {float: _number, int: _whole, str: _word}[metric.domain.value_type], None
    for number, raw in enumerate(lines, start=1):
        try:
            text = _text(raw, number)
            if not text.strip():
                continue
            form = form or ("jsonl" if text.lstrip().startswith("{") else "csv")
            cells = cells or (_CsvCells(layout, source) if form == "csv" else _json_cells(layout))
            if (cell_pair := cells(number, text)) is None:
                continue
            time, value = cell_pair
            try:
                before = unix_time(time, layout.zone, before)
            except ParameterError as error:
                if number == 1 and form == "csv":
                    continue  # a header over columns that were given by number
                raise _Refused(layout.time, str(error)) from None
        except _Refused as refused:
            yield BadLine(number, refused.field, refused.detail)
            continue
        try:
            yield Reading(number, before, convert(value))
        except _Refused as refused:
            yield Reading(number, before, None, BadLine(number, layout.value, refused.detail))


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
        numbered = [parse_digits(name) for name in (layout.time, layout.value)]
        self._places: tuple[int, int] | None = None
        if numbered[0] is not None and numbered[1] is not None:
            self._places = numbered[0] - 1, numbered[1] - 1
            if min(self._places) < 0:
                raise ParameterError("columns are numbered from 1")
        elif numbered != [None, None]:
            raise ParameterError(f"columns {layout.time!r} and {layout.value!r}: give two names, or two numbers")

    def __call__(self, number: int, text: str) -> tuple[str, str | None] | None:
        try:
            cells = next(csv.reader([text], strict=True))
        except csv.Error as error:
            raise _Refused(None, f"this is no line of CSV: {error}") from None
        if self._places is None:
            self._places = self._found(number, [cell.strip() for cell in cells])
            return None
        time, value = self._places
        if len(cells) <= time:
            raise _Refused(None, f"expected at least {time + 1} cells, found {len(cells)}")
        return cells[time], cells[value] if value < len(cells) else None

    def _found(self, number: int, header: list[str]) -> tuple[int, int]:
        for name in (self._layout.time, self._layout.value):
            if name not in header:
                raise FormatError(
                    f"there is no column {name!r} in {', '.join(header)}: name the columns, or number them",
                    source=self._source,
                    line=number,
                )
        return header.index(self._layout.time), header.index(self._layout.value)


def _json_cells(layout: Layout) -> Callable[[int, str], tuple[Any, Any]]:
    def cells(_: int, text: str) -> tuple[Any, Any]:
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError):
            raise _Refused(None, "this is no line of JSON") from None
        if not isinstance(fields, dict):
            raise _Refused(None, "expected a JSON object")
        if layout.time not in fields:
            raise _Refused(layout.time, "it is missing")
        return fields[layout.time], fields.get(layout.value)

    return cells


def _no_value(raw: Any, kind: str) -> _Refused:
    return _Refused(None, "it is missing" if raw is None else f"{raw!r:.60} is no {kind}")


def _number(raw: Any) -> float:
    try:
        number = math.nan if isinstance(raw, bool) else float(raw)
    except (ValueError, TypeError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise _no_value(raw, "finite number")
    return number


def _whole(raw: Any) -> int:
    try:
        number = _number(raw) if not isinstance(raw, int | str) else None if isinstance(raw, bool) else int(raw)
    except ValueError:
        number = None
    if number is None or number != int(number):
        raise _no_value(raw, "whole number")
    return int(number)


def _word(raw: Any) -> str:
    if not isinstance(raw, str):
        raise _no_value(raw, "text")
    return raw.strip()


Pick = Literal["last", "mean", "sum"]  # how several readings of a period become its value


@dataclass(frozen=True, slots=True)
class Due:
    """A period that is over, and the value to report for it; None, reported as nothing, where no reading had one."""

    period: int
    value: Any


@dataclass
class Seen:
    """Counts of readings by what became of them."""

    used: int = 0  # readings that entered a period's value
    late: int = 0  # of a period that had been reported
    duplicate: int = 0  # at the very time of another one of its period: the first stands
    already: int = 0  # of a period that an earlier run reported
    missing: int = 0  # periods without a reading: nothing is reported of them


@dataclass
class _Open:
    """The period that is still open."""

    period: int
    times: set[float] = field(default_factory=set)
    values: list[Any] = field(default_factory=list)
    newest: float = -math.inf


class Alignment:
    """Aligns readings to a metric's periods; nothing up to `done`, the last period reported before, comes again."""

    def __init__(self, metric: Metric, *, pick: Pick = "last", done: int | None = None) -> None:
        _check(metric, pick)
        self._period, self._pick = metric.period, pick
        self._whole = metric.domain.value_type is int
        self._done, self._settled = done, done
        self._open: _Open | None = None
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
            # A file that is read again from its beginning comes through the periods that are done, in order.
            resuming = self._is_done(number) and self._settled == self._done
            if self._settled is not None and number <= self._settled and not resuming:
                self.seen.late += reading.value is not None
                return
            self._pass_over(number)
            self._open = _Open(number)
        if reading.value is not None:
            self._add(self._open, number, reading)

    def pass_time(self, now: float) -> Iterator[Due]:
        """Yield the periods that are over at a time, whether readings come or not."""
        number = self._period.number(now)
        if self._open is not None and number > self._open.period:
            yield from self._close()
        if self._open is None:
            self._pass_over(number)

    def finish(self) -> Iterator[Due]:
        """Yield the open period: nothing more will come."""
        if self._open is not None:
            yield from self._close()

    def _is_done(self, number: int) -> bool:
        return self._done is not None and number <= self._done

    def _add(self, current: _Open, number: int, reading: Reading) -> None:
        done = self._is_done(number)
        if number < current.period:
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
            self.seen.already += done
            self.seen.used += not done

    def _close(self) -> Iterator[Due]:
        assert self._open is not None
        current, self._open = self._open, None
        if not self._is_done(current.period):
            self._settled = current.period
            yield Due(current.period, self._value(current.values) if current.values else None)

    def _value(self, values: list[Any]) -> Any:
        if self._pick == "last":
            return values[-1]
        if self._whole:
            return sum(values)
        try:
            return math.fsum(values) / (len(values) if self._pick == "mean" else 1)
        except OverflowError:  # past the largest float, which no domain takes
            return math.inf

    def _pass_over(self, until: int) -> None:
        """Count the periods before `until` that had no reading."""
        if self._settled is not None and until > self._settled + 1:
            self.seen.missing += until - self._settled - 1
            self._settled = until - 1


def _check(metric: Metric, pick: str) -> None:
    if pick not in get_args(Pick):
        raise ParameterError(f"pick = {pick!r}: choose one of {', '.join(get_args(Pick))}")
    if metric.domain.value_type is tuple:
        raise ParameterError(f"{metric.id} takes several values together, and a reading is one: record it in a program")
    if pick != "last" and metric.domain.value_type is str:
        raise ParameterError(f"{metric.id} has no numbers: of several readings only the last can be picked")
    if pick == "mean" and metric.domain.value_type is int:
        raise ParameterError(f"{metric.id} takes whole numbers, and a mean is none: pick the last, or the sum")
