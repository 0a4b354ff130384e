"""Engines by their names: threads of this process, or many machines by Dask and Spark.

Dask: units are tasks of a scheduler, of this machine's processes unless one is named. Spark: a data frame with a row
for each unit, counted by the worker that gets the row. Spark reads no reports, and nothing is counted in accumulators,
which a repeated task adds to twice.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.util import find_spec
from itertools import islice
from multiprocessing import resource_tracker
from typing import Any, Final
from urllib.parse import urlsplit

from overstory.engines.driver import (
    AHEAD,
    ANSWER_SECONDS,
    Engine,
    EngineError,
    LocalEngine,
    check_answers,
    count_unit,
    numbered_counts,
    results_of,
)
from overstory.engines.units import Job, Unit
from overstory.kernels.threads import cores
from overstory.protocol.errors import OverstoryError, ParameterError, install_hint, suggestion
from overstory.protocol.wire import parse_digits

MOST_LOSSES: Final = 10  # workers that one unit may lose: Dask's own limit of 3 is for faults of the task
DASK_SETTINGS: Final = {
    "distributed.scheduler.allowed-failures": MOST_LOSSES,
    # Dask takes a worker for good from a cluster that has missed it for 15 s; on a busy machine it starts for longer.
    "distributed.deploy.lost-worker-timeout": "1 h",
    # Without any worker Dask waits for ever.
    "distributed.scheduler.no-workers-timeout": "10 minutes",
    "distributed.worker.multiprocessing-method": "forkserver" if sys.platform == "linux" else "spawn",
}
"""Of a cluster of our own; some are read when a worker is lost."""


class DaskEngine:
    """Counts units on a Dask scheduler; without one, in so many processes of this machine: one for each core."""

    name = "dask"

    def __init__(self, scheduler: str | None = None, workers: int | None = None) -> None:
        if find_spec("distributed") is None:
            raise ParameterError(f"--engine dask needs Dask: {install_hint('dask')}")
        self.scheduler, self.workers = scheduler, workers
        self._place = _host_and_port(scheduler)

    def map(self, job: Job, units: Sequence[Unit]) -> Iterator[tuple[int, bytes]]:
        from distributed.scheduler import KilledWorker

        with self._connected() as client:
            # A job may be large: it travels once to each worker, and Dask makes it again where it is lost.
            shared = client.submit(_itself, job, pure=False)
            submit = partial(client.get_executor(pure=False).submit, numbered_counts, shared)
            try:
                yield from results_of(submit, units, lambda: AHEAD * max(sum(client.nthreads().values()), 1))
            except (OverstoryError, OSError, MemoryError):
                raise
            except KilledWorker as error:
                problem = f"{MOST_LOSSES} workers in a row ended while they counted a unit: {error}"
                raise EngineError(problem) from error
            except Exception as error:
                raise EngineError(f"Dask lost a unit ({type(error).__name__}: {error})") from error

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        import dask
        from distributed import Client

        options: dict[str, Any] = {}
        problem = f"there is no Dask scheduler at {self.scheduler}"
        if self._place is not None:
            check_answers(problem, [self._place])
        if self.scheduler is None:
            problem = "Dask's workers did not start"
            options = {"n_workers": cores(self.workers), "threads_per_worker": 1, "processes": True}
            options |= {"host": "127.0.0.1", "dashboard_address": None, "silence_logs": 50}
        with dask.config.set(DASK_SETTINGS):
            try:
                with _no_interrupts():
                    client = Client(self.scheduler, set_as_default=False, timeout=ANSWER_SECONDS, **options)
            except (OSError, ValueError, RuntimeError) as error:
                raise EngineError(f"{problem}: {error}") from error
            with client:
                yield client


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Let threads and processes that start now take no Ctrl-C, which reaches workers too: this process ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # where it starts later, it unblocks the signal
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _host_and_port(scheduler: str | None) -> tuple[str, int] | None:
    """Return where a scheduler listens; None where its protocol is neither TCP nor TLS."""
    scheme, has_scheme, rest = (scheduler or "inproc://").rpartition("://")
    if has_scheme and scheme not in {"tcp", "tls"}:
        return None
    try:
        place = urlsplit(f"//{rest}")
        if place.hostname and place.port:
            return place.hostname, place.port
    except ValueError:
        pass
    raise ParameterError(f"--engine dask:{scheduler}: give a host and a port, such as tcp://host:8786")


def _itself(job: Job) -> Job:
    return job


SCHEMA: Final = "number int, counts binary, error string"
WAVES: Final = 2  # jobs that run at the same time: while the last tasks of one end, the next has begun
PER_WAVE: Final = 4  # units of a job for each thread of the cluster: their counts come back together
MOST_THREADS: Final = 1 << 16  # of a cluster, that are told apart

SPARK_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
}
PORTS: Final = {"sc": 15002, "spark": 7077}  # where they listen unless the address says otherwise


class SparkEngine:
    """Counts units on Spark: in a `session` that is there already and goes on, or in one at the address `master`."""

    name = "spark"

    def __init__(self, session: Any = None, *, master: str | None = None, workers: int | None = None) -> None:
        try:
            import pyspark  # noqa: F401 - whether it is there
        except ImportError as error:
            raise ParameterError(f"--engine spark needs Spark, and Java 17: {install_hint('spark')}") from error
        self.session, self.master = session, master
        self.workers = cores(workers) if workers is not None or (master is None and session is None) else None

    def map(self, job: Job, units: Sequence[Unit]) -> Iterator[tuple[int, bytes]]:
        with self._session() as session, ExitStack() as at_end:
            threads = ThreadPoolExecutor(WAVES)
            at_end.callback(threads.shutdown, cancel_futures=True)
            left = iter(units)
            waves = iter(lambda: tuple(islice(left, PER_WAVE * (self.workers or threads_of(session)))), ())
            for ended in results_of(
                lambda wave: threads.submit(_collect, session, job, wave), waves, lambda: 2 * WAVES
            ):
                yield from ended

    @contextmanager
    def _session(self) -> Iterator[Any]:
        if self.session is not None:
            yield self.session
            return
        problem = f"no Spark session at {self.master or 'this machine'}"
        # Local mode tries nothing again unless the master says so: local[workers, tries].
        master = self.master or f"local[{self.workers},4]"
        scheme, _, hosts = master.partition("://")
        try:
            places = [urlsplit(f"//{host}") for host in hosts.split(",") if scheme in PORTS]
            if places:
                check_answers(problem, [(place.hostname or "", place.port or PORTS[scheme]) for place in places])
        except ValueError as error:
            raise EngineError(f"{problem}: {error}") from error
        from pyspark.sql import SparkSession

        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = SparkSession.builder.appName("overstory")
        builder = builder.remote(master) if scheme == "sc" else builder.master(master).config(map=SPARK_SETTINGS)
        try:
            session = builder.getOrCreate()
        except Exception as error:
            raise EngineError(f"{problem}: {_first_line(error)}") from error
        try:
            yield session
        finally:
            session.stop()


def threads_of(session: Any) -> int:
    """Return how many tasks a cluster runs at a time by now: into so many parts Spark divides a range."""
    parts = session.range(MOST_THREADS).selectExpr("spark_partition_id() AS part")
    return int(parts.agg({"part": "max"}).first()[0]) + 1


def _collect(session: Any, job: Job, units: Sequence[Unit]) -> list[tuple[int, bytes]]:
    """Count some units as one job of Spark: a task for each, and no shuffle that a lost executor takes along."""
    try:
        rows = session.range(0, len(units), 1, len(units))
        answers = rows.mapInArrow(_counting(job, units), SCHEMA).collect()
    except Exception as error:
        raise EngineError(
            f"Spark gave up on units {units[0].number} .. {units[-1].number}: {_first_line(error)}"
        ) from error
    for answer in answers:
        if answer["error"] is not None:
            raise EngineError(answer["error"])
    return [(answer["number"], bytes(answer["counts"])) for answer in answers]


def _counting(job: Job, units: Sequence[Unit]) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return the function that a worker of Spark maps over its rows, the places of the units to count."""

    def count(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        types = pa.schema([("number", pa.int32()), ("counts", pa.binary()), ("error", pa.string())])
        for batch in batches:
            for place in batch.column(0).to_pylist():
                unit, counts, problem = units[place], None, None
                try:
                    counts = count_unit(job, unit)
                except (OverstoryError, OSError) as error:  # every try would fail alike: Spark is not to try again
                    problem = str(error)
                yield pa.RecordBatch.from_pylist([{"number": unit.number, "counts": counts, "error": problem}], types)

    return count


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


ENGINES: Final = ("local", "dask", "spark")


def engine_of(text: str | None) -> Engine:
    """Return the engine of that name, which an address or a number of processes or threads may follow."""
    name, _, where = (text or "local").partition(":")
    if name not in ENGINES:
        raise ParameterError(f"--engine {text}: choose one of {', '.join(ENGINES)}{suggestion(name, ENGINES)}")
    workers = parse_digits(where)
    if workers == 0 or (where and workers is None and name == "local"):
        raise ParameterError(f"--engine {text}: give a whole number, 1 or more, after {name}:")
    place = where if where and workers is None else None
    if name == "dask":
        return DaskEngine(place, workers)
    if name == "spark":
        return SparkEngine(master=place, workers=workers)
    return LocalEngine(workers)
