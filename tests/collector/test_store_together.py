"""Two collectors that do something for the first time at the same moment: one does it, the other waits and goes on."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sqlalchemy import select

from overstory.collector.store import open_store
from overstory.collector.store.counts import keys_of
from overstory.collector.store.metrics import StoredMetric, _write, read_stored_metrics
from overstory.collector.store.retention import _delete_key, _note_day
from overstory.collector.store.schema import ABOUT, CHUNKS, IDS_DELETED
from support.store_crashes import until_it_waits
from support.store_databases import fresh
from support.store_samples import DAY, NOW, received, registry, reports


def test_two_that_start_with_the_same_new_metrics(server_folder: Path) -> None:
    metrics = registry()
    wanted = {(entry.metric, entry.mechanism.digest): entry for entry in map(StoredMetric.of, metrics.values())}
    with (
        fresh("postgresql", server_folder) as url,
        open_store(url, create=True) as one,
        ThreadPoolExecutor(1) as beside,
    ):
        with one._database.engine.begin() as connection:
            _write(one._database, connection, wanted)
            late = beside.submit(open_store, url, metrics)
            until_it_waits(one, late)
        with late.result() as other, other._database.snapshot() as connection:
            assert set(read_stored_metrics(connection)) == set(wanted)


def test_two_that_forget_for_the_first_time(server_folder: Path) -> None:
    with (
        fresh("postgresql", server_folder) as url,
        open_store(url, create=True) as one,
        open_store(url) as other,
        ThreadPoolExecutor(1) as beside,
    ):
        with one._database.engine.begin() as connection:
            _note_day(one._database, connection, "1")
            late = beside.submit(other.compact, NOW)
            until_it_waits(one, late)
        assert late.result().forgotten == 0
        with one._database.snapshot() as connection:
            rows = connection.execute(select(ABOUT.c.value).where(ABOUT.c.key == IDS_DELETED)).scalars().all()
    assert rows == [str(int(NOW // DAY))]


def test_two_that_delete_the_same_few_reports(server_folder: Path) -> None:
    metrics = registry()
    with (
        fresh("postgresql", server_folder) as url,
        open_store(url, metrics, create=True) as one,
        open_store(url, metrics) as other,
        ThreadPoolExecutor(1) as beside,
    ):
        one.add([received(metrics["bloom"], 20_000, reports(metrics["bloom"], 9, random.Random(1)))])
        one.compact(NOW)
        with one._database.engine.begin() as connection:
            (key,) = keys_of(connection, CHUNKS)
            assert _delete_key(connection, key) == [9]
            late = beside.submit(other.retain, NOW + 1000 * DAY)
            until_it_waits(one, late)
        assert late.result().reports == 0
        assert one.periods("bloom") == []
