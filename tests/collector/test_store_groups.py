"""A store with groups: each group's reports are counted apart, and all of them together are what they always were."""

from __future__ import annotations

import random
import sqlite3
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import pytest

from overstory.collector.store import Store, StoreError, open_store, restore
from support.store_samples import NOW, counted, received, registry, reports

PERIOD = 20_000


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
def test_each_group_is_counted_apart_and_all_together_as_before(store: Store, metrics: Any, name: str) -> None:
    metric = metrics[name]
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


def test_a_batch_counts_once_whatever_group_a_second_copy_names(store: Store, metrics: Any) -> None:
    metric = metrics["colour"]
    batch = received(metric, PERIOD, reports(metric, 3, random.Random(1)))
    assert store.add([batch._replace(group="1.0"), batch._replace(group="1.1")]) == [True, False]
    assert store.groups("colour") == ["1.0"]


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
