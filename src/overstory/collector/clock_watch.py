"""Whether the wall clock can be trusted with what cannot be undone: forgetting batch ids, deleting reports.

A clock that jumps ahead makes every batch id expire, and what is sent again is then counted twice. So the wall clock is
held against one that never jumps, and after a start or a jump it is on trial for an hour.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

JUMP: Final = 60.0
"""Seconds by which the two clocks may come apart between two readings: clocks are set right by less, and slowly."""

TRIAL: Final = 3600.0
"""Seconds for which a clock must have run evenly to be trusted."""


def steady() -> float:
    """Return the seconds of a clock that never jumps; on Linux it runs on while the machine sleeps."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


class ClockWatch:
    """Reads the wall clock, and remembers when it last jumped.

    Parameters
    ----------
    wall, even
        Unix time in seconds; seconds of a clock that never jumps.

    Examples
    --------
    >>> wall, even = 1_800_000_000.0, 0.0
    >>> watch = ClockWatch(lambda: wall, lambda: even)
    >>> watch.read(), watch.trusted, watch.jumped
    (1800000000.0, False, False)
    >>> wall, even = wall + 3601, even + 3601
    >>> watch.read(), watch.trusted
    (1800003601.0, True)
    >>> wall += 86_400
    >>> watch.read(), watch.trusted, watch.jumped
    (1800090001.0, False, True)
    """

    def __init__(self, wall: Callable[[], float] = time.time, even: Callable[[], float] = steady) -> None:
        self._wall, self._even = wall, even
        self._since = even()
        self._apart = wall() - self._since
        self._now = self._since
        self.jumped = False

    def read(self) -> float:
        """Return the wall clock's time, and see whether it has jumped since the last reading."""
        even, wall = self._even(), self._wall()
        apart = wall - even
        if abs(apart - self._apart) > JUMP:
            self._since, self.jumped = even, True
        self._apart, self._now = apart, even
        if self.trusted:
            self.jumped = False
        return wall

    @property
    def trusted(self) -> bool:
        """Whether, at the last reading, the clock had run evenly for an hour."""
        return self._now - self._since >= TRIAL
