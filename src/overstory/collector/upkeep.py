"""Upkeep of a collector: periodic tasks, the check of its clock, its memory reserve, the beat of its event loop.

All of it runs in threads, which wait and work by themselves. No task of the event loop is part of it: without memory, a
task may never be woken when its work is done.
"""

from __future__ import annotations

import asyncio
import logging
import mmap
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from overstory.collector.log import SparseLog
from overstory.collector.settings import MEBIBYTE
from overstory.collector.telemetry import Telemetry

AGAIN: Final = 60.0
"""A task that failed is tried again after this many seconds, where it is not due earlier."""

PAUSE: Final = 0.1
"""Seconds before a thread continues that had no memory for its own work."""

_log: Final = logging.getLogger("overstory.collector")


@dataclass(slots=True)
class Task:
    """A periodic task."""

    name: str  # its name in metrics and logs
    seconds: float  # how often
    patience: float  # seconds, in addition to three rounds, without a success until the collector is not ready
    needed: bool  # whether a single failure is enough for that
    thread: str  # the thread that runs `work`, and all other tasks of this thread
    work: Callable[[], Any]
    succeeded: float = field(default_factory=time.monotonic)
    failing: bool = False
    due: float = 0.0

    @property
    def late(self) -> float:
        """Seconds without a success after which it is late."""
        return self.patience + 3 * self.seconds


class Upkeep:
    """Runs tasks until it is stopped, also after errors."""

    def __init__(self, telemetry: Telemetry, clock: Callable[[], float] = time.monotonic) -> None:
        self._telemetry, self._clock = telemetry, clock
        self._tasks: list[Task] = []
        self._threads: list[threading.Thread] = []
        self._going = threading.Lock()  # held until the end: waiting for a lock takes no memory
        self._going.acquire()
        self._faults = SparseLog(_log)
        telemetry.upkeep = self.ages

    def start(self, tasks: Iterable[Task], first: Iterable[Task] = ()) -> None:
        """Start; each task is due after its `seconds`, those of `first` run once, at once."""
        now = self._clock()
        for task in tasks:
            task.succeeded, task.due = now, now + task.seconds
            self._tasks.append(task)
        first = list(first)
        for name in dict.fromkeys(task.thread for task in self._tasks):
            mine = [task for task in self._tasks if task.thread == name]
            once = [task for task in first if task.thread == name]
            thread = threading.Thread(target=self._run, args=(mine, once), name=f"overstory-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    async def stop(self) -> None:
        """End all tasks; a task that runs is finished."""
        if self._going.locked():
            self._going.release()
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    def ages(self) -> dict[str, float]:
        """Return the seconds since each task's last success."""
        now = self._clock()
        return {task.name: now - task.succeeded for task in self._tasks}

    @property
    def troubled(self) -> list[str]:
        """The tasks that keep the collector from being ready."""
        now = self._clock()
        return [task.name for task in self._tasks if (task.failing and task.needed) or now - task.succeeded > task.late]

    def _run(self, tasks: list[Task], first: list[Task]) -> None:
        failed = False
        while True:
            try:
                if failed:
                    time.sleep(PAUSE)
                failed = True
                while first:
                    self._try(first.pop())
                task = min(tasks, key=_due)
                if self._going.acquire(timeout=max(0.0, task.due - self._clock())):
                    self._going.release()  # the other threads end, too
                    return
                self._try(task)
                failed = False
            except Exception:  # noqa: BLE001, S112 - there was no memory to log it, either
                continue

    def _try(self, task: Task) -> None:
        try:
            task.work()
        except Exception as error:  # noqa: BLE001 - after any error, the next attempt may succeed
            self._failed(task, error)
        else:
            task.failing = False
            task.succeeded = self._clock()
        finally:
            task.due = self._clock() + (min(task.seconds, AGAIN) if task.failing else task.seconds)

    def _failed(self, task: Task, error: Exception) -> None:
        task.failing = True
        self._telemetry.failed_upkeep[task.name] += 1
        with suppress(Exception):
            self._faults.error(f"upkeep ({task.name})", error)


def _due(task: Task) -> float:
    return task.due


JUMP: Final = 60.0
"""Seconds by which the two clocks may differ more than at the last reading: corrections are smaller, and slow."""

TRIAL: Final = 3600.0
"""Seconds for which a clock must run evenly before it is trusted."""


def steady() -> float:
    """Return the seconds of a clock that never jumps; on Linux it counts while the machine sleeps."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


class ClockWatch:
    """Reads the wall clock, and decides whether it can be trusted for deletions of batch ids and reports.

    A clock that jumps ahead makes every batch id expire, and what is sent again is then counted twice. So the wall
    clock is compared with one that never jumps; after a start or a jump it must run evenly for an hour.

    Parameters
    ----------
    wall, even
        Unix time in seconds; the seconds of a clock that never jumps.

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
        """Return the wall clock's time, and check whether it has jumped since the last reading."""
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
        """Whether the clock had run evenly for an hour at the last reading."""
        return self._now - self._since >= TRIAL


HELD: Final = 64 * MEBIBYTE
"""Bytes of address space in the reserve."""

MARGIN: Final = 16 * MEBIBYTE
"""Memory is low when fewer bytes than these are free in addition."""


class Reserve:
    """Memory for the time when there is no more; one thread calls `look` several times a second.

    An event loop without memory cannot be helped: uvloop then loses its listener, stops, or crashes the process. So
    some address space is reserved and not used, which takes no memory of the machine. It is released as soon as little
    is left, and until more is free no reports are taken: the released memory is for refusals and for running requests.

    Attributes
    ----------
    short
        Whether the reserve is released: work that can wait should not start.

    Examples
    --------
    >>> reserve = Reserve()
    >>> reserve.look()
    >>> reserve.short
    False
    """

    def __init__(self) -> None:
        self.short = False
        self._held: mmap.mmap | None = None

    def look(self) -> None:
        """Release the reserve when little else is free; take it again when there is enough for both."""
        try:
            if self._held is None:
                mmap.mmap(-1, HELD + MARGIN).close()
                self._held = mmap.mmap(-1, HELD)
            else:
                mmap.mmap(-1, MARGIN).close()
        except (OSError, MemoryError):
            held, self._held = self._held, None
            if held is not None:
                held.close()
            self.short = True
        else:
            self.short = False


class Pulse:
    """A thread that calls a function on an event loop again and again, until it is stopped.

    Without memory, the event loop may have no room for the callback that wakes a task up. The task then waits for a
    timer that has passed, or for a result that is there, and nothing reports it. A lost beat is followed by the next.

    Parameters
    ----------
    seconds
        Seconds between two beats.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        beat: Callable[[], object],
        look: Callable[[], object],
        seconds: float,
    ) -> None:
        self._loop, self._beat, self._look, self._seconds = loop, beat, look, seconds
        self._going = (
            threading.Lock()
        )  # held while it runs: waiting for a lock takes no memory, waiting for an Event does
        self._thread = threading.Thread(target=self._run, name="overstory-pulse", daemon=True)

    def start(self) -> None:
        """Start; the first beat is at once."""
        self._going.acquire()
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a beat that the loop has not reached yet may follow."""
        self._going.release()

    def _run(self) -> None:
        while True:
            try:
                self._look()
                self._loop.call_soon_threadsafe(self._beat)
                if self._going.acquire(timeout=self._seconds):
                    return
            except RuntimeError:  # the loop is closed
                return
            except MemoryError:  # the next beat may have some
                continue
