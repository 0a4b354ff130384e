"""Whose a state folder is: one that somebody else made, or can change or read, is refused, as ssh refuses such a key.

Whoever plants a secret can read the reports made with it, and whoever plants a consent speaks for the person. So the
files belong to the user that the program runs as, nobody else may write to them or to their folder, and nobody else may
read the secret or the database. The folder is that user's or the administrator's, as a mount point is. One that is
reached by a link is judged where it really is, and the link's owner is either of the two. The folders above are not
judged: who can put another folder in this one's place is found out by the owner of its files.

Windows keeps no owner and no mode that Python can read, and makes folders below the user's own for that user alone:
nothing is checked there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from overstory.client.errors import Fault, StateError
from overstory.client.paths import StatePaths

ROOT: Final = 0
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def refuse_foreign(paths: StatePaths) -> None:
    """Raise StateError when what is there of a state is not this user's own, or is open to others.

    Raises
    ------
    StateError
        `foreign`, with what is wrong, where, and what would be right.
    """
    user = getattr(os, "geteuid", lambda: None)()
    if user is None:
        return
    for problem in _problems(paths, user):
        raise StateError(Fault.FOREIGN, problem)


def _problems(paths: StatePaths, user: int) -> Iterator[str]:
    folder = _status(paths.folder, follow=False)
    if folder is not None and stat.S_ISLNK(folder.st_mode):
        if folder.st_uid not in (user, ROOT):
            yield _not_yours(paths.folder, folder, user, "the link")
        folder = _status(paths.folder)
    if folder is None:
        return
    if folder.st_uid not in (user, ROOT):
        yield _not_yours(paths.folder, folder, user, "it")
    if folder.st_mode & _OTHERS_WRITE:
        by_all = folder.st_mode & stat.S_IWOTH
        yield _open(paths.folder, folder, "changed", "700" if by_all else "g-w")
    public = paths.consent, paths.application, paths.lock
    for path in (paths.secret, paths.unconfirmed, paths.database, *public):
        file = _status(path)
        if file is None:
            continue
        if file.st_uid != user:
            yield _not_yours(path, file, user, "it")
        secret = path not in public
        if file.st_mode & (_OTHERS if secret else _OTHERS_WRITE):
            yield _open(path, file, "read or changed" if secret else "changed", "600")


def _status(path: Path, *, follow: bool = True) -> os.stat_result | None:
    try:
        return os.stat(path, follow_symlinks=follow)  # noqa: PTH116 - every look at a state begins with six of these
    except OSError:
        return None  # who opens it will say so


def _not_yours(path: Path, found: os.stat_result, user: int, what: str) -> str:
    return (
        f"{path}: {what} belongs to user {found.st_uid}, and this program runs as user {user}; a state is used by its "
        "own user alone: name another folder, or give this one back to its user"
    )


def _open(path: Path, found: os.stat_result, may: str, mode: str) -> str:
    return (
        f"{path}: it can be {may} by other users (mode {stat.S_IMODE(found.st_mode):04o}); if nobody else has used it, "
        f"close it with: chmod {mode} {path}; where that changes nothing, the file system keeps no modes: keep the "
        "state on another one"
    )
