"""What the screens read: a registry, a store, the time, and estimates: from a cache, computed at once, or by a process.

However many pages ask for an estimate, it is decoded once. A page waits two seconds; the work goes on without it, and
its next request finds what was done. Decoding here would share the interpreter's lock with the pages.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from overstory.analysis.estimate import Estimate
from overstory.console.view import ScreenError
from overstory.presentation.formats import date_words
from overstory.protocol.errors import OverstoryError, ParameterError
from overstory.protocol.sampling import context
from overstory.queries.counts import PeriodCounts, read_store
from overstory.queries.estimates import estimate_counts, read_estimates
from overstory.queries.readings import PLAIN, Aggregation, EstimateOptions, Reading

if TYPE_CHECKING:
    from overstory.analysis.reports import SupportCounts
    from overstory.collector.store import Store
    from overstory.protocol.metrics import Metric, MetricRegistry


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


def counts_key(shared: bytes, about: float, counts: SupportCounts) -> bytes:
    """Return the key of what is computed from counts, what is hashed already, and a number about them."""
    own = hashlib.blake2b(shared, digest_size=16)
    own.update(f"{about!r} {counts.ones.shape}".encode())
    own.update(counts.totals.tobytes())
    own.update(counts.ones.tobytes())
    return own.digest()


def reading_task(counted: PeriodCounts, kind: Aggregation, options: EstimateOptions) -> Task:
    """Return the task of a reading, which fails with ParameterError when a search has too many answers for a page."""
    metric = counted.metric

    def work() -> partial[Reading]:
        reports = None
        if metric.reading == "search" and counted.reports is not None:
            if counted.num_reports > MOST_ANSWERS:
                raise ParameterError(
                    f"{counted.num_reports:,} answers are too many for a page, which searches {MOST_ANSWERS:,}; run: "
                    f"overstory decode --registry FILE --store URL --metric {metric.id}"
                )
            reports = partial(iter, tuple(counted.reports()))
        return partial(read_counted, replace(counted, reports=reports), kind, options)

    about = counted.first, counted.last, counted.others, counted.group, counted.released
    rest = repr((kind, options, *about))
    key = context(metric.digest.hex(), rest, *map(str, metric.labels or ()))
    for period in counted.periods:
        key = counts_key(key, period, counted.counts[period])
    return Task(key, work)


NICE: Final = 5  # how much the process lets others go first: a collector on the same machine is more important


STARTING: Final = 60.0  # seconds in which the process has started, or never does
SLACK: Final = 5.0  # seconds after the time limit of an estimate at which a process that does not end is killed


class WorkerError(OverstoryError):
    """An estimate that the process could not give: it took too long, or the process died of it."""


class Worker:
    """The process that decodes, one estimate after the other; one thread uses it.

    It is started when it is first needed, ends itself when an estimate takes too long, or the console was killed, and
    is started again.
    """

    def __init__(self, seconds: float = 60.0) -> None:
        self._seconds = seconds  # the time limit of an estimate
        self._pool: ProcessPoolExecutor | None = None
        self.pid: int | None = None
        self._closed = False
        self._starting = threading.Lock()

    def estimate(self, task: Task) -> tuple[Any, int]:
        """Return an estimate, or a reading, and its pickled size; WorkerError when it takes too long or dies twice."""
        work = task.work()
        for attempt in range(2):
            began = time.monotonic()
            try:
                pool, began = self._started(), time.monotonic()
                # The process ends itself in time; the rest is for one that was stopped, and cannot.
                answer = pool.submit(_answer, work, self._seconds).result(self._seconds + SLACK)
            except (BrokenProcessPool, TimeoutError) as error:
                self.stop()
                if time.monotonic() - began >= self._seconds:
                    words = f"decoding took longer than {self._seconds:g} seconds and was stopped"
                    raise WorkerError(words) from error
                if attempt or self._closed:
                    raise WorkerError("the process that decodes ended without a word: is memory short?") from error
                continue
            result = pickle.loads(answer)  # noqa: S301 - our own process wrote it
            if isinstance(result, Exception):
                raise result
            return result, len(answer)
        raise AssertionError(task)

    def _started(self) -> ProcessPoolExecutor:
        with self._starting:
            if self._closed:
                raise WorkerError("the console ends")
            if self._pool is None:
                # A fork may stop at a lock that a thread held.
                self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin)
                self.pid = self._pool.submit(os.getpid).result(STARTING)
            return self._pool

    def stop(self) -> None:
        pool, pid, self._pool, self.pid = self._pool, self.pid, None, None
        for process in multiprocessing.active_children():
            if process.pid == pid:
                process.kill()
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        with self._starting:
            self._closed = True
        self.stop()


def _begin() -> None:
    """Prepare the process: it ends with the console, also when that is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Control-C is for the console, which then ends this process
    os.nice(NICE)
    threading.Thread(target=_end_with_the_console, daemon=True).start()


def _end_with_the_console() -> None:
    console = multiprocessing.parent_process()
    assert console is not None
    console.join()
    os._exit(0)


def _answer(work: Callable[[], object], seconds: float) -> bytes:
    """Return what a task gives, or the error; SIGALRM ends the process when that takes too long."""
    signal.setitimer(signal.ITIMER_REAL, seconds)
    result: object
    try:
        result = work()
    except ParameterError as error:
        result = ParameterError(str(error))
    except Exception as error:  # noqa: BLE001 - one estimate fails, and its page says so
        result = WorkerError(f"decoding failed: {type(error).__name__}: {error}")
    signal.setitimer(signal.ITIMER_REAL, 0)
    return pickle.dumps(result, pickle.HIGHEST_PROTOCOL)


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
        self._futures: dict[bytes, Future[Any]] = {}  # that wait, or have failed
        self._failed: dict[bytes, float] = {}  # since when
        self._lock = threading.Lock()
        self._queue = ThreadPoolExecutor(1, "decoding")

    def read_all(self, several: Sequence[PeriodCounts], kind: Aggregation, options: EstimateOptions) -> list[Any]:
        """Return readings of one metric; ScreenError 202: not all are ready, 503: too much waits; or WorkerError."""
        if several[0].metric.reading != "shares":
            tasks = [reading_task(counted, kind, options) for counted in several]
            readings = self._decode({task.key: task for task in tasks})
            return [readings[task.key] for task in tasks]
        ready, missing = dict[bytes, Estimate](), dict[bytes, Task]()
        digests: dict[int, bytes] = {}  # by metric: each is one object in `several`
        # What stands for an estimate until it is decoded; nobody sees it.
        unknown = Estimate(values=(), counts=(), raw_counts=(), standard_errors=(), num_reports=0)  # type: ignore[arg-type]

        def look_up(
            metric: Metric, counts: SupportCounts, per_device: float, options: EstimateOptions, names: Sequence[str]
        ) -> Estimate:
            _check_candidates(metric, names)
            if id(metric) not in digests:
                digests[id(metric)] = shared_digest(metric, options, names)
            key = counts_key(digests[id(metric)], per_device, counts)
            work = partial(estimate_counts, metric, counts, per_device, options, names)
            estimate = ready.get(key) or self.cache.get(key)
            encoding = metric.oracle.encoding
            # A closed form takes less than a message to the process; a fit, or further steps, do not.
            if estimate is None and (encoding.decoded or encoding.uneven or options.steps):
                missing[key] = Task(key, lambda: work, names)
                return unknown
            if estimate is None:
                estimate = work()
                self.cache.put(key, estimate, len(pickle.dumps(estimate)))
            ready[key] = estimate
            return estimate

        series = [read_estimates(counted, kind, options, estimator=look_up) for counted in several]
        if missing:
            ready |= self._decode(missing)
            series = [read_estimates(counted, kind, options, estimator=look_up) for counted in several]
        return series

    def _decode(self, tasks: Mapping[bytes, Task]) -> dict[bytes, Any]:
        ready, futures = self._enqueue(tasks)
        wait(futures.values(), self.patience)
        ready |= {key: future.result() for key, future in futures.items() if future.done()}
        if len(ready) < len(tasks):
            raise ScreenError(202, f"decoding: {len(ready):,} of {len(tasks):,} estimates are ready", refresh=1)
        return ready

    def _enqueue(self, tasks: Mapping[bytes, Task]) -> tuple[dict[bytes, Any], dict[bytes, Future[Any]]]:
        """Return what was decoded since the reader looked, and what each other task will give, or has failed with."""
        with self._lock:
            self._forgive()
            found = {key: self.cache.get(key) for key in tasks.keys() - self._futures.keys()}
            ready = {key: estimate for key, estimate in found.items() if estimate is not None}
            waiting = len(self._futures) - len(self._failed)
            if waiting + len(found) - len(ready) > MOST_WAITING:
                raise ScreenError(
                    503,
                    f"{len(found) - len(ready):,} estimates would have to be decoded, and {waiting:,} wait already: "
                    "show fewer periods, or ask again in a minute",
                )
            for key in tasks:
                if key in found and key not in ready:
                    self._futures[key] = self._queue.submit(self._estimate, tasks[key])
            return ready, {key: self._futures[key] for key in tasks.keys() - ready.keys()}

    def _forgive(self) -> None:
        """Forget what failed long ago, and the oldest of too many."""
        now = time.monotonic()
        for key, since in list(self._failed.items()):
            if now - since >= FORGIVEN or len(self._failed) > MOST_WAITING:
                del self._failed[key], self._futures[key]

    def _estimate(self, task: Task) -> Any:
        """Decode a task; whatever goes wrong is the answer of those that wait, and the next one is decoded."""
        self.decoded += 1
        try:
            estimate, size = self.worker.estimate(task)
        except Exception as error:
            with self._lock:
                self._failed[task.key] = time.monotonic()
            if isinstance(error, ParameterError | WorkerError):
                raise
            raise WorkerError(f"decoding failed: {type(error).__name__}: {error}") from None
        # Every estimate of a list shares one list of its values.
        estimate = estimate if task.values is None else replace(estimate, values=task.values)
        with self._lock:
            self.cache.put(task.key, estimate, size)
            self._futures.pop(task.key, None)
        return estimate

    def close(self) -> None:
        self._queue.shutdown(wait=False, cancel_futures=True)
        self.worker.close()


def _check_candidates(metric: Metric, names: Sequence[str]) -> None:
    if len(names) > MOST_CANDIDATES and metric.oracle.encoding.decoded:
        raise ParameterError(
            f"{len(names):,} candidates are too many for a page, which takes {MOST_CANDIDATES:,}; run: "
            f"overstory decode --registry FILE --store URL --metric {metric.id} --candidates FILE"
        )


PeriodState = Literal["running", "settling", "final"]
"""A running period is not over; a settling one is over and still takes late reports; a final one takes none."""


class ConsoleData:
    """A registry and a store, as the screens read them."""

    def __init__(
        self,
        registry: MetricRegistry,
        store: Store,  # only read
        clock: Callable[[], float] = time.time,
        decoder: Estimates | None = None,
    ) -> None:
        self.registry, self.store, self.clock = registry, store, clock
        self.lists = CandidateLists()
        self.decoder = decoder or Estimates()

    def metric(self, name: str) -> Metric:
        if name in self.registry:
            return self.registry[name]
        near = get_close_matches(name, list(self.registry), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ScreenError(404, f"the registry has no metric {name!r}{hint}")

    def reports(self, metric: Metric, first: int, last: int) -> dict[int, int]:
        """Return the number of reports of each period, whatever parameters they were made with."""
        reports: Counter[int] = Counter()
        for (period, _), number in self.store.tally(metric.id, first, last).items():
            reports[period] += number
        return reports

    @property
    def today(self) -> dt.date:
        return dt.datetime.fromtimestamp(self.clock(), dt.UTC).date()

    def words(self, label: str) -> str:
        return date_words(label, self.today.year)

    def moment(self, unix_time: float) -> str:
        return self.words(f"{dt.datetime.fromtimestamp(unix_time, dt.UTC):%Y-%m-%dT%H:%M}")

    def state(self, metric: Metric, period: int) -> PeriodState:
        now = self.clock()
        if now < metric.period.start(period + 1):
            return "running"
        return "settling" if now < metric.final_from(period) else "final"

    def counts(
        self, metric: Metric, first: int | None = None, last: int | None = None, group: str = ""
    ) -> PeriodCounts:
        """Return the counts of a range of periods, all unless given; ScreenError 400 for an unknown or hidden group."""
        try:
            return read_store(self.store, metric, first, last, group=group or None)
        except ParameterError as error:
            raise ScreenError(400, f"group: {error}" if group else str(error)) from error

    def read(self, counts: PeriodCounts, kind: Aggregation = "total", options: EstimateOptions = PLAIN) -> Any:
        """Return a reading, decoded once; ScreenError 400: unfit option, 202: ask again, 503: too much waits."""
        return self.read_all([counts], kind, options)[0]

    def read_all(self, several: Sequence[PeriodCounts], kind: Aggregation, options: EstimateOptions) -> list[Any]:
        try:
            return self.decoder.read_all(several, kind, options)
        except (WorkerError, ParameterError) as error:
            raise ScreenError(503 if isinstance(error, WorkerError) else 400, str(error)) from error


class CandidateLists:
    """Lists by name, as many as a `BoundedCache` holds."""

    def __init__(self) -> None:
        self._texts = BoundedCache()

    def hold(self, candidates: Sequence[str]) -> str:
        text = "\n".join(candidates).encode("utf-8", "surrogatepass")
        name = hashlib.sha256(text).hexdigest()
        self._texts.put(name, text, len(text))
        return name

    def find(self, name: str) -> tuple[str, ...] | None:
        text = self._texts.get(name)
        return None if text is None else tuple(text.decode("utf-8", "surrogatepass").split("\n"))
