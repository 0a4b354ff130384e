"""The device's state, a secret and a database of what was reported and what waits: begun, opened and erased.

A connection lasts for one transaction, so none is open across a fork, and every process sees the others' changes.
SQLite keeps a rollback journal and waits for the disk at every commit: a crash leaves all of a transaction or nothing.

Creation, under the folder's lock: the secret is written to ``secret.new``; its fingerprint is committed to state.db
together with the tables; ``secret.new`` is renamed to ``secret``; the lock file is marked. After a crash between two
steps the next process completes or undoes them. So a file that is missing later must have existed: the state is lost,
which is an error, and no fresh secret is made.

Opening also brings the secret file up to date with the database: without the keys of metrics that are over.

A copy of a state has the same secret. Anyone who has the image that it was copied from, or any other copy, can read the
reports of all of them. So a copy records and sends nothing until somebody says what it is: the same device, moved
(``on --moved``), or another device, which starts again (``forget``).

The state stores a hash of the machine's id, keyed with the fingerprint of the device's secret. It is never sent, and
reveals nothing about the secret. A machine without an id (a container whose image leaves it empty) is not checked.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from overstory.client.outcomes import Fault, StateError
from overstory.client.state import database
from overstory.client.state.database import committed, connected, fork_guard, translate_errors
from overstory.client.state.files import PRIVATE, is_own, locked, make_folder, sync_folder, unfinished
from overstory.client.state.outbox import Bounds
from overstory.client.state.paths import StatePaths, refuse_foreign
from overstory.client.state.rows import Lifetimes, Rows, changes, over
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


class State:
    """One application's state on this device; other processes are waited for `timeout` seconds."""

    def __init__(self, paths: StatePaths, *, timeout: float = 1.0, bounds: Bounds | None = None) -> None:
        self.paths, self.timeout, self.bounds = paths, timeout, bounds or Bounds()
        self._secret: DeviceSecret | None = None

    def __repr__(self) -> str:
        return f"State({os.fspath(self.paths.folder)!r})"

    @property
    def exists(self) -> bool:
        """Whether there is a database file, which may be damaged."""
        return self.paths.database.exists()

    def begin(self, timeout: float | None = None) -> DeviceSecret:
        """Create the state, or open and check the existing one; return its secret."""
        wait = self.timeout if timeout is None else timeout
        with translate_errors(self.paths.folder), fork_guard():
            make_folder(self.paths.folder)
            refuse_foreign(self.paths)
            with locked(self.paths.lock, wait) as lock:
                secret = open_or_create(self.paths, lock, wait)
        self._secret = secret
        return secret

    def release(self) -> None:
        """Forget the secret: the state that is in the folder now is accepted."""
        self._secret = None

    @contextmanager
    def transaction(self, timeout: float | None = None) -> Iterator[Rows]:
        """Read and write in one transaction: durable when the block ends, undone when it raises."""
        wait = self.timeout if timeout is None else timeout
        path = self.paths.database
        refuse_foreign(self.paths)
        with translate_errors(path), connected(path, "rw", wait) as connection, committed(connection):
            self._check_there(connection)
            yield self._check_secret(Rows(connection, self.bounds))

    @contextmanager
    def snapshot(self) -> Iterator[Rows]:
        """Read one consistent snapshot; works where nothing may be written."""
        path = self.paths.database
        refuse_foreign(self.paths)
        self._roll_back()
        with translate_errors(path), connected(path, "ro", self.timeout) as connection:
            connection.execute("BEGIN")
            self._check_there(connection)
            yield self._check_secret(Rows(connection, self.bounds))

    def check_machine(self, rows: Rows | None = None) -> None:
        """Raise StateError where the state was created on another machine; one without a machine id is accepted."""
        here = self._machine()
        if here is None or not self.exists:
            return
        with self.snapshot() if rows is None else nullcontext(rows) as tables:
            if tables.machine not in (None, here):
                raise elsewhere(self.paths.folder)

    def retire(self, metrics: Mapping[str, Metric], now: float) -> frozenset[str]:
        """Destroy every key whose metric is over; return all metrics whose keys are gone, also by other processes.

        First the database forgets, in one transaction; then the secret file is written without the keys. Where that was
        interrupted, the next opening of the state completes it.
        """
        with self.snapshot() as rows:
            lives, gone = rows.keys.lives, rows.keys.erased()
        news = changes(lives, metrics)
        ended: frozenset[str] = frozenset()
        if news or over(lives, now):
            with self.transaction() as rows:
                for name, at in news.items():
                    rows.keys.extend(name, at)
                ended = over(rows.keys.lives, now)
                for name in ended:
                    rows.keys.erase(name)
        if ended:
            self.begin()
        return gone | ended

    def _machine(self) -> bytes | None:
        """Return the hash of this machine's id for this state; None without such an id, or without a secret."""
        secret = self._secret or read_secret(self.paths.secret)
        return None if secret is None else machine_hash(secret.fingerprint)

    def move_here(self) -> None:
        """Bind the state to this machine, which replaces the one where it was created."""
        here = self._machine()
        if here is not None and self.exists:
            with self.transaction() as rows:
                rows.bind(here)

    def _roll_back(self) -> None:
        """Roll back what a killed process left: a read-only connection cannot."""
        path = self.paths.database
        if os.path.exists(f"{path}-journal"):  # noqa: PTH110 - one stat for every reading
            with suppress(sqlite3.Error, StateError, OSError), connected(path, "rw", self.timeout) as connection:
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()

    def _check_there(self, connection: sqlite3.Connection) -> None:
        if not database.has_tables(connection):
            raise StateError(Fault.LOST, f"{self.paths.database}: what was reported so far is lost, or was forgotten")

    def _check_secret(self, rows: Rows) -> Rows:
        if self._secret is not None and rows.fingerprint != self._secret.fingerprint:
            raise StateError(Fault.CHANGED, f"{self.paths.folder}: this state was forgotten, and another one begun")
        return rows


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


def machine_hash(fingerprint: bytes) -> bytes | None:
    """Return the hash of the machine's id that a state stores, keyed with a secret's fingerprint; None without."""
    identifier = machine_id()
    if identifier is None:
        return None
    return hashlib.blake2b(identifier.encode(), digest_size=MARK_BYTES, key=fingerprint, person=b"machine").digest()


def elsewhere(folder: Path) -> StateError:
    """Return the error of a state that was begun on another machine."""
    return StateError(Fault.ELSEWHERE, f"{folder}: {ELSEWHERE}")


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


MARK: Final = b"begun\n"


@dataclass(frozen=True)
class StoredSecret:
    """What the database stores about the secret."""

    fingerprint: bytes  # its fingerprint
    machine: bytes | None  # the hash of the machine's id; None where there is none
    erased: frozenset[str]  # the metrics whose keys it has lost


def open_or_create(paths: StatePaths, lock: int, timeout: float) -> DeviceSecret:
    """Open the state, or create one where there is none; the caller holds the lock."""
    secret, marked = read_secret(paths.secret), _is_marked(lock)
    stored = _open_database(paths, timeout)
    if stored is None:
        if secret is not None or marked:
            raise _lost("state.db" if secret is not None else "secret, state.db", paths)
        secret = _begin(paths, timeout)
    else:
        secret = _confirm(paths, stored) if secret is None else secret
        if secret.fingerprint != stored.fingerprint:
            raise StateError(
                Fault.ALTERED,
                f"{paths.secret}: this is not the secret that the reports so far were made with; put that one back, or "
                "forget the state",
            )
        _bind(paths, secret, stored, timeout)
        discard_replaced(paths)
        gone = frozenset(metric for metric in stored.erased if secret.key(metric) is not None)
        if gone:  # the database needs these keys no longer
            secret = secret.without(gone)
            replace_secret(paths, secret)
    if not marked:
        os.lseek(lock, 0, os.SEEK_SET)
        os.write(lock, MARK)
        os.fsync(lock)
    return secret


def erase(paths: StatePaths, timeout: float = 5.0) -> None:
    """Delete the state with the person's choice: the next report, if any, comes from a new device.

    The application's name and its public registry stay: they hold nothing about the person, and `on` can show again
    what the application asks for.

    Others may be able to write to the folder. So only this user's own files without a second hard link are overwritten
    or emptied; anything else under a name of the state's is only unlinked.
    """
    if not paths.folder.is_dir():
        return
    with translate_errors(paths.folder):
        _unlink_planted(paths.lock)
    with translate_errors(paths.folder), fork_guard(), locked(paths.lock, timeout) as lock:
        for path in (paths.consent, *unfinished(paths.consent), *unfinished(paths.application)):
            path.unlink(missing_ok=True)
        # A process that waits for the database then sees an empty one, and discards its reports.
        _unlink_planted(paths.database)
        with contextlib.suppress(sqlite3.Error, StateError):
            refuse_foreign(paths)
            _empty(paths, timeout)
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
    """Unlink what is not a regular file, or has a second hard link."""
    with contextlib.suppress(FileNotFoundError):
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            path.unlink()


def _bind(paths: StatePaths, secret: DeviceSecret, stored: StoredSecret, timeout: float) -> None:
    """Refuse the id of another machine; store this one's where there is none."""
    here = machine_hash(secret.fingerprint)
    if here is None or stored.machine == here:
        return
    if stored.machine is not None:
        raise elsewhere(paths.folder)
    with connected(paths.database, "rw", timeout) as connection, committed(connection):
        connection.execute("INSERT OR IGNORE INTO about VALUES ('machine', ?)", (here,))


def _open_database(paths: StatePaths, timeout: float) -> StoredSecret | None:
    """Return what the database stores about the secret; None where it has no tables."""
    if not paths.database.exists():
        return None
    with connected(paths.database, "rw", timeout) as connection:
        # Without a write lock, which would have to wait for readers.
        problem = connection.execute("PRAGMA quick_check(1)").fetchone()
        if problem is not None and problem[0] != "ok":
            raise StateError(Fault.DAMAGED, f"{paths.database}: it is damaged ({problem[0]}); forget the state")
        if not database.has_tables(connection):
            return None
        about = dict(connection.execute("SELECT key, value FROM about WHERE key IN ('fingerprint', 'machine')"))
        erased = Lifetimes(connection).erased()
    fingerprint = about.get("fingerprint")
    if not isinstance(fingerprint, bytes):
        raise StateError(Fault.DAMAGED, f"{paths.database}: it does not say which secret it belongs to")
    return StoredSecret(fingerprint, about.get("machine"), erased)


def _begin(paths: StatePaths, timeout: float) -> DeviceSecret:
    paths.unconfirmed.unlink(missing_ok=True)  # nothing was ever reported with it
    secret = DeviceSecret.fresh()
    write_secret(paths.unconfirmed, secret)
    # Created here, so that it is never readable by others.
    os.close(os.open(paths.database, os.O_WRONLY | os.O_CREAT, PRIVATE))
    sync_folder(paths.folder)
    with connected(paths.database, "rw", timeout, synchronous="FULL") as connection:
        connection.execute(f"PRAGMA page_size = {database.PAGE}")
        with committed(connection):
            database.create_tables(connection)
            connection.execute("INSERT INTO about VALUES ('fingerprint', ?)", (secret.fingerprint,))
            if (here := machine_hash(secret.fingerprint)) is not None:
                connection.execute("INSERT INTO about VALUES ('machine', ?)", (here,))
    paths.unconfirmed.rename(paths.secret)
    sync_folder(paths.folder)
    return secret


def _confirm(paths: StatePaths, stored: StoredSecret) -> DeviceSecret:
    """Complete a creation that was interrupted after the fingerprint was committed."""
    secret = read_secret(paths.unconfirmed)
    if secret is None or secret.fingerprint != stored.fingerprint:
        raise _lost("secret", paths)
    paths.unconfirmed.rename(paths.secret)
    sync_folder(paths.folder)
    return secret


def _lost(what: str, paths: StatePaths) -> StateError:
    return StateError(
        Fault.LOST,
        f"{paths.folder}: {what} was there and is lost; restore it from a backup, or forget the state: "
        "a fresh secret would restart the privacy loss",
    )


def _is_marked(lock: int) -> bool:
    os.lseek(lock, 0, os.SEEK_SET)
    return bool(os.read(lock, len(MARK)))


def _empty(paths: StatePaths, timeout: float) -> None:
    with connected(paths.database, "rw", timeout) as connection, committed(connection):
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
        for (name,) in tables.fetchall():
            connection.execute(f'DROP TABLE "{name}"')
