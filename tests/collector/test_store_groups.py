"""A store with groups: each group's reports are counted apart, and all of them together are what they always were."""

from __future__ import annotations

import random
import sqlite3
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from overstory.collector.store import Store, StoreError, open_store, restore
from overstory.collector.store.counts import pack_counts
from overstory.collector.store.databases.connection import connect, migrate
from overstory.collector.store.migrations import upgrade
from support.store_samples import DAY, NOW, counted, received, registry, reports

PERIOD = 20_000
DUMP = Path(__file__).parents[1] / "vectors" / "store-0002.sql"
OWN_SEEDS = ", num_seeds = 2147483648"
"""What the dump's metric of hashed symbols says of its seeds."""


def filled(store: Store, name: str, sizes: dict[str, int], seed: int = 1) -> Any:
    """Add reports of each group, half of them counted and half waiting; return the counts of each."""
    metric, rng = registry()[name], random.Random(seed)
    sent = {group: [reports(metric, number, rng) for _ in range(2)] for group, number in sizes.items()}
    for part in range(2):
        store.add([received(metric, PERIOD, both[part])._replace(group=group) for group, both in sent.items()])
        if not part:
            store.compact(NOW)
    return {group: counted(metric, both[0] + both[1]) for group, both in sent.items()}


@pytest.mark.parametrize("name", ["bloom", "colour", "size"])
def test_each_group_is_counted_apart_and_all_together_as_before(store_url: str, name: str) -> None:
    metric = registry()[name]
    with open_store(store_url, registry(), create=True) as store:
        counts = filled(store, name, {"": 3, "1.0": 20, "1.1": 7, "other": 4})
        for _ in range(2):
            assert store.groups(name) == ["", "1.0", "1.1", "other"]
            for group, own in counts.items():
                assert store.counts(metric, PERIOD, PERIOD, groups=[group]) == {PERIOD: own}
            assert store.counts(metric, PERIOD, PERIOD) == {PERIOD: reduce(add, counts.values())}
            assert store.counts(metric, PERIOD, PERIOD, groups=["1.0", "other"]) == {
                PERIOD: counts["1.0"] + counts["other"]
            }
            assert store.counts(metric, PERIOD, PERIOD, groups=["2"]) == {}
            assert store.tally(name, PERIOD, PERIOD) == {(PERIOD, metric.mechanism.digest): 68}
            store.compact(NOW)
        (summary,) = store.summary().metrics
        assert (summary.counted, summary.kept, summary.waiting) == (68, 68, 0)
        assert sum(map(len, store.reports(metric, PERIOD, PERIOD))) == 68


def test_a_batch_counts_once_whatever_group_a_second_copy_names(store_url: str) -> None:
    metric = registry()["colour"]
    batch = received(metric, PERIOD, reports(metric, 3, random.Random(1)))
    with open_store(store_url, registry(), create=True) as store:
        assert store.add([batch._replace(group="1.0"), batch._replace(group="1.1")]) == [True, False]
        assert store.groups("colour") == ["1.0"]


def test_retention_deletes_the_reports_of_every_group_and_leaves_the_counts(store_url: str) -> None:
    metric = registry()["colour"]
    with open_store(store_url, registry(), create=True) as store:
        counts = filled(store, "colour", {"1.0": 5, "1.1": 5})
        store.compact(NOW)
        assert store.retain(NOW + 200 * DAY).reports == 20
        assert list(store.reports(metric, PERIOD, PERIOD)) == []
        assert store.counts(metric, PERIOD, PERIOD, groups=["1.1"]) == {PERIOD: counts["1.1"]}


def test_a_backup_has_the_groups_and_notices_a_changed_one(store_url: str, tmp_path: Path) -> None:
    metric = registry()["colour"]
    with open_store(store_url, registry(), create=True) as store:
        counts = filled(store, "colour", {"": 2, "1.0": 5, "1.1": 6})
        assert store.backup(tmp_path / "backup.db") == 26
    assert restore(tmp_path / "backup.db", str(tmp_path / "restored.db")) == 26
    with open_store(str(tmp_path / "restored.db"), registry()) as store:
        for group, own in counts.items():
            assert store.counts(metric, PERIOD, PERIOD, groups=[group]) == {PERIOD: own}
    with sqlite3.connect(tmp_path / "backup.db") as raw:
        raw.execute("UPDATE inbox SET device_group = '1.2' WHERE device_group = '1.1'")
    raw.close()
    with pytest.raises(StoreError, match="inbox: not what was backed up"):
        restore(tmp_path / "backup.db", str(tmp_path / "again.db"))


@pytest.fixture
def second(tmp_path: Path) -> Path:
    """A sealed backup that the program of the second schema wrote."""
    path = tmp_path / "second.db"
    with sqlite3.connect(path) as raw:
        raw.executescript(DUMP.read_text())
    raw.close()
    return path


def test_a_backup_of_the_schema_without_groups_is_migrated_and_restored(second: Path, tmp_path: Path) -> None:
    """Its digests, made without the new column, still hold."""
    with pytest.raises(StoreError, match="has schema 0002, this program needs"):
        open_store(str(second))
    database = connect(str(second))
    assert migrate(database)[0] == "0002"
    database.close()
    assert restore(second, str(tmp_path / "restored.db")) == 23
    metrics, rng = registry(seeds=OWN_SEEDS), random.Random(20261121)
    with open_store(str(tmp_path / "restored.db"), metrics) as store:
        for name in ("bloom", "colour", "size"):
            sent = reports(metrics[name], 6, rng), reports(metrics[name], 5 if name == "size" else 0, rng)
            expected = {PERIOD: counted(metrics[name], sent[0] + sent[1])}
            assert store.counts(metrics[name], PERIOD, PERIOD) == expected
            assert store.counts(metrics[name], PERIOD, PERIOD, groups=[""]) == expected
            assert store.groups(name) == [""]
        assert [note.text for note in store.notes()] == ["Version 3 is out"]
        assert store.refusals().by_metric == {("colour", PERIOD, "bits"): 3}
        assert store.compact(NOW).reports == 5
        numbers = [received(metrics["colour"], PERIOD, reports(metrics["colour"], 1, rng))._replace(group="1.0")]
        assert store.add(numbers) == [True]
        assert store.compact(NOW).reports == 1


def test_numbers_of_migrated_rows_are_not_used_again(second: Path) -> None:
    with sqlite3.connect(second) as raw:
        before = dict(raw.execute("SELECT name, seq FROM sqlite_sequence"))
    raw.close()
    database = connect(str(second))
    migrate(database)
    database.close()
    with sqlite3.connect(second) as raw:
        assert dict(raw.execute("SELECT name, seq FROM sqlite_sequence")) == before
        assert raw.execute("SELECT count(*) FROM sqlite_sequence").fetchone() == (len(before),)
    raw.close()


def test_the_data_of_a_store_of_the_second_schema_is_there_after_the_migration(store_url: str) -> None:
    metric = registry()["colour"]
    sent = [reports(metric, 4, random.Random(seed)) for seed in (1, 2)]
    chunk, waiting = (received(metric, PERIOD, some) for some in sent)
    database = connect(store_url, create=True)
    database.write(lambda connection: upgrade(connection, revision="0002"))

    def fill(connection: Any) -> None:
        for table, batch in (("chunks", chunk), ("inbox", waiting)):
            row = {name: getattr(batch, name) for name in ("metric", "period", "digest", "num_bits", "num_cohorts")}
            row |= {"num_reports": 4, "cohorts": batch.cohorts, "bits": batch.bits}
            names = ", ".join(row)
            connection.execute(text(f"INSERT INTO {table} ({names}) VALUES (:{names.replace(', ', ', :')})"), row)
        counts = {"counts_digest": metric.counts_digest, "counts": pack_counts(counted(metric, sent[0]))}
        row = {"metric": "colour", "period": PERIOD, "digest": metric.mechanism.digest, "num_reports": 4} | counts
        names = ", ".join(row)
        connection.execute(text(f"INSERT INTO counts ({names}) VALUES (:{names.replace(', ', ', :')})"), row)

    database.write(fill)
    assert migrate(database)[0] == "0002"
    database.close()
    with open_store(store_url, registry()) as store:
        expected = counted(metric, sent[0] + sent[1])
        assert store.counts(metric, PERIOD, PERIOD) == {PERIOD: expected}
        assert store.compact(NOW).reports == 4
        assert store.counts(metric, PERIOD, PERIOD, groups=[""]) == {PERIOD: expected}
        more = filled(store, "colour", {"1.0": 3})
        assert store.counts(metric, PERIOD, PERIOD) == {PERIOD: expected + more["1.0"]}
