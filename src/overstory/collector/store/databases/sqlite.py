"""The embedded database: one file with a write-ahead log; every commit is on disk before it is acknowledged."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Final

from sqlalchemy import URL, ColumnElement, Connection, create_engine, delete, event, func, select

from overstory.collector.store.databases.database import (
    DRIVER_ERRORS,
    Database,
    IdsOfDay,
    Result,
    StoreError,
    store_error,
    translate_errors,
)
from overstory.collector.store.schema import BATCH_IDS, ids_table, ids_table_name, read_id_days


class FairLock:
    """A lock that goes to a thread that waits, before the one that just released it: `threading.Lock` may not.

    The first who waits holds the turnstile until it has the lock: whoever comes again stays behind it.
    """

    def __init__(self) -> None:
        self._turnstile, self._lock = Lock(), Lock()

    def __enter__(self) -> None:
        with self._turnstile:
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


PATIENCE: Final = 15.0  # seconds to wait for another process's transaction

# Overwriting what is deleted is the default of some builds of SQLite, and not of others.
PRAGMAS: Final = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA secure_delete = ON",
    "PRAGMA foreign_keys = ON",
    "PRAGMA cache_size = -65536",
    "PRAGMA wal_autocheckpoint = 32768",
    "PRAGMA journal_size_limit = 134217728",
)

EACH_ID: Final = (
    "WITH RECURSIVE place(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM place WHERE n + 1 < ?2) "
    "SELECT substr(?1, 1 + 16 * n, 16) FROM place WHERE true"
)
"""Each of the ids, 16 bytes long, that are joined in ?1, of which there are ?2. One statement takes all of them: after
each one, a thread waits for the interpreter lock, which a busy event loop has."""

AT_ONCE: Final = 100_000
STARTS: Final = tuple(bytes([first]) for first in range(1, 256))
"""A table with more ids than `AT_ONCE` is emptied in slices before it is dropped: all of its pages are overwritten, and
no writer waits for long."""

CHECKPOINT: Final = "PRAGMA wal_checkpoint(PASSIVE)"
PASSES: Final = 4

INCREMENTAL: Final = 2
AUTO_VACUUM: Final = "PRAGMA auto_vacuum = INCREMENTAL"
"""Has an effect only before the first table is made; `release_free_space` can then shorten the file."""


class SqliteDatabase(Database):
    """A file. One process writes at a time, others wait; what it deletes is overwritten (`secure_delete`)."""

    kind = "sqlite"

    def __init__(self, path: Path) -> None:
        self.path = path
        engine = create_engine(
            URL.create("sqlite", database=str(path)),
            connect_args={"timeout": PATIENCE, "isolation_level": None, "check_same_thread": False},
            hide_parameters=True,  # stored values do not appear in messages and logs
            pool_use_lifo=True,  # the same few connections again and again: each has a cache of its own
        )
        event.listen(engine, "connect", _set_up)
        event.listen(engine, "begin", _begin)
        self._write_lock = FairLock()
        self._file = _identity(path)
        self._serving: int | None = None
        self._writer = engine.execution_options(overstory_writes=True)
        super().__init__(f"sqlite:///{path}", engine)

    def write(self, work: Callable[[Connection], Result]) -> Result:
        """Run `work` in this thread's turn: SQLite's own lock is asked for again after longer and longer pauses."""
        with self._write_lock:
            try:
                with self._writer.begin() as connection:
                    result = work(connection)
            except DRIVER_ERRORS as error:
                raise store_error(self.url, error) from error
        self.check_in_place()  # before the result is used: a file without a name is deleted when it is closed
        return result

    def in_place(self) -> bool:
        return self._file is None or _identity(self.path) == self._file

    def check_in_place(self) -> None:
        if not self.in_place():
            raise StoreError(
                f"{self.url}: the file was deleted, moved or replaced while it was open: no reports are taken; "
                "put it back in its place, or restart the collector on the file that is there now"
            )

    def serve_alone(self) -> None:
        self._serving = lock_for_serving(self.path, self.url)

    def close(self) -> None:
        super().close()
        if self._serving is not None:
            os.close(self._serving)
            self._serving = None

    def insert_ids(self, connection: Connection, by_day: Mapping[int, IdsOfDay]) -> dict[int, set[bytes]]:
        """Insert all ids; look them up only if some are stored: no other transaction writes meanwhile."""
        raw = _raw(connection)
        _make_tables(connection, by_day)
        if all(_insert(raw, day, some.ids) == len(some.ids) for day, some in by_day.items()):
            return {day: set(some.ids) for day, some in by_day.items()}
        # SQLite does not report which of them were stored. Nothing else has been written yet: begin again.
        raw.execute("ROLLBACK")
        raw.execute("BEGIN IMMEDIATE")
        _make_tables(connection, by_day)
        new = {}
        for day, (_, ids) in by_day.items():
            new[day] = set(ids) - _stored(raw, ids_table_name(day), ids)
            _insert(raw, day, new[day])
        return new

    def drop_ids(self, day: int, now: float) -> int:
        """Drop a table of ids; what it held is overwritten (`secure_delete`)."""
        table = ids_table(day)

        def work(connection: Connection, dropped: ColumnElement[bool] | None) -> int:
            until = connection.execute(select(BATCH_IDS.c.forget_after).where(BATCH_IDS.c.day == day)).scalar()
            if until is None or until > now:  # another process has dropped it, or has taken one more batch
                return 0
            if dropped is not None:
                return connection.execute(delete(table).where(dropped)).rowcount
            count: int = connection.execute(select(func.count()).select_from(table)).scalar_one()
            table.drop(connection)
            connection.execute(delete(BATCH_IDS).where(BATCH_IDS.c.day == day))
            return count

        with self.snapshot() as connection:
            if day not in read_id_days(connection):
                return 0
            first = select(table.c.id).limit(AT_ONCE + 1).subquery()
            many = connection.execute(select(func.count()).select_from(first)).scalar_one() > AT_ONCE
        ends = [table.c.id < start for start in STARTS] if many else []  # from the first to the last: whole pages
        return sum([self.write(partial(work, dropped=part)) for part in (*ends, None)])

    def size(self, connection: Connection) -> int:
        del connection
        return sum(file.stat().st_size for file in (self.path, Path(f"{self.path}-wal")) if file.exists())

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Open a reading transaction: in a write-ahead log it sees the moment of its first read."""
        with translate_errors(self.url), self.engine.connect() as connection, connection.begin():
            yield connection

    def check_integrity(self, connection: Connection) -> None:
        with interruptible(_raw(connection)) as raw:
            (result,) = raw.execute("PRAGMA integrity_check").fetchone()
        if result != "ok":
            raise StoreError(f"{self.url}: the database file is damaged ({result}): restore a backup")

    def copy_to(self, path: Path) -> None:
        """Write a copy as of one moment, without what was deleted: free pages still hold reports past retention."""
        with translate_errors(self.url), self.engine.connect() as connection, interruptible(_raw(connection)) as raw:
            raw.execute("VACUUM INTO ?", (str(path),))

    def checkpoint(self) -> None:
        """Copy the write-ahead log into the file: nearly all of it while writers write on, the rest while they wait."""
        # The log begins again only when it was copied to its end, and each pass has less to copy than the one before.
        self.check_in_place()
        with translate_errors(self.url), self.engine.connect() as connection:
            raw = _raw(connection)
            for _ in range(PASSES):
                raw.execute(CHECKPOINT).fetchall()
            with self._write_lock:
                raw.execute(CHECKPOINT).fetchall()

    def release_free_space(self) -> None:
        with translate_errors(self.url), self.engine.connect() as connection:
            # A script runs to its end; `execute` would free one page and stop.
            _raw(connection).executescript("PRAGMA incremental_vacuum")


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what does not depend on a file's name: its device and its number there; None without a file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _raw(connection: Connection) -> sqlite3.Connection:
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver


def _make_tables(connection: Connection, by_day: Mapping[int, IdsOfDay]) -> None:
    """Make the tables of ids that are not there yet, and let each stay for as long as its new ids must."""
    raw = _raw(connection)
    stored = dict(raw.execute("SELECT day, forget_after FROM batch_ids").fetchall())
    for day, (forget_after, _) in by_day.items():
        if day not in stored:
            ids_table(day).create(connection, checkfirst=False)
            raw.execute("INSERT INTO batch_ids (day, forget_after) VALUES (?, ?)", (day, forget_after))
        elif stored[day] < forget_after:
            raw.execute("UPDATE batch_ids SET forget_after = ? WHERE day = ?", (forget_after, day))


def _joined(ids: Collection[bytes]) -> tuple[bytes, int]:
    """Return ids as `EACH_ID` takes them, in order: nothing then reveals which came first, and fewer pages change."""
    joined = b"".join(sorted(ids))
    assert len(joined) == 16 * len(ids), "an id of another length"
    return joined, len(ids)


def _stored(raw: sqlite3.Connection, table: str, ids: Collection[bytes]) -> set[bytes]:
    if raw.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is None:  # noqa: S608 - the store's own name
        return set()
    wanted = f"SELECT id FROM {table} WHERE id IN ({EACH_ID})"  # noqa: S608 - the same
    return {one for (one,) in raw.execute(wanted, _joined(ids))}


def _insert(raw: sqlite3.Connection, day: int, ids: Collection[bytes]) -> int:
    if not ids:
        return 0
    before = raw.total_changes
    raw.execute(f"INSERT INTO {ids_table_name(day)} (id) {EACH_ID} ON CONFLICT DO NOTHING", _joined(ids))
    return raw.total_changes - before


def _set_up(raw: sqlite3.Connection, _: Any) -> None:
    if raw.execute("PRAGMA auto_vacuum").fetchone() != (INCREMENTAL,):
        raw.execute(AUTO_VACUUM)  # a write, for which a connection would have to wait
    for pragma in PRAGMAS:
        raw.execute(pragma).fetchall()


def _begin(connection: Connection) -> None:
    # The driver begins nothing by itself (isolation_level None). A writer takes its lock at once: a transaction that
    # reads first and then writes can fail because another one has written meanwhile.
    writes = connection.get_execution_options().get("overstory_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


STEPS: Final = 100_000  # steps of SQLite's virtual machine, some milliseconds, between two looks for a signal


@contextmanager
def interruptible(raw: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Let signals end a statement: Python handles them only between its own instructions, of which there is none."""
    raw.set_progress_handler(lambda: 0, STEPS)  # a handler of signals that raises ends the statement
    try:
        yield raw
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:  # SQLite has lost what was raised
            raise KeyboardInterrupt from error
        raise
    finally:
        raw.set_progress_handler(None, 0)


_log: Final = logging.getLogger("overstory.collector")


def lock_for_serving(store: Path, url: str) -> int | None:
    """Lock a file next to the store's, closing which would release SQLite's locks; None where the disk has no locks."""
    path = Path(f"{store}-serving")
    try:
        lock_file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:  # a full or read-only disk: no other collector can write there either
        _log.warning("%s: cannot check whether another collector serves this file: %s", url, error.strerror)
        return None
    number = ""
    if not _lock(lock_file):
        with suppress(OSError):
            number = os.read(lock_file, 20).decode("ascii", "replace").strip()
        os.close(lock_file)
        process = f"process {number}" if number.isdigit() else "another process"
        raise StoreError(
            f"{url}: {process} serves this file already, and only one can: stop it first; for several "
            "collectors use a PostgreSQL store"
        )
    with suppress(OSError):
        os.ftruncate(lock_file, 0)
        os.write(lock_file, b"%d\n" % os.getpid())
    return lock_file


def _lock(file: int) -> bool:
    """Lock an open file for this process; False when another process has the lock."""
    try:
        import fcntl
    except ImportError:  # Windows: an open file that is written to cannot be locked by a byte that nobody reads
        import msvcrt

        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:  # a file system without locks
        _log.warning("cannot check whether another collector serves this store: %s", error.strerror)
    return True
