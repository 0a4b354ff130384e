"""The process that decodes shares and other readings: one estimate after the other, each within a time limit.

Decoding would share the interpreter's lock with the pages. The process is started when it is first needed, killed when
an estimate takes too long, and started again; it ends when its standard input does, which is when the console ends.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import selectors
import signal
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any, Final

from overstory.protocol.errors import OverstoryError, ParameterError
from overstory.protocol.sampling import context

if TYPE_CHECKING:
    from overstory.analysis.reports import ReportBatch
    from overstory.console.estimates.estimates import Task
    from overstory.queries.counts import PeriodCounts
    from overstory.queries.readings import Aggregation, EstimateOptions, Reading


MOST_ANSWERS: Final = 5_000_000
"""Answers that a page searches; they go to the process through memory."""


@dataclass(frozen=True, eq=False)
class Answers:
    """Stored reports, as the process gets them."""

    batches: tuple[ReportBatch, ...]

    def __call__(self) -> Iterator[ReportBatch]:
        return iter(self.batches)


@dataclass(frozen=True, eq=False)
class ReadingWork:
    """What the process does."""

    counted: PeriodCounts
    kind: Aggregation
    options: EstimateOptions

    def __call__(self) -> Reading:
        from overstory.queries.readings import read

        reading: Any = read(self.counted, self.kind, self.options)
        if self.counted.reports is None:
            return reading  # type: ignore[no-any-return]
        return replace(reading, counted=replace(self.counted, reports=None))  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class ReadingTask:
    """What a reading is computed from; `key` is equal where all of it is."""

    counted: PeriodCounts
    kind: Aggregation
    options: EstimateOptions
    key: bytes

    @property
    def shared(self) -> tuple[()]:
        return ()

    @property
    def work(self) -> ReadingWork:
        """What the process does; ParameterError when a search has too many answers for a page."""
        counted = self.counted
        if counted.metric.reading != "search" or counted.reports is None:
            return ReadingWork(replace(counted, reports=None), self.kind, self.options)
        if counted.num_reports > MOST_ANSWERS:
            raise ParameterError(
                f"{counted.num_reports:,} answers are too many for a page, which searches {MOST_ANSWERS:,}; run: "
                f"overstory decode --registry FILE --store URL --metric {counted.metric.id}"
            )
        return ReadingWork(replace(counted, reports=Answers(tuple(counted.reports()))), self.kind, self.options)

    def finished(self, result: Any) -> Any:
        """Return the process's answer as it is kept."""
        return result


def reading_task(counted: PeriodCounts, kind: Aggregation, options: EstimateOptions) -> ReadingTask:
    """Return the task of a reading."""
    metric = counted.metric
    about = counted.first, counted.last, counted.others, counted.group, counted.released
    rest = repr((kind, options, *about, metric.candidate_lists))
    key = hashlib.blake2b(context(metric.digest.hex(), rest, *map(str, metric.labels or ())), digest_size=16)
    for period in counted.periods:
        counts = counted.counts[period]
        key.update(f"{period} {counts.ones.shape}".encode())
        key.update(counts.totals.tobytes())
        key.update(counts.ones.tobytes())
    return ReadingTask(counted, kind, options, key.digest())


LENGTH: Final = struct.Struct(">Q")
NICE: Final = 5
"""How much the process lets others go first: a collector on the same machine is more important."""
SLACK: Final = 10
"""Seconds after its time limit at which a process that nobody killed ends by itself."""


class WorkerError(OverstoryError):
    """An estimate that the process could not give: it took too long, or the process died of it."""


class Worker:
    """The process, seen from the console; one thread uses it. `seconds` is the time limit of an estimate."""

    def __init__(self, seconds: float = 60.0, command: tuple[str, ...] | None = None) -> None:
        self._seconds = seconds
        self._command = command or (sys.executable, "-m", "overstory.console.estimates.worker", str(seconds))
        self._child: subprocess.Popen[bytes] | None = None
        self._ending: weakref.finalize[..., Worker] | None = None  # kills the process also when nobody closes this
        self._context: tuple[object, ...] = ()
        self._stopped = False
        self._starting = threading.Lock()

    @property
    def pid(self) -> int | None:
        return None if self._child is None else self._child.pid

    def estimate(self, task: Task | ReadingTask) -> tuple[Any, int]:
        """Return an estimate, or a reading, and its pickled size; WorkerError when it takes too long or dies twice."""
        for attempt in range(2):
            try:
                return self._ask(task)
            except (EOFError, BrokenPipeError) as error:
                self.stop()
                if attempt or self._stopped:
                    raise WorkerError("the process that decodes ended without a word: is memory short?") from error
        raise AssertionError(task)

    def _ask(self, task: Task | ReadingTask) -> tuple[Any, int]:
        child = self._started()
        assert child.stdin is not None
        assert child.stdout is not None
        shared = task.shared
        # What tasks share is sent when it changes: a series of 104 weeks sends its candidates once.
        is_same = self._context == shared
        self._context = shared
        _send(child.stdin, (None if is_same else shared, task.work))
        answer = self._receive(child.stdout)
        result = pickle.loads(answer)  # noqa: S301 - our own process wrote it
        if isinstance(result, Exception):
            raise result
        return result, len(answer)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is not None and self._child.poll() is not None:
            self.stop()
        with self._starting:
            if self._stopped:
                raise EOFError
            if self._child is None:
                pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0}
                self._child = subprocess.Popen(self._command, **pipes)  # noqa: S603 - our own program
                self._ending = weakref.finalize(self, _kill, self._child)
            return self._child

    def _receive(self, pipe: IO[bytes]) -> bytes:
        """Read an answer, all of it within the time limit."""
        end = time.monotonic() + self._seconds

        def read(number: int) -> bytes:
            parts: list[bytes] = []
            with selectors.DefaultSelector() as selector:
                selector.register(pipe, selectors.EVENT_READ)
                while number:
                    if not selector.select(max(end - time.monotonic(), 0)):
                        self.stop()
                        raise WorkerError(f"decoding took longer than {self._seconds:g} seconds and was stopped")
                    part = os.read(pipe.fileno(), min(number, 1 << 20))
                    if not part:
                        raise EOFError
                    parts.append(part)
                    number -= len(part)
            return b"".join(parts)

        return read(LENGTH.unpack(read(LENGTH.size))[0])

    def stop(self) -> None:
        """Kill the process; the next estimate starts another one."""
        self._child, self._context = None, ()
        if self._ending is not None:
            self._ending()

    def close(self) -> None:
        """Kill the process, and start no other for an estimate that is under way."""
        with self._starting:
            self._stopped = True
        self.stop()


def _kill(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout):
        with suppress(OSError):
            assert pipe is not None
            pipe.close()


def _send(pipe: IO[bytes], item: object) -> None:
    data = pickle.dumps(item, pickle.HIGHEST_PROTOCOL)
    data = LENGTH.pack(len(data)) + data
    view = memoryview(data)
    while view:
        view = view[os.write(pipe.fileno(), view) :]


def _read_exactly(pipe: IO[bytes], number: int) -> bytes:
    data = pipe.read(number)
    if len(data) < number:
        raise EOFError
    return data


def serve(source: IO[bytes], target: IO[bytes], seconds: float) -> None:
    """Answer tasks until the input ends."""
    shared: tuple[Any, ...] = ()
    while True:
        try:
            (length,) = LENGTH.unpack(_read_exactly(source, LENGTH.size))
            changed, work = pickle.loads(_read_exactly(source, length))  # noqa: S301 - from the console
        except EOFError:
            return
        shared = shared if changed is None else changed
        signal.alarm(int(seconds) + SLACK)  # the console may have been killed
        result = _answer(lambda: work(*shared))  # noqa: B023 - called here
        signal.alarm(0)
        _send(target, result)


def _answer(work: Callable[[], object]) -> object:
    """Return a result, or the error in its place."""
    try:
        return work()
    except ParameterError as error:
        return ParameterError(str(error))
    except Exception as error:  # noqa: BLE001 - one estimate fails, and its page says so
        return WorkerError(f"decoding failed: {type(error).__name__}: {error}")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Control-C is for the console, which then ends this process
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.nice(NICE)
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what a library prints does not belong among the answers
    with suppress(BrokenPipeError):
        serve(sys.stdin.buffer, answers, float(sys.argv[1]))
