"""Estimates for pages: from the cache, computed at once where that is quick, else by the process that decodes.

However many pages ask for an estimate, it is decoded once. A page waits two seconds; the work goes on without it, and
its next request finds what was done.
"""

from __future__ import annotations

import hashlib
import pickle
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from overstory.console.estimates.worker import Task, Worker, WorkerError, counts_key, reading_task
from overstory.console.view import ScreenError
from overstory.protocol.errors import ParameterError
from overstory.protocol.sampling import context
from overstory.queries.estimates import EstimateSeries, estimate_counts, read_estimates

if TYPE_CHECKING:
    from overstory.analysis.estimate import Estimate
    from overstory.analysis.reports import SupportCounts
    from overstory.protocol.metrics import Metric
    from overstory.queries.counts import PeriodCounts
    from overstory.queries.readings import Aggregation, EstimateOptions, Reading


MOST_BYTES: Final = 64 << 20


def shared_digest(metric: Metric, options: EstimateOptions, names: Sequence[str]) -> bytes:
    """Return the hash of what the estimates of a series share: its list may have 100,000 strings."""
    rest = repr(replace(options, candidates=None))  # the list of candidates is in `names`
    shared = context(metric.digest.hex(), rest, *map(str, names))
    return hashlib.blake2b(shared, digest_size=16).digest()


class BoundedCache:
    """Estimates, or whatever else, by key; past a number of bytes the least recently used ones are dropped."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most, self.size = most_bytes, 0
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._entries

    def get(self, key: Hashable) -> Any:
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def put(self, key: Hashable, value: Any, num_bytes: int) -> None:
        """Add a value that counts as so many bytes; one that is larger than the cache is not added."""
        with self._lock:
            if num_bytes > self._most:
                return
            if key not in self._entries:
                self._entries[key] = value, num_bytes
                self.size += num_bytes
            self._entries.move_to_end(key)
            while self.size > self._most:
                _, (_, dropped) = self._entries.popitem(last=False)
                self.size -= dropped


MOST_CANDIDATES: Final = 100_000
PATIENCE: Final = 2.0  # seconds for which a page waits
MOST_WAITING: Final = 2_000  # estimates that may wait to be decoded; a page that would make it more is refused
SECONDS: Final = 60.0  # the time limit of one estimate
FORGIVEN: Final = 300.0  # seconds for which an estimate that failed is not tried again


class Estimates:
    """Estimates of counts, each computed once; a reader waits `patience` seconds, None: until all is decoded."""

    def __init__(self, patience: float | None = PATIENCE, worker: Worker | None = None) -> None:
        self.patience, self.cache = patience, BoundedCache()
        self.worker = worker or Worker(SECONDS)
        self.decoded = 0
        """How many estimates the process was asked for."""
        self._waiting: dict[bytes, Future[Any]] = {}
        self._failed: OrderedDict[bytes, tuple[float, Exception]] = OrderedDict()
        self._lock = threading.Lock()
        self._queue = ThreadPoolExecutor(1, "decoding")

    def read_all(
        self, several: Sequence[PeriodCounts], reading: Aggregation = "total", options: EstimateOptions | None = None
    ) -> list[EstimateSeries]:
        """Return estimates; ScreenError 202: not all are ready, 503: too much waits; or WorkerError."""
        ready, missing = dict[bytes, "Estimate"](), dict[bytes, Task]()
        digests: dict[int, bytes] = {}  # by metric: each is one object in `several`

        def look_up(
            metric: Metric, counts: SupportCounts, per_device: float, options: EstimateOptions, names: Sequence[str]
        ) -> Estimate:
            _check_candidates(metric, names)
            if id(metric) not in digests:
                digests[id(metric)] = shared_digest(metric, options, names)
            key = counts_key(digests[id(metric)], per_device, counts)
            work = partial(estimate_counts, metric, counts, per_device, options, names)
            estimate = ready.get(key) or self.cache.get(key)
            if estimate is None and _is_slow(metric, options):
                missing[key] = Task(key, lambda: work, names)
                return _nothing()
            if estimate is None:
                estimate = work()
                self.cache.put(key, estimate, len(pickle.dumps(estimate)))
            ready[key] = estimate
            return estimate

        series = [read_estimates(counted, reading, options, estimator=look_up) for counted in several]
        if missing:
            ready |= self._decode(missing)
            series = [read_estimates(counted, reading, options, estimator=look_up) for counted in several]
        return series

    def read_reading(self, counted: PeriodCounts, kind: Aggregation, options: EstimateOptions) -> Reading:
        task = reading_task(counted, kind, options)
        reading: Reading | None = self.cache.get(task.key)
        return self._decode({task.key: task})[task.key] if reading is None else reading

    def _decode(self, tasks: Mapping[bytes, Task]) -> dict[bytes, Any]:
        futures = self._enqueue(tasks)
        wait(futures.values(), self.patience)
        done = {key: future for key, future in futures.items() if future.done()}
        estimates = {key: future.result() for key, future in done.items()}
        if len(done) < len(tasks):
            raise ScreenError(202, f"decoding: {len(done):,} of {len(tasks):,} estimates are ready", refresh=1)
        return estimates

    def _enqueue(self, tasks: Mapping[bytes, Task]) -> dict[bytes, Future[Any]]:
        """Return what each task will give, after adding those that nobody waits for yet."""
        with self._lock:
            futures = {key: self._waiting[key] for key in tasks if key in self._waiting}
            fresh = []
            for key in tasks.keys() - futures.keys():
                self._raise_failure(key)
                estimate = self.cache.get(key)
                if estimate is None:
                    fresh.append(key)
                else:  # decoded since the reader looked
                    futures[key] = Future()
                    futures[key].set_result(estimate)
            if len(self._waiting) + len(fresh) > MOST_WAITING:
                raise ScreenError(
                    503,
                    f"{len(fresh):,} estimates would have to be decoded, and {len(self._waiting):,} wait already: show "
                    "fewer periods, or ask again in a minute",
                )
            for key in tasks:
                if key not in futures:
                    futures[key] = self._waiting[key] = self._queue.submit(self._estimate, tasks[key])
            return futures

    def _raise_failure(self, key: bytes) -> None:
        at, error = self._failed.get(key, (-FORGIVEN, None))
        if error is not None and time.monotonic() - at < FORGIVEN:
            raise error
        self._failed.pop(key, None)

    def _estimate(self, task: Task) -> Any:
        """Decode a task; whatever goes wrong is the answer of those that wait, and the next one is decoded."""
        self.decoded += 1
        try:
            estimate, size = self.worker.estimate(task)
            # Every estimate of a list shares one list of its values.
            estimate = estimate if task.values is None else replace(estimate, values=task.values)
            self.cache.put(task.key, estimate, size)
        except Exception as error:  # noqa: BLE001 - it is the answer
            is_known = isinstance(error, ParameterError | WorkerError)
            told = error if is_known else WorkerError(f"decoding failed: {type(error).__name__}: {error}")
            with self._lock:
                self._waiting.pop(task.key, None)
                self._failed[task.key] = time.monotonic(), told
                while len(self._failed) > MOST_WAITING:
                    self._failed.popitem(last=False)
            raise told from None
        with self._lock:
            self._waiting.pop(task.key, None)
        return estimate

    def close(self) -> None:
        self._queue.shutdown(wait=False, cancel_futures=True)
        self.worker.close()


def _is_slow(metric: Metric, options: EstimateOptions) -> bool:
    """Whether an estimate is a fit or has further steps; a closed form takes less than a message to a process."""
    encoding = metric.oracle.encoding
    return encoding.decoded or encoding.uneven or bool(options.steps)


def _check_candidates(metric: Metric, names: Sequence[str]) -> None:
    if len(names) > MOST_CANDIDATES and metric.oracle.encoding.decoded:
        raise ParameterError(
            f"{len(names):,} candidates are too many for a page, which takes {MOST_CANDIDATES:,}; run: "
            f"overstory decode --registry FILE --store URL --metric {metric.id} --candidates FILE"
        )


def _nothing() -> Estimate:
    """Return what stands for an estimate until it is decoded; nobody sees it."""
    from overstory.analysis.estimate import Estimate

    return Estimate(values=(), counts=(), raw_counts=(), standard_errors=(), num_reports=0)  # type: ignore[arg-type]
