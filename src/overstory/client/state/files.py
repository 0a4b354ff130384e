"""The files of a device's state: where they are, whose, which applications have some, and how they are written.

A file exists complete or not at all, readable by its owner alone. What is written over is a file of this user's own
with one name, and no link: in a folder that others can write to, a name may lead to any other file of the user's.

Whoever plants a secret can read the reports made with it, and whoever plants a consent speaks for the person. So the
files belong to the user that the program runs as, and nobody else may write to them or to their folder, or read the
secret or the database. Nothing is checked on Windows, which keeps no owner and no mode that Python can read.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final
from urllib.parse import urlsplit

from overstory.client.outcomes import Fault, StateError
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.protocol.metrics import MetricRegistry


class StatePaths:
    """The files of one application's state."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # The device's secret. One that the database does not know yet; one on its way to replace the one that is there;
        # one of before a key was destroyed: these three exist for a moment, or after a crash in it.
        self.secret, self.unconfirmed = folder / "secret", folder / "secret.new"
        self.next, self.replaced = folder / "secret.next", folder / "secret.old"
        # What was reported and what waits; the person's choice.
        self.database, self.consent = folder / "state.db", folder / "consent.json"
        # What the application says of itself, all public; what processes lock: its content marks a begun state.
        self.application, self.lock = folder / "application.json", folder / "lock"

    def __repr__(self) -> str:
        return f"StatePaths({os.fspath(self.folder)!r})"


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
    import msvcrt

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
    import fcntl

    def _try(handle: int) -> bool:
        try:
            # flock and not lockf: it belongs to this descriptor, so two threads of one process exclude each other.
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _release(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_UN)


ROOT: Final = 0
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def refuse_foreign(paths: StatePaths) -> None:
    """Raise StateError when what is there of a state is not this user's own, or is open to others."""
    user = getattr(os, "geteuid", lambda: None)()
    if user is None:
        return
    for problem in _problems(paths, user):
        raise StateError(Fault.FOREIGN, problem)


def _problems(paths: StatePaths, user: int) -> Iterator[str]:
    folder = _status(paths.folder, follow=False)
    if folder is None:
        return
    if stat.S_ISLNK(folder.st_mode):
        yield f"{paths.folder}: it is a link, and a state lies in its folder itself: name the folder that it leads to"
        return
    if folder.st_uid not in (user, ROOT):
        yield _not_yours(paths.folder, folder, user)
    if folder.st_mode & _OTHERS_WRITE:
        by_all = folder.st_mode & stat.S_IWOTH
        yield _open(paths.folder, folder, "changed", "700" if by_all else "g-w")
    public = paths.consent, paths.application, paths.lock
    for path in (paths.secret, paths.unconfirmed, paths.database, *public):
        file = _status(path)
        if file is None:
            continue
        if file.st_uid != user:
            yield _not_yours(path, file, user)
        secret = path not in public
        if file.st_mode & (_OTHERS if secret else _OTHERS_WRITE):
            yield _open(path, file, "read or changed" if secret else "changed", "600")


def _status(path: Path, *, follow: bool = True) -> os.stat_result | None:
    try:
        return os.stat(path, follow_symlinks=follow)  # noqa: PTH116 - every look at a state begins with six of these
    except OSError:
        return None  # who opens it will say so


def _not_yours(path: Path, status: os.stat_result, user: int) -> str:
    return (
        f"{path}: it belongs to user {status.st_uid}, and this program runs as user {user}; a state is used by its "
        "own user alone: name another folder, or give this one back to its user"
    )


def _open(path: Path, status: os.stat_result, may: str, mode: str) -> str:
    now = f"{stat.S_IMODE(status.st_mode):04o}"
    return (
        f"{path}: it can be {may} by other users (mode {now}); if nobody else has used it, "
        f"close it with: chmod {mode} {path}; where that changes nothing, the file system keeps no modes: keep the "
        "state on another one"
    )


_APP: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def check_app(app: str) -> str:
    """Return `app`, or raise ParameterError unless it can name a folder on every platform."""
    if not isinstance(app, str) or not _APP.fullmatch(app):
        raise ParameterError(
            f"app = {app!r}: give 1 to 64 letters, digits, dots, dashes or underscores, a letter or digit first"
        )
    return app


def state_folder(app: str, environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return ``OVERSTORY_STATE``, if set, or ``overstory/<app>`` in the platform's place for state."""
    check_app(app)
    if chosen := environ.get("OVERSTORY_STATE"):
        return Path(chosen)
    return states_folder(environ, platform) / app


def states_folder(environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return the folder that holds the states of all applications of this user, where none is named."""
    if platform == "win32":
        local = environ.get("LOCALAPPDATA")
        place = Path(local) if local else _home(environ, "USERPROFILE") / "AppData" / "Local"
    elif platform == "darwin":
        place = _home(environ, "HOME") / "Library" / "Application Support"
    else:
        chosen = environ.get("XDG_STATE_HOME", "")
        # The specification of base directories: a relative path is invalid and ignored.
        place = Path(chosen) if chosen.startswith("/") else _home(environ, "HOME") / ".local" / "state"
    return place / "overstory"


def _home(environ: Mapping[str, str], name: str) -> Path:
    if home := environ.get(name):
        return Path(home)
    try:
        return Path.home()
    except RuntimeError:  # no home in the environment and none in the system's list of users
        raise ParameterError(f"no home folder is known: set {name}, or OVERSTORY_STATE to a folder") from None


def policy_file(environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return where an administrator's policy is looked for."""
    if platform == "win32":
        return Path(environ.get("PROGRAMDATA") or r"C:\ProgramData") / "overstory" / "policy.json"
    if platform == "darwin":
        return Path("/Library/Application Support/overstory/policy.json")
    return Path("/etc/overstory/policy.json")


VERSION: Final = 1
NOT_LEFT: Final = (
    "no registry is kept in this state: the program has not run here since it began to leave one; start it once, or "
    "give --registry FILE"
)


@dataclass(frozen=True)
class Application:
    """What a program says of itself, all of it public."""

    name: str | None = None  # the application's name; None where the state does not say it
    registry: str | None = None  # the text of its metric registry; None where there is none
    server: str | None = None  # the collector that it sends to, as scheme, host and port; None where it has none yet


def introduce(paths: StatePaths, name: str | None, registry: MetricRegistry, server: str | None) -> None:
    """Leave what a program says of itself in its state, unless it is there; a name or collector that is None stays."""
    left = read_application(paths)
    about = {"version": VERSION, "name": name or left.name, "registry": registry.text, "server": server or left.server}
    content = json.dumps(about).encode()
    with contextlib.suppress(OSError):
        if paths.application.read_bytes() == content:
            return
    refuse_foreign(paths)
    make_folder(paths.folder)
    write_atomically(paths.application, content, durable=False)  # one that a power failure empties is written again


def read_application(paths: StatePaths) -> Application:
    """Return what a program stored about itself; None where it cannot be read."""
    try:
        read = json.loads(paths.application.read_bytes())
        name, registry, server = read["name"], read["registry"], read["server"]
        if not (name is None or check_app(name)) or not all(
            isinstance(text, str | None) for text in (registry, server)
        ):
            return Application()
        _ = urlsplit(server or "").port  # ValueError where it is no address
    except (OSError, ValueError, KeyError, TypeError, RecursionError, ParameterError):
        return Application()
    return Application(name, registry, server)


def left_registry(paths: StatePaths) -> MetricRegistry:
    """Return the registry that a program left in its state; it lists nothing where there is none."""
    from overstory.protocol.metrics import MetricRegistry, parse_registry

    refuse_foreign(paths)
    text = read_application(paths).registry
    return MetricRegistry({}, "") if text is None else parse_registry(text, source=os.fspath(paths.application))


def applications(environ: Mapping[str, str]) -> dict[str, StatePaths]:
    """Return the states in this user's usual place, by application; the one that ``OVERSTORY_STATE`` names, if set."""
    if chosen := environ.get("OVERSTORY_STATE"):
        paths = StatePaths(Path(chosen))
        return {read_application(paths).name or chosen: paths} if is_state(paths) else {}
    try:
        folders = sorted(states_folder(environ).iterdir())
    except OSError:
        return {}
    candidates = {folder.name: StatePaths(folder) for folder in folders if _APP.fullmatch(folder.name)}
    return {name: paths for name, paths in candidates.items() if is_state(paths)}


def is_state(paths: StatePaths) -> bool:
    """Whether a folder holds a state, damaged or not; False where only its lock is left."""
    try:
        names = set(os.listdir(paths.folder))  # noqa: PTH208 - names alone
    except OSError:
        return paths.folder.is_dir()  # who opens it will say why it cannot be read
    parts = paths.consent, paths.application, paths.database, paths.secret, paths.unconfirmed
    return any(part.name in names for part in parts) or (paths.lock.name in names and paths.lock.stat().st_size > 0)
