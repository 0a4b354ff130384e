"""What a collector does again and again beside taking reports: supervised, so that nothing of it ends in silence."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from overstory.collector.meters import Meters
from overstory.collector.sparse_log import SparseLog

AGAIN: Final = 60.0
"""A task that failed is tried again after this many seconds, where it is not due earlier."""

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
    threads
        Where `work` runs.
    """

    name: str
    seconds: float
    patience: float
    needed: bool
    threads: Executor
    work: Callable[[], Any]
    succeeded: float = field(default_factory=time.monotonic)
    failing: bool = False

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
        self._running: list[asyncio.Task[None]] = []
        self._faults = SparseLog(_log)
        meters.upkeep = self.ages

    def start(self, tasks: Iterable[Task]) -> None:
        """Begin; each task is due for the first time after its `seconds`."""
        now = self._clock()
        for task in tasks:
            task.succeeded = now
            self._tasks.append(task)
            self._running.append(asyncio.create_task(self._every(task)))

    def once(self, threads: Executor, work: Callable[[], Any]) -> None:
        """Do something in the background, one time."""
        task = Task("prepare", 0.0, 0.0, needed=False, threads=threads, work=work)
        self._running.append(asyncio.create_task(_to_the_end(self._try(task))))

    async def stop(self) -> None:
        """End all tasks; what is under way is finished."""
        for running in self._running:
            running.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def ages(self) -> dict[str, float]:
        """Return the seconds since each task's last success."""
        now = self._clock()
        return {task.name: now - task.succeeded for task in self._tasks}

    @property
    def troubled(self) -> list[str]:
        """The tasks because of which the collector is not ready."""
        now = self._clock()
        return [task.name for task in self._tasks if (task.failing and task.needed) or now - task.succeeded > task.late]

    async def _every(self, task: Task) -> None:
        while True:
            try:
                await asyncio.sleep(min(task.seconds, AGAIN) if task.failing else task.seconds)
                await _to_the_end(self._try(task))
            except Exception as error:  # noqa: BLE001 - of the event loop itself, which found no memory
                self._failed(task, error)

    async def _try(self, task: Task) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(task.threads, task.work)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next attempt may do better
            self._failed(task, error)
        else:
            task.failing = False
            task.succeeded = self._clock()

    def _failed(self, task: Task, error: Exception) -> None:
        task.failing = True
        self._meters.failed_upkeep[task.name] += 1
        with suppress(Exception):
            self._faults.error(f"upkeep ({task.name})", error)


async def _to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Wait for work that a cancellation must not tear apart."""
    task = asyncio.create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
