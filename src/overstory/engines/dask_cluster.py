"""The Dask engine: units are tasks of a scheduler, of this machine's processes unless an address is given."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from multiprocessing import resource_tracker
from typing import Any, Final
from urllib.parse import urlsplit

from overstory.engines.driver import AHEAD, ANSWER_SECONDS, EngineError, check_answers, numbered_counts, results_of
from overstory.engines.units import Job, Unit
from overstory.kernels.threads import cores
from overstory.protocol.errors import OverstoryError, ParameterError, install_hint

MOST_LOSSES: Final = 10  # workers that one unit may lose: Dask's own limit of 3 is for faults of the task
SETTINGS: Final = {
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
        with dask.config.set(SETTINGS):
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
