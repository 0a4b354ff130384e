"""Lists this user's applications that have a state, with what each stored for the person's commands.

A program stores its name and its registry in the state when it first records, even before anyone was asked.
Both are public, and neither is about the person. With them `overstory on` can show what is asked for, and `status`
what it has cost, without a file from elsewhere.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from overstory.client.state.files import make_folder, refuse_foreign, write_atomically
from overstory.client.state.paths import StatePaths, check_app, states_folder
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.protocol.metrics import MetricRegistry

VERSION: Final = 1
NOT_LEFT: Final = (
    "no registry is kept in this state: the program has not run here since it began to leave one; start it once, or "
    "give --registry FILE"
)


@dataclass(frozen=True)
class Application:
    """The name and the registry that a program stored."""

    name: str | None = None  # the application's name; None where the state does not say it
    registry: str | None = None  # the text of its metric registry; None where there is none


def introduce(paths: StatePaths, name: str | None, registry: MetricRegistry) -> None:
    """Leave a program's name and registry in its state, unless they are there already.

    Parameters
    ----------
    name
        The application's name; None where it is not given: the one that is there stays.
    """
    name = name or read_application(paths).name
    content = json.dumps({"version": VERSION, "name": name, "registry": registry.text}).encode()
    with contextlib.suppress(OSError):
        if paths.application.read_bytes() == content:
            return
    refuse_foreign(paths)
    make_folder(paths.folder)
    write_atomically(paths.application, content, durable=False)  # one that a power failure empties is written again


def read_application(paths: StatePaths) -> Application:
    """Return what a program said of itself; what cannot be read is None."""
    try:
        read = json.loads(paths.application.read_bytes())
        name, registry = read["name"], read["registry"]
        if not (name is None or check_app(name)) or not isinstance(registry, str | None):
            return Application()
    except (OSError, ValueError, KeyError, TypeError, RecursionError, ParameterError):
        return Application()
    return Application(name, registry)


def left_registry(paths: StatePaths) -> MetricRegistry:
    """Return the registry that a program left in its state; it lists nothing where there is none."""
    from overstory.protocol.metrics import MetricRegistry, parse_registry

    refuse_foreign(paths)
    text = read_application(paths).registry
    return MetricRegistry({}, "") if text is None else parse_registry(text, source=os.fspath(paths.application))


def applications(environ: Mapping[str, str]) -> dict[str, StatePaths]:
    """Return the states in this user's usual place, by application; the one that ``OVERSTORY_STATE`` names, if set.

    A program that keeps its state in a folder of its own choice is not among them.
    """
    if chosen := environ.get("OVERSTORY_STATE"):
        paths = StatePaths(Path(chosen))
        return {read_application(paths).name or chosen: paths} if is_state(paths) else {}
    try:
        folders = sorted(states_folder(environ).iterdir())
    except OSError:
        return {}
    candidates = {folder.name: StatePaths(folder) for folder in folders if _may_be_named(folder.name)}
    return {name: paths for name, paths in candidates.items() if is_state(paths)}


def is_state(paths: StatePaths) -> bool:
    """Whether a folder holds a state, in whatever condition; not where all that is left of one is its lock."""
    try:
        names = set(os.listdir(paths.folder))  # noqa: PTH208 - names alone
    except OSError:
        return paths.folder.is_dir()  # who opens it will say why it cannot be read
    parts = paths.consent, paths.application, paths.database, paths.secret, paths.unconfirmed
    return any(part.name in names for part in parts) or (paths.lock.name in names and paths.lock.stat().st_size > 0)


def _may_be_named(name: str) -> bool:
    try:
        return bool(check_app(name))
    except ParameterError:
        return False
