"""Numbers in sentences, and pairs in lines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator


def counted(number: int, thing: str) -> str:
    """Return a number of things, in words that agree with it.

    Examples
    --------
    >>> counted(1, "report"), counted(0, "report"), counted(1200, "distinct value")
    ('1 report', '0 reports', '1,200 distinct values')
    """
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def duration(seconds: float) -> str:
    """Return a time in words, its minutes or hours rounded up.

    Examples
    --------
    >>> duration(18_700), duration(60), duration(7200), duration(0), duration(180_000)
    ('5 h 12 min', '1 min', '2 h', '0 min', '2 days 2 h')
    """
    minutes = math.ceil(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 else "")
    hours = math.ceil(minutes / 60)
    return f"{hours // 24} days" + (f" {hours % 24} h" if hours % 24 else "")


def share(probability: float) -> str:
    """Return a probability as a percentage of three digits that means something; never 0 or 100 where it is not.

    Examples
    --------
    >>> share(1 / 6), share(0.5), share(0.00012345), share(0.99996), share(1.0), share(0.0)
    ('16.7%', '50%', '0.0123%', '99.996%', '100%', '0%')
    """
    percent = 100 * probability
    text = f"{percent:.3g}"
    if text == "100" and probability < 1:
        text = f"{percent:.6g}" if percent < 99.9999 else "above 99.9999"
    return f"{'below 0.0001' if 0 < percent < 0.0001 else text}%"


def columns(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    r"""Return each pair as one indented line, however long, the second part of all at the same place.

    Examples
    --------
    >>> print(*columns([("epsilon 1.0000", "one report"), ("no bound", "two")]), sep="\n")
      epsilon 1.0000  one report
      no bound        two
    """
    listed = list(pairs)
    room = max((len(first) for first, _ in listed), default=0)
    yield from (f"  {first:<{room}}  {second}" for first, second in listed)
