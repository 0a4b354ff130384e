"""Numbers in sentences."""

from __future__ import annotations


def counted(number: int, thing: str) -> str:
    """Return a number of things, in words that agree with it.

    Examples
    --------
    >>> counted(1, "report"), counted(0, "report"), counted(1200, "distinct value")
    ('1 report', '0 reports', '1,200 distinct values')
    """
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
