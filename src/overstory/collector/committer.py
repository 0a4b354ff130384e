"""Acknowledged means committed: one thread writes, and takes everything that waits into each commit."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Final, NamedTuple, Protocol

from overstory.collector.log import SparseLog
from overstory.collector.settings import MEBIBYTE, Limits
from overstory.collector.store import Received
from overstory.collector.store.database import DiskFullError

GROUP_BYTES: Final = 4 * MEBIBYTE
"""Into one commit go no more bytes than this, unless one request has more: those behind it wait less long."""

FAILED_SECONDS: Final = 60.0
"""Seconds for which a failed commit keeps a collector from being ready; a later commit that succeeds ends this."""

Done = Callable[[Sequence[bool] | None], None]
"""Told, on the event loop, which batches were new; None when the store failed and nothing was kept."""

_log = logging.getLogger("overstory.collector")


class Adds(Protocol):
    """The one thing that a committer asks of a store."""

    def add(self, received: Sequence[Received]) -> list[bool]:
        """Commit, durably, and say which batches were new."""
        ...


@dataclass(slots=True, frozen=True)
class Committed:
    """One commit: how much was in it and how long it took. `failed` ones kept nothing."""

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
    """A bounded queue before one writer thread.

    All methods are called on the event loop; the thread only takes from the queue.

    Parameters
    ----------
    limits
        How many reports and bytes may wait, what is being committed included.
    """

    def __init__(self, store: Adds, limits: Limits, on_commit: Callable[[Committed], None] = lambda _: None) -> None:
        self._store, self._limits, self._on_commit = store, limits, on_commit
        self._failed_at = -math.inf
        self._queue: SimpleQueue[_Waiting | None] = SimpleQueue()  # None ends it
        self.reports = self.size = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._empty = asyncio.Event()
        self._empty.set()
        self._too_much: _Waiting | None = None  # for the group before it
        self._faults = SparseLog(_log)
        self._ended = False  # nothing is committed any more: whoever comes is refused
        self._thread = threading.Thread(target=self._run, name="overstory-committer", daemon=True)

    def start(self) -> None:
        """Start the writer; the event loop is the one that runs now."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    @property
    def full(self) -> bool:
        """Whether nothing more fits."""
        return self.reports >= self._limits.queue_reports or self.size >= self._limits.queue_bytes

    def submit(self, received: list[Received], reports: int, size: int, done: Done) -> bool:
        """Queue one request's batches; False when they do not fit.

        `done` is called once, on the event loop, after the commit that they were in.
        """
        waiting_reports, waiting_size = self.reports + reports, self.size + size
        if self._ended:
            _say(done, None)
            return True
        if self.reports and (waiting_reports > self._limits.queue_reports or waiting_size > self._limits.queue_bytes):
            return False
        self.reports, self.size = waiting_reports, waiting_size
        self._empty.clear()
        self._queue.put(_Waiting(received, reports, size, done))
        return True

    @property
    def alive(self) -> bool:
        """Whether there is a writer: what is queued will be committed."""
        return self._thread.is_alive()

    @property
    def failing(self) -> bool:
        """Whether the last commit failed, within `FAILED_SECONDS`."""
        return time.monotonic() - self._failed_at < FAILED_SECONDS

    async def drain(self) -> None:
        """Wait until everything queued so far was committed and told, then end the thread."""
        while self.reports and self.alive:
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._empty.wait()
        self._queue.put(None)
        if self.alive:
            await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        """Commit until the end; should the thread end by a fault, those who wait for it hear so."""
        try:
            self._write()
        except BaseException:
            with suppress(Exception):
                _log.critical(
                    "the writer has ended by a fault: no report is taken; restart the collector", exc_info=True
                )
            raise
        finally:
            self._hand_back(self._give_up)

    def _write(self) -> None:
        while True:
            group: list[_Waiting] = []
            new: list[bool] | None = None
            started = time.perf_counter()
            try:
                if not self._gather(group):
                    return
                started = time.perf_counter()
                new = self._store.add([one for waiting in group for one in waiting.received])
            except Exception as error:  # noqa: BLE001 - whatever it is, nothing was kept, and the senders hear it
                with suppress(Exception):  # without memory not even a line can be written
                    self._complain(error)
            finally:  # whatever it was
                if group:
                    self._hand_back(self._tell, group, new, time.perf_counter() - started)

    def _complain(self, error: Exception) -> None:
        refused = "reports refused with 503, senders will retry"
        why = "disk full" if isinstance(error, DiskFullError) else SparseLog.words(error)
        self._faults.line("cannot write to the store", type(error), f"cannot write to the store: {why}; {refused}")

    def _gather(self, group: list[_Waiting]) -> bool:
        """Wait, and put into `group` what goes into one commit; False at the end."""
        first = self._too_much or self._queue.get()
        if first is None:
            return False
        group.append(first)
        self._too_much = None
        size = first.size
        while self._queue.qsize():  # nobody else takes from it
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

    def _give_up(self) -> None:
        """Refuse what waits; nobody else takes from the queue any more."""
        self._ended = True
        waiting = [] if self._too_much is None else [self._too_much]
        while self._queue.qsize():
            one = self._queue.get()
            waiting += [] if one is None else [one]
        if waiting:
            self._tell(waiting, None, 0.0)

    def _hand_back(self, work: Callable[..., None], *args: Any) -> None:
        """Have the event loop do something, even where memory is short."""
        assert self._loop is not None
        while True:
            try:
                self._loop.call_soon_threadsafe(work, *args)
            except MemoryError:
                time.sleep(0.1)
            except RuntimeError:  # the loop has ended: nobody waits for an answer
                return
            else:
                return

    def _tell(self, group: list[_Waiting], new: list[bool] | None, seconds: float) -> None:
        reports = sum(waiting.reports for waiting in group)
        self.reports -= reports
        self.size -= sum(waiting.size for waiting in group)
        at = 0
        for waiting in group:
            mine = None if new is None else new[at : at + len(waiting.received)]
            at += 0 if mine is None else len(mine)
            _say(waiting.done, mine)
        if not self.reports:
            self._empty.set()
        self._failed_at = time.monotonic() if new is None else -math.inf
        self._on_commit(Committed(len(group), reports, seconds, new is None))


def _say(done: Done, new: Sequence[bool] | None) -> None:
    try:
        done(new)
    except Exception:  # noqa: BLE001 - those behind it in the commit still get their answers
        _log.exception("an answer could not be given")
