"""Backup and restore: a backup is one SQLite file with a digest of each table, and opens as a store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from sqlalchemy import Connection, Table, delete, func, select

from overstory.collector.store.counts import Key, key_columns, unpack_counts, unpack_sums
from overstory.collector.store.databases.connection import check, connect, create_private_file, create_tables
from overstory.collector.store.databases.database import Database, StoreError
from overstory.collector.store.databases.sqlite import SqliteDatabase
from overstory.collector.store.schema import (
    ABOUT,
    CHUNKS,
    COUNTS,
    DELETED_FROM,
    INBOX,
    METADATA,
    REWRITTEN,
    TABLE_DIGEST,
    ids_table,
    read_id_days,
)
from overstory.files.io import sync

ROWS: Final = 1000  # rows copied at a time
FEW: Final = 16  # the same, where a row is some megabytes of reports


def backup(database: Database, path: Path) -> int:
    """Write a backup as of one moment, while collectors write; see `Store.backup`."""
    with renamed_when_complete(path) as part:
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


def restore(path: Path, url: str) -> int:
    """Fill a new store from a backup, completely or not at all; return the reports in its counts and inbox."""
    source = connect(str(path))
    try:
        check(source)
        expected = verify(source)
        _check_seal(source)
        target = connect(url, create=True)
        restored = _copy_into(source, target)
    finally:
        source.close()
    if restored != expected:
        raise StoreError(f"{target.url}: {restored} of {expected} reports were restored: do not use this store")
    return restored


def _copy_into(source: Database, target: Database) -> int:
    """Make `target` a store with everything in `source`; close it; return its number of reports."""
    try:
        with source.snapshot_of_ids() as reading:
            target.write(lambda writing: _copy_tables(reading, target, writing))
        return verify(target)
    finally:
        target.close()


def _copy_tables(reading: Connection, target: Database, writing: Connection) -> None:
    # The schema in the same transaction: a process that is killed leaves no empty store.
    if not create_tables(target, writing):
        raise StoreError(f"{target.url}: there is a store already: name a new file, or an empty database")
    for table in METADATA.sorted_tables:
        _copy_table(reading, writing, table)
    for table in map(ids_table, read_id_days(reading)):
        table.create(writing)
        _copy_table(reading, writing, table)
    for key in (TABLE_DIGEST, DELETED_FROM, REWRITTEN):  # facts about the source
        writing.execute(delete(ABOUT).where(ABOUT.c.key.startswith(key)))


def _copy_table(reading: Connection, writing: Connection, table: Table) -> None:
    if table is ABOUT:
        writing.execute(delete(ABOUT))
    # The number of a row of the inbox has no meaning: the new database gives its own.
    columns = [column for column in table.columns if not (table is INBOX and column.primary_key)]
    rows = reading.execute(
        select(*columns).order_by(*table.primary_key),
        execution_options={"yield_per": FEW if table in (INBOX, CHUNKS) else ROWS},
    )
    for some in rows.mappings().partitions():
        writing.execute(table.insert(), [dict(row) for row in some])


def _seal(connection: Connection) -> None:
    connection.execute(delete(ABOUT).where(ABOUT.c.key.startswith(TABLE_DIGEST)))
    rows = [{"key": TABLE_DIGEST + name, "value": value} for name, value in _digests(connection).items()]
    connection.execute(ABOUT.insert(), rows)


def _check_seal(database: Database) -> None:
    with database.snapshot() as connection:
        rows = connection.execute(select(ABOUT).where(ABOUT.c.key.startswith(TABLE_DIGEST)))
        sealed = {row.key.removeprefix(TABLE_DIGEST): row.value for row in rows}
        if not sealed:  # a store itself: there is nothing to hold it against
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
    for table in (*METADATA.sorted_tables, *map(ids_table, read_id_days(connection))):
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
    """Check the database, and its counts against its reports; return the number of reports it has taken."""
    with database.snapshot() as connection:
        database.check_integrity(connection)
        counted = sum(_counted(connection, database.url))
        return counted + (connection.execute(select(func.sum(INBOX.c.num_reports))).scalar() or 0)


def _counted(connection: Connection, url: str) -> Iterator[int]:
    columns = key_columns(CHUNKS)
    sums = connection.execute(select(*columns, func.sum(CHUNKS.c.num_reports).label("total")).group_by(*columns))
    stored = {Key.of_row(row): row.total for row in sums}
    for row in connection.execute(select(COUNTS)):
        reports = unpack_counts(bytes(row.counts)).num_reports
        summed = None if row.sums is None else unpack_sums(bytes(row.sums), row.counts_digest)
        kept = max(stored.pop(Key.of_row(row), 0), 0 if summed is None else summed.num_reports)
        if reports > row.num_reports or kept > reports:
            raise StoreError(f"{url}: the counts of {row.metric} do not agree with its reports: this store is damaged")
        yield row.num_reports
    if stored:
        raise StoreError(f"{url}: {next(iter(stored)).metric} has reports that were never counted: it is damaged")


@contextmanager
def renamed_when_complete(path: Path) -> Iterator[Path]:
    """Give an empty file in a hidden folder of its own; it gets its name when it is complete and on the disk."""
    if path.exists():
        raise StoreError(f"{path}: this file exists: give the backup another name")
    if not path.parent.is_dir():
        raise StoreError(f"{path}: there is no folder {path.parent}")
    for left in path.parent.glob(f".{escape(path.name)}.{'[a-z0-9_]' * 8}"):
        with suppress(OSError), _locked(left) as is_free:  # somebody else's, or just removed
            if is_free:  # of a process that was killed
                for file in left.glob(f"{escape(path.name)}*"):
                    file.unlink()
                left.rmdir()
    try:
        folder = TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise StoreError(f"{path}: no file can be made in {path.parent}: check its permissions") from error
    with folder as name, _locked(Path(name)):
        part = Path(name, path.name)
        create_private_file(part)
        yield part
        sync(part)
        part.rename(path)
        sync(path.parent)


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Lock a folder, where no other process has: whether this one has it, until the block or the process ends."""
    try:
        import fcntl
    except ImportError:  # Windows, where nobody can remove a file that is open
        yield False
        return
    handle, is_locked = os.open(folder, os.O_RDONLY), False
    try:
        with suppress(OSError):  # another process writes there, or a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_locked = True
        yield is_locked
    finally:
        os.close(handle)
