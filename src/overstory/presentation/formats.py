"""How numbers read: each format is written once, and every table, page and sentence takes it from here."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

Format = Callable[..., str]
"""How one or several values of a row read."""

UNKNOWN: Final = "unknown"
"""How a number reads that is not known: the error of a value that the counts cannot tell from others."""


def thousands(number: float | None) -> str:
    """Return a count, rounded to a whole number.

    >>> thousands(1234567.8), thousands(None)
    ('1,234,568', 'unknown')
    """
    return UNKNOWN if number is None else f"{number:,.0f}"


def percent(share: float | None) -> str:
    """Return a share of 0 to 1 as a percentage.

    >>> percent(0.12345), percent(None)
    ('12.35%', 'unknown')
    """
    return UNKNOWN if share is None else f"{share:.2%}"


def p_value(probability: float) -> str:
    """Return a p-value or a q-value: its power of ten is what matters.

    >>> p_value(0.00123), p_value(0.0)  # a float has no room for the second
    ('1.2e-03', '<1e-300')
    """
    return f"{probability:.1e}" if probability else "<1e-300"


def detection(detected: bool) -> str:  # noqa: FBT001 - it is the format of a column
    """Return whether a value was detected."""
    return "detected" if detected else "not detected"


def if_detected(number: Format) -> Format:
    """Return the format of an estimate: a number that cannot be told from noise is not shown."""
    return lambda estimate, detected: number(estimate) if detected else detection(detected)


def interval(ends: Format) -> Format:
    """Return the format of an interval, by the format of its ends.

    >>> interval(percent)(-0.01, 0.25), interval(thousands)(None, None)
    ('-1.00% to 25.00%', 'unknown')
    """
    return lambda low, high: UNKNOWN if low is None or high is None else f"{ends(low)} to {ends(high)}"


TRUTH: Final = {True: "true", False: "false"}
"""Truth values as files hold them."""


def data_text(value: Any) -> str:
    """Return a value as files hold it: ten digits; nothing where there is no number.

    >>> data_text(1 / 3), data_text(float("nan")), data_text(None), data_text(True), data_text("oak")
    ('0.3333333333', '', '', 'true', 'oak')
    """
    if isinstance(value, float):
        return f"{value:.10g}" if math.isfinite(value) else ""
    if isinstance(value, bool):
        return TRUTH[value]
    return "" if value is None else str(value)


def finite(value: Any) -> Any:
    """Return a value as JSON holds it: None in place of a number that JSON has no word for.

    >>> finite(0.5), finite(float("inf")), finite("oak")
    (0.5, None, 'oak')
    """
    return value if not isinstance(value, float) else float(value) if math.isfinite(value) else None


def seconds_text(seconds: float) -> str:
    """Return seconds with two digits: they are an estimate.

    >>> [seconds_text(number) for number in (0.0001, 0.034, 41.3, 6620.0)]
    ['0.01', '0.03', '41', '6,600']
    """
    if seconds >= 100:
        step = 10 ** (len(str(int(seconds))) - 2)
        return f"{round(seconds / step) * step:,}"
    return f"{seconds:.0f}" if seconds >= 10 else f"{max(seconds, 0.01):.2f}".rstrip("0").rstrip(".")


def in_bytes(size: float) -> str:
    """Return a number of bytes in a unit that leaves few digits.

    >>> in_bytes(512), in_bytes(16e9)
    ('512 B', '16 GB')
    """
    for unit, power in (("TB", 12), ("GB", 9), ("MB", 6), ("kB", 3)):
        if size >= 10**power:
            return f"{size / 10**power:.3g} {unit}"
    return f"{size:.0f} B"
