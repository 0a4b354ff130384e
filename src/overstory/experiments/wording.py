"""Numbers as they are shown beside each other: in the terminal, on the page, in Markdown."""

from __future__ import annotations

import math

from overstory.experiments.comparison import AT_LEAST, AT_MOST, DIFFERS, Comparison, Published
from overstory.experiments.result import Cell


def number(value: float) -> str:
    """Return a number to five significant digits, or whole with commas.

    Examples
    --------
    >>> number(1.07429), number(2810.0), number(186792), number(1.39e-24), number(0.0)
    ('1.0743', '2,810', '186,792', '1.39e-24', '0')
    """
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if value == 0 or (size < 1e9 and value == round(value)):
        return f"{value:,.0f}"
    if size >= 1e9 or size < 1e-3:
        return f"{value:.4g}"
    return f"{value:,.0f}" if size >= 1e3 else f"{value:.5g}"


def cell(value: Cell) -> str:
    """Return a table's cell as text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else number(value)


def published(known: Published | None) -> str:
    """Return what a paper says, with its place."""
    if known is None:
        return "not published"
    if isinstance(known.value, str):
        return f"{known.value} ({known.where})"
    bound = f"{known.sense} " if known.sense in {AT_LEAST, AT_MOST} else ""
    return f"{bound}{number(known.value)} ({known.where})"


def ours(comparison: Comparison) -> str:
    """Return what we find, with its interval where it has one."""
    if isinstance(comparison.ours, str):
        return comparison.ours
    shown = number(comparison.ours)
    if comparison.low == comparison.high or comparison.low is None or comparison.high is None:
        return shown
    return f"{shown} [{number(comparison.low)}, {number(comparison.high)}]"


def verdict(comparison: Comparison) -> str:
    """Return the verdict, with its reason where it differs."""
    if comparison.verdict != DIFFERS:
        return comparison.verdict
    return f"differs: {comparison.because or 'unexplained'}"


def name(comparison: Comparison) -> str:
    """Return what is compared, with its unit."""
    return f"{comparison.name} ({comparison.unit})" if comparison.unit else comparison.name
