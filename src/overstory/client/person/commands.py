"""The person's commands: on, local, off, forget, status, view. For `python -m overstory.client` and for `overstory`.

A program that embeds the client can offer them as its own: ``main(argv, app="editor", registry=registry)``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from overstory.client.outcomes import StateError
from overstory.client.person.actions import choose, forget, show_all, show_status, show_view, turn_all_off
from overstory.client.person.command_line import add_commands
from overstory.client.person.question import CommandContext
from overstory.client.state.paths import (
    NOT_LEFT,
    StatePaths,
    applications,
    is_state,
    left_registry,
    read_application,
    state_folder,
    states_folder,
)
from overstory.presentation.streams import PIPE_CLOSED, close_quietly, write_anything
from overstory.protocol.errors import FormatError, OverstoryError, ParameterError

if TYPE_CHECKING:
    from overstory.protocol.metrics import MetricRegistry

BAD_INPUT: Final = 2
INTERRUPTED: Final = 130


def run(
    args: argparse.Namespace,
    *,
    registry: MetricRegistry | None = None,
    environ: Mapping[str, str] | None = None,
    out: TextIO | None = None,
) -> int:
    """Run the command that was parsed; return the exit status."""
    where, to = os.environ if environ is None else environ, sys.stdout if out is None else out
    given = _given_registry(args, registry)
    chosen = None if getattr(args, "all", False) else _chosen(args, where, begins=given is not None)
    if chosen is None:
        contexts = {name: _command_context(name, paths, given, where, to) for name, paths in _all(args, where).items()}
        return turn_all_off(contexts, args, to) if args.command == "off" else show_all(contexts, args, to)
    context = _command_context(*chosen, given, where, to)
    if args.app is None and args.state is None and not args.json:
        context.say(f"application: {context.name or context.paths.folder}")
    if args.command in {"status", "view"}:
        return show_status(context, args) if args.command == "status" else show_view(context, args)
    return forget(context, args) if args.command == "forget" else choose(args.command, context, args)


def main(
    argv: Sequence[str] | None = None,
    *,
    app: str | None = None,
    registry: MetricRegistry | None = None,
    prog: str = "python -m overstory.client",
    environ: Mapping[str, str] | None = None,
) -> int:
    """Run one command and return the exit status: 0, or 2 for bad input."""
    parser = argparse.ArgumentParser(prog=prog, description="See what leaves this machine, and decide.")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    add_commands(subparsers, prog, app=app, embedded=registry is not None)
    write_anything()
    try:
        status = run(parser.parse_args(argv), registry=registry, environ=environ)
        sys.stdout.flush()
    except SystemExit as leaving:
        return int(leaving.code or 0)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        close_quietly()
        return PIPE_CLOSED
    except OverstoryError as error:
        sys.stderr.write(f"{prog}: error: {error}\n")
    except OSError as error:
        named = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        sys.stderr.write(f"{prog}: error: {named}{error.strerror or error}\n")
    else:
        return status
    return BAD_INPUT


def _chosen(
    args: argparse.Namespace, environ: Mapping[str, str], *, begins: bool
) -> tuple[str | None, StatePaths] | None:
    """Return the application that is meant, and its state; None where a table of all is."""
    may_begin = begins and args.command not in {"off", "forget", "status"}
    if args.state is not None:
        paths = StatePaths(Path(args.state))
        if not (begins or args.command == "forget" or is_state(paths)):
            raise ParameterError(f"{paths.folder}: there is no state here{_how_to_begin(args)}")
        return args.app or read_application(paths).name, paths
    if args.app is not None:
        paths = StatePaths(state_folder(args.app, environ))
        name = read_application(paths).name if environ.get("OVERSTORY_STATE") else None
        if args.app != args.own_app and not (may_begin or (is_state(paths) and name in {None, args.app})):
            raise ParameterError(_unknown(args, environ))
        return args.app, paths
    states = applications(environ)
    if len(states) == 1:
        return next(iter(states.items()))
    if args.command == "status" and not begins:
        return None
    if not states:
        raise ParameterError(f"{_none(environ)}; where a program keeps its own elsewhere, give --state DIR")
    raise ParameterError(f"Which application? Use --app NAME (here: {', '.join(states)}).")


def _unknown(args: argparse.Namespace, environ: Mapping[str, str]) -> str:
    here = ", ".join(applications(environ))
    return f"no application {args.app!r} has a state here{_how_to_begin(args)}; " + (
        f"there are: {here}" if here else "and no other has one"
    )


def _how_to_begin(args: argparse.Namespace) -> str:
    return " (give --registry FILE to begin one)" if args.command in {"on", "local"} else ""


def _none(environ: Mapping[str, str]) -> str:
    folder = environ.get("OVERSTORY_STATE") or states_folder(environ)
    return f"no application has a state here, in {folder}"


def _all(args: argparse.Namespace, environ: Mapping[str, str]) -> dict[str, StatePaths]:
    for name in ("app", "state", "registry"):
        if getattr(args, name, None) is not None:
            raise ParameterError(f"--all is every application: leave --{name} out")
    return applications(environ)


def _command_context(
    name: str | None, paths: StatePaths, given: MetricRegistry | None, environ: Mapping[str, str], out: TextIO
) -> CommandContext:
    """Return what a command works on: with the registry that was given, or the one that the program left."""
    from overstory.protocol.metrics import MetricRegistry

    if given is not None:
        return CommandContext(name, paths, given, environ, out)
    missing: str | None = None
    registry = MetricRegistry({}, "")
    try:
        registry = left_registry(paths)
    except (FormatError, StateError) as error:
        missing = str(error)
    return CommandContext(name, paths, registry, environ, out, missing or (None if registry else NOT_LEFT))


def _given_registry(args: argparse.Namespace, embedded: MetricRegistry | None) -> MetricRegistry | None:
    from overstory.protocol.metrics import RegistryError, load_registry

    if embedded is not None or args.registry is None:
        return embedded
    registry = load_registry(args.registry, read_candidates=False)
    if args.command == "view":
        # What a program ships may lack its candidate files: a device has no use for them.
        with contextlib.suppress(RegistryError):
            registry = load_registry(args.registry)
    return registry
