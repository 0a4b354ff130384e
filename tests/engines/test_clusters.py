"""Dask: real schedulers and real workers, some of which are killed; counts are those of one process."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from overstory.cli.main import main
from overstory.engines import dask_cluster
from overstory.engines.dask_cluster import MOST_LOSSES, DaskEngine
from overstory.engines.driver import Engine, EngineError, count
from overstory.engines.local import MOST_TRIES, LocalEngine
from overstory.engines.places import find_places
from overstory.engines.reducer import count_unit
from overstory.engines.units import read_contents, units_of
from support import exported_store
from support.engine_files import ORACLES, Collection, exported_counts
from support.engine_kills import KILLS, Kills, count_while_killing
from support.object_store import put
from support.searched_files import searched_files

pytestmark = pytest.mark.filterwarnings("ignore")  # of schedulers whose workers are killed


@pytest.fixture
def impatience() -> Iterator[None]:
    """Let Dask give a lost worker up at once, as where none is back in 15 s: the machine is busy."""
    import dask
    import distributed  # noqa: F401 - it has defaults, which must be there before one is set

    with dask.config.set({"distributed.deploy.lost-worker-timeout": "10 ms"}):
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("impatience")
@pytest.mark.parametrize("kills", [KILLS, *(pytest.param(10, id=f"ten kills, {seed}") for seed in range(2))])
def test_dask_counts_alike_when_workers_are_killed(
    collection: Callable[..., Collection], watched: Path, kills: int, request: pytest.FixtureRequest
) -> None:
    made = collection(size=1800)
    count_while_killing(
        lambda: DaskEngine(workers=2),
        made.job(),
        made.units(),
        made.counts,
        Kills(kills, seed=request.node.name),
        folder=watched,
        limit=MOST_LOSSES + 1,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["local", "dask"])
def test_objects_are_counted_alike_when_workers_are_killed(
    collection: Callable[..., Collection], bucket: str, watched: Path, name: str
) -> None:
    made = collection()
    for path in sorted(made.folder.iterdir()):
        put(bucket, f"{name}/reports/{path.name}", path.read_bytes())
    engines: dict[str, tuple[Callable[[], Engine], int]] = {
        "local": (lambda: LocalEngine(2, small=0), MOST_TRIES),
        "dask": (lambda: DaskEngine(workers=2), MOST_LOSSES + 1),
    }
    engine, limit = engines[name]
    units = units_of(read_contents(find_places([f"s3://{name}/reports?{bucket}"])), 1)
    kills = Kills(KILLS, seed=name)
    count_while_killing(engine, made.job(), units, made.counts, kills, folder=watched, limit=limit)


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        yield cluster.scheduler_address


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parameters"), ORACLES, ids=str)
def test_dask_counts_every_oracle_on_a_running_scheduler(
    collection: Callable[..., Collection], scheduler: str, name: str, parameters: dict[str, Any]
) -> None:
    made = collection(name, parameters)
    for largest in (1, 1 << 20):
        job = made.job()
        assert count(DaskEngine(scheduler), job, made.units(largest)).counts == made.counts


@pytest.mark.slow
def test_dask_counts_an_exported_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheduler: str) -> None:
    exported_store.small_parts(monkeypatch.setattr)
    for job, units, stored in exported_counts(tmp_path):
        assert count(DaskEngine(scheduler), job, units).counts == stored


@pytest.mark.slow
def test_a_search_on_a_running_scheduler_finds_what_one_process_finds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], small_blocks: None, scheduler: str
) -> None:
    command, *_ = searched_files(tmp_path)
    found = []
    for engine in (["local"], ["dask", "--scheduler", scheduler]):
        assert main([*command, "--engine", *engine, "--json", "--quiet"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["estimates"]
    assert found[0] == found[1]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each worker starts by itself")
def test_workers_of_dask_are_forks_of_one_process_that_has_imported_what_they_need(
    collection: Callable[..., Collection],
) -> None:
    from overstory.engines.dask_cluster import ALONE, PRELOADED

    environment = dict(os.environ)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    made, engine, parents, environments, blocked = collection(), DaskEngine(workers=2), [], [], []

    def look(_: int) -> None:
        if not parents:
            parents.extend(psutil.Process(nanny.pid).parent() for nanny in engine.client.cluster.workers.values())
            environments.extend(engine.client.run(lambda: {name: os.environ.get(name) for name in ALONE}).values())
            blocked.extend(engine.client.run(lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [])).values())

    assert count(engine, made.job(), made.units(), advance=look).counts == made.counts
    assert len(parents) == 2
    assert parents[0] == parents[1] != psutil.Process()
    assert environments == [ALONE, ALONE]
    assert blocked == [{signal.SIGINT}] * 2  # a Ctrl-C is for the driver
    assert dict(os.environ) == environment
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == mask
    for name in PRELOADED:  # a name that is no module would be left out without a word
        assert importlib.util.find_spec(name) is not None, name


@pytest.mark.slow
@pytest.mark.parametrize("target", [0.6, 1e-12], ids=["memory for all", "memory for nothing"])
def test_dask_states_what_its_workers_spilled(collection: Callable[..., Collection], target: float) -> None:
    import dask
    from distributed import LocalCluster

    made = collection()
    here: dict[str, Any] = {"n_workers": 1, "threads_per_worker": 1, "processes": True, "host": "127.0.0.1"}
    with (
        dask.config.set({"distributed.worker.memory.target": target}),
        LocalCluster(dashboard_address=None, **here) as cluster,
    ):
        engine = DaskEngine(cluster.scheduler_address)
        runs = [count(engine, made.job(), made.units()) for _ in range(2)]
        assert [run.counts for run in runs] == [made.counts] * 2
        once, twice = (run.spilled for run in runs)
        assert once is not None
        assert twice is not None
        if target < 0.1:
            assert once >= sum(len(count_unit(made.job(), unit)) for unit in made.units())
            assert 0.9 * once < twice < 1.1 * once  # each run states its own
        else:
            assert once == twice == 0


def test_what_a_lost_worker_of_dask_spilled_is_not_known() -> None:
    def spilled(*runs: tuple[dict[str, int | None], dict[str, int | None]]) -> int | None:
        engine = DaskEngine()
        for before, after in runs:
            engine._add_spills(before, after)
        return engine.spilled

    assert spilled(({"a": 5, "b": 0}, {"a": 7, "b": 1, "new": 4}), ({"a": 7}, {"a": 8})) == 8
    assert spilled(({"a": 5, "b": 0}, {"a": 7, "new": 4})) is None
    assert spilled(({"a": 5}, {"new": 5}), ({"new": 5}, {"new": 5})) is None  # and stays so
    assert spilled(({"a": None}, {"a": None})) is None  # a version of Dask without this metric


def test_workers_that_do_not_start_are_a_clear_failure(
    collection: Callable[..., Collection], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("Cluster failed to start")

    monkeypatch.setattr("distributed.LocalCluster", fail)
    made = collection()
    with pytest.raises(EngineError, match="Dask's workers did not start: Cluster failed to start"):
        count(DaskEngine(workers=1), made.job(), made.units())


def test_no_scheduler_is_a_clear_failure(
    collection: Callable[..., Collection], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setattr("overstory.engines.dask_cluster.TIMEOUT", 1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    folder = str(collection().folder)
    command = ["sum", folder, "--engine", "dask", "--scheduler", address, "-o", str(tmp_path / "c.csv")]
    assert main(command) == 2
    assert f"there is no Dask scheduler at {address}" in capsys.readouterr().err
    for scheme in ("sc", "spark"):
        master = address.replace("tcp", scheme)
        assert main(["sum", folder, "--engine", "spark", "--master", master, "-o", str(tmp_path / "c.csv")]) == 2
        assert f"no Spark session at {master}: " in capsys.readouterr().err
    for options, says in (
        (["--scheduler", address], "--scheduler has no effect without --engine dask"),
        (["--engine", "dask", "--master", "local"], "--master has no effect without --engine spark"),
        (["--workers", "0"], "give a whole number, 1 or more"),
        (["--skip-bad"], "--skip-bad is for files that one process reads"),
    ):
        assert main(["sum", folder, *options, "-o", str(tmp_path / "c.csv")]) == 2
        assert says in capsys.readouterr().err


@pytest.mark.parametrize(("workers", "threads"), [(1, 16), (2, 8), (8, 1)])
def test_every_thread_of_a_cluster_counts(
    collection: Callable[..., Collection], monkeypatch: pytest.MonkeyPatch, workers: int, threads: int
) -> None:
    """A worker of Dask has many threads by default; as many units are in flight, whatever the number of processes."""
    from distributed import LocalCluster

    running, most, lock = set(), [0], threading.Lock()

    def count_slowly(_: Any, unit: Any) -> bytes:
        with lock:
            running.add(unit.number)
            most[0] = max(most[0], len(running))
        time.sleep(0.2)
        with lock:
            running.discard(unit.number)
        return b"counts"

    monkeypatch.setattr(dask_cluster, "count_unit", count_slowly)
    made = collection(size=1800)
    units = [replace(made.units()[0], number=number) for number in range(6 * workers * threads)]
    with LocalCluster(
        n_workers=workers, threads_per_worker=threads, processes=False, dashboard_address=None
    ) as cluster:
        engine = DaskEngine(cluster.scheduler_address)
        results = list(engine.map(made.job(), units))
    assert sorted(number for number, _ in results) == list(range(len(units)))
    assert most[0] >= 0.85 * workers * threads
