"""From one schema to the next with the data in it; and that the tables in the code are the migrations' own."""

from __future__ import annotations

import contextlib
import random
import re
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import inspect, text

from overstory.cli.main import main
from overstory.collector.store import Store, StoreError, migrations, open_store, restore
from overstory.collector.store import store as store_module
from overstory.collector.store.databases import connection as opening
from overstory.collector.store.databases.connection import connect, migrate, revision
from overstory.collector.store.metrics import read_stored_metrics
from overstory.collector.store.migrations import upgrade
from overstory.collector.store.schema import METADATA, REVISION
from support.store_samples import NOW, counted, received, registry, reports

PERIOD = 20_000
NEXT = '''
"""Batches are counted, for the test."""
import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{current}"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("counts", sa.Column("batches", sa.BigInteger, nullable=False, server_default="7"))
    op.execute("UPDATE counts SET batches = num_reports * 2")
    {more}
'''


@pytest.fixture
def later(tmp_path: Path) -> Path:
    """The migrations of a program of the future."""
    return scripts(tmp_path / "later")


def scripts(folder: Path, more: str = "") -> Path:
    shutil.copytree(migrations.FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / "r9999_next.py").write_text(NEXT.format(current=REVISION, more=more))
    return folder


@pytest.fixture
def filled(store_url: str) -> Any:
    """A store of today's schema, with counts, chunks, inbox, ids and a token in it."""
    metrics, rng = registry(), random.Random(1)
    metric = metrics["bloom"]
    sent = [reports(metric, 20, rng) for _ in range(2)]
    batches = [received(metric, PERIOD, some) for some in sent]
    with open_store(store_url, metrics, create=True) as store:
        store.add(batches[:1])
        store.compact(NOW)
        store.add(batches[1:])
        store.add_token("write", "trees")
    return store_url, metric, batches, counted(metric, sent[0] + sent[1])


def test_an_older_store_is_refused_migrated_and_whole(filled: Any, later: Path, monkeypatch: Any) -> None:
    url, metric, batches, counts = filled
    monkeypatch.setattr(opening, "REVISION", "9999")
    with pytest.raises(StoreError, match=f"schema {REVISION}, this program needs 9999: overstory store migrate"):
        open_store(url)
    database = connect(url)
    assert migrate(database, folder=later) == (REVISION, "9999")
    assert migrate(database, folder=later) == ("9999", "9999")
    with database.snapshot() as connection:
        assert connection.execute(text("SELECT batches FROM counts")).scalars().all() == [40]
    database.close()
    with open_store(url) as store:
        assert store.add(batches) == [False, False]
        assert store.counts(metric, PERIOD, PERIOD) == {PERIOD: counts}
        assert len(store.tokens()) == 1


def test_a_newer_store_is_left_alone(filled: Any, later: Path) -> None:
    url = filled[0]
    database = connect(url)
    assert migrate(database, folder=later) == (REVISION, "9999")
    for attempt in (lambda: open_store(url), lambda: open_store(url, create=True), lambda: migrate(database)):
        with pytest.raises(StoreError, match=f"schema 9999, newer than this program's {REVISION}: upgrade"):
            attempt()
    database.close()


def test_a_store_that_is_there_is_not_migrated_by_a_restore_that_is_refused(
    filled: Any, later: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    url = filled[0]
    with open_store(url) as store:
        store.backup(tmp_path / "backup.db")
    with monkeypatch.context() as future:  # a program of the next schema
        future.setattr(opening, "REVISION", "9999")
        future.setattr(migrations, "newest", lambda _=None: "9999")
        future.setattr(migrations, "upgrade", lambda connection, **_: upgrade(connection, folder=later))
        backup = connect(str(tmp_path / "backup.db"))
        assert migrate(backup) == (REVISION, "9999")
        backup.close()
        with pytest.raises(StoreError, match="there is a store already"):
            restore(tmp_path / "backup.db", url)
    open_store(url).close()


def test_a_migration_that_fails_leaves_the_store_as_it_was(filled: Any, tmp_path: Path) -> None:
    url, metric, _, counts = filled
    database = connect(url)
    with pytest.raises(StoreError):
        migrate(database, folder=scripts(tmp_path / "broken", more='op.execute("UPDATE nothing SET at_all = 1")'))
    with database.snapshot() as connection:
        names = {column["name"] for column in inspect(connection).get_columns("counts")}
        assert names == set(METADATA.tables["counts"].c.keys())
    database.close()
    with open_store(url) as store:
        assert store.counts(metric, PERIOD, PERIOD) == {PERIOD: counts}


def test_an_older_store_is_not_migrated_by_who_creates_one(
    store_url: str, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """C: `store create` and `open_store(create=True)` migrated it: collectors of that schema stored nothing more."""
    database = connect(store_url, create=True)
    database.write(lambda connection: upgrade(connection, revision="0005"))
    needed = f"schema 0005, this program needs {REVISION}: overstory store migrate"
    with pytest.raises(StoreError, match=needed):
        open_store(store_url, create=True)
    assert main(["store", "create", store_url]) == 2
    assert needed in capsys.readouterr().err
    monkeypatch.setattr(store_module, "check", lambda _: None)  # what makes tables leaves it alone by itself
    open_store(store_url, create=True).close()
    with database.snapshot() as connection:
        assert revision(connection, store_url) == "0005"
    assert migrate(database) == ("0005", REVISION)
    database.close()
    open_store(store_url, create=True).close()


def test_the_tables_in_the_code_are_those_that_migrations_make(store_url: str) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    database = connect(store_url, create=True)
    database.write(upgrade)
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, METADATA) == []
        found = inspect(connection)
        for table in METADATA.sorted_tables:
            key = found.get_pk_constraint(table.name)["constrained_columns"]
            assert key == [column.name for column in table.primary_key]
    database.close()
    assert ScriptDirectory(str(migrations.FOLDER)).get_current_head() == migrations.newest() == REVISION


def test_a_new_store_is_what_all_migrations_make(tmp_path: Path) -> None:
    """C: `store create` loaded Alembic for half a second, to make tables that the program knows."""
    made = []
    for name, make in (("at once", migrations.begin), ("by migrations", upgrade)):
        database = connect(str(tmp_path / name), create=True)
        database.write(make)
        database.close()
        with contextlib.closing(sqlite3.connect(tmp_path / name)) as read:
            made.append("\n".join(read.iterdump()))
    # A column that a migration adds comes after a line break, and a table that it renames has its name in quotes.
    first, second = (
        re.sub(r"\s*([,)])\s*", r"\1 ", dump).replace('"batch_ids_before"', "batch_ids_before") for dump in made
    )
    assert first == second
    assert "overstory store" in made[0]


def number_chunks(url: str) -> None:
    """Number chunks as they came, which schema 0006 did, in PostgreSQL from a sequence."""
    database = connect(url)

    def work(connection: Any) -> None:
        for number, drawn in enumerate(chunks(connection), 1):
            connection.execute(text(f"UPDATE chunks SET id = {number} WHERE id = {drawn}"))
        if database.kind == "postgresql":
            connection.execute(text("CREATE SEQUENCE chunks_id_seq OWNED BY chunks.id"))
            connection.execute(text("ALTER TABLE chunks ALTER COLUMN id SET DEFAULT nextval('chunks_id_seq')"))

    database.write(work)
    database.close()


def back_to_0006(url: str) -> None:
    database = connect(url)
    database.write(lambda connection: connection.execute(text("UPDATE alembic_version SET version_num = '0006'")))
    database.close()


def chunks(connection: Any) -> dict[int, int]:
    """Return the ids of chunks in the order of their periods, which is the order in which they were written."""
    return {row.id: row.period for row in connection.execute(text("SELECT id, period FROM chunks ORDER BY period"))}


@pytest.fixture
def numbered(store_url: str) -> str:
    metrics, rng = registry(), random.Random(1)
    with open_store(store_url, metrics, create=True) as store:
        for period in range(PERIOD, PERIOD + 20):
            store.add([received(metrics["bloom"], period, reports(metrics["bloom"], 2, rng))])
            store.compact(NOW)
    number_chunks(store_url)
    return store_url


def test_chunks_that_were_numbered_get_random_ids(numbered: str) -> None:
    back_to_0006(numbered)
    database = connect(numbered)
    assert migrate(database) == ("0006", REVISION)
    with database.snapshot() as connection:
        ids = list(chunks(connection))
        assert len(ids) == 20
        assert min(ids) > 20
        assert ids not in (sorted(ids), sorted(ids, reverse=True))
        if database.kind == "postgresql":  # no program adds a chunk with the next number
            (column,) = [one for one in inspect(connection).get_columns("chunks") if one["name"] == "id"]
            assert column["default"] is None
    database.close()


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_numbered_chunks_of_a_backup_get_random_ids_when_it_is_restored(numbered: str, tmp_path: Path) -> None:
    """Its own digests are of the numbers: a backup that was migrated is still compared with them."""
    with open_store(numbered) as store:
        store.backup(tmp_path / "backup.db")
    back_to_0006(str(tmp_path / "backup.db"))
    backup = connect(str(tmp_path / "backup.db"))
    assert migrate(backup) == ("0006", REVISION)
    with backup.snapshot() as connection:
        assert list(chunks(connection)) == list(range(1, 21))
    backup.close()
    assert restore(tmp_path / "backup.db", str(tmp_path / "restored.db")) == 40
    restored = connect(str(tmp_path / "restored.db"))
    with restored.snapshot() as connection:
        ids = list(chunks(connection))
    restored.close()
    assert min(ids) > 20
    assert ids not in (sorted(ids), sorted(ids, reverse=True))


DUMP = Path(__file__).parents[1] / "vectors" / "store-0001.sql"
OWN_SEEDS = ", num_seeds = 2147483648"
"""What version 0.1 meant by a hashing oracle that names no number of seeds."""


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """A store that the program of the first schema wrote, migrated."""
    path = tmp_path / "store.db"
    with sqlite3.connect(path) as raw:
        raw.executescript(DUMP.read_text())
    raw.close()
    database = connect(str(path))
    assert migrate(database)[0] == "0001"
    database.close()
    return path


def test_a_store_of_the_first_schema_opens_for_ever(first: Path) -> None:
    path, metrics = first, registry(seeds=OWN_SEEDS)
    with open_store(str(path), metrics) as store:
        check_first(store, metrics)
        assert store.compact(NOW).reports == 5
        check_first(store, metrics)


def test_a_row_of_version_0_1_without_seeds_is_read_as_a_seed_of_each_devices_own(first: Path) -> None:
    """Under a registry that names none either, which now means few: counted without its help, and not mixed with it."""
    metrics, metric = registry(), registry(seeds=OWN_SEEDS)["size"]
    with sqlite3.connect(first) as raw:
        ((row,),) = raw.execute("SELECT mechanism FROM metrics WHERE metric = 'size'")
    raw.close()
    assert "olh" in row
    assert "num_seeds" not in row
    database = connect(str(first))
    with database.snapshot() as connection:
        (read,) = (entry for entry in read_stored_metrics(connection).values() if entry.metric == "size")
    database.close()
    assert read.mechanism.num_cohorts == 1 << 31
    assert (read.mechanism.digest, read.counts_digest) == (metric.mechanism.digest, metric.counts_digest)
    assert metrics["size"].mechanism.num_cohorts < 1 << 31
    with open_store(str(first), metrics) as store:
        assert store.compact(NOW).waiting == ()
        assert store.counts(metrics["size"], PERIOD, PERIOD) == {}
        check_first(store, registry(seeds=OWN_SEEDS))


def check_first(store: Store, metrics: Any) -> None:
    rng = random.Random(20261121)
    for name in ("bloom", "colour", "size"):
        sent = reports(metrics[name], 6, rng), reports(metrics[name], 5 if name == "size" else 0, rng)
        assert store.counts(metrics[name], PERIOD, PERIOD) == {PERIOD: counted(metrics[name], sent[0] + sent[1])}
    (token,) = store.tokens()
    assert (token.role, token.application) == ("write", "trees")


def make_dump() -> str:
    """Return the dump: made once, by the program of that schema (`python tests/collector/test_store_migrations.py`)."""
    import tempfile

    metrics, rng = registry(seeds=OWN_SEEDS), random.Random(20261121)
    with tempfile.TemporaryDirectory() as folder:
        with open_store(f"{folder}/store.db", metrics, create=True) as store:
            late = []
            for name in ("bloom", "colour", "size"):
                store.add([received(metrics[name], PERIOD, reports(metrics[name], 6, rng))])
                late.append(received(metrics[name], PERIOD, reports(metrics[name], 5 if name == "size" else 0, rng)))
            store.compact(NOW)
            store.add(late)
            store.add_token("write", "trees")
        raw = sqlite3.connect(f"{folder}/store.db")
        return "".join(f"{line}\n" for line in raw.iterdump())


if __name__ == "__main__":
    DUMP.write_text(make_dump())
