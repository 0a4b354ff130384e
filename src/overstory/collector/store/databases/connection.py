"""Opening a store: the database that a URL names, whether it is a store, and its schema."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from sqlalchemy import Connection, insert, inspect

from overstory.collector.store.databases.database import Database, StoreError, parse_url
from overstory.collector.store.databases.postgres import PostgresDatabase
from overstory.collector.store.databases.sqlite import SqliteDatabase
from overstory.collector.store.schema import (
    ABOUT,
    BATCH_IDS,
    METADATA,
    METRICS,
    SCHEMA,
    SCHEMA_NUMBER,
    STORE_ID,
    read_fact,
)
from overstory.protocol.errors import install_hint


class MissingStoreError(StoreError):
    """There is no store yet at this URL."""


def connect(url: str, *, create: bool = False) -> Database:
    """Return the database that `url` names; what is in it is not checked."""
    parsed = parse_url(url)
    if parsed.get_backend_name() == "postgresql":
        try:
            return PostgresDatabase(parsed)
        except ModuleNotFoundError as error:
            raise StoreError(f"PostgreSQL needs psycopg: {install_hint('postgres')}") from error
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


def read_schema(connection: Connection, url: str) -> str | None:
    """Return the number of the store's schema; None where there is no table at all."""
    tables = set(inspect(connection).get_table_names())
    if not tables:
        return None
    if not {ABOUT.name, BATCH_IDS.name, METRICS.name} <= tables:
        raise StoreError(f"{url}: this database belongs to another program: give the store a database of its own")
    return read_fact(connection, SCHEMA_NUMBER) or "without a number"


def check(database: Database) -> None:
    """Raise a `StoreError` unless the schema is this program's."""
    with database.snapshot() as connection:
        schema = read_schema(connection, database.url)
    if schema is None:
        raise MissingStoreError(
            f"{database.url}: this database is empty; make the store first: overstory store create URL"
        )
    if schema != str(SCHEMA):
        raise StoreError(
            f"{database.url}: the store has schema {schema}, and this program reads and writes schema {SCHEMA} alone: "
            "use the version of overstory that made the store"
        )


def create_tables(database: Database, connection: Connection) -> bool:
    """Make a store of an empty database; False where there are tables, which stay as they are: `check` says whose."""
    database.lock(connection)
    if read_schema(connection, database.url) is not None:
        return False
    METADATA.create_all(connection, checkfirst=False)
    facts = {"format": "overstory store", SCHEMA_NUMBER: str(SCHEMA), STORE_ID: secrets.token_hex(16)}
    connection.execute(insert(ABOUT), [{"key": key, "value": value} for key, value in facts.items()])
    return True


def create_private_file(path: Path) -> None:
    """Make an empty file that its owner alone can read, unless there is one; SQLite gives its log the same rights."""
    with suppress(OSError):  # such as a folder that cannot be written: SQLite reports it
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
