"""What a collector does again and again beside taking reports: supervised, so that nothing of it ends in silence.

Its threads wait and work by themselves. No task of the event loop is part of it: where memory ends, a task may never
hear that its work is done.

Whether the wall clock can be trusted with what cannot be undone: forgetting batch ids, deleting reports.

A clock that jumps ahead makes every batch id expire, and what is sent again is then counted twice. So the wall clock is
held against one that never jumps, and after a start or a jump it is on trial for an hour.

Memory that is kept for the time when there is no more.

An event loop that finds no memory cannot be helped: uvloop then loses its listener, stops, or crashes the process. So
some address space is held that nobody uses, which takes no memory of the machine. It is given back as soon as little is
left, and until there is more no reports are taken: what it frees is for refusals, and for what is under way.

A beat on the event loop that a thread gives: it goes on where a task would wait for ever.

Where memory ends, the event loop may find no room for the callback that wakes a task up. The task then waits for a
timer that has passed, or a result that is there, and nothing says so. A beat that is lost is followed by the next.
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
"""Seconds before a thread goes on that found no memory for its own part of the work."""

_log: Final = logging.getLogger("overstory.collector")


@dataclass(slots=True)
class Task:
    """One kind of work."""

    name: str  # its name in metrics and logs
    seconds: float  # how often
    patience: float  # seconds, beside three rounds, without a success after which the collector is not ready
    needed: bool  # whether one failure is enough for that
    thread: str  # where `work` runs, with all other work of that thread
    work: Callable[[], Any]
    succeeded: float = field(default_factory=time.monotonic)
    failing: bool = False
    due: float = 0.0

    @property
    def late(self) -> float:
        """Seconds without a success after which it is late."""
        return self.patience + 3 * self.seconds


class Upkeep:
    """Runs tasks until it is stopped, whatever they raise."""

    def __init__(self, telemetry: Telemetry, clock: Callable[[], float] = time.monotonic) -> None:
        self._telemetry, self._clock = telemetry, clock
        self._tasks: list[Task] = []
        self._threads: list[threading.Thread] = []
        self._going = threading.Lock()  # held until all of it ends: to wait for a lock takes no memory
        self._going.acquire()
        self._faults = SparseLog(_log)
        telemetry.upkeep = self.ages

    def start(self, tasks: Iterable[Task], first: Iterable[Task] = ()) -> None:
        """Begin; each task is due for the first time after its `seconds`, those of `first` at once and once."""
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
        """End all tasks; what is under way is finished."""
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
        """The tasks because of which the collector is not ready."""
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
            except Exception:  # noqa: BLE001, S112 - there was no memory to say so, either
                continue

    def _try(self, task: Task) -> None:
        try:
            task.work()
        except Exception as error:  # noqa: BLE001 - whatever it is, the next attempt may do better
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


HELD: Final = 64 * MEBIBYTE
"""Address space that is held."""

MARGIN: Final = 16 * MEBIBYTE
"""With less than this beside it, memory is short."""


class Reserve:
    """Held address space; `look` is called by one thread, several times a second.

    Attributes
    ----------
    short
        Whether it is given back: no work should be begun that can wait.

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
        """Give the reserve back where little else is left; take it again where both are there."""
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
    """Calls a function on an event loop again and again, until it is stopped.

    Parameters
    ----------
    seconds
        How often.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        beat: Callable[[], object],
        look: Callable[[], object],
        seconds: float,
    ) -> None:
        self._loop, self._beat, self._look, self._seconds = loop, beat, look, seconds
        self._going = threading.Lock()  # held while it beats: to wait for a lock takes no memory, for an Event it does
        self._thread = threading.Thread(target=self._run, name="overstory-pulse", daemon=True)

    def start(self) -> None:
        """Begin; the first beat is at once."""
        self._going.acquire()
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a beat that the loop has not come to yet may follow."""
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
            except MemoryError:  # the next beat may find some
                continue
