"""Upkeep of a daemon: periodic tasks, its memory reserve, work in threads that have begun with it.

Without memory `Thread.start` waits for ever, and no thread can tell an event loop that it is done: `in_thread` looks.
"""

from __future__ import annotations

import asyncio
import logging
import math
import mmap
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from overstory.supervision.log import SparseLog

Result = TypeVar("Result")

AGAIN: Final = 60.0  # a task that failed is tried again after this many seconds, where it is not due earlier
PAUSE: Final = 0.1  # seconds before a thread continues that had no memory for its own work


@dataclass(slots=True)
class Task:
    """A periodic task."""

    name: str  # its name in metrics and logs
    seconds: float  # how often
    patience: float  # seconds, in addition to three rounds, without a success until the daemon is not ready
    needed: bool  # whether a single failure is enough for that
    thread: str  # the thread that runs `work`, and all other tasks of this thread
    work: Callable[[], object]  # may return in how many seconds it is due again, as a float
    succeeded: float = field(default_factory=time.monotonic)
    failing: bool = False
    due: float = 0.0

    @property
    def late(self) -> float:
        return self.patience + 3 * self.seconds


class Upkeep:
    """Runs tasks until it is stopped, also after errors; `failed` counts failures by the tasks' names."""

    def __init__(self, log: logging.Logger, failed: Counter[str] | None = None) -> None:
        self._failures = Counter[str]() if failed is None else failed
        self._tasks: list[Task] = []
        self._threads: list[threading.Thread] = []
        self._going = threading.Lock()  # held until the end: waiting for a lock takes no memory
        self._going.acquire()
        self._faults = SparseLog(log)

    def start(self, tasks: Iterable[Task], first: Iterable[Task] = ()) -> None:
        """Start; each task is due after its `seconds`, those of `first` run once, at once."""
        now = time.monotonic()
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

    async def stop(self, seconds: float = math.inf) -> bool:
        """End all tasks; a task that runs is finished, unless it takes longer: return whether all have ended."""
        if self._going.locked():
            self._going.release()
        return await ended(self._threads, seconds)

    def ages(self) -> dict[str, float]:
        now = time.monotonic()
        return {task.name: now - task.succeeded for task in self._tasks}

    @property
    def troubled(self) -> list[str]:
        now = time.monotonic()
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
                task = min(tasks, key=attrgetter("due"))
                if self._going.acquire(timeout=max(0.0, task.due - time.monotonic())):
                    self._going.release()  # the other threads end, too
                    return
                self._try(task)
                failed = False
            except Exception:  # noqa: BLE001, S112 - there was no memory to log it, either
                continue

    def _try(self, task: Task) -> None:
        due: object = None
        try:
            due = task.work()
        except Exception as error:  # noqa: BLE001 - after any error, the next attempt may succeed
            self._failed(task, error)
            due = min(task.seconds, AGAIN)
        else:
            task.failing = False
            task.succeeded = time.monotonic()
        finally:
            task.due = time.monotonic() + (due if isinstance(due, float) else task.seconds)

    def _failed(self, task: Task, error: Exception) -> None:
        task.failing = True
        self._failures[task.name] += 1
        with suppress(Exception):
            self._faults.error(f"upkeep ({task.name})", error)


async def ended(threads: Iterable[threading.Thread], seconds: float) -> bool:
    """Wait for threads for so long, and return whether they have ended; to wait in a thread takes a new one."""
    until = time.monotonic() + seconds
    while (alive := any(thread.is_alive() for thread in threads)) and time.monotonic() < until:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return not alive


HELD: Final = 64 << 20  # bytes of address space in the reserve
MARGIN: Final = 16 << 20  # memory is low when fewer bytes than these are free in addition


class Reserve:
    """Memory for refusals when there is no more: address space, released while little else is free; see `look`."""

    # An event loop without memory cannot be helped: uvloop then loses its listener, stops, or crashes the process.

    def __init__(self) -> None:
        self.short = False  # whether the reserve is released: work that can wait should not start
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


FIRST_LOOK: Final = 0.001
LONGEST_LOOK: Final = 0.05  # seconds between two looks at a thread's work: at first, and at most


def full_pool(size: int, name: str) -> ThreadPoolExecutor:
    """Return a pool whose threads have begun."""
    pool, begun = ThreadPoolExecutor(size, name), threading.Barrier(size + 1)
    for _ in range(size):
        pool.submit(begun.wait)
    begun.wait()
    return pool


_POOLS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, ThreadPoolExecutor]] = WeakKeyDictionary()


def fill_default_pool(loop: asyncio.AbstractEventLoop) -> ThreadPoolExecutor:
    """Let the threads begin that an event loop works in; as many as asyncio would start by and by."""
    _POOLS[loop] = pool = full_pool(min(32, (os.cpu_count() or 1) + 4), "overstory-thread")
    loop.set_default_executor(pool)
    return pool


async def in_thread(work: Callable[..., Result], *given: Any) -> Result:
    """Return what `work` returns, from a thread of the event loop's pool."""
    loop = asyncio.get_running_loop()
    return await result_of((_POOLS.get(loop) or fill_default_pool(loop)).submit(work, *given))


async def result_of(work: Future[Result]) -> Result:
    """Return what a thread of a pool does, once it is done: the loop looks, ever more seldom, and is not told."""
    pause = FIRST_LOOK
    while not work.done():
        await asyncio.sleep(pause)
        pause = min(1.25 * pause, LONGEST_LOOK)
    return work.result()
