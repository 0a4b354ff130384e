"""What travels between a device and a collector: batches, uploads, reasons of refusal."""

import re
from typing import Final

METRIC_ID: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)
"""What a metric may be called."""

GROUP: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._+-]{0,30}[A-Za-z0-9._+-])?", re.ASCII)
"""What a group may be called: one name for each group, without invisible or look-alike characters."""

MOST_DIGITS: Final = 18
"""More than any length or number of ours has; `int` raises past 4,300, and takes its time before."""


def parse_digits(text: str | bytes) -> int | None:
    r"""Return the number that a few ASCII digits spell; None for anything else.

    >>> parse_digits("567"), parse_digits(b"010"), parse_digits("+1"), parse_digits("\u00b2"), parse_digits("1" * 5000)
    (567, 10, None, None, None)
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else None
