"""One process at a time: a lock on a file, released by the system when its process dies."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from overstory.client.atomic import NO_LINK
from overstory.client.errors import Fault, StateError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_FAR: Final = 1 << 30  # Windows forbids reading locked bytes: the one that is locked lies past all content
_PAUSES: Final = (0.001, 0.002, 0.005, 0.01, 0.02)


@contextmanager
def locked(path: Path, timeout: float) -> Iterator[int]:
    """Hold the lock of `path`, which is made if need be; what is yielded is its open descriptor.

    Parameters
    ----------
    path
        The file.
    timeout
        For how many seconds to try.

    Raises
    ------
    StateError
        `busy` when another holds it for so long.
        `foreign` when it is a link: what it leads to is no lock, and may be the user's own file.
    OSError
        When the file cannot be opened.
    """
    handle = _opened(path)
    try:
        _take(handle, path, timeout)
        try:
            yield handle
        finally:
            _release(handle)
    finally:
        os.close(handle)


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | NO_LINK, 0o600)
    except OSError:
        if path.is_symlink():
            raise StateError(Fault.FOREIGN, f"{path}: it is a link, and a lock is none: delete it") from None
        raise


def _take(handle: int, path: Path, timeout: float) -> None:
    until, attempt = time.monotonic() + timeout, 0
    while not _try(handle):
        if time.monotonic() >= until:
            raise StateError(Fault.BUSY, f"{path}: another process has held this lock for {timeout:g} seconds")
        time.sleep(_PAUSES[min(attempt, len(_PAUSES) - 1)])
        attempt += 1


if sys.platform == "win32":

    def _try(handle: int) -> bool:
        try:
            os.lseek(handle, _FAR, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _release(handle: int) -> None:
        os.lseek(handle, _FAR, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)

else:

    def _try(handle: int) -> bool:
        try:
            # flock and not lockf: it belongs to this descriptor, so two threads of one process exclude each other.
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _release(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_UN)
