"""What a collector does again and again beside taking reports: supervised, so that nothing of it ends in silence.

Its threads wait and work by themselves. No task of the event loop is part of it: where memory ends, a task may never
hear that its work is done.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from overstory.collector.meters import Meters
from overstory.collector.sparse_log import SparseLog

AGAIN: Final = 60.0
"""A task that failed is tried again after this many seconds, where it is not due earlier."""

PAUSE: Final = 0.1
"""Seconds before a thread goes on that found no memory for its own part of the work."""

_log: Final = logging.getLogger("overstory.collector")


@dataclass(slots=True)
class Task:
    """One kind of work.

    Attributes
    ----------
    name
        Its name in metrics and logs.
    seconds
        How often.
    patience
        Seconds, beside three rounds, without a success after which the collector is not ready.
    needed
        Whether one failure is enough for that.
    thread
        Where `work` runs, with all other work of that thread.
    """

    name: str
    seconds: float
    patience: float
    needed: bool
    thread: str
    work: Callable[[], Any]
    succeeded: float = field(default_factory=time.monotonic)
    failing: bool = False
    due: float = 0.0

    @property
    def late(self) -> float:
        """Seconds without a success after which it is late."""
        return self.patience + 3 * self.seconds


class Upkeep:
    """Runs tasks until it is stopped, whatever they raise.

    Parameters
    ----------
    meters
        Where failures are counted, and the time of the last success is shown.
    clock
        Seconds of a clock that never jumps.
    """

    def __init__(self, meters: Meters, clock: Callable[[], float] = time.monotonic) -> None:
        self._meters, self._clock = meters, clock
        self._tasks: list[Task] = []
        self._threads: list[threading.Thread] = []
        self._going = threading.Lock()  # held until all of it ends: to wait for a lock takes no memory
        self._going.acquire()
        self._faults = SparseLog(_log)
        meters.upkeep = self.ages

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
        self._meters.failed_upkeep[task.name] += 1
        with suppress(Exception):
            self._faults.error(f"upkeep ({task.name})", error)


def _due(task: Task) -> float:
    return task.due
