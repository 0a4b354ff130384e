"""The device's state, a secret and a database of what was reported and what waits: begun, opened and erased.

A connection lasts for one transaction, so none is open across a fork, and every process sees the others' changes.
SQLite keeps a rollback journal and waits for the disk at every commit: a crash leaves all of a transaction or nothing.
SQLite's locks and journals belong to a process, so a fork waits until the transaction ends; if it does not end in time,
the child never opens a database.

Creation, under the folder's lock: the secret is written to ``secret.new``; its fingerprint is committed to state.db
together with the tables; ``secret.new`` is renamed to ``secret``; the lock file is marked. After a crash between two
steps the next process completes or undoes them. So a file that is missing later must have existed: the state is lost,
which is an error, and no fresh secret is made.

A copy of a state has the same secret, so whoever has one can read the reports of all. It records and sends nothing
until somebody says what it is: the same device, moved (``on --moved``), or another device, which starts again
(``forget``). It is noticed by a hash of the machine's id, keyed with the fingerprint of the secret, and never sent.
"""

from __future__ import annotations

import errno
import hashlib
import os
import sqlite3
import stat
import sys
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from overstory.client.outcomes import Fault, StateError
from overstory.client.state.files import (
    PRIVATE,
    StatePaths,
    is_own,
    locked,
    make_folder,
    refuse_foreign,
    sync_folder,
    unfinished,
)
from overstory.client.state.rows import PAGE, Bounds, Rows, create_tables, has_tables
from overstory.client.state.secret_file import (
    DeviceSecret,
    discard_replaced,
    overwrite_secret,
    read_secret,
    replace_secret,
    write_secret,
)

if TYPE_CHECKING:
    from overstory.protocol.metrics import Metric

PATIENCE: Final = 5.0  # seconds for which a fork waits for a transaction to end, and erasing for other processes


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
        code = getattr(error, "sqlite_errorcode", None)
        # The low byte of an extended code is the primary code. Some faults have none, such as text for a number.
        fault = Fault.DAMAGED if code is None else _BY_CODE.get(code & 0xFF, Fault.UNREADABLE)
        if code is not None and code & 0xFF == sqlite3.SQLITE_IOERR and _over_the_limit(path):
            fault = Fault.FULL
        why = getattr(error, "sqlite_errorname", None) or error
        raise StateError(fault, f"{path}: {_MESSAGES[fault]} ({why})") from error
    except UnicodeDecodeError as error:  # SQLite quotes the file in its message, and that is not text
        raise StateError(Fault.DAMAGED, f"{path}: {_MESSAGES[Fault.DAMAGED]}") from error
    except OSError as error:
        fault = _BY_ERRNO.get(error.errno or 0, Fault.UNREADABLE)
        raise StateError(fault, f"{path}: {_MESSAGES[fault]}: {error.strerror or error}") from error


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
        # A rollback journal and not WAL, whose shared memory does not exist on network homes. A commit waits five times
        # for the disk, and none can go: for the journal's pages, for its name, for the number of its pages (before the
        # pages are there it must not count: its checksums look at one byte in 200), for the database, and, by EXTRA,
        # for the folder: a journal that is back after a power loss would undo the commit, a withdrawal for example.
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


class State:
    """One application's state on this device; other processes are waited for `timeout` seconds."""

    def __init__(self, paths: StatePaths, *, timeout: float = 1.0, bounds: Bounds | None = None) -> None:
        self.paths, self.timeout, self.bounds = paths, timeout, bounds or Bounds()
        self.secret: DeviceSecret | None = None  # None until `begin`; then no other state is accepted in its place

    def __repr__(self) -> str:
        return f"State({os.fspath(self.paths.folder)!r})"

    @property
    def exists(self) -> bool:
        """Whether there is a database file, which may be damaged; not where its creation was interrupted."""
        paths = self.paths
        return paths.database.exists() and (paths.secret.exists() or not paths.unconfirmed.exists())

    def begin(self) -> DeviceSecret:
        """Create the state, or open and check the existing one; return its secret."""
        paths = self.paths
        with translate_errors(paths.folder), fork_guard():
            make_folder(paths.folder)
            refuse_foreign(paths)
            with locked(paths.lock, self.timeout) as lock:
                secret, marked = read_secret(paths.secret), _is_marked(lock)
                opened = self._opened(secret)
                if opened is None and (secret is not None or marked):
                    raise _lost("state.db" if secret is not None else "secret, state.db", paths)
                secret = opened or self._created()
                if not marked:
                    os.lseek(lock, 0, os.SEEK_SET)
                    os.write(lock, MARK)
                    os.fsync(lock)
        self.secret = secret
        return secret

    def _opened(self, secret: DeviceSecret | None) -> DeviceSecret | None:
        """Check the database that is there, and bring the secret up to date with it; None where it has no tables."""
        paths = self.paths
        if not paths.database.exists():
            return None
        with connected(paths.database, "rw", self.timeout) as connection:
            # Without a write lock, which would have to wait for readers.
            problem = connection.execute("PRAGMA quick_check(1)").fetchone()
            if problem is not None and problem[0] != "ok":
                raise StateError(Fault.DAMAGED, f"{paths.database}: it is damaged ({problem[0]}); forget the state")
            if not has_tables(connection):
                return None
            rows = Rows(connection, self.bounds)
            fingerprint = rows.fingerprint
            if not isinstance(fingerprint, bytes):
                raise StateError(Fault.DAMAGED, f"{paths.database}: it does not say which secret it belongs to")
            secret = self._confirmed(fingerprint) if secret is None else secret
            if secret.fingerprint != fingerprint:
                raise StateError(
                    Fault.ALTERED,
                    f"{paths.secret}: this is not the secret that the reports so far were made with; put that one "
                    "back, or forget the state",
                )
            here = self._checked_machine(rows)
            if here is not None and rows.machine is None:
                with committed(connection):
                    connection.execute("INSERT OR IGNORE INTO about VALUES ('machine', ?)", (here,))
            gone = frozenset(metric for metric in rows.erased() if secret.key(metric) is not None)
        discard_replaced(paths)
        if gone:  # the database needs these keys no longer
            secret = secret.without(gone)
            replace_secret(paths, secret)
        return secret

    def _confirmed(self, fingerprint: bytes) -> DeviceSecret:
        """Complete a creation that was interrupted after the fingerprint was committed."""
        secret = read_secret(self.paths.unconfirmed)
        if secret is None or secret.fingerprint != fingerprint:
            raise _lost("secret", self.paths)
        self._take_name()
        return secret

    def _created(self) -> DeviceSecret:
        paths = self.paths
        for path in (paths.database, paths.unconfirmed):  # what was interrupted: nothing was ever reported with it
            path.unlink(missing_ok=True)
        secret = DeviceSecret.fresh()
        write_secret(paths.unconfirmed, secret)
        # Created here, so that it is never readable by others.
        os.close(os.open(paths.database, os.O_WRONLY | os.O_CREAT, PRIVATE))
        sync_folder(paths.folder)
        with connected(paths.database, "rw", self.timeout, synchronous="FULL") as connection:
            connection.execute(f"PRAGMA page_size = {PAGE}")
            with committed(connection):
                create_tables(connection)
                connection.execute("INSERT INTO about VALUES ('fingerprint', ?)", (secret.fingerprint,))
                if (here := machine_hash(secret.fingerprint)) is not None:
                    connection.execute("INSERT INTO about VALUES ('machine', ?)", (here,))
        self._take_name()
        return secret

    def _take_name(self) -> None:
        self.paths.unconfirmed.rename(self.paths.secret)
        sync_folder(self.paths.folder)

    @contextmanager
    def transaction(self, timeout: float | None = None) -> Iterator[Rows]:
        """Read and write in one transaction: durable when the block ends, undone when it raises."""
        wait = self.timeout if timeout is None else timeout
        path = self.paths.database
        refuse_foreign(self.paths)
        with translate_errors(path), connected(path, "rw", wait) as connection, committed(connection):
            yield self._rows(connection)

    @contextmanager
    def snapshot(self) -> Iterator[Rows]:
        """Read one consistent snapshot; works where nothing may be written."""
        path = self.paths.database
        refuse_foreign(self.paths)
        self._roll_back()
        with translate_errors(path), connected(path, "ro", self.timeout) as connection:
            connection.execute("BEGIN")
            yield self._rows(connection)

    def check_machine(self, rows: Rows | None = None) -> None:
        """Raise StateError where the state was created on another machine; one without a machine id is accepted."""
        if machine_id() is not None and self.exists:
            with self.snapshot() if rows is None else nullcontext(rows) as tables:
                self._checked_machine(tables)

    def _checked_machine(self, rows: Rows) -> bytes | None:
        """Return the hash of this machine's id; raise StateError where the state has another one's."""
        here = machine_hash(rows.fingerprint)
        if here is not None and rows.machine not in (None, here):
            raise StateError(Fault.ELSEWHERE, f"{self.paths.folder}: {ELSEWHERE}")
        return here

    def move_here(self) -> None:
        """Bind the state to this machine, which replaces the one where it was created."""
        if machine_id() is not None and self.exists:
            with self.transaction() as rows:
                here = machine_hash(rows.fingerprint)
                if here is not None:
                    rows.bind(here)

    def retire(self, metrics: Mapping[str, Metric], now: float) -> frozenset[str]:
        """Destroy keys of metrics that are over: first the database forgets, then the file; return all gone."""
        with self.snapshot() as rows:
            gone, pending = rows.erased(), rows.has_news(metrics, now)
        ended: frozenset[str] = frozenset()
        if pending:
            with self.transaction() as rows:
                ended = rows.retire(metrics, now)
        if ended:
            self.begin()
        return gone | ended

    def _roll_back(self) -> None:
        """Roll back what a killed process left: a read-only connection cannot."""
        path = self.paths.database
        if os.path.exists(f"{path}-journal"):  # noqa: PTH110 - one stat for every reading
            with suppress(sqlite3.Error, StateError, OSError), connected(path, "rw", self.timeout) as connection:
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()

    def _rows(self, connection: sqlite3.Connection) -> Rows:
        """Return the tables; raise StateError where there are none, or they are another state's."""
        if not has_tables(connection):
            raise StateError(Fault.LOST, f"{self.paths.database}: what was reported so far is lost, or was forgotten")
        rows = Rows(connection, self.bounds)
        if self.secret is not None and rows.fingerprint != self.secret.fingerprint:
            raise StateError(Fault.CHANGED, f"{self.paths.folder}: this state was forgotten, and another one begun")
        return rows


MARK: Final = b"begun\n"


def _lost(what: str, paths: StatePaths) -> StateError:
    return StateError(
        Fault.LOST,
        f"{paths.folder}: {what} was there and is lost; restore it from a backup, or forget the state: "
        "a fresh secret would restart the privacy loss",
    )


def _is_marked(lock: int) -> bool:
    os.lseek(lock, 0, os.SEEK_SET)
    return bool(os.read(lock, len(MARK)))


def erase(paths: StatePaths) -> None:
    """Delete the state with the choice; its name and registry stay. What others planted is unlinked, never written."""
    if not paths.folder.is_dir():
        return
    with translate_errors(paths.folder):
        _unlink_planted(paths.lock)
    with translate_errors(paths.folder), fork_guard(), locked(paths.lock, PATIENCE) as lock:
        for path in (paths.consent, *unfinished(paths.consent), *unfinished(paths.application)):
            path.unlink(missing_ok=True)
        # A process that waits for the database then sees an empty one, and discards its reports.
        _unlink_planted(paths.database)
        with suppress(sqlite3.Error, StateError):
            refuse_foreign(paths)
            with connected(paths.database, "rw", PATIENCE) as connection, committed(connection):
                query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
                for (name,) in connection.execute(query).fetchall():
                    connection.execute(f'DROP TABLE "{name}"')
        for path in (paths.database, Path(f"{paths.database}-journal")):
            path.unlink(missing_ok=True)
        for path in (paths.unconfirmed, paths.next, paths.replaced, paths.secret):
            overwrite_secret(path)
            path.unlink(missing_ok=True)
        if is_own(os.fstat(lock)):
            os.ftruncate(lock, 0)
        else:
            paths.lock.unlink(missing_ok=True)


def _unlink_planted(path: Path) -> None:
    with suppress(FileNotFoundError):
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            path.unlink()


PLACES: Final = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
UNSET: Final = frozenset({"", "uninitialized"})
MARK_BYTES: Final = 16

ELSEWHERE: Final = (
    "this state was begun on another machine; if this machine replaces that one, say so: overstory on --moved; if it "
    "is another device, begin again: overstory forget, then overstory on"
)

UNCHECKED: Final = "this machine has no id of its own, so a copy of this state on another one would not be noticed"


@cache
def machine_id(platform: str = sys.platform) -> str | None:
    """Return the machine's id; None where it has none that can be read. Cached."""
    identifier = _windows() if platform == "win32" else _mac() if platform == "darwin" else _linux()
    return None if identifier in UNSET else identifier


def machine_hash(fingerprint: bytes | None) -> bytes | None:
    """Return the hash of the machine's id that a state stores, keyed with a secret's fingerprint; None without."""
    identifier = machine_id()
    if identifier is None or fingerprint is None:
        return None
    return hashlib.blake2b(identifier.encode(), digest_size=MARK_BYTES, key=fingerprint, person=b"machine").digest()


def _linux() -> str:
    for place in PLACES:
        try:
            identifier = place.read_text("ascii", "replace").strip()
        except OSError:
            continue
        if identifier not in UNSET:
            return identifier
    return ""


def _windows() -> str:
    try:
        import winreg

        path = r"SOFTWARE\Microsoft\Cryptography"
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, path) as key:  # type: ignore[attr-defined,unused-ignore]
            return str(winreg.QueryValueEx(key, "MachineGuid")[0])  # type: ignore[attr-defined,unused-ignore]
    except (ImportError, OSError):
        return ""


def _mac() -> str:
    import re
    import subprocess

    command = ("/usr/sbin/ioreg", "-rd1", "-c", "IOPlatformExpertDevice")
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout  # noqa: S603 - ours
    except (OSError, ValueError, subprocess.SubprocessError):  # ValueError: its output is not text
        return ""
    match = re.search(r'"IOPlatformUUID" = "([^"]+)"', output)
    return "" if match is None else match[1]
