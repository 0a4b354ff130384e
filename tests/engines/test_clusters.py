"""Dask and Spark: real schedulers and real workers, some of which are killed; counts are those of one process.

Dask runs with processes, Spark on this machine and as a master and two workers on loopback; all in the long tests.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from overstory.cli.main import main
from overstory.engines.division import divide_values
from overstory.engines.driver import EngineError, count
from overstory.engines.reducer import count_unit
from support.engine_files import RAPPOR, Collection

OLH = {"epsilon": 1.0, "domain_size": 9, "num_seeds": 1 << 31}
ORACLES: list[tuple[str, dict[str, Any]]] = [
    ("rappor", RAPPOR),
    ("olh", OLH),
    ("grr", {"epsilon": 1.0, "domain_size": 9}),
    ("hadamard", {"epsilon": 1.0, "domain_size": 100_000}),
]
pytestmark = pytest.mark.filterwarnings("ignore")  # of schedulers whose workers are killed


def killing(pids: Callable[[], list[int]], kills: int, among: int, seed: int) -> Callable[[int], None]:
    """Return what kills a drawn worker after drawn units, or after the next ones where none runs just then."""
    drawn = random.Random(seed)
    after, units, owed = set(drawn.sample(range(1, among), kills)), 0, 0

    def advance(_: int) -> None:
        nonlocal units, owed
        units += 1
        owed += units in after
        if owed and (running := pids()):
            owed -= 1
            victim = drawn.choice(running)
            advance.killed.append(victim)  # type: ignore[attr-defined]
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)

    advance.killed = []  # type: ignore[attr-defined]
    return advance


def dask_workers(engine: Any) -> list[int]:
    nannies = engine.client.cluster.workers.values() if engine.client is not None else ()
    return [nanny.pid for nanny in nannies if nanny.pid]


@pytest.mark.slow
@pytest.mark.parametrize("kills", [2, *(pytest.param(10, id=f"ten kills, {seed}") for seed in range(5))])
def test_dask_counts_alike_when_workers_are_killed(
    collection: Callable[..., Collection], kills: int, request: pytest.FixtureRequest
) -> None:
    from overstory.engines.dask_cluster import DaskEngine

    made, engine = collection(), DaskEngine(workers=2)
    units = made.units()
    kill = killing(lambda: dask_workers(engine), kills, len(units) - 4, seed=len(request.node.name))
    try:
        run = count(engine, made.job(), units, advance=kill)
    except EngineError:
        assert kills > 2  # ten lost workers may be too many for a unit: a clear failure, and no wrong count
        return
    assert run.counts == made.counts
    assert kill.killed


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each worker starts by itself")
def test_workers_of_dask_are_forks_of_one_process_that_has_imported_what_they_need(
    collection: Callable[..., Collection],
) -> None:
    from overstory.engines.dask_cluster import ALONE, PRELOADED, DaskEngine

    environment = dict(os.environ)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    made, engine, parents, environments, blocked = collection(), DaskEngine(workers=2), [], [], []

    def look(_: int) -> None:
        if not parents:
            parents.extend(psutil.Process(pid).parent() for pid in dask_workers(engine))
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
@pytest.mark.parametrize(("name", "parameters"), ORACLES, ids=str)
def test_dask_counts_every_oracle_on_a_running_scheduler(
    collection: Callable[..., Collection], small_ranges: None, name: str, parameters: dict[str, Any]
) -> None:
    from distributed import LocalCluster

    from overstory.engines.dask_cluster import DaskEngine

    made = collection(name, parameters)
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        for largest in (1, 1 << 20):
            job = made.job(verify=True)
            units = divide_values(job, made.units(largest), 2)
            assert (len({unit.values for unit in units}) > 1) == (name == "olh" and largest > 1)
            run = count(DaskEngine(cluster.scheduler_address), job, units)
            assert run.counts == made.counts


@pytest.mark.slow
@pytest.mark.parametrize("target", [0.6, 1e-12], ids=["memory for all", "memory for nothing"])
def test_dask_states_what_its_workers_spilled(collection: Callable[..., Collection], target: float) -> None:
    import dask
    from distributed import LocalCluster

    from overstory.engines.dask_cluster import DaskEngine

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
            assert 1.9 * once < twice < 2.1 * once
        else:
            assert once == twice == 0


def test_what_a_lost_worker_of_dask_spilled_is_not_known() -> None:
    from overstory.engines.dask_cluster import DaskEngine

    def spilled(*runs: tuple[dict[str, int | None], dict[str, int | None]]) -> int | None:
        engine = DaskEngine()
        for before, after in runs:
            engine._add_spills(before, after)
        return engine.spilled

    assert spilled(({"a": 5, "b": 0}, {"a": 7, "b": 1, "new": 4}), ({"a": 7}, {"a": 8})) == 8
    assert spilled(({"a": 5, "b": 0}, {"a": 7, "new": 4})) is None
    assert spilled(({"a": 5}, {"new": 5}), ({"new": 5}, {"new": 5})) is None  # and stays so
    assert spilled(({"a": None}, {"a": None})) is None  # a version of Dask without this metric


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
    for options, says in (
        (["--scheduler", address], "--scheduler has no effect without --engine dask"),
        (["--engine", "dask", "--master", "local"], "--master has no effect without --engine spark"),
        (["--workers", "0"], "give a whole number, 1 or more"),
        (["--skip-bad"], "--skip-bad is for files that one process reads"),
    ):
        assert main(["sum", folder, *options, "-o", str(tmp_path / "c.csv")]) == 2
        assert says in capsys.readouterr().err


@pytest.fixture
def java(monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("java") is None and os.environ.get("OVERSTORY_JAVA") != "required":
        pytest.skip("there is no Java here: apt install openjdk-17-jre-headless")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")


@pytest.fixture
def master(java: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run a standalone master and two workers of one core each; they end with the test."""
    import pyspark

    home = Path(pyspark.__file__).parent
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_WORKER_DIR", str(tmp_path / "work"))
    address, log = f"spark://127.0.0.1:{port}", (tmp_path / "daemons.log").open("wb")
    run, place = [str(home / "bin" / "spark-class")], "org.apache.spark.deploy"
    ports = ["--host", "127.0.0.1", "--webui-port", "0"]
    commands = [
        [*run, f"{place}.master.Master", *ports, "--port", str(port)],
        *([*run, f"{place}.worker.Worker", *ports, "-c", "1", "-m", "1g", address] for _ in range(2)),
    ]
    daemons = [subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True) for command in commands]
    try:
        deadline = time.monotonic() + 300
        while (tmp_path / "daemons.log").read_text(errors="replace").count("Registering worker") < 2:
            assert time.monotonic() < deadline, (tmp_path / "daemons.log").read_text(errors="replace")
            time.sleep(0.2)
        yield address
    finally:
        for daemon in daemons:
            for process in [*psutil.Process(daemon.pid).children(recursive=True), daemon]:
                process.kill()
            daemon.wait()
        log.close()


def executors() -> list[int]:
    """Return the executors of our own daemons."""
    ours = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has just ended
            if "CoarseGrainedExecutorBackend" in " ".join(process.cmdline()):
                ours.append(process.pid)
    return ours


@pytest.mark.slow
@pytest.mark.parametrize("kills", [0, 1])
def test_spark_counts_alike_on_a_master_with_two_workers(
    collection: Callable[..., Collection], master: str, kills: int
) -> None:
    from overstory.engines.spark_session import SparkEngine

    made = collection()
    engine = SparkEngine(master=master, workers=2)
    units = made.units()
    kill = killing(executors, kills, len(units) - 8, seed=kills)
    run = count(engine, made.job(), units, advance=kill)
    assert run.counts == made.counts
    assert len(kill.killed) == kills


@pytest.mark.slow
@pytest.mark.usefixtures("java")
def test_spark_counts_every_oracle_on_this_machine(tmp_path: Path, small_blocks: None, small_ranges: None) -> None:
    from pyspark.sql import SparkSession

    from overstory.engines.spark_session import SparkEngine

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        for name, parameters in ORACLES:
            folder = tmp_path / name
            folder.mkdir()
            made = Collection(folder, name, parameters)
            job = made.job(verify=True)
            run = count(SparkEngine(session, workers=2), job, divide_values(job, made.units(1 << 20), 2))
            assert run.counts == made.counts
            assert run.spilled == 0
        units = made.units(1 << 20)
        (made.folder / "c.ovsb").write_bytes(b"OVSB")
        with pytest.raises(EngineError, match=r"c\.ovsb: the batch at byte 0"):
            count(SparkEngine(session, workers=2), made.job(), units)
    finally:
        session.stop()


@pytest.mark.slow
@pytest.mark.usefixtures("java")
def test_spark_states_what_its_tasks_spilled(collection: Callable[..., Collection]) -> None:
    from pyspark.sql import SparkSession

    from overstory.engines.spark_session import SparkEngine

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.shuffle.spill.numElementsForceSpillThreshold", "1").getOrCreate()
    try:
        session.range(100).repartition(3).count()  # what others spill before a run is not the run's
        made, engine = collection(), SparkEngine(session, workers=2)
        run = count(engine, made.job(), made.units())
        assert run.counts == made.counts
        assert run.spilled is not None
        assert run.spilled > 0
    finally:
        session.stop()


def test_what_forgotten_stages_of_spark_spilled_is_not_known() -> None:
    from overstory.engines.spark_session import SparkEngine

    def spilled(before: dict[int, int] | None, after: dict[int, int] | None) -> int | None:
        engine = SparkEngine()
        engine._add_spills(before, after)
        return engine.spilled

    assert spilled({0: 9, 1: 0}, {0: 9, 1: 0, 2: 4, 3: 1}) == 5
    assert spilled({}, {0: 4}) == 4
    assert spilled({0: 9, 1: 0}, {3: 1, 4: 1}) is None
    assert spilled(None, None) is None  # Spark Connect
