"""A file that gets its name when it is complete, and what is left of one whose process was killed."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from overstory.collector.store.databases.connection import create_private_file
from overstory.collector.store.databases.database import StoreError
from overstory.files.io import sync

BESIDE: Final = ("", "-journal", "-wal", "-shm")
"""What SQLite adds to the name of a database."""


@contextmanager
def renamed_when_complete(path: Path) -> Iterator[Path]:
    """Give an empty file with a temporary name; it gets its own name when it is complete and on the disk.

    What an earlier process left of the same file, because it was killed, is removed.
    """
    if path.exists():
        raise StoreError(f"{path}: this file exists: give the backup another name")
    if not path.parent.is_dir():
        raise StoreError(f"{path}: there is no folder {path.parent}")
    remove_leftovers(path)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    held = None
    try:
        create_private_file(part)
        if not part.is_file():
            raise StoreError(f"{path}: no file can be made in {path.parent}: check its permissions")
        held = _lock(part)
        yield part
        sync(part)
        part.rename(path)
        sync(path.parent)
    finally:
        _remove(part)
        if held is not None:
            os.close(held)


def remove_leftovers(path: Path) -> None:
    """Remove the partial copies of a file that no process writes any more."""
    pattern = re.compile(rf"(\.{re.escape(path.name)}\.[0-9a-f]{{8}})(?:{'|'.join(BESIDE[1:])})?")
    found = {match[1] for name in os.listdir(path.parent) if (match := pattern.fullmatch(name))}  # noqa: PTH208 - names
    for part in map(path.with_name, sorted(found)):
        held = None
        with suppress(OSError):  # somebody else's, or just removed
            held = _lock(part) if part.exists() else None
            if held is not None or not part.exists():
                _remove(part)
        if held is not None:
            os.close(held)


def _lock(part: Path) -> int | None:
    """Return the file, open and locked until it is closed or the process ends; None where it cannot be locked."""
    try:
        import fcntl
    except ImportError:  # Windows, where nobody can remove a file that is open
        return None
    file = os.open(part, os.O_RDWR)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another process writes it, or a file system without locks
        os.close(file)
        return None
    return file


def _remove(part: Path) -> None:
    for end in BESIDE:
        Path(f"{part}{end}").unlink(missing_ok=True)
