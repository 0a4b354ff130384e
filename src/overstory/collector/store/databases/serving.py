"""The lock of the one collector that serves a file: the system releases it however the process ends."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from overstory.collector.store.databases.database import StoreError

_log: Final = logging.getLogger("overstory.collector")


def lock_for_serving(store: Path, url: str) -> int | None:
    """Lock a small file beside the store's, and return it open; None where no lock can be had on this disk.

    The store's own file cannot be used for that: closing it once would release SQLite's locks.

    Raises
    ------
    StoreError
        When another process has the lock.
    """
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
