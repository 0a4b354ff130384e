"""Where a device's state lives, on each platform."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from overstory.protocol.errors import ParameterError

_APP: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class StatePaths:
    """The files of one application's state."""

    folder: Path

    @cached_property
    def secret(self) -> Path:
        """The device's secret."""
        return self.folder / "secret"

    @cached_property
    def unconfirmed(self) -> Path:
        """A secret that the database does not know yet; it exists for a moment, or after a crash in that moment."""
        return self.folder / "secret.new"

    @cached_property
    def next(self) -> Path:
        """A secret on its way to replace the one that is there; it exists for a moment, or after a crash in it."""
        return self.folder / "secret.next"

    @cached_property
    def replaced(self) -> Path:
        """A secret of before a key was destroyed; it exists for a moment, or after a crash in that moment."""
        return self.folder / "secret.old"

    @cached_property
    def database(self) -> Path:
        """What was reported and what waits."""
        return self.folder / "state.db"

    @cached_property
    def consent(self) -> Path:
        """The person's choice."""
        return self.folder / "consent.json"

    @cached_property
    def application(self) -> Path:
        """The application's name and its registry, both public."""
        return self.folder / "application.json"

    @cached_property
    def lock(self) -> Path:
        """What processes lock; its content marks a state that has begun."""
        return self.folder / "lock"


def check_app(app: str) -> str:
    """Return `app`, or raise ParameterError unless it can name a folder on every platform.

    Examples
    --------
    >>> check_app("text-editor")
    'text-editor'
    """
    if not isinstance(app, str) or not _APP.fullmatch(app):
        raise ParameterError(
            f"app = {app!r}: give 1 to 64 letters, digits, dots, dashes or underscores, a letter or digit first"
        )
    return app


def state_folder(app: str, environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return the folder of an application's state.

    ``OVERSTORY_STATE`` names it, if set. Otherwise it is ``overstory/<app>`` in the platform's place for state.

    Examples
    --------
    >>> state_folder("editor", {"HOME": "/home/ann"}, "linux").as_posix()
    '/home/ann/.local/state/overstory/editor'
    >>> state_folder("editor", {"OVERSTORY_STATE": "/srv/state"}, "linux").as_posix()
    '/srv/state'
    """
    check_app(app)
    if chosen := environ.get("OVERSTORY_STATE"):
        return Path(chosen)
    return states_folder(environ, platform) / app


def states_folder(environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return the folder that holds the states of all applications of this user, where none is named."""
    return _platform_folder(environ, platform) / "overstory"


def _platform_folder(environ: Mapping[str, str], platform: str) -> Path:
    if platform == "win32":
        local = environ.get("LOCALAPPDATA")
        return Path(local) if local else _home(environ, "USERPROFILE") / "AppData" / "Local"
    if platform == "darwin":
        return _home(environ, "HOME") / "Library" / "Application Support"
    chosen = environ.get("XDG_STATE_HOME", "")
    # The specification of base directories: a relative path is invalid and ignored.
    return Path(chosen) if chosen.startswith("/") else _home(environ, "HOME") / ".local" / "state"


def _home(environ: Mapping[str, str], name: str) -> Path:
    if home := environ.get(name):
        return Path(home)
    try:
        return Path.home()
    except RuntimeError:  # no home in the environment and none in the system's list of users
        raise ParameterError(f"no home folder is known: set {name}, or OVERSTORY_STATE to a folder") from None


def policy_file(environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return where an administrator's policy is looked for.

    Examples
    --------
    >>> policy_file({}, "linux").as_posix()
    '/etc/overstory/policy.json'
    """
    if platform == "win32":
        return Path(environ.get("PROGRAMDATA") or r"C:\ProgramData") / "overstory" / "policy.json"
    if platform == "darwin":
        return Path("/Library/Application Support/overstory/policy.json")
    return Path("/etc/overstory/policy.json")
