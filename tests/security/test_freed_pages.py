"""What was folded or deleted is gone from the store's file, not only from its tables."""

import os
import random
import sqlite3
import stat

import pytest

from overstory.collector.store import Received, open_store
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.registry import EXAMPLE
from support.store_samples import ids_in_file

METRIC = next(iter(parse_registry(EXAMPLE).values()))
DAY = 86_400
PERIOD = 20_000
NOW = (PERIOD + 1) * DAY


def filled(path, rng):
    """A store that has taken batches of 40 reports; return their columns, as they came."""
    columns = []
    with open_store(str(path), parse_registry(EXAMPLE), create=True) as store:
        for _ in range(60):
            bits = bytes(rng.randrange(3) for _ in range(40))
            columns.append(bits)
            store.add(
                [
                    Received(
                        METRIC.id,
                        PERIOD,
                        rng.randbytes(16),
                        METRIC.mechanism.digest,
                        METRIC.mechanism.payload_bits,
                        METRIC.mechanism.num_cohorts,
                        40,
                        bytes(80),
                        bits,
                        NOW,
                        NOW,
                    )
                ]
            )
    connection = sqlite3.connect(path)
    ids = ids_in_file(connection)
    connection.close()
    return columns, ids


def found(path, traces):
    content = b"".join(file.read_bytes() for file in path.parent.iterdir())
    return sum(trace in content for trace in traces)


def test_the_order_in_which_reports_came_is_gone_from_the_file_once_they_are_folded(tmp_path):
    path = tmp_path / "store.db"
    columns, _ = filled(path, random.Random(3))
    assert found(path, columns) == 60
    with open_store(str(path)) as store:
        assert store.compact(NOW - DAY).reports == 2400
    assert found(path, columns) == 0


def test_ids_that_were_forgotten_are_gone_from_the_file(tmp_path):
    path = tmp_path / "store.db"
    _, ids = filled(path, random.Random(3))
    assert found(path, ids) == 60
    with open_store(str(path)) as store:
        assert store.compact(NOW + 40 * DAY).forgotten == 60
    assert found(path, ids) == 0


@pytest.mark.skipif(os.name == "nt", reason="file modes")
def test_a_store_and_its_backup_are_for_their_owner_alone(tmp_path):
    before = os.umask(0o022)
    try:
        with open_store(str(tmp_path / "store.db"), create=True) as store:
            store.add_token("write", "editor")
            store.backup(tmp_path / "backup.db")
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert {"store.db", "store.db-wal", "backup.db"} <= set(modes)
    assert set(modes.values()) == {0o600}
