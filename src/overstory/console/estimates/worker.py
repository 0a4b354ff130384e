"""The process that decodes shares and other readings: one estimate after the other, each within a time limit.

Decoding would share the interpreter's lock with the pages. The process is started when it is first needed, killed when
an estimate takes too long, and started again; it ends when its pipe does, which is when the console ends.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import pickle
import signal
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from overstory.protocol.errors import OverstoryError, ParameterError
from overstory.protocol.sampling import context

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

    from overstory.analysis.reports import SupportCounts
    from overstory.queries.counts import PeriodCounts
    from overstory.queries.readings import Aggregation, EstimateOptions, Reading


MOST_ANSWERS: Final = 5_000_000  # answers that a page searches; they go to the process through memory


@dataclass(frozen=True, eq=False)
class Task:
    """What an estimate or a reading is computed from; `key` is equal where all of it is."""

    key: bytes
    work: Callable[[], Callable[[], Any]]  # makes what the process calls
    values: Sequence[str] | None = None  # the list that the estimates of a series share in memory


def read_counted(counted: PeriodCounts, kind: Aggregation, options: EstimateOptions) -> Reading:
    """Return a reading, without the reports that it was searched in."""
    from overstory.queries.readings import read

    reading: Any = read(counted, kind, options)
    if counted.reports is not None:
        reading = replace(reading, counted=replace(counted, reports=None))
    return reading  # type: ignore[no-any-return]


def _reading_work(counted: PeriodCounts, kind: Aggregation, options: EstimateOptions) -> partial[Reading]:
    """Return what the process does; ParameterError when a search has too many answers for a page."""
    reports = None
    if counted.metric.reading == "search" and counted.reports is not None:
        if counted.num_reports > MOST_ANSWERS:
            raise ParameterError(
                f"{counted.num_reports:,} answers are too many for a page, which searches {MOST_ANSWERS:,}; run: "
                f"overstory decode --registry FILE --store URL --metric {counted.metric.id}"
            )
        reports = partial(iter, tuple(counted.reports()))
    return partial(read_counted, replace(counted, reports=reports), kind, options)


def counts_key(shared: bytes, about: float, counts: SupportCounts) -> bytes:
    """Return the key of what is computed from counts, what is hashed already, and a number about them."""
    own = hashlib.blake2b(shared, digest_size=16)
    own.update(f"{about!r} {counts.ones.shape}".encode())
    own.update(counts.totals.tobytes())
    own.update(counts.ones.tobytes())
    return own.digest()


def reading_task(counted: PeriodCounts, kind: Aggregation, options: EstimateOptions) -> Task:
    """Return the task of a reading."""
    metric = counted.metric
    about = counted.first, counted.last, counted.others, counted.group, counted.released
    rest = repr((kind, options, *about))
    key = context(metric.digest.hex(), rest, *map(str, metric.labels or ()))
    for period in counted.periods:
        key = counts_key(key, period, counted.counts[period])
    return Task(key, partial(_reading_work, counted, kind, options))


NICE: Final = 5  # how much the process lets others go first: a collector on the same machine is more important
SLACK: Final = 10  # seconds after its time limit at which a process that nobody killed ends by itself


class WorkerError(OverstoryError):
    """An estimate that the process could not give: it took too long, or the process died of it."""


class Worker:
    """The process, seen from the console; one thread uses it. `seconds` is the time limit of an estimate."""

    def __init__(self, seconds: float = 60.0, run: Callable[[Connection, float], object] | None = None) -> None:
        self._seconds, self._run = seconds, run or serve
        self.process: SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._ending: weakref.finalize[..., Worker] | None = None  # kills the process also when nobody closes this
        self._stopped = False
        self._starting = threading.Lock()

    def estimate(self, task: Task) -> tuple[Any, int]:
        """Return an estimate, or a reading, and its pickled size; WorkerError when it takes too long or dies twice."""
        for attempt in range(2):
            try:
                return self._ask(task)
            except (EOFError, ConnectionError) as error:
                self.stop()
                if attempt or self._stopped:
                    raise WorkerError("the process that decodes ended without a word: is memory short?") from error
        raise AssertionError(task)

    def _ask(self, task: Task) -> tuple[Any, int]:
        pipe = self._started()
        pipe.send(task.work())
        if not pipe.poll(self._seconds):
            self.stop()
            raise WorkerError(f"decoding took longer than {self._seconds:g} seconds and was stopped")
        answer = pipe.recv_bytes()
        result = pickle.loads(answer)  # noqa: S301 - our own process wrote it
        if isinstance(result, Exception):
            raise result
        return result, len(answer)

    def _started(self) -> Connection:
        if self.process is not None and not self.process.is_alive():
            self.stop()
        with self._starting:
            if self._stopped:
                raise EOFError
            if self._pipe is None:
                spawning = multiprocessing.get_context("spawn")  # a fork may stop at a lock that a thread held
                self._pipe, theirs = spawning.Pipe()
                self.process = spawning.Process(target=self._run, args=(theirs, self._seconds), daemon=True)
                self.process.start()
                theirs.close()
                self._ending = weakref.finalize(self, _kill, self.process, self._pipe)
            return self._pipe

    def stop(self) -> None:
        self.process = self._pipe = None
        if self._ending is not None:
            self._ending()

    def close(self) -> None:
        """Kill the process, and start no other for an estimate that is under way."""
        with self._starting:
            self._stopped = True
        self.stop()


def _kill(process: SpawnProcess, pipe: Connection) -> None:
    process.kill()
    process.join()
    pipe.close()


def serve(pipe: Connection, seconds: float) -> None:
    """Answer tasks until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Control-C is for the console, which then ends this process
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.nice(NICE)
    with suppress(EOFError, ConnectionError):
        while True:
            work = pipe.recv()
            signal.alarm(int(seconds) + SLACK)  # the console may have been killed
            result = _answer(work)
            signal.alarm(0)
            pipe.send_bytes(pickle.dumps(result, pickle.HIGHEST_PROTOCOL))


def _answer(work: Callable[[], object]) -> object:
    try:
        return work()
    except ParameterError as error:
        return ParameterError(str(error))
    except Exception as error:  # noqa: BLE001 - one estimate fails, and its page says so
        return WorkerError(f"decoding failed: {type(error).__name__}: {error}")
