"""Opening a store: the database that a URL names, whether it is a store, and its schema."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from sqlalchemy import URL, Connection, inspect, text

from overstory.collector.store import migrations
from overstory.collector.store.databases.database import Database, StoreError
from overstory.collector.store.databases.postgres import PostgresDatabase
from overstory.collector.store.databases.sqlite import SqliteDatabase
from overstory.collector.store.databases.urls import parse_url
from overstory.collector.store.schema import REVISION


class MissingStoreError(StoreError):
    """There is no store yet at this URL."""


def connect(url: str, *, create: bool = False) -> Database:
    """Return the database that `url` names; what is in it is not checked."""
    parsed = parse_url(url)
    if parsed.get_backend_name() == "postgresql":
        return _postgres(parsed)
    path = Path(parsed.database or "")
    if path.is_dir():
        raise StoreError(f"{path}: this is a folder; name a file in it, such as {path / 'reports.db'}")
    if not create and not path.is_file():
        raise MissingStoreError(f"{path}: there is no such store; make it first: overstory store create {path}")
    if not path.parent.is_dir():
        raise StoreError(f"{path}: there is no folder {path.parent}")
    if create:
        create_private_file(path)
    return SqliteDatabase(path)


def _postgres(url: URL) -> PostgresDatabase:
    try:
        return PostgresDatabase(url)
    except ModuleNotFoundError as error:
        raise StoreError('PostgreSQL needs psycopg: pip install "overstory[postgres]"') from error


def revision(connection: Connection, url: str) -> str | None:
    """Return the schema's revision; None where there is no table at all."""
    tables = set(inspect(connection).get_table_names())
    if not tables:
        return None
    if not {"alembic_version", "about", "batch_ids"} <= tables:
        raise StoreError(f"{url}: this database belongs to another program: give the store a database of its own")
    version: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return version


def check(database: Database) -> None:
    """Raise a `StoreError` unless the schema is this program's."""
    with database.snapshot() as connection:
        schema = revision(connection, database.url)
    if schema is None:
        raise MissingStoreError(_empty(database.url))
    if schema != REVISION:
        raise StoreError(_difference(database.url, schema))


def _empty(url: str) -> str:
    return f"{url}: this database is empty; make the store first: overstory store create URL"


def _difference(url: str, schema: str) -> str:
    if schema < REVISION:
        return f"{url}: the store has schema {schema}, this program needs {REVISION}: overstory store migrate {url}"
    return f"{url}: the store has schema {schema}, newer than this program's {REVISION}: upgrade overstory"


def create_tables(database: Database) -> bool:
    """Make a store of an empty database; False where there are tables, which stay as they are: `check` says whose."""
    return database.write(lambda connection: tables_created(database, connection))


def tables_created(database: Database, connection: Connection) -> bool:
    """Do what `create_tables` does, within an open transaction."""
    database.lock(connection)
    if revision(connection, database.url) is not None:
        return False
    migrations.begin(connection)
    return True


def migrate(database: Database, *, folder: Path = migrations.FOLDER) -> tuple[str, str]:
    """Bring a store's schema to the newest revision; return the one it had and the one it has."""
    newest = migrations.newest(folder)

    def work(connection: Connection) -> str:
        database.lock(connection)
        schema = revision(connection, database.url)
        if schema is None:
            raise StoreError(_empty(database.url))
        if schema > newest:
            raise StoreError(_difference(database.url, schema))
        if schema != newest:
            migrations.upgrade(connection, folder=folder)
        return schema

    return database.write(work), newest


def create_private_file(path: Path) -> None:
    """Make an empty file that its owner alone can read, unless there is one; SQLite gives its log the same rights."""
    with suppress(OSError):  # such as a folder that cannot be written: SQLite reports it
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
