"""Files that are there as a whole or not at all, readable by their owner alone.

What is written over is a file of this user's own with one name, and no link: in a folder that others can write to, a
name may lead to any other file of the user's.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

PRIVATE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700
_BINARY: Final = getattr(os, "O_BINARY", 0)  # Windows would translate line ends
NO_LINK: Final[int] = getattr(os, "O_NOFOLLOW", 0)
_FOLDERS_OPEN: Final = hasattr(os, "O_DIRECTORY")


def make_folder(folder: Path) -> None:
    """Make `folder`, closed to others; its parents as the system makes them.

    Raises
    ------
    OSError
        When it cannot be made.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


def create(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Write a new file and, unless told otherwise, wait until it is on the disk; half a file is removed again.

    Raises
    ------
    OSError
        When the file exists, or cannot be written.
    """
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
    """Replace `path` by a file of `content`: a crash leaves the old one or the new one.

    Parameters
    ----------
    path, content
        The file, and what it is to hold.
    durable
        Whether to wait until it is on the disk. Otherwise a power failure may leave an empty file.

    Raises
    ------
    OSError
        When it cannot be written; the old file is as it was.
    """
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
    """Yield what `write_atomically` left beside `path` where it was killed."""
    yield from path.parent.glob(f"{path.name}.*.new")


def is_own(found: os.stat_result) -> bool:
    """Whether what `lstat` or `fstat` found is a plain file of this user's own, which no other name leads to."""
    user = getattr(os, "geteuid", lambda: found.st_uid)()
    return stat.S_ISREG(found.st_mode) and found.st_nlink <= 1 and found.st_uid == user


@contextmanager
def opened_own(path: Path) -> Iterator[BinaryIO]:
    """Open a file of this user's own, to read it and to write over it.

    Raises
    ------
    OSError
        When it cannot be opened, is a link or another user's, or has a second name.
    """
    planted = PermissionError(errno.EPERM, "it is a link, another user's, or has a second name", os.fspath(path))
    if not is_own(path.lstat()):
        raise planted
    with os.fdopen(os.open(path, os.O_RDWR | _BINARY | NO_LINK), "r+b") as file:
        if not is_own(os.fstat(file.fileno())):  # the name leads elsewhere by now
            raise planted
        yield file


def overwrite(path: Path, content: bytes) -> None:
    """Write over a file that is there and at least as long, which needs no room; a crash may leave some of both.

    Raises
    ------
    OSError
        When there is no such file, or it cannot be written.
    """
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
