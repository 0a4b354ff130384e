"""What a store says when it cannot be opened or used: one sentence, and what would be right."""

import os
import sqlite3
import threading
from contextlib import closing, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from sqlalchemy import text

from overstory.cli.main import main
from overstory.collector.store import StoreError, open_store
from overstory.collector.store.copies.backup import restore
from overstory.collector.store.databases import sqlite
from overstory.collector.store.databases.connection import connect
from overstory.collector.store.databases.database import DiskFullError, has_password, shown_text
from support.store_samples import NOW, registry, some

PERIOD = 20_000


def refused(url, **choices):
    with pytest.raises(StoreError) as told:
        open_store(str(url), **choices)
    return str(told.value)


def test_a_file_that_is_not_there(tmp_path):
    path = tmp_path / "store.db"
    assert refused(path) == f"{path}: there is no such store; make it first: overstory store create {path}"
    assert refused(f"sqlite:///{path}").startswith(f"{path}: there is no such store")
    assert refused(tmp_path / "no" / "s.db", create=True) == f"{tmp_path}/no/s.db: there is no folder {tmp_path}/no"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "url",
    [
        "mysql://root@db/reports",
        "sqlite://",
        "sqlite://folder/reports.db",
        "sqlite:///reports.db?mode=ro",
        "sqlite:///:memory:",
        "postgresql://host",
        "x://[",
    ],
)
def test_a_url_that_names_no_store(url):
    for create in (False, True):
        told = refused(url, create=create)
        assert "a store is named by sqlite:///FILE (or a file's name), or postgresql://USER@HOST/DATABASE" in told


def test_a_file_that_is_no_database(tmp_path):
    path = tmp_path / "letter.txt"
    path.write_text("dear reader, " * 1000)
    assert refused(path) == f"sqlite:///{path}: this file is not a SQLite database"


def test_a_database_of_somebody_else(tmp_path):
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("CREATE TABLE about (key TEXT, value TEXT)")
    for create in (False, True):
        told = refused(path, create=create)
        assert (
            told == f"sqlite:///{path}: this database belongs to another program: give the store a database of its own"
        )


def test_an_empty_database(store_url):
    if store_url.startswith("sqlite"):
        Path(store_url.removeprefix("sqlite:///")).touch()
    assert "this database is empty; make the store first: overstory store create" in refused(store_url)


@pytest.mark.parametrize(
    ("change", "schema"),
    [("UPDATE about SET value = '2'", "2"), ("DELETE FROM about", "without a number")],
    ids=["another number", "no number"],
)
def test_a_store_of_another_schema_is_refused_and_left_as_it_is(store_url, tmp_path, capsys, change, schema):
    with open_store(store_url, registry(), create=True) as store:
        store.backup(tmp_path / "backup.db")
    urls = store_url, str(tmp_path / "backup.db")
    for url in urls:
        database = connect(url)
        database.write(lambda connection: connection.execute(text(f"{change} WHERE key = 'schema'")))
        database.close()
    said = f"the store has schema {schema}, and this program reads and writes schema 1 alone"
    for create in (False, True):
        assert said in refused(store_url, create=create)
    for command in (["create", store_url], ["summary", store_url], ["restore", urls[1], str(tmp_path / "new.db")]):
        assert main(["store", *command]) == 2
        told = capsys.readouterr().err
        assert said in told
        assert told.count("\n") == 1
    assert not (tmp_path / "new.db").exists()
    database = connect(store_url)
    with database.snapshot() as connection:
        kept = connection.execute(text("SELECT value FROM about WHERE key = 'schema'")).scalar()
        assert kept == (schema if schema.isdigit() else None)
    database.close()


def turned(path):
    raw = bytearray(path.read_bytes())
    raw[4096 * 3 : 4096 * 30] = os.urandom(4096 * 27)
    path.write_bytes(raw)


def altered(path):
    with closing(sqlite3.connect(path)) as raw, raw:
        ((counts,),) = raw.execute("SELECT counts FROM counts").fetchall()
        raw.execute("UPDATE counts SET counts = ?", (counts[:20] + bytes([counts[20] ^ 1]) + counts[21:],))


def uncounted(path):
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("DELETE FROM counts")


DAMAGED = {
    turned: "is damaged",
    altered: "stored counts are damaged",
    uncounted: "bloom has reports that were never counted",
}


@pytest.mark.parametrize(("damage", "said"), DAMAGED.items(), ids=[damage.__name__ for damage in DAMAGED])
def test_a_damaged_store_is_neither_believed_nor_copied(tmp_path, damage, said):
    path = tmp_path / "store.db"
    metrics = registry()
    with open_store(str(path), metrics, create=True) as store:
        store.add([some(metrics["bloom"], PERIOD, 20_000, 1)])
        store.compact(NOW)
    damage(path)
    with pytest.raises(StoreError, match=said):
        restore(path, str(tmp_path / "new.db"))
    if damage is not turned:
        with open_store(str(path), metrics) as store:
            with pytest.raises(StoreError, match=said):
                store.backup(tmp_path / "backup.db")
            if damage is altered:
                with pytest.raises(StoreError, match=said):
                    store.counts(metrics["bloom"], PERIOD, PERIOD)
    assert not [one.name for one in tmp_path.iterdir() if not one.name.startswith("store.db")]


def test_a_full_disk_stores_nothing_of_a_call(tmp_path):
    metrics = registry()
    first, large = some(metrics["bloom"], PERIOD, 5, 1), some(metrics["bloom"], PERIOD, 100_000, 2)
    with open_store(str(tmp_path / "store.db"), metrics, create=True) as store:
        store.add([first])
        with store._database.engine.connect() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 10}")
        with pytest.raises(DiskFullError, match="the disk is full; nothing of this was stored"):
            store.add([large])
        assert store.add([first]) == [False]
        assert store.summary().batch_ids == 1


def test_another_process_that_does_not_let_go(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "PATIENCE", 0.1)
    metrics, path = registry(), tmp_path / "store.db"
    with open_store(str(path), metrics, create=True) as store:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another process has held the database for too long"):
            store.add([some(metrics["bloom"], PERIOD, 5, 1)])
        assert store.counts(metrics["bloom"], 0, PERIOD) == {}  # reading goes on
        other.execute("ROLLBACK")
        other.close()
        assert store.add([some(metrics["bloom"], PERIOD, 5, 1)]) == [True]


def test_a_writer_waits_for_another(tmp_path):
    metrics, path = registry(), tmp_path / "store.db"
    with open_store(str(path), metrics, create=True) as store:
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        release = threading.Timer(0.2, other.execute, ["COMMIT"])
        release.start()
        assert store.add([some(metrics["bloom"], PERIOD, 5, 1)]) == [True]
        release.join()
        other.close()


def test_every_commit_is_on_the_disk_before_it_is_acknowledged(tmp_path):
    with open_store(str(tmp_path / "store.db"), create=True) as store, store._database.engine.connect() as connection:
        found = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout", "auto_vacuum")
        }
    full, incremental = 2, 2
    assert found == {
        "journal_mode": "wal",
        "synchronous": full,
        "foreign_keys": 1,
        "busy_timeout": int(sqlite.PATIENCE * 1000),
        "auto_vacuum": incremental,
    }


def test_retention_gives_the_space_back(tmp_path):
    metrics, path = registry(), tmp_path / "store.db"
    with open_store(str(path), metrics, create=True) as store:
        store.add([some(metrics["bloom"], PERIOD, 200_000, 1)])
        store.compact(NOW)
        full = path.stat().st_size + (tmp_path / "store.db-wal").stat().st_size
        store.retain(NOW + 1e9)
    assert path.stat().st_size < full / 4


HOLDERS = (
    "postgresql://me:geheim@127.0.0.1:1/reports",
    "postgresql://127.0.0.1:1/reports?user=me&password=geheim",
    "postgresql://127.0.0.1:1/reports?sslmode=require&sslpassword=geheim",
    "postgresql://127.0.0.1:1/reports?PASSWORD=geheim&password=geheim&password=geheim",
)


@pytest.mark.parametrize("url", HOLDERS)
def test_no_password_of_a_url_is_shown(url):
    told = refused(url)
    assert "127.0.0.1:1/reports" in told
    assert "the database server cannot be reached" in told
    assert "***" in told
    assert "geheim" not in told
    for other in ("mysql", "sqlite"):  # no store is named so, and the error says what was given
        assert "geheim" not in refused(url.replace("postgresql", other))
    assert has_password(url)
    assert "geheim" not in shown_text(url)


def test_a_url_without_a_password_is_shown_as_it_is():
    for url in ("postgresql://me@db:5433/reports?host=%2Fvar%2Frun&sslmode=verify-full", "reports.db"):
        assert shown_text(url) == url
        assert not has_password(url)
    assert not has_password("x://[:geheim")
    assert shown_text("x://me:geheim@[") == "x://me:***@["
    for odd in ("x y://me:geheim@host", "postgresql://me:geheim@host:port/reports"):
        with pytest.raises(StoreError) as told:
            shown_text(odd)
        assert "geheim" not in str(told.value)


def test_the_url_of_an_open_store_hides_a_password_in_its_parameters(postgres_url):
    secret = f"{postgres_url}{'&' if '?' in postgres_url else '?'}password=geheim&sslpassword=geheim"
    commands = (["store", "create"], ["store", "summary"], ["store", "compact"], ["doctor"])
    for command in commands:
        for form in ([], ["--json"]):
            place = ["--store", secret] if command == ["doctor"] else [secret]
            with redirect_stdout(StringIO()) as out, redirect_stderr(out):
                main([*command, *place, *form])
            assert out.getvalue()
            assert "geheim" not in out.getvalue(), command
    with open_store(secret) as store:
        assert "password=***" in store.url
        assert "geheim" not in f"{store.url}{store.summary()}"


def test_a_database_that_is_not_on_the_server(postgres_url):
    missing = postgres_url.replace("/store_", "/no_store_")
    assert "there is no such database on this server: make it first (createdb NAME)" in refused(missing)


def test_a_server_that_closes_a_connection_is_asked_again(postgres_url):
    metrics = registry()
    with open_store(postgres_url, metrics, create=True) as store:
        store.add([some(metrics["bloom"], PERIOD, 5, 1)])
        end_connections(postgres_url)
        assert store.add([some(metrics["bloom"], PERIOD, 5, 2)]) == [True]
        end_connections(postgres_url)
        assert store.summary().batch_ids == 2


def end_connections(url):
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
