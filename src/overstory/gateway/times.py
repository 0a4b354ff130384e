"""Times as meters write them: ISO 8601 with an offset, or local times of a zone; or unix seconds."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from typing import Any, Final

from overstory.protocol.errors import ParameterError

_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]*)?", re.ASCII)
_LAST: Final = 253_402_300_800  # the first second of the year 10000


def zone_named(name: str) -> tzinfo:
    """Return a time zone by its IANA name.

    Raises
    ------
    ParameterError
        When this machine knows no such zone.

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
    zone
        Of texts without an offset.
    after
        The time of the reading before.

    Raises
    ------
    ParameterError
        When it is no time, or one that clocks leap over.

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
