"""Files that exist complete or not at all, readable by their owner alone.

What is written over is a file of this user's own with one name, and no link: in a folder that others can write to, a
name may lead to any other file of the user's.

One process at a time: a lock on a file, released by the system when its process dies.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from overstory.client.outcomes import Fault, StateError

PRIVATE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700
_BINARY: Final = getattr(os, "O_BINARY", 0)  # Windows would translate line ends
NO_LINK: Final[int] = getattr(os, "O_NOFOLLOW", 0)
_FOLDERS_OPEN: Final = hasattr(os, "O_DIRECTORY")


def make_folder(folder: Path) -> None:
    """Make `folder`, closed to others; its parents as the system makes them."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


def create(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Write a new file and, by default, wait until it is on the disk; a half-written file is removed."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, PRIVATE)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink()
        raise


def write_atomically(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Replace `path` by a file of `content`: a crash leaves the old or the new one (not durable: maybe empty)."""
    fresh = path.with_name(f"{path.name}.{os.urandom(8).hex()}.new")
    create(fresh, content, durable=durable)
    try:
        fresh.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise
    if durable:
        sync_folder(path.parent)


def unfinished(path: Path) -> Iterator[Path]:
    """Yield the temporary files that `write_atomically` left next to `path` when it was killed."""
    yield from path.parent.glob(f"{path.name}.*.new")


def is_own(status: os.stat_result) -> bool:
    """Whether the result of `lstat` or `fstat` is a plain file of this user's, with no second name."""
    user = getattr(os, "geteuid", lambda: status.st_uid)()
    return stat.S_ISREG(status.st_mode) and status.st_nlink <= 1 and status.st_uid == user


@contextmanager
def opened_own(path: Path) -> Iterator[BinaryIO]:
    """Open a file of this user's own, to read it and to write over it."""
    planted = PermissionError(errno.EPERM, "it is a link, another user's, or has a second name", os.fspath(path))
    if not is_own(path.lstat()):
        raise planted
    with os.fdopen(os.open(path, os.O_RDWR | _BINARY | NO_LINK), "r+b") as file:
        if not is_own(os.fstat(file.fileno())):  # the name leads elsewhere by now
            raise planted
        yield file


def overwrite(path: Path, content: bytes) -> None:
    """Write over a file that is there and at least as long, which needs no room; a crash may leave some of both."""
    with opened_own(path) as file:
        if file.seek(0, os.SEEK_END) < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fspath(path))
        file.seek(0)
        file.write(content)
        file.truncate()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where the platform can."""
    if not _FOLDERS_OPEN:
        return
    with contextlib.suppress(OSError):  # some network file systems refuse; the file itself is written
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_FAR: Final = 1 << 30  # Windows forbids reading locked bytes: the locked one is past all content
_PAUSES: Final = (0.001, 0.002, 0.005, 0.01, 0.02)


@contextmanager
def locked(path: Path, timeout: float) -> Iterator[int]:
    """Hold the lock of `path`, which is made if need be; what is yielded is its open descriptor."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | NO_LINK, 0o600)
    except OSError:
        if path.is_symlink():
            raise StateError(Fault.FOREIGN, f"{path}: it is a link, and a lock is none: delete it") from None
        raise
    try:
        until, attempt = time.monotonic() + timeout, 0
        while not _try(handle):
            if time.monotonic() >= until:
                raise StateError(Fault.BUSY, f"{path}: another process has held this lock for {timeout:g} seconds")
            time.sleep(_PAUSES[min(attempt, len(_PAUSES) - 1)])
            attempt += 1
        try:
            yield handle
        finally:
            _release(handle)
    finally:
        os.close(handle)


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
