"""Opening state.db for one transaction, and saying in one way what went wrong."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Final

from overstory.client.errors import Fault, StateError
from overstory.client.forking import no_fork

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
_SAID: Final = {
    Fault.BUSY: "another process has held it for too long",
    Fault.FULL: "there is no room left on the disk, or a limit on files is reached",
    Fault.READ_ONLY: "it cannot be written",
    Fault.UNREADABLE: "it cannot be opened",
    Fault.DAMAGED: "it is damaged; forget the whole state, or restore it from a backup",
}


@contextmanager
def saying(path: Path) -> Iterator[None]:
    """Turn what SQLite and the system raise into `StateError`."""
    try:
        yield
    except sqlite3.Error as error:
        raise StateError(*_of_sqlite(error, path)) from error
    except UnicodeDecodeError as error:  # SQLite says what is wrong in the words of the file, which are no text
        raise StateError(Fault.DAMAGED, f"{path}: {_SAID[Fault.DAMAGED]}") from error
    except OSError as error:
        fault = _BY_ERRNO.get(error.errno or 0, Fault.UNREADABLE)
        raise StateError(fault, f"{path}: {_SAID[fault]}: {error.strerror or error}") from error


def _of_sqlite(error: sqlite3.Error, path: Path) -> tuple[Fault, str]:
    code = getattr(error, "sqlite_errorcode", None)
    # An extended code carries its primary one in the low byte. Some faults have no code, such as text for a number.
    fault = Fault.DAMAGED if code is None else _BY_CODE.get(code & 0xFF, Fault.UNREADABLE)
    if code is not None and code & 0xFF == sqlite3.SQLITE_IOERR and _over_the_limit(path):
        fault = Fault.FULL
    return fault, f"{path}: {_SAID[fault]} ({getattr(error, 'sqlite_errorname', None) or error})"


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
    """Open a database that exists, "rw" or "ro", and close it again.

    Parameters
    ----------
    path, mode, timeout
        Where it is, what it is opened for, and for how many seconds to wait for others.
    synchronous
        What a commit waits for, in SQLite's word: FULL where the caller waits for the folder itself.

    Raises
    ------
    StateError
        `lost` when there is no such file.
    sqlite3.Error
        Whatever SQLite finds.
    """
    uri = _uri(os.path.abspath(path), mode)  # noqa: PTH100 - resolve() would follow links
    if not os.path.exists(path):  # noqa: PTH110 - a record begins with this
        raise StateError(Fault.LOST, f"{path}: what was reported so far is lost; forget the whole state to begin anew")
    with no_fork(), closing(sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None)) as connection:
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
    """Hold the right to write; commit when the block ends, undo when it raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def damage(connection: sqlite3.Connection) -> str | None:
    """Return what SQLite's own check finds wrong, None when it finds nothing."""
    found = connection.execute("PRAGMA quick_check(1)").fetchone()
    return None if found is None or found[0] == "ok" else str(found[0])
