"""Group commit: one thread writes, and puts everything that waits into each commit. Acknowledged means committed."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Final, NamedTuple

from overstory.collector.ingest import Received
from overstory.collector.settings import MEBIBYTE, Limits
from overstory.collector.store import Store
from overstory.collector.store.databases.database import DiskFullError, StoreError
from overstory.supervision.log import SparseLog
from overstory.supervision.upkeep import in_thread

GROUP_BYTES: Final = 4 * MEBIBYTE
"""The most bytes of a commit, unless a single request has more: later requests wait less."""

FAILED_SECONDS: Final = 60.0
"""Seconds for which a failed commit keeps a collector from being ready; a later commit that succeeds ends this."""

Done = Callable[[Sequence[bool] | None], None]
"""Called on the event loop with which batches were new; None when the store failed and nothing was stored."""

_log = logging.getLogger("overstory.collector")


@dataclass(slots=True, frozen=True)
class Committed:
    """One commit, its contents and its duration. A failed one stored nothing."""

    requests: int
    reports: int
    seconds: float
    failed: bool


class _Waiting(NamedTuple):
    received: list[Received]
    reports: int
    size: int
    done: Done


class Committer:
    """A bounded queue, and what is being committed, for a writer thread; all methods are called on the loop."""

    def __init__(self, store: Store, limits: Limits, on_commit: Callable[[Committed], None] = lambda _: None) -> None:
        self._store, self._limits, self._on_commit = store, limits, on_commit
        self._failed_at = -math.inf
        self._queue: SimpleQueue[_Waiting | None] = SimpleQueue()  # None ends it
        self.reports = self.size = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._empty = asyncio.Event()
        self._empty.set()
        self._too_much: _Waiting | None = None  # for the group before it
        self._faults = SparseLog(_log)
        self._waiting: deque[_Waiting] = deque()  # not finished, in the order of the queue
        self._num_given_up = 0  # the first of them, which were answered because a commit takes too long
        self._began = math.inf  # when the commit began that is being made
        self._ended = False  # nothing is committed any more: every request is refused
        self._thread = threading.Thread(target=self._run, name="overstory-committer", daemon=True)

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    @property
    def full(self) -> bool:
        return self.reports >= self._limits.queue_reports or self.size >= self._limits.queue_bytes

    def submit(self, received: list[Received], reports: int, size: int, done: Done) -> bool:
        """Queue one request's batches; False when they do not fit. After their commit, `done` is called once."""
        waiting_reports, waiting_size = self.reports + reports, self.size + size
        if self._ended or self.hangs:
            _call(done, None)
            return True
        if self.reports and (waiting_reports > self._limits.queue_reports or waiting_size > self._limits.queue_bytes):
            return False
        self.reports, self.size = waiting_reports, waiting_size
        self._empty.clear()
        self._waiting.append(_Waiting(received, reports, size, done))
        self._queue.put(self._waiting[-1])
        return True

    @property
    def alive(self) -> bool:
        """Whether the writer thread runs: what is queued will be committed."""
        return self._thread.is_alive()

    @property
    def hangs(self) -> bool:
        """Whether a commit takes longer than the limit: nothing is taken until all that waits for it is stored."""
        return self._num_given_up > 0

    def look(self) -> None:
        """Refuse all that waits for too long a commit; what is stored after all comes again, as a duplicate."""
        seconds = self._limits.commit_seconds
        if self.hangs or time.monotonic() - self._began < seconds:
            return
        self._num_given_up = len(self._waiting)
        for waiting in self._waiting:
            _call(waiting.done, None)
        self._log_failure(StoreError(f"no answer for {seconds:g} seconds"))

    @property
    def failing(self) -> bool:
        """Whether the last commit failed, within `FAILED_SECONDS`, or takes too long."""
        return self.hangs or time.monotonic() - self._failed_at < FAILED_SECONDS

    async def drain(self) -> None:
        """Wait until everything in the queue was committed and answered, then end the thread."""
        while self.reports and self.alive and not self.hangs:
            self.look()
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._empty.wait()
        self._queue.put(None)
        if self.alive and not self.hangs:
            await in_thread(self._thread.join)

    def _run(self) -> None:
        """Commit until the end; if the thread fails, refuse everything that waits."""
        try:
            self._write()
        except BaseException:
            with suppress(Exception):
                _log.critical(
                    "the writer thread has failed: no reports are taken; restart the collector", exc_info=True
                )
            raise
        finally:
            self._call_on_loop(self._refuse_all)

    def _write(self) -> None:
        while True:
            group: list[_Waiting] = []
            new: list[bool] | None = None
            started = time.perf_counter()
            try:
                if not self._gather(group):
                    return
                self._began = time.monotonic()
                started = time.perf_counter()
                new = self._store.add([batch for waiting in group for batch in waiting.received])
            except Exception as error:  # noqa: BLE001 - after any error nothing was stored, and the senders are answered so
                with suppress(Exception):  # without memory not even a line can be written
                    self._log_failure(error)
            finally:  # also after errors that are no `Exception`
                self._began = math.inf
                if group:
                    self._call_on_loop(self._finish, group, new, time.perf_counter() - started)

    def _log_failure(self, error: Exception) -> None:
        refused = "reports refused with 503, senders will retry"
        why = "disk full" if isinstance(error, DiskFullError) else SparseLog.sentence(error)
        self._faults.line("cannot write to the store", type(error), f"cannot write to the store: {why}; {refused}")

    def _gather(self, group: list[_Waiting]) -> bool:
        """Wait, and put the requests of one commit into `group`; False at the end."""
        first = self._too_much or self._queue.get()
        if first is None:
            return False
        group.append(first)
        self._too_much = None
        size = first.size
        while self._queue.qsize():  # nothing else takes from it
            waiting = self._queue.get()
            if waiting is None:
                self._queue.put(None)
                break
            size += waiting.size
            if size > GROUP_BYTES:
                self._too_much = waiting
                break
            group.append(waiting)
        return True

    def _refuse_all(self) -> None:
        """Refuse everything that waits: what was committed is finished, in the order of the calls on the loop."""
        self._ended = True
        if self._waiting:
            self._finish(list(self._waiting), None, 0.0)

    def _call_on_loop(self, work: Callable[..., None], *args: Any) -> None:
        assert self._loop is not None
        while True:
            try:
                self._loop.call_soon_threadsafe(work, *args)
            except MemoryError:
                time.sleep(0.1)
            except RuntimeError:  # the loop has ended: no request waits for an answer
                return
            else:
                return

    def _finish(self, group: list[_Waiting], new: list[bool] | None, seconds: float) -> None:
        reports = sum(waiting.reports for waiting in group)
        self.reports -= reports
        self.size -= sum(waiting.size for waiting in group)
        at = 0
        for waiting in group:
            mine = None if new is None else new[at : at + len(waiting.received)]
            at += 0 if mine is None else len(mine)
            self._waiting.popleft()
            if self._num_given_up:
                self._num_given_up -= 1
            else:
                _call(waiting.done, mine)
        if not self.reports:
            self._empty.set()
        self._failed_at = time.monotonic() if new is None else -math.inf
        self._on_commit(Committed(len(group), reports, seconds, new is None))


def _call(done: Done, new: Sequence[bool] | None) -> None:
    try:
        done(new)
    except Exception:  # noqa: BLE001 - the other requests of the commit still get their answers
        _log.exception("an answer could not be sent")
