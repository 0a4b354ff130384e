"""The local engine: processes of this machine. A worker that is killed is replaced, and its unit is counted again."""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from overstory.engines.driver import EngineError
from overstory.engines.reducer import count_unit, results_of
from overstory.kernels.threads import cores

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from overstory.engines.units import Job, Unit

MOST_TRIES: Final = 5
"""Workers that one unit may lose in a row: then it is the unit's fault."""
SMALL: Final = 1 << 34
"""Bytes up to which threads of this process count: as fast as workers, and these must start and load the kernels."""
AHEAD: Final = 4
"""Units for each worker that are waiting, being counted, or counted and not yet added."""


class LocalEngine:
    """Counts units in `workers` processes, one for each core unless given; few bytes in as many threads.

    A worker holds a row group of one unit at a time, so memory does not grow with the files, and nothing is spilled.
    """

    name = "local"
    spilled: int | None = 0

    def __init__(self, workers: int | None = None, *, small: int = SMALL) -> None:
        self.workers = cores(workers)
        self.retries = 0
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        """The running workers, by their place."""
        self._small = small

    def map(self, job: Job, units: Sequence[Unit]) -> Iterator[tuple[int, bytes]]:
        """Yield each unit's number and counts, in the order in which they are done."""
        if sum(unit.num_bytes for unit in units) <= self._small or len(units) == 1:
            yield from self._by_threads(job, units)
        else:
            yield from self._by_workers(job, units)

    def _by_threads(self, job: Job, units: Sequence[Unit]) -> Iterator[tuple[int, bytes]]:
        """Count in this process, which has loaded all it needs: the kernels release the interpreter's lock."""
        with ThreadPoolExecutor(min(self.workers, len(units))) as pool:
            ahead = AHEAD * self.workers
            yield from results_of(pool, lambda unit: (unit.number, count_unit(job, unit)), units, ahead=ahead)

    def _by_workers(self, job: Job, units: Sequence[Unit]) -> Iterator[tuple[int, bytes]]:
        waiting: queue.SimpleQueue[Unit | None] = queue.SimpleQueue()
        later = iter(units)
        for unit in islice(later, AHEAD * self.workers):
            waiting.put(unit)
        done: queue.SimpleQueue[tuple[int, bytes] | BaseException] = queue.SimpleQueue()
        stop = threading.Event()
        packed = pickle.dumps(job)
        threads = [
            threading.Thread(target=self._serve, args=(place, packed, waiting, done, stop), daemon=True)
            for place in range(min(self.workers, len(units)))
        ]
        try:
            for thread in threads:
                thread.start()
            for _ in units:
                answer = done.get()
                if isinstance(answer, BaseException):
                    raise answer
                for unit in islice(later, 1):
                    waiting.put(unit)
                yield answer
                del answer
        finally:
            stop.set()
            for _ in threads:
                waiting.put(None)
            for process in list(self.processes.values()):
                process.kill()
            for thread in threads:
                thread.join()

    def _serve(
        self,
        place: int,
        job: bytes,
        waiting: queue.SimpleQueue[Unit | None],
        done: queue.SimpleQueue[Any],
        stop: threading.Event,
    ) -> None:
        """Hand units to one worker until there is None; start another worker when it is lost."""
        try:
            while (unit := waiting.get()) is not None and not stop.is_set():
                done.put(self._count(place, job, unit, stop))
        except BaseException as error:  # noqa: BLE001 - the driver raises it
            done.put(error)
        finally:
            process = self.processes.pop(place, None)
            if process is not None:
                end(process)

    def _count(self, place: int, job: bytes, unit: Unit, stop: threading.Event) -> Any:
        for _ in range(MOST_TRIES):
            if stop.is_set():
                break
            try:
                process = self.processes.get(place) or self._start(place, job)
                assert process.stdin is not None
                assert process.stdout is not None
                pickle.dump(unit, process.stdin)
                process.stdin.flush()
                number, answer = pickle.load(process.stdout)  # noqa: S301 - our own worker writes it
            except (EOFError, OSError, pickle.UnpicklingError, ValueError):
                if (lost := self.processes.pop(place, None)) is not None:
                    end(lost)
                self.retries += 1
                continue
            return answer if isinstance(answer, BaseException) else (number, answer)
        return EngineError(
            f"{unit.shown}: {MOST_TRIES} workers in a row ended while they counted {unit.first} .. {unit.stop}; "
            "is there enough memory?"
        )

    def _start(self, place: int, job: bytes) -> subprocess.Popen[bytes]:
        # -P: a module in the working folder is not taken for one of ours.
        command = [sys.executable, "-P", "-m", "overstory.engines.reducer"]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "ARROW_IO_THREADS": "2"}
        process = subprocess.Popen(  # noqa: S603 - our own program
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        self.processes[place] = process
        assert process.stdin is not None
        process.stdin.write(job)
        return process


def end(process: subprocess.Popen[bytes]) -> None:
    """End a worker, and wait for it."""
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):  # of what was not yet sent to a worker that is gone
                stream.close()
