"""Opens state.db for one transaction, translates its errors, and defines its tables.

Forks and transactions exclude each other. SQLite's locks and journals belong to a process: a child that inherited an
open transaction would share them with its parent. So a fork waits until the transaction ends; if it does not end in
time, the child never opens a database. A child's copy of its parent's queue is emptied.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Protocol

from overstory.client.outcomes import Fault, StateError

PATIENCE: Final = 5.0
"""Seconds for which a fork waits for a transaction to end."""


class Forked(Protocol):
    """An object that is informed when it is in a child."""

    def after_fork(self) -> None:
        """Reset: queued reports are the parent's, and no other thread exists here."""
        ...


class _Gate:
    """A lock that is held during every transaction of this process and during every fork."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.held = False
        self.broken = False
        self.watching: weakref.WeakSet[Forked] = weakref.WeakSet()

    def before(self) -> None:
        self.held = self.lock.acquire(timeout=PATIENCE)

    def in_parent(self) -> None:
        if self.held:
            self.lock.release()

    def in_child(self) -> None:
        self.broken = self.broken or not self.held
        self.lock = threading.RLock()
        for watcher in list(self.watching):
            watcher.after_fork()


_gate: Final = _Gate()
if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(before=_gate.before, after_in_parent=_gate.in_parent, after_in_child=_gate.in_child)


def watch(watcher: Forked) -> None:
    """Call `watcher.after_fork` in every child."""
    _gate.watching.add(watcher)


@contextmanager
def fork_guard() -> Iterator[None]:
    """Delay forks until the end of this block."""
    if _gate.broken:
        raise StateError(Fault.BUSY, "this process was forked in the middle of a transaction: it records nothing")
    with _gate.lock:
        yield


_BY_CODE: Final = {
    sqlite3.SQLITE_BUSY: Fault.BUSY,
    sqlite3.SQLITE_LOCKED: Fault.BUSY,
    sqlite3.SQLITE_FULL: Fault.FULL,
    sqlite3.SQLITE_READONLY: Fault.READ_ONLY,
    sqlite3.SQLITE_CANTOPEN: Fault.UNREADABLE,
    sqlite3.SQLITE_PERM: Fault.UNREADABLE,
    sqlite3.SQLITE_CORRUPT: Fault.DAMAGED,
    sqlite3.SQLITE_NOTADB: Fault.DAMAGED,
}
_BY_ERRNO: Final = {
    errno.ENOSPC: Fault.FULL,
    errno.EFBIG: Fault.FULL,
    getattr(errno, "EDQUOT", errno.ENOSPC): Fault.FULL,
    errno.EROFS: Fault.READ_ONLY,
    errno.EACCES: Fault.READ_ONLY,
    errno.EPERM: Fault.READ_ONLY,
}
_MESSAGES: Final = {
    Fault.BUSY: "another process has held it for too long",
    Fault.FULL: "there is no room left on the disk, or a limit on files is reached",
    Fault.READ_ONLY: "it cannot be written",
    Fault.UNREADABLE: "it cannot be opened",
    Fault.DAMAGED: "it is damaged; forget the state, or restore it from a backup",
}


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Turn the errors of SQLite and of the system into `StateError`."""
    try:
        yield
    except sqlite3.Error as error:
        raise StateError(*_of_sqlite(error, path)) from error
    except UnicodeDecodeError as error:  # SQLite quotes the file in its message, and that is not text
        raise StateError(Fault.DAMAGED, f"{path}: {_MESSAGES[Fault.DAMAGED]}") from error
    except OSError as error:
        fault = _BY_ERRNO.get(error.errno or 0, Fault.UNREADABLE)
        raise StateError(fault, f"{path}: {_MESSAGES[fault]}: {error.strerror or error}") from error


def _of_sqlite(error: sqlite3.Error, path: Path) -> tuple[Fault, str]:
    code = getattr(error, "sqlite_errorcode", None)
    # The low byte of an extended code is the primary code. Some faults have none, such as text for a number.
    fault = Fault.DAMAGED if code is None else _BY_CODE.get(code & 0xFF, Fault.UNREADABLE)
    if code is not None and code & 0xFF == sqlite3.SQLITE_IOERR and _over_the_limit(path):
        fault = Fault.FULL
    return fault, f"{path}: {_MESSAGES[fault]} ({getattr(error, 'sqlite_errorname', None) or error})"


def _over_the_limit(path: Path) -> bool:
    """Whether the file's size is limited: a write beyond the limit is an I/O error to SQLite."""
    try:
        import resource
    except ImportError:  # Windows
        return False
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return limit != resource.RLIM_INFINITY and path.stat().st_size + (1 << 16) > limit


@lru_cache(maxsize=16)
def _uri(path: str, mode: str) -> str:
    return f"{Path(path).as_uri()}?mode={mode}"


@contextmanager
def connected(path: Path, mode: str, timeout: float, *, synchronous: str = "EXTRA") -> Iterator[sqlite3.Connection]:
    """Open an existing database, "rw" or "ro"; synchronous is FULL where the caller synchronizes the folder itself."""
    uri = _uri(os.path.abspath(path), mode)  # noqa: PTH100 - resolve() would follow links
    if not os.path.exists(path):  # noqa: PTH110 - a record begins with this
        raise StateError(Fault.LOST, f"{path}: what was reported so far is lost; forget the state to start over")
    with fork_guard(), closing(sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None)) as connection:
        # A rollback journal and not WAL, whose shared memory does not exist on network homes. EXTRA waits for the
        # folder too: a journal that is back after a power loss would undo the last commit, a withdrawal for example.
        for pragma in (
            f"synchronous = {synchronous}",
            "secure_delete = ON",
            "trusted_schema = OFF",
            "cell_size_check = ON",
        ):
            connection.execute(f"PRAGMA {pragma}")
        yield connection


@contextmanager
def committed(connection: sqlite3.Connection) -> Iterator[None]:
    """Hold the write lock; commit at the end of the block, roll back if it raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def select_of(connection: sqlite3.Connection, query: str, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query whose ``IN ({})`` takes any number of names: SQLite may take 999 at once."""
    for first in range(0, len(names), 500):
        some = names[first : first + 500]
        yield from connection.execute(query.format(", ".join("?" * len(some))), some)


PAGE: Final = 1024
"""Bytes of a page: a report changes one in each of eight tables and indexes, and each is written twice."""
VERSION: Final = 1
TABLES: Final = (
    "CREATE TABLE about (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    # One report per period and metric: the primary key is the promise.
    "CREATE TABLE reported (metric TEXT, period INTEGER, PRIMARY KEY (metric, period)) WITHOUT ROWID",
    # One row per permanent response that was reported; `tag` is a keyed hash, so no value is here.
    """CREATE TABLE responses (
        metric TEXT NOT NULL, account BLOB NOT NULL, number INTEGER NOT NULL, tag BLOB NOT NULL,
        permanent BLOB NOT NULL, reports INTEGER NOT NULL, kept INTEGER NOT NULL,
        PRIMARY KEY (metric, account, tag), UNIQUE (metric, number)) WITHOUT ROWID""",
    # What an account's privacy rests on: the ledger outlives the registry.
    "CREATE TABLE terms (account BLOB PRIMARY KEY, terms TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE outbox (
        id INTEGER PRIMARY KEY AUTOINCREMENT, batch BLOB NOT NULL UNIQUE, metric TEXT NOT NULL, account BLOB NOT NULL,
        period INTEGER NOT NULL, body BLOB NOT NULL, due REAL NOT NULL, attempts INTEGER NOT NULL, state TEXT NOT NULL,
        answer TEXT, response INTEGER)""",
    "CREATE INDEX outbox_by_state ON outbox (state, due)",
    "CREATE TABLE counts (what TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID",
    # When each metric's key may go.
    """CREATE TABLE keys (
        metric TEXT PRIMARY KEY, ends INTEGER NOT NULL, erased INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID""",
)

ERASE_ID: Final = (
    "batch = CAST('erased ' || id AS BLOB),"
    " body = CASE WHEN length(body) < 24 THEN body"
    " ELSE CAST(substr(body, 1, 8) || zeroblob(16) || substr(body, 25) AS BLOB) END"
)
"""What takes the batch id out of a row of the outbox, and out of the upload in it."""


def has_tables(connection: sqlite3.Connection) -> bool:
    """Whether the tables are there; a state of another version is refused."""
    try:
        row = connection.execute("SELECT value FROM about WHERE key = 'schema'").fetchone()
    except sqlite3.OperationalError:  # no table, or none that can be read: then this raises again
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchone():
            raise
        return False
    if row is None or not isinstance(row[0], int):
        raise StateError(Fault.DAMAGED, "state.db does not say which version it has")
    if row[0] != VERSION:
        raise of_other_version("state.db", row[0], VERSION)
    return True


def of_other_version(file: str, version: int, mine: int) -> StateError:
    """Return the error of a file that another version of Overstory wrote."""
    return StateError(
        Fault.OTHER_VERSION,
        f"{file} has version {version}, and this version of Overstory reads {mine} alone: use the one that "
        "wrote it, or forget the state",
    )


def create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables, in the caller's transaction."""
    for statement in TABLES:
        connection.execute(statement)
    connection.execute("INSERT INTO about VALUES ('schema', ?)", (VERSION,))
