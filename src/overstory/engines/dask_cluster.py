"""The Dask engine: units are tasks of a scheduler, of this machine's processes unless an address is given."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import socket
import sys
import time
import uuid
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from overstory.engines.driver import EngineError
from overstory.engines.reducer import count_unit
from overstory.kernels.threads import cores
from overstory.protocol.errors import OverstoryError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from overstory.engines.units import Job, Unit

AHEAD: Final = 4
"""Tasks at the scheduler for each thread of its workers: results are taken as they come, and none is gathered."""
ASKED_EVERY: Final = 1.0
"""Seconds after which a scheduler is asked again how many threads its workers have: clusters grow."""
TIMEOUT: Final = 20
"""Seconds in which a scheduler must answer."""
TCP: Final = ("tcp", "tls")
"""Protocols whose schedulers listen at a host and a port."""
MOST_LOSSES: Final = 10
"""Workers that one unit may lose: Dask's own limit of 3 is for faults of the task."""
FORKS: Final = sys.platform == "linux"
"""Whether workers are forks of one process that has imported what they need; elsewhere each imports it."""
PRELOADED: Final = [
    "distributed.nanny",
    "overstory.engines.reducer",
    "overstory.kernels.compiled",
    "pyarrow.compute",
    "numba.np.arraymath",
]
"""What that process imports: what every worker needs, and else would import when it counts its first unit."""
SETTINGS: Final = {
    "distributed.scheduler.allowed-failures": MOST_LOSSES,
    "distributed.admin.low-level-log-length": 0,
    # Dask takes a worker for good from a cluster that has missed it for 15 s; on a busy machine it starts for longer.
    "distributed.deploy.lost-worker-timeout": "1 h",
    # Without any worker Dask waits for ever.
    "distributed.scheduler.no-workers-timeout": "10 minutes",
    "distributed.worker.profile.enabled": False,
    "distributed.worker.multiprocessing-method": "forkserver" if FORKS else "spawn",
}
"""Of a cluster of our own; some are read when a worker is lost."""
ALONE: Final = {
    "ARROW_IO_THREADS": "2",
    "MALLOC_TRIM_THRESHOLD_": "65536",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
"""The environment of workers of one core, and of the process they are forked from, which must have no threads."""


class DaskEngine:
    """Counts units on a Dask scheduler, such as ``tcp://scheduler:8786``; without one, in processes of this machine.

    `workers` counts those processes: one for each core unless given.
    """

    name = "dask"

    def __init__(self, scheduler: str | None = None, workers: int | None = None) -> None:
        if find_spec("distributed") is None:
            raise ParameterError("--engine dask needs Dask: pip install 'overstory[dask]'")
        if scheduler is not None:
            _host_and_port(scheduler)
        self.scheduler, self.workers = scheduler, workers
        self.retries = 0
        self.client: Any = None
        """The client, while units are counted."""

    def map(self, job: Job, units: Sequence[Unit]) -> Iterator[tuple[int, bytes]]:
        """Yield each unit's number and counts, as tasks end."""
        if self.scheduler is None:
            _prepare_workers()
        from distributed import as_completed

        run_id = uuid.uuid4().hex
        with self._connected() as client:
            waiting = iter(units)
            tasks, in_flight, ahead, asked = as_completed(loop=client.loop), 0, 1, -ASKED_EVERY
            while True:
                if time.monotonic() - asked >= ASKED_EVERY:
                    ahead, asked = AHEAD * max(sum(client.nthreads().values()), 1), time.monotonic()
                for unit in itertools.islice(waiting, max(ahead - in_flight, 0)):
                    # A key of its own: Dask would else take equal calls of two runs for one.
                    key = f"overstory-{run_id}-{unit.number}"
                    tasks.add(client.submit(_numbered, job, unit, pure=False, key=key))
                    in_flight += 1
                if not in_flight:
                    break
                task = next(tasks)
                in_flight -= 1
                yield _result(task)
                task.release()

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        from distributed import Client

        with ExitStack() as stack:
            if self.scheduler is not None:
                _check_answers(self.scheduler)
            try:
                place = self.scheduler or stack.enter_context(_own_cluster(cores(self.workers)))
                client = Client(place, set_as_default=False, timeout=TIMEOUT)
            except (OSError, ValueError, RuntimeError) as error:
                what = "Dask's workers did not start" if self.scheduler is None else "there is no Dask scheduler at "
                raise EngineError(f"{what}{self.scheduler or ''}: {error}") from error
            stack.callback(client.close)
            self.client = client
            try:
                yield client
            finally:
                self.client = None


def _host_and_port(scheduler: str) -> tuple[str, int] | None:
    """Return where a scheduler listens; None where its protocol is neither TCP nor TLS."""
    scheme, has_scheme, rest = scheduler.rpartition("://")
    if has_scheme and scheme not in TCP:
        return None
    try:
        place = urlsplit(f"//{rest}")
        host, port = place.hostname, place.port
    except ValueError:
        host = port = None
    if not host or not port:
        raise ParameterError(f"--scheduler {scheduler}: give a host and a port, such as tcp://host:8786")
    return host, port


def _check_answers(scheduler: str) -> None:
    """Raise EngineError when nobody listens there: Dask itself would try again and again, and print why."""
    place = _host_and_port(scheduler)
    if place is None:
        return
    try:
        socket.create_connection(place, TIMEOUT).close()
    except OSError as error:
        raise EngineError(f"there is no Dask scheduler at {scheduler}: {error}") from error


@contextmanager
def _own_cluster(workers: int) -> Iterator[Any]:
    """Run a scheduler and workers on this machine; the settings hold for workers that replace lost ones, too."""
    import dask
    from distributed import LocalCluster

    with dask.config.set(SETTINGS):
        cluster = LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            scheduler_kwargs={"dashboard": False},
            host="127.0.0.1",
            silence_logs=50,
        )
        try:
            yield cluster
        finally:
            cluster.close(timeout=20)


def _prepare_workers() -> None:
    """Let the process that workers are forked from import what they need, while this one imports Dask."""
    if not FORKS:
        return
    from multiprocessing import forkserver, resource_tracker

    resource_tracker.ensure_running()  # it would unblock the signal
    multiprocessing.get_context("forkserver").set_forkserver_preload(PRELOADED)
    before = {name: os.environ.get(name) for name in ALONE}
    os.environ.update(ALONE)
    # Workers take no Ctrl-C, which reaches them too: this process ends them.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _numbered(job: Job, unit: Unit) -> tuple[int, bytes]:
    return unit.number, count_unit(job, unit)


def _result(task: Any) -> tuple[int, bytes]:
    from distributed.scheduler import KilledWorker

    try:
        number, raw = task.result()
    except (OverstoryError, OSError, MemoryError):
        raise
    except KilledWorker as error:
        raise EngineError(f"{MOST_LOSSES} workers in a row ended while they counted a unit: {error}") from error
    except Exception as error:
        raise EngineError(f"Dask lost a unit ({type(error).__name__}: {error})") from error
    return int(number), bytes(raw)
