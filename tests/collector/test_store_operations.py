"""Refusals, collectors' heartbeats and notes in a store: added, read, retained, backed up; and a store of before."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from sqlalchemy import Connection, inspect, text

from overstory.collector.store import CollectorState, Refusals, StoreError, open_store, restore
from overstory.collector.store.databases.connection import connect, migrate
from overstory.collector.store.migrations import upgrade
from overstory.collector.store.schema import read_id_days
from overstory.protocol.errors import ParameterError
from support.store_samples import DAY, NOW, received, registry, reports

TODAY = 20_000
STATE = CollectorState("5f3a9c01", "0.2.0", int(NOW) - 600, int(NOW), 17, 0.02)


def test_refusals_add_up_by_day_and_by_metric(store_url: str) -> None:
    with open_store(store_url, registry(), create=True) as store, open_store(store_url) as other:
        store.report_state(None, {(None, TODAY, "bits"): 3, ("bloom", TODAY, "bits"): 2})
        other.report_state(None, {(None, TODAY, "bits"): 4, (None, TODAY + 1, "damaged"): 1})
        store.report_state(STATE, {})
        assert other.refusals() == Refusals(
            {(TODAY, "bits"): 7, (TODAY + 1, "damaged"): 1}, {("bloom", TODAY, "bits"): 2}
        )


def test_a_collector_has_one_row_its_last(store_url: str) -> None:
    later = CollectorState(STATE.id, STATE.version, STATE.started, STATE.last_seen + 15, 0)
    other = CollectorState("00aa", "0.2.0", 1, STATE.last_seen - 100, 0)
    with open_store(store_url, create=True) as store:
        for state in (STATE, other, later):
            store.report_state(state, {})
        assert store.collectors() == [later, other]
        assert [state.silent(NOW) for state in store.collectors()] == [False, True]


def test_notes_are_on_a_metric_or_on_all(store_url: str) -> None:
    with open_store(store_url, registry(), create=True) as store:
        of_all = store.add_note(" Version 3 is out ", TODAY + 1, "release")
        of_bloom = store.add_note("<b>=cmd()</b>", TODAY, "incident", "bloom")
        of_size = store.add_note("a note", TODAY, metric="size")
        assert of_all.text == "Version 3 is out"
        assert store.notes() == [of_bloom, of_size, of_all]
        assert store.notes("bloom") == [of_bloom, of_all]
        store.remove_note(of_bloom.id)
        assert store.notes("bloom") == [of_all]
        with pytest.raises(ParameterError, match=f"there is no note {of_bloom.id}: overstory store notes list"):
            store.remove_note(of_bloom.id)


@pytest.mark.parametrize(
    ("words", "kind", "metric", "why"),
    [
        ("", "note", None, "1 to 500 characters; this one has 0"),
        ("x" * 501, "note", None, "1 to 500 characters; this one has 501"),
        ("two\nlines", "note", None, "one line of printable characters"),
        ("text\u202egnp.exe", "note", None, "one line of printable characters"),
        ("x", "rumour", None, "a note is of kind release, incident or note; not 'rumour'"),
        ("x", "note", "colou", "the store remembers no metric colou: it remembers bloom, colour, size"),
    ],
)
def test_a_note_that_cannot_be_stored_is_refused(
    tmp_path: Path, words: str, kind: str, metric: str | None, why: str
) -> None:
    with open_store(str(tmp_path / "store.db"), registry(), create=True) as store:
        with pytest.raises(ParameterError, match=why):
            store.add_note(words, TODAY, kind, metric)
        assert store.notes() == []


def test_retention_deletes_refusals_and_collectors_that_ended_and_leaves_notes(store_url: str) -> None:
    metrics = registry(retention=90)
    with open_store(store_url, metrics, create=True) as store:
        refused = {(None, day, "bits"): 1 for day in (TODAY - 401, TODAY - 400, TODAY)}
        refused |= {("bloom", day, "bits"): 1 for day in (TODAY - 91, TODAY - 90, TODAY)}
        old = CollectorState("00aa", "0.2.0", 1, int(NOW) - 7 * DAY - 1, 0)
        store.report_state(STATE, refused)
        store.report_state(old, {})
        note = store.add_note("long ago", TODAY - 5000)
        store.retain(NOW)
        assert store.refusals() == Refusals(
            {(TODAY - 400, "bits"): 1, (TODAY, "bits"): 1},
            {("bloom", TODAY - 90, "bits"): 1, ("bloom", TODAY, "bits"): 1},
        )
        assert (store.collectors(), store.notes()) == ([STATE], [note])


def test_a_backup_carries_them(store_url: str, tmp_path: Path) -> None:
    with open_store(store_url, registry(), create=True) as store:
        store.report_state(STATE, {(None, TODAY, "bits"): 3, ("bloom", TODAY, "bits"): 2})
        store.add_note("Version 3 is out", TODAY, "release")
        held = store.refusals(), store.collectors(), store.notes()
        store.backup(tmp_path / "backup.db")
    restore(tmp_path / "backup.db", str(tmp_path / "restored.db"))
    with open_store(str(tmp_path / "restored.db")) as store:
        assert (store.refusals(), store.collectors(), store.notes()) == held


LATER_TABLES = ("tallies", "collectors", "notes", "releases", "checks", "exports", "imports")
"""Tables that the first schema did not have."""

WITHOUT_GROUPS = (
    "ALTER TABLE chunks DROP COLUMN export_id",
    *(f"ALTER TABLE {table} DROP COLUMN device_group" for table in ("inbox", "chunks", "counts")),
    *(f"CREATE INDEX {table}_by_key ON {table} (metric, period, digest)" for table in ("inbox", "chunks")),
    "ALTER TABLE counts ADD CONSTRAINT counts_pkey PRIMARY KEY (metric, period, digest)",
)
"""From the third schema to the keys of those before; what a dropped column was in is dropped with it."""


def first_schema(url: str) -> None:
    """Make a store as the program of the first schema did."""
    database = connect(url, create=True)
    database.write(lambda connection: upgrade(connection, revision="0001"))
    with database.engine.connect() as connection:
        assert not set(LATER_TABLES) & set(inspect(connection).get_table_names())
    database.close()


def in_one_table(connection: Connection) -> None:
    """Put all batch ids into one table, as before schema 0006, and what a backup says of them."""
    for day, until in read_id_days(connection).items():
        connection.execute(text(f"INSERT INTO batch_ids_before SELECT id, {until} FROM batch_ids_{day}"))
        connection.execute(text(f"DROP TABLE batch_ids_{day}"))
    connection.execute(text("DROP TABLE batch_ids"))
    connection.execute(text("ALTER TABLE batch_ids_before RENAME TO batch_ids"))
    if connection.dialect.name == "postgresql":
        connection.execute(text("ALTER INDEX batch_ids_before_pkey RENAME TO batch_ids_pkey"))
    connection.execute(text("DELETE FROM about WHERE key = 'digest of batch_ids'"))
    connection.execute(text("UPDATE about SET key = 'digest of batch_ids' WHERE key = 'digest of batch_ids_before'"))


def test_a_store_of_the_first_schema_is_refused_then_migrated_with_all_it_has(store_url: str) -> None:
    metrics = registry()
    batch = received(metrics["bloom"], TODAY, reports(metrics["bloom"], 5, random.Random(1)))
    with open_store(store_url, metrics, create=True) as store:
        store.add([batch])
        store.compact(NOW)
        counts = store.counts(metrics["bloom"], TODAY, TODAY)
    database = connect(store_url)  # back to what the first schema had
    database.write(in_one_table)
    for table in LATER_TABLES:
        database.write(lambda connection, table=table: connection.execute(text(f"DROP TABLE {table}")))
    if store_url.startswith("postgresql"):  # the embedded database makes the tables again, and leaves the column there
        for statement in WITHOUT_GROUPS:
            database.write(lambda connection, statement=statement: connection.execute(text(statement)))
    database.write(lambda connection: connection.execute(text("UPDATE alembic_version SET version_num = '0001'")))
    with pytest.raises(StoreError, match="has schema 0001, this program needs 0007: overstory store migrate"):
        open_store(store_url)
    assert migrate(database) == ("0001", "0007")
    database.close()
    with open_store(store_url) as store:
        assert store.add([batch]) == [False]
        assert store.counts(metrics["bloom"], TODAY, TODAY) == counts
        assert (store.refusals(), store.collectors(), store.notes()) == (Refusals(), [], [])
        store.report_state(STATE, {(None, TODAY, "bits"): 3})
        assert store.refusals().by_day == {(TODAY, "bits"): 3}


def test_an_empty_store_of_the_first_schema_is_not_migrated_by_create(store_url: str) -> None:
    first_schema(store_url)
    with pytest.raises(StoreError, match="has schema 0001, this program needs 0007: overstory store migrate"):
        open_store(store_url, create=True)


def test_a_backup_of_the_first_schema_is_migrated_and_restored(tmp_path: Path) -> None:
    """Its digests were made before the new tables existed."""
    with open_store(str(tmp_path / "store.db"), registry(), create=True) as store:
        store.backup(tmp_path / "backup.db")
    database = connect(str(tmp_path / "backup.db"))
    database.write(in_one_table)
    for table in LATER_TABLES:
        database.write(lambda connection, table=table: connection.execute(text(f"DROP TABLE {table}")))
        database.write(
            lambda connection, table=table: connection.execute(
                text(f"DELETE FROM about WHERE key = 'digest of {table}'")
            )
        )
    database.write(lambda connection: connection.execute(text("UPDATE alembic_version SET version_num = '0001'")))
    with pytest.raises(StoreError, match="has schema 0001, this program needs 0007"):
        restore(tmp_path / "backup.db", str(tmp_path / "restored.db"))
    migrate(database)
    database.close()
    restore(tmp_path / "backup.db", str(tmp_path / "restored.db"))
    with open_store(str(tmp_path / "backup.db")) as used:
        used.add_note("used as a store since", TODAY)
    with pytest.raises(StoreError, match="notes: not what was backed up"):
        restore(tmp_path / "backup.db", str(tmp_path / "again.db"))
