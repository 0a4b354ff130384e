"""Dask: real schedulers and real workers, some of which are killed; counts are those of one process."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from overstory.cli.main import main
from overstory.engines.dask_cluster import MOST_LOSSES, DaskEngine
from overstory.engines.driver import count
from overstory.engines.places import find_places
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
def test_objects_are_counted_alike_when_workers_are_killed(
    collection: Callable[..., Collection], bucket: str, watched: Path
) -> None:
    made = collection()
    for path in sorted(made.folder.iterdir()):
        put(bucket, f"dask/reports/{path.name}", path.read_bytes())
    units = units_of(read_contents(find_places([f"s3://dask/reports?{bucket}"])), 1)
    kills, limit = Kills(KILLS, seed="dask"), MOST_LOSSES + 1
    count_while_killing(
        lambda: DaskEngine(workers=2), made.job(), units, made.counts, kills, folder=watched, limit=limit
    )


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
