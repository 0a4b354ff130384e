"""Nothing in a store joins a batch id to a report: not a column, not a number, not an order, not the file."""

import random
from itertools import pairwise

import numpy as np
import pytest
from sqlalchemy import inspect, select, text
from sqlalchemy.exc import OperationalError

from overstory.collector.store import open_store
from overstory.collector.store.databases.connection import connect
from overstory.collector.store.schema import (
    BATCH_IDS,
    CHUNKS,
    COLLECTORS,
    METADATA,
    NOTES,
    TALLIES,
    TOKENS,
    ids_table,
    ids_table_name,
)
from overstory.protocol.kinds.base import Report
from support.store_samples import DAY, NOW, received, registry, reports

PERIOD = 20_000


def test_ids_lie_alone_with_a_day():
    assert set(ids_table(PERIOD).c.keys()) == {"id"}
    assert set(BATCH_IDS.c.keys()) == {"day", "forget_after"}
    assert not any(table.foreign_keys for table in METADATA.sorted_tables)
    for table in METADATA.sorted_tables:
        names = set(table.c.keys())
        assert not names & {"address", "agent", "time", "received", "arrived", "batch"}
        assert table is BATCH_IDS or "forget_after" not in names


def test_what_is_stored_of_refusals_collectors_tokens_and_notes_names_nobody():
    """A collector is a random id without a machine or an address; nothing of a token's use; a note has no author."""
    # One number for both: with a metric it is that of the metric's period, so a row has no place for a day as well.
    assert {column.name for column in TALLIES.primary_key} == {"metric", "period", "reason"}
    columns = {
        TALLIES: {"metric", "period", "reason", "refused"},
        COLLECTORS: {"id", "version", "started", "last_seen", "waiting"},
        TOKENS: {"id", "sha256", "role", "application", "created", "expires", "revoked"},
        NOTES: {"id", "metric", "day", "kind", "text"},
    }
    assert {table.name: set(table.c.keys()) for table in columns} == {table.name: own for table, own in columns.items()}


def test_no_database_has_other_columns(store_url):
    with open_store(store_url, create=True) as store, store._database.engine.connect() as connection:
        found = inspect(connection)
        tables = set(found.get_table_names()) - {"sqlite_sequence"}
        assert tables == set(METADATA.tables)
        for name, table in METADATA.tables.items():
            assert {column["name"] for column in found.get_columns(name)} == set(table.c.keys())


def test_the_day_of_an_id_is_that_of_every_metric(store, metrics):
    rng = random.Random(1)
    for second in (1, 3600, DAY - 1, DAY):
        sent = reports(metrics["bloom"], 1, rng)
        store.add([received(metrics["bloom"], PERIOD, sent, forget_after=PERIOD * DAY + second)])
    with store._database.snapshot() as connection:
        assert set(connection.execute(select(BATCH_IDS.c.forget_after)).scalars()) == {(PERIOD + 1) * DAY}


def test_ids_have_no_row_number_and_no_order_of_arrival(store, metrics):
    rng = random.Random(1)
    ids = [rng.randbytes(16) for _ in range(500)]
    for batch in ids:
        store.add([received(metrics["bloom"], PERIOD, reports(metrics["bloom"], 1, rng), batch=batch)])
    store.compact(NOW)  # on PostgreSQL, ids lie as they came until then
    with store._database.engine.connect() as connection:
        table = ids_table_name(PERIOD + 1)
        rows = connection.execute(text(f"SELECT id FROM {table}")).scalars()
        assert [bytes(row) for row in rows] == sorted(ids) != ids
        if store.url.startswith("sqlite"):
            with pytest.raises(OperationalError, match="no such column"):
                connection.execute(text(f"SELECT rowid FROM {table}"))
        else:
            assert connection.execute(text(f"SELECT count(DISTINCT xmin::text) FROM {table}")).scalar() == 1


def test_ids_of_chunks_show_no_order(store_url, tmp_path):
    """They were numbered over all metrics: beside an hourly metric's, the number of a weekly metric's told the hour."""
    metrics, rng = registry(), random.Random(1)
    metric, periods = metrics["colour"], range(PERIOD, PERIOD + 60)
    with open_store(store_url, metrics, create=True) as store:
        for period in periods:
            store.add([received(metric, period, reports(metric, 2, rng))])
            assert store.compact(NOW).reports == 2
        store.backup(tmp_path / "backup.db")
    for url in (store_url, str(tmp_path / "backup.db")):
        database = connect(url)
        with database.snapshot() as connection:
            ids = {row.period: row.id for row in connection.execute(select(CHUNKS.c.period, CHUNKS.c.id))}
        database.close()
        assert len(set(ids.values())) == len(periods)
        assert all(1 <= number < 1 << 63 for number in ids.values())
        # Of random ids, Spearman's coefficient has the standard deviation .13: beyond .637 once in a million.
        ranks = {number: rank for rank, number in enumerate(sorted(ids.values()))}
        assert abs(np.corrcoef(range(60), [ranks[ids[period]] for period in periods])[0, 1]) < 0.637


def test_folding_takes_away_which_reports_came_together(store, metrics):
    metric = metrics["colour"]
    for colour in range(3):  # a batch of each colour: after folding, the colours are mixed
        store.add([received(metric, PERIOD, [Report(0, colour)] * 200)])
        store.compact(NOW)
    order = [int(bits) for batch in store.reports(metric, PERIOD, PERIOD) for bits in batch.bits[:, 0]]
    assert sorted(order) == [0] * 200 + [1] * 200 + [2] * 200
    # A random order has some 400 places where the colour changes (standard deviation 12); batches one by one have 2.
    assert 300 < sum(a != b for a, b in pairwise(order)) < 500
