"""One contract for every engine: the counts of one process, whatever is killed; as much in flight as it has threads."""

import time
import weakref
from contextlib import contextmanager, nullcontext
from functools import partial

import pytest

from overstory.engines import clusters, driver
from overstory.engines.clusters import MOST_LOSSES, PER_WAVE, DaskEngine, SparkEngine
from overstory.engines.driver import EngineError, LocalEngine, count
from overstory.engines.places import find_places
from overstory.engines.units import read_contents, units_of
from overstory.protocol.errors import FormatError
from support.engine_files import ORACLES, Collection, exported_counts
from support.engine_kills import KILLS, Kills, count_while_killing
from support.object_store import put
from support.spark_daemons import Cluster, running, start_connect

pytestmark = pytest.mark.filterwarnings("ignore")  # of schedulers whose workers are killed

QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF"}
SPARK_TRIES = 4
"""Spark's own: a task that fails so often ends its job."""


@pytest.fixture(scope="module")
def scheduler():
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        yield cluster.scheduler_address


@contextmanager
def spark_session_at(master):
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    builder = builder.remote(master) if master.startswith("sc:") else builder.master(master).config(map=QUIET)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


@pytest.fixture
def engine(request, tmp_path_factory, monkeypatch):
    if request.param == "local":
        yield partial(LocalEngine, 2)
    elif request.param == "dask":
        yield partial(DaskEngine, request.getfixturevalue("scheduler"))
    elif request.param == "spark":
        request.getfixturevalue("java")
        with spark_session_at("local[2,4]") as session:
            yield partial(SparkEngine, session, workers=2)
    else:
        request.getfixturevalue("java")
        monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")  # Spark sets it for good; the next test is a classic one
        with running(tmp_path_factory.mktemp("daemons")) as daemons:
            address = start_connect(daemons)
            with spark_session_at(address) as session:
                yield partial(SparkEngine, session, workers=2)
            made = Collection(tmp_path_factory.mktemp("again"), *ORACLES[0])
            assert count(SparkEngine(master=address), made.job(), made.units(1 << 20)).counts == made.counts


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    "engine",
    ["local", *(pytest.param(name, marks=pytest.mark.slow) for name in ("dask", "spark", "connect"))],
    indirect=True,
)
def test_an_engine_counts_alike(engine, tmp_path):
    """Every oracle and an exported store; of a damaged file an error says what and where."""
    for job, units, stored in exported_counts(tmp_path):
        assert count(engine(), job, units).counts == stored
    for name, parameters in ORACLES:
        (tmp_path / name).mkdir()
        made = Collection(tmp_path / name, name, parameters)
        assert count(engine(), made.job(), made.units(1000)).counts == made.counts
    units = made.units(1 << 20)
    (made.folder / "b.parquet").write_bytes(b"PAR1")
    with pytest.raises((EngineError, FormatError), match=r"b\.parquet: this is no sound Parquet file"):
        count(engine(), made.job(), units)


@pytest.mark.parametrize(
    "absent",
    [
        lambda: DaskEngine("tcp://127.0.0.1:1"),
        lambda: SparkEngine(master="spark://127.0.0.1:1"),
        lambda: SparkEngine(master="sc://127.0.0.1:1"),
    ],
    ids=["dask", "spark", "connect"],
)
def test_a_scheduler_that_is_not_there_is_one_sentence(collection, absent):
    made = collection()
    with pytest.raises(EngineError, match=r"^(there is no Dask scheduler|no Spark session) at \w+://127.0.0.1:1: .*$"):
        count(absent(), made.job(), made.units())


@pytest.mark.slow
@pytest.mark.parametrize("kills", [KILLS, *(pytest.param(10, id=f"ten kills, {seed}") for seed in range(2))])
def test_dask_counts_alike_when_workers_are_killed(collection, watched, kills, request):
    import dask
    import distributed  # noqa: F401 - it has defaults, which must be there before one is set

    # Dask gives a lost worker up at once, as where none is back in 15 s: the machine is busy.
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "10 ms"}):
        made, killing = collection(size=1800), Kills(kills, seed=request.node.name)
        made_by, limit = partial(DaskEngine, workers=2), MOST_LOSSES + 1
        count_while_killing(made_by, made.job(), made.units(), made.counts, killing, folder=watched, limit=limit)


@pytest.mark.slow
def test_objects_are_counted_alike_when_workers_are_killed(collection, bucket, watched):
    made = collection()
    for path in sorted(made.folder.iterdir()):
        put(bucket, f"dask/reports/{path.name}", path.read_bytes())
    units = units_of(read_contents(find_places([f"s3://dask/reports?{bucket}"])), 1)
    kills, limit = Kills(KILLS, seed="dask"), MOST_LOSSES + 1
    made_by = partial(DaskEngine, workers=2)
    count_while_killing(made_by, made.job(), units, made.counts, kills, folder=watched, limit=limit)


@pytest.mark.slow
@pytest.mark.usefixtures("java")
def test_spark_counts_alike_when_what_it_runs_is_killed(collection, tmp_path, watched):
    made = collection(size=1800)
    with running(tmp_path) as daemons:
        cluster = Cluster(daemons)
        kills = Kills(KILLS, seed="spark", victim=cluster.victim)
        with spark_session_at(cluster.address) as session:
            made_by = partial(SparkEngine, session, workers=2)
            count_while_killing(
                made_by, made.job(), made.units(), made.counts, kills, folder=watched, limit=SPARK_TRIES
            )


@pytest.mark.slow
@pytest.mark.usefixtures("java")
def test_spark_counts_as_many_units_at_a_time_as_the_cluster_has_threads(collection):
    """They were those of this machine, and eight of a cluster, of whatever size."""
    with spark_session_at("local[4]") as session:
        made, tracker = collection(size=1800), session.sparkContext.statusTracker()
        units = made.units()
        assert len(units) > 4 * PER_WAVE
        assert count(SparkEngine(session), made.job(), units).counts == made.counts
        stages = [stage for job in tracker.getJobIdsForGroup() for stage in tracker.getJobInfo(job).stageIds]
        assert max(tracker.getStageInfo(stage).numTasks for stage in stages) == 4 * PER_WAVE


class Counts:
    """The counts of a unit, as large as may be."""


@pytest.mark.parametrize("pause", [0.0, 0.001])
@pytest.mark.parametrize(("name", "most"), [("local", 12), ("spark", 50)])
def test_counts_are_released_as_they_are_taken(collection, monkeypatch, name, most, pause):
    """Memory does not grow with the number of units: little is counted ahead of what is added."""
    alive = weakref.WeakSet()

    def counts(*_):
        alive.add(made := Counts())
        return made

    monkeypatch.setattr(driver, "count_unit", counts)
    monkeypatch.setattr(clusters, "_collect", lambda _session, _job, units: [(0, counts()) for _ in units])
    monkeypatch.setattr(SparkEngine, "_session", lambda _engine: nullcontext())
    engine = LocalEngine(2) if name == "local" else SparkEngine(workers=2)
    made, taken = collection(), 0
    for _number, _counts in engine.map(made.job(), made.units()[:1] * 400):
        taken += 1
        time.sleep(pause)
        assert len(alive) <= most
    assert taken == 400
