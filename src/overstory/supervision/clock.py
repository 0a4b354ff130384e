"""The clock of a daemon: no single reading of it drops or holds back anything."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final

JUMP: Final = 60.0
"""Seconds by which the two clocks may differ more than at the last reading: corrections are smaller, and slow."""

TRIAL: Final = 3600.0  # seconds for which a clock must run evenly before it is trusted


# Returns the seconds of a clock that never jumps; on Linux it counts while the machine sleeps.
steady: Final[Callable[[], float]] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
)


class ClockWatch:
    """Reads the wall clock, and continues by itself where that jumps away from a time that was trusted.

    A clock that jumps ahead makes every batch id expire, and every message that waits too old. So the wall clock is
    compared with one that never jumps, and is trusted once it has run evenly for an hour. Where a trusted clock jumps,
    time goes on from before, until the clock has been even for an hour again. What is never trusted, after a start, is
    followed at once: it may just have been set right.
    """

    def __init__(
        self, wall: Callable[[], float] = time.time, even: Callable[[], float] = steady, trial: float = TRIAL
    ) -> None:
        self._wall, self._even, self._trial = wall, even, trial
        self._since = self._now = even()
        self._apart = self._believed = wall() - self._since
        self._firm = self.jumped = False  # jumped: and not trusted again yet
        self.leapt = 0.0  # seconds, in all, by which the time that `read` returns has moved other than evenly
        self._reading = threading.Lock()

    def read(self) -> float:
        with self._reading:
            even, wall = self._even(), self._wall()
            if self._even() - even > 1.0:  # the process stood still between the two
                even, wall = self._even(), self._wall()
            apart = wall - even
            if abs(apart - self._apart) > JUMP:
                self._since, self.jumped = even, True
            self._apart, self._now = apart, even
            if self.trusted:
                self._firm, self.jumped = True, False
            leap = apart - self._believed
            if self.jumped and self._firm and abs(leap) > JUMP:
                return even + self._believed
            self._believed = apart
            self.leapt += leap if abs(leap) > JUMP else 0.0
            return wall

    def vouch(self) -> None:
        """Say that the time is right by what was stored before: where the clock jumps now, time goes on from before."""
        self._firm = True

    @property
    def trusted(self) -> bool:
        """Whether the clock, when it was last read, had run evenly for an hour."""
        return self._now - self._since >= self._trial
