"""Numbers that strangers write in digits."""

from __future__ import annotations

from typing import Final

MOST_DIGITS: Final = 18
"""More than any length or number of ours has; `int` raises past 4,300, and takes its time before."""


def parse_digits(text: str | bytes) -> int | None:
    r"""Return the number that a few ASCII digits spell; None for anything else.

    >>> parse_digits("567"), parse_digits(b"010"), parse_digits("+1"), parse_digits("\u00b2"), parse_digits("1" * 5000)
    (567, 10, None, None, None)
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else None
