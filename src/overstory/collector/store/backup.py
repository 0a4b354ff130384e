"""Back up and restore: a backup is one SQLite file, whichever database it was taken from, and opens as a store.

So a backup is also the way from one kind of database to the other. It holds a digest of each of its tables: one bit
that is turned in a report, or in an id, is noticed when it is restored.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Table, delete, func, select

from overstory.collector.store.connection import check, connect, upgraded
from overstory.collector.store.counts import Key, unpack_counts
from overstory.collector.store.database import Database, StoreError
from overstory.collector.store.schema import (
    ABOUT,
    CHUNKS,
    COUNTS,
    DELETED_FROM,
    INBOX,
    METADATA,
    REWRITTEN,
    TABLE_DIGEST,
)
from overstory.collector.store.sqlite import SqliteDatabase, create_private_file

ROWS: Final = 1000
"""Rows copied at a time."""

FEW: Final = 16
"""The same, where a row is some megabytes of reports."""


def backup(database: Database, path: Path) -> int:
    """Write a backup as of one moment, while others go on writing; see `Store.backup`."""
    with _whole(path) as part:
        create_private_file(part)
        if not part.is_file():
            raise StoreError(f"{path}: no file can be made in {path.parent}: are its rights as they should be?")
        if isinstance(database, SqliteDatabase):
            database.copy_to(part)
        else:
            _copy_into(database, SqliteDatabase(part))
        copy = SqliteDatabase(part)
        try:
            reports = verify(copy)
            copy.write(_seal)
            return reports
        finally:
            copy.close()


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """Give a name for the file while it is written; its own name only when it is whole and on the disk."""
    if path.exists():
        raise StoreError(f"{path}: there is a file of this name: give the backup another one")
    if not path.parent.is_dir():
        raise StoreError(f"{path}: there is no folder {path.parent}")
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        yield part
        _sync(part)
        part.rename(path)
        _sync(path.parent)
    finally:
        for left in (part, Path(f"{part}-wal"), Path(f"{part}-shm")):
            left.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    if path.is_dir() and os.name == "nt":  # pragma: no cover - a folder cannot be opened there
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def restore(path: Path, url: str) -> int:
    """Fill a new store from a backup, all of it or nothing; return how many reports its counts and inbox hold.

    Parameters
    ----------
    path
        The backup: a file that `Store.backup` wrote.
    url
        The store to be made: a file that does not exist, or an empty PostgreSQL database.

    Raises
    ------
    StoreError
        When the backup is damaged, of another schema, or was written to since it was made; or there is a store already.

    Examples
    --------
    >>> import tempfile
    >>> from overstory.collector.store import open_store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open_store(f"{folder}/store.db", create=True) as store:
    ...         reports = store.backup(f"{folder}/backup.db")
    ...     reports, restore(Path(folder, "backup.db"), f"{folder}/restored.db")
    (0, 0)
    """
    source = connect(str(path))
    try:
        check(source)
        expected = verify(source)
        _check_seal(source)
        target = connect(url, create=True)
        found = _copy_into(source, target)
    finally:
        source.close()
    if found != expected:
        raise StoreError(f"{target.url}: {found} reports were restored of {expected}: do not use this store")
    return found


def _copy_into(source: Database, target: Database) -> int:
    """Make a store of `target`, with all that is in `source`; close it; return its number of reports."""
    try:
        with source.snapshot() as reading:
            target.write(lambda writing: _copy_tables(reading, target, writing))
        return verify(target)
    finally:
        target.close()


def _copy_tables(reading: Connection, target: Database, writing: Connection) -> None:
    # The schema in the same transaction: who ends in the middle leaves no empty store, and no store that is there is
    # migrated only to be refused.
    if upgraded(target, writing, create=True) is not None:
        raise StoreError(f"{target.url}: there is a store already: name a new file, or an empty database")
    for table in METADATA.sorted_tables:
        _copy_table(reading, writing, table)
    for of_the_source in (TABLE_DIGEST, DELETED_FROM, REWRITTEN):
        writing.execute(delete(ABOUT).where(ABOUT.c.key.startswith(of_the_source)))


def _copy_table(reading: Connection, writing: Connection, table: Table) -> None:
    if table is ABOUT:
        writing.execute(delete(ABOUT))
    reports = table in {INBOX, CHUNKS}
    # A number of a row of reports means nothing: the new database gives its own.
    columns = [column for column in table.columns if not (reports and column.primary_key)]
    rows = reading.execute(
        select(*columns).order_by(*table.primary_key),
        execution_options={"yield_per": FEW if reports else ROWS},
    )
    for some in rows.mappings().partitions():
        writing.execute(table.insert(), [dict(row) for row in some])


def _seal(connection: Connection) -> None:
    """Put a digest of each table into the backup itself."""
    connection.execute(delete(ABOUT).where(ABOUT.c.key.startswith(TABLE_DIGEST)))
    rows = [{"key": TABLE_DIGEST + name, "value": value} for name, value in _digests(connection).items()]
    connection.execute(ABOUT.insert(), rows)


def _check_seal(database: Database) -> None:
    with database.snapshot() as connection:
        rows = connection.execute(select(ABOUT).where(ABOUT.c.key.startswith(TABLE_DIGEST)))
        sealed = {row.key.removeprefix(TABLE_DIGEST): row.value for row in rows}
        if not sealed:  # a store, or a backup by an earlier program: nothing to hold it against
            return
        differing = sorted(name for name, value in _digests(connection).items() if sealed.get(name) != value)
    if differing:
        raise StoreError(
            f"{database.url}: {', '.join(differing)}: not what was backed up: the file is damaged, or was used as a "
            "store since; take another backup (of a file that is in use: overstory store backup)"
        )


def _digests(connection: Connection) -> dict[str, str]:
    """Return a digest of each table's rows, but for those of digests."""
    digests = {}
    for table in METADATA.sorted_tables:
        rows = select(table).order_by(*table.primary_key)
        if table is ABOUT:
            rows = rows.where(~ABOUT.c.key.startswith(TABLE_DIGEST))
        digest = blake2b(digest_size=32)
        for row in connection.execute(rows, execution_options={"yield_per": FEW}):
            for value in row:
                written = value if isinstance(value, bytes) else repr(value).encode()
                digest.update(b"%s %d:" % (type(value).__name__.encode(), len(written)))
                digest.update(written)
        digests[table.name] = digest.hexdigest()
    return digests


def verify(database: Database) -> int:
    """See that the database is sound and its counts agree with its reports; return how many reports it has taken."""
    with database.snapshot() as connection:
        database.check_integrity(connection)
        counted = sum(_counted(connection, database.url))
        return counted + (connection.execute(select(func.sum(INBOX.c.num_reports))).scalar() or 0)


def _counted(connection: Connection, url: str) -> Iterator[int]:
    columns = CHUNKS.c.metric, CHUNKS.c.period, CHUNKS.c.digest
    sums = connection.execute(select(*columns, func.sum(CHUNKS.c.num_reports)).group_by(*columns))
    kept = {Key(metric, period, bytes(digest)): total for metric, period, digest, total in sums}
    for row in connection.execute(select(COUNTS)):
        reports = unpack_counts(bytes(row.counts)).num_reports
        if reports != row.num_reports or kept.pop(Key(row.metric, row.period, bytes(row.digest)), 0) > reports:
            raise StoreError(f"{url}: the counts of {row.metric} do not agree with its reports: this store is damaged")
        yield reports
    if kept:
        raise StoreError(f"{url}: {next(iter(kept)).metric} has reports that were never counted: it is damaged")
