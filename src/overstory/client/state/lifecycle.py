"""How a state begins, is opened again, and ends.

Under the folder's lock: the secret goes to ``secret.new``; its fingerprint is committed to state.db together with the
tables; ``secret.new`` becomes ``secret``; the lock file is marked. A crash between any two steps is completed or undone
by whoever comes next. A file that is missing later is therefore known to have been there: the state is lost, and says
so, instead of beginning anew with a fresh secret.

Whoever opens a state also makes the secret file what the database says: without the keys of metrics that are over, in
this version's form, and without the secret of version 1 once nothing needs it.

Which machine a state is on: a state that was copied to another one says so, and asks.

A copy of a state has the same secret. Whoever has the image that it was copied from, or any other copy, can read the
reports of all of them; so a copy records and sends nothing until somebody says what it is: the same device, moved
(``on --moved``), or another one, which begins again (``forget``).

What is kept is a hash of the machine's own id, keyed with the fingerprint of the device's secret. It is never sent, and
says nothing of the secret. A machine without an id (a container whose image leaves it empty) is not checked.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import stat
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from overstory.client.errors import Fault, StateError
from overstory.client.state import database
from overstory.client.state.database import committed, connected, damage, saying
from overstory.client.state.files import PRIVATE, is_own, locked, refuse_foreign, sync_folder, unfinished
from overstory.client.state.fork_guard import no_fork
from overstory.client.state.lifetimes import Lifetimes
from overstory.client.state.paths import StatePaths
from overstory.client.state.secret_file import (
    DeviceSecret,
    discard_replaced,
    overwrite_secret,
    read_secret,
    replace_secret,
    write_secret,
)

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
    """Return the machine's own id, or None where there is none that can be read; a process asks once."""
    found = _windows() if platform == "win32" else _mac() if platform == "darwin" else _linux()
    return None if found in UNSET else found


def mark_of(fingerprint: bytes) -> bytes | None:
    """Return what a state keeps of the machine that it is on; None where the machine has no id.

    Parameters
    ----------
    fingerprint
        Of the device's secret: the marks of two devices on one machine differ.
    """
    found = machine_id()
    if found is None:
        return None
    return hashlib.blake2b(found.encode(), digest_size=MARK_BYTES, key=fingerprint, person=b"machine").digest()


def elsewhere(folder: Path) -> StateError:
    """Return the error of a state that was begun on another machine."""
    return StateError(Fault.ELSEWHERE, f"{folder}: {ELSEWHERE}")


def _linux() -> str:
    for place in PLACES:
        try:
            found = place.read_text("ascii", "replace").strip()
        except OSError:
            continue
        if found not in UNSET:
            return found
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

    asked = ("/usr/sbin/ioreg", "-rd1", "-c", "IOPlatformExpertDevice")
    try:
        said = subprocess.run(asked, capture_output=True, text=True, timeout=5, check=True).stdout  # noqa: S603 - ours
    except (OSError, ValueError, subprocess.SubprocessError):  # ValueError: what it wrote is no text
        return ""
    found = re.search(r'"IOPlatformUUID" = "([^"]+)"', said)
    return "" if found is None else found[1]


MARK: Final = b"begun\n"


@dataclass(frozen=True)
class Known:
    """What the database says of the secret."""

    fingerprint: bytes  # its fingerprint
    machine: bytes | None  # the mark of the machine that it is on; None where there is none
    erased: frozenset[str]  # the metrics whose keys it has lost
    legacy: bool  # whether the secret of version 1 is needed


def open_or_create(paths: StatePaths, lock: int, timeout: float) -> DeviceSecret:
    """Open the state, or begin one where none was; the caller holds the lock.

    Parameters
    ----------
    timeout
        For how many seconds to wait for the database.
    """
    secret, marked = read_secret(paths.secret), _is_marked(lock)
    known = _open_database(paths, timeout, legacy=secret is None or secret.legacy is not None)
    if known is None:
        if secret is not None or marked:
            raise _lost("state.db" if secret is not None else "secret, state.db", paths)
        secret = _begin(paths, timeout)
    else:
        secret = _confirm(paths, known) if secret is None else secret
        if secret.fingerprint != known.fingerprint:
            raise StateError(
                Fault.ALTERED,
                f"{paths.secret}: this is not the secret that the reports so far were made with; put that one back, or "
                "forget the whole state",
            )
        _bind(paths, secret, known, timeout)
        secret = _brought_up_to_date(paths, secret, known)
    if not marked:
        os.lseek(lock, 0, os.SEEK_SET)
        os.write(lock, MARK)
        os.fsync(lock)
    return secret


def erase(paths: StatePaths, timeout: float = 5.0) -> None:
    """Delete the whole state, the person's choice included: the next report, if any, comes from another device.

    What the application left for the person's commands stays, its name and its public registry: nothing in it is of
    the person, and `on` can show again what is asked for.

    The folder may be one that others can write to. So nothing is overwritten or emptied but files of this user's own
    that have no second name; whatever else is there under a name of the state's loses that name alone.
    """
    if not paths.folder.is_dir():
        return
    with saying(paths.folder):
        _unlink_planted(paths.lock)
    with saying(paths.folder), no_fork(), locked(paths.lock, timeout) as lock:
        for path in (paths.consent, *unfinished(paths.consent), *unfinished(paths.application)):
            path.unlink(missing_ok=True)
        # A process that waits for the database finds it empty, and drops what it holds.
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
    """Take a name away from what is no plain file, or has a second name."""
    with contextlib.suppress(FileNotFoundError):
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            path.unlink()


def _bind(paths: StatePaths, secret: DeviceSecret, known: Known, timeout: float) -> None:
    """Refuse the mark of another machine; keep this one's where there is none."""
    here = mark_of(secret.fingerprint)
    if here is None or known.machine == here:
        return
    if known.machine is not None:
        raise elsewhere(paths.folder)
    with connected(paths.database, "rw", timeout) as connection, committed(connection):
        connection.execute("INSERT OR IGNORE INTO about VALUES ('machine', ?)", (here,))


def _brought_up_to_date(paths: StatePaths, secret: DeviceSecret, known: Known) -> DeviceSecret:
    """Return the secret as the database says that it is by now, and write it so where it is not."""
    discard_replaced(paths)
    gone = frozenset(metric for metric in known.erased if secret.key(metric) is not None)
    unneeded = secret.legacy is not None and not known.legacy
    if gone or unneeded or secret.version == 1:
        secret = secret.without(gone, legacy=known.legacy)
        replace_secret(paths, secret)
    return secret


def _open_database(paths: StatePaths, timeout: float, *, legacy: bool) -> Known | None:
    """Return what the database says of the secret, upgraded to this version; None where there are no tables.

    `legacy` is whether there may be a secret of version 1, of which the database says if it is needed.
    """
    if not paths.database.exists():
        return None
    with connected(paths.database, "rw", timeout) as connection:
        # Read without the right to write, which would have to wait for whoever reads.
        if found := damage(connection):
            raise StateError(Fault.DAMAGED, f"{paths.database}: it is damaged ({found}); forget the whole state")
        version = database.version_of(connection)
        if version == 0:
            return None
        if version != database.VERSION:
            with committed(connection):
                database.upgrade(connection, database.version_of(connection))
        about = dict(connection.execute("SELECT key, value FROM about WHERE key IN ('fingerprint', 'machine')"))
        keys = Lifetimes(connection)
        erased, legacy = keys.erased(), legacy and keys.needs_legacy()
    fingerprint = about.get("fingerprint")
    if not isinstance(fingerprint, bytes):
        raise StateError(Fault.DAMAGED, f"{paths.database}: it does not say which secret it belongs to")
    return Known(fingerprint, about.get("machine"), erased, legacy)


def _begin(paths: StatePaths, timeout: float) -> DeviceSecret:
    paths.unconfirmed.unlink(missing_ok=True)  # nothing was ever reported with it
    secret = DeviceSecret.fresh()
    write_secret(paths.unconfirmed, secret)
    # Made by hand, so that it is private from its first moment.
    os.close(os.open(paths.database, os.O_WRONLY | os.O_CREAT, PRIVATE))
    sync_folder(paths.folder)
    with connected(paths.database, "rw", timeout, synchronous="FULL") as connection, committed(connection):
        database.upgrade(connection, 0)
        connection.execute("INSERT INTO about VALUES ('fingerprint', ?)", (secret.fingerprint,))
        if (here := mark_of(secret.fingerprint)) is not None:
            connection.execute("INSERT INTO about VALUES ('machine', ?)", (here,))
    paths.unconfirmed.rename(paths.secret)
    sync_folder(paths.folder)
    return secret


def _confirm(paths: StatePaths, known: Known) -> DeviceSecret:
    """Complete a beginning that was cut off after the database knew the secret."""
    secret = read_secret(paths.unconfirmed)
    if secret is None or secret.fingerprint != known.fingerprint:
        raise _lost("secret", paths)
    paths.unconfirmed.rename(paths.secret)
    sync_folder(paths.folder)
    return secret


def _lost(what: str, paths: StatePaths) -> StateError:
    return StateError(
        Fault.LOST,
        f"{paths.folder}: {what} was there and is lost; restore it from a backup, or forget the whole state: "
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
