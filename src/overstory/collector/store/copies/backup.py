"""Backup and restore: a backup is one SQLite file that opens as a store, and a file with its checksum."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import file_digest
from pathlib import Path
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
            with closing(SqliteDatabase(part)) as copy:
                return verify(copy)
        return _copy_into(database, SqliteDatabase(part))


def restore(path: Path, url: str) -> int:
    """Fill a new store from a backup, completely or not at all; return the reports in its counts and inbox."""
    with closing(connect(str(path))) as source:
        check(source)
        _check_checksum(path)
        expected = verify(source)
        target = connect(url, create=True)
        restored = _copy_into(source, target)
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
    for key in (DELETED_FROM, REWRITTEN):  # facts about the source
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


def _checksum_of(path: Path) -> str:
    """Return what `sha256sum` prints of a file."""
    with path.open("rb") as file:
        return f"{file_digest(file, 'sha256').hexdigest()}  {path.name}\n"


def checksum_file(path: Path) -> Path:
    """Return the file that the checksum of a backup is in."""
    return path.with_name(f"{path.name}.sha256")


def _check_checksum(path: Path) -> None:
    checksum, log = checksum_file(path), Path(f"{path}-wal")
    if not checksum.exists():  # a store itself, or its backup alone: there is nothing to hold it against
        return
    if checksum.read_text("utf-8", errors="replace").split()[:1] != _checksum_of(path).split()[:1] or (
        log.exists() and log.stat().st_size
    ):
        raise StoreError(
            f"{path}: not what was backed up, by {checksum.name}: the file is damaged, or was used as a store since; "
            "take another backup (of a file that is in use: overstory store backup)"
        )


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
    """Give an empty file in a folder of its own; it gets its name, and a checksum, when it is complete and on disk."""
    if path.exists():
        raise StoreError(f"{path}: this file exists: give the backup another name")
    if not path.parent.is_dir():
        raise StoreError(f"{path}: there is no folder {path.parent}")
    folder = path.with_name(f"{path.name}.part")
    try:
        folder.mkdir(0o700)
    except FileExistsError:
        raise StoreError(
            f"{folder}: another backup is being written there, or one was killed: then delete it"
        ) from None
    except OSError as error:
        raise StoreError(f"{path}: no file can be made in {path.parent}: check its permissions") from error
    try:
        part = folder / path.name
        create_private_file(part)
        yield part
        sync(part)
        checksum = checksum_file(part)
        create_private_file(checksum)
        checksum.write_text(_checksum_of(part), "utf-8")
        sync(checksum)
        checksum.rename(checksum_file(path))
        part.rename(path)
        sync(path.parent)
    finally:
        shutil.rmtree(folder)
