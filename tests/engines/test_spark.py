"""Spark on this machine, on a master with two workers, and by Connect; what is killed changes no count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from overstory.engines.driver import EngineError, count
from support.engine_files import ORACLES, Collection, exported_counts
from support.engine_kills import KILLS, Kills, count_while_killing
from support.spark_daemons import Cluster, running, start_connect

QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF"}
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("java")]
TRIES = 4
"""Spark's own: a task that fails so often ends its job."""


def test_spark_counts_alike_when_what_it_runs_is_killed(
    collection: Callable[..., Collection], tmp_path: Path, watched: Path
) -> None:
    from pyspark.sql import SparkSession

    from overstory.engines.spark_session import SparkEngine

    made = collection(size=1800)
    with running(tmp_path) as daemons:
        cluster = Cluster(daemons)
        session = SparkSession.builder.master(cluster.address).config(map=QUIET).getOrCreate()
        try:
            count_while_killing(
                lambda: SparkEngine(session, workers=2),
                made.job(),
                made.units(),
                made.counts,
                Kills(KILLS, seed="spark", victim=cluster.victim),
                folder=watched,
                limit=TRIES,
            )
        finally:
            session.stop()


def check_counts(folder: Path, engine: Callable[[], Any]) -> None:
    """Count every oracle, an exported store and a damaged file."""
    for job, units, stored in exported_counts(folder):
        assert count(engine(), job, units).counts == stored
    for name, parameters in ORACLES:
        reports = folder / name
        reports.mkdir()
        made = Collection(reports, name, parameters)
        job = made.job()
        assert count(engine(), job, made.units(1 << 20)).counts == made.counts
    units = made.units(1 << 20)
    (made.folder / "c.ovsb").write_bytes(b"OVSB")
    with pytest.raises(EngineError, match=r"c\.ovsb: the batch at byte 0"):
        count(engine(), made.job(), units)


@pytest.mark.usefixtures("small_blocks")
def test_spark_counts_alike_on_this_machine(tmp_path: Path) -> None:
    from pyspark.sql import SparkSession

    from overstory.engines.spark_session import SparkEngine

    session = SparkSession.builder.master("local[2,4]").config(map=QUIET).getOrCreate()
    try:
        check_counts(tmp_path, lambda: SparkEngine(session, workers=2))
    finally:
        session.stop()


@pytest.mark.usefixtures("small_blocks")
def test_spark_counts_alike_by_connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import SparkSession

    from overstory.engines.spark_session import SparkEngine

    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")  # Spark sets it for good; the next test is a classic one
    with running(tmp_path) as daemons:
        address = start_connect(daemons)
        session = SparkSession.builder.remote(address).getOrCreate()
        try:
            check_counts(tmp_path, lambda: SparkEngine(session, workers=2))
        finally:
            session.stop()
        folder = tmp_path / "again"
        folder.mkdir()
        made = Collection(folder, *ORACLES[0])
        assert count(SparkEngine(master=address), made.job(), made.units(1 << 20)).counts == made.counts


def test_spark_counts_as_many_units_at_a_time_as_the_cluster_has_threads(
    collection: Callable[..., Collection],
) -> None:
    """They were those of this machine, and eight of a cluster, of whatever size."""
    from pyspark.sql import SparkSession

    from overstory.engines.spark_session import PER_WAVE, SparkEngine

    session = SparkSession.builder.master("local[4]").config(map=QUIET).getOrCreate()
    try:
        made, tracker = collection(size=1800), session.sparkContext.statusTracker()
        units = made.units()
        assert len(units) > 4 * PER_WAVE
        assert count(SparkEngine(session), made.job(), units).counts == made.counts
        stages = [stage for job in tracker.getJobIdsForGroup() for stage in tracker.getJobInfo(job).stageIds]
        assert max(tracker.getStageInfo(stage).numTasks for stage in stages) == 4 * PER_WAVE
    finally:
        session.stop()
