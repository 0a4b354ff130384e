"""The collector as a whole: its parts, and how they start and stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from overstory.collector.access import Access
from overstory.collector.committer import Committed, Committer
from overstory.collector.ingest import Ingest
from overstory.collector.intake import Intake
from overstory.collector.limits import Limits
from overstory.collector.meters import Meters
from overstory.collector.store import Store
from overstory.protocol.errors import OverstoryError
from overstory.protocol.metrics import MetricRegistry

_log: Final = logging.getLogger("overstory.collector")


PATIENCE: Final = 60
"""After how many compactions in a row that left something readable the operator hears of it: a backup takes a while."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How often, in seconds, something is done beside taking reports: 0 is never.

    Attributes
    ----------
    tokens
        Tokens are read again: one that was revoked works for no longer than this.
    compact
        Reports that came in are counted and shuffled.
    retain
        Reports past their metric's retention are deleted.
    settle
        The store does what a writer would otherwise have to.
    """

    tokens: float = 2.0
    compact: float = 10.0
    retain: float = 3600.0
    settle: float = 1.0


class Collector:
    """Parts that belong together; `start` and `stop` run on one event loop.

    Parameters
    ----------
    registry
        What is collected.
    store
        Where it goes; closed by `stop`.
    limits, rhythm
        Bounds, and how often upkeep runs.
    open_writes
        Whether reports are taken without a token.
    """

    def __init__(
        self,
        registry: MetricRegistry,
        store: Store,
        *,
        limits: Limits | None = None,
        rhythm: Rhythm | None = None,
        open_writes: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.registry, self.store, self.clock = registry, store, clock
        self.limits, self._rhythm = limits or Limits(), rhythm or Rhythm()
        self.meters = Meters()
        self.access = Access(store.tokens, open_writes=open_writes)
        self.committer = Committer(store, self.limits, self._committed)
        self.intake = Intake(Ingest(registry, self.limits), self.committer, self.access, self.meters, clock)
        self.meters.queue = lambda: (self.committer.reports, self.committer.size)
        self._tasks: list[asyncio.Task[None]] = []
        # A thread each for what goes on for ever: it keeps its memory and its connection, and tokens are read however
        # long a compaction takes.
        names = "tokens", "upkeep", "settle"
        self._threads = self._reading, self._keeping, self._settling = [
            ThreadPoolExecutor(1, f"overstory-{name}") for name in names
        ]
        self._started = False
        self._troubled = False
        self._remains = 0  # compactions in a row after which deleted rows could still be read

    @property
    def state(self) -> str:
        """`ready`, or why not: `starting`, `store` (the last thing asked of it failed) or `closing`."""
        if self.intake.closing:
            return "closing"
        if not self._started:
            return "starting"
        return "store" if self._troubled else "ready"

    async def start(self) -> None:
        """Read the tokens, start the writer and the upkeep.

        Raises
        ------
        StoreError
            When the store does not answer.
        """
        await asyncio.to_thread(self.access.refresh)
        self.committer.start()
        for seconds, where, work in (
            (self._rhythm.tokens, self._reading, self.access.refresh),
            (self._rhythm.compact, self._keeping, self._compact),
            (self._rhythm.retain, self._keeping, lambda: self.store.retain(int(self.clock()))),
            (self._rhythm.settle, self._settling, self.store.settle),
        ):
            if seconds:
                self._tasks.append(asyncio.create_task(self._every(seconds, where, work)))
        if self._rhythm.compact:
            self._tasks.append(asyncio.create_task(_to_the_end(self._try(self._keeping, self.store.prepare))))
        self._started = True

    async def stop(self) -> None:
        """Refuse what comes from now on, commit what is queued, end the upkeep, close the store."""
        self.intake.closing = True
        await self.committer.drain()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self.store.close)
        for executor in self._threads:
            executor.shutdown(wait=False)

    def _committed(self, commit: Committed) -> None:
        self._troubled = commit.failed
        self.meters.committed(commit)

    def _compact(self) -> None:
        remains = self.store.compact(int(self.clock())).remains
        self._remains = self._remains + 1 if remains else 0
        if self._remains % PATIENCE == 1 and self._remains > 1:
            _log.warning("%s: deleted rows can still be read in its files: %s", self.store.url, "; ".join(remains))

    async def _every(self, seconds: float, where: Executor, work: Callable[[], Any]) -> None:
        """Do blocking work again and again; what is under way when this is cancelled is finished."""
        while True:
            await asyncio.sleep(seconds)
            await _to_the_end(self._try(where, work))

    async def _try(self, where: Executor, work: Callable[[], Any]) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(where, work)
        except OverstoryError as error:
            self._troubled = True
            self.meters.failed_upkeep += 1
            _log.error("%s", error)
        else:
            self._troubled = False


async def _to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Wait for work that a cancellation must not tear apart."""
    task = asyncio.create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        with contextlib.suppress(OverstoryError):
            await task
        raise
