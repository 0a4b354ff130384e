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
from typing import TYPE_CHECKING, Any, Final, TextIO

from overstory.client.choosing import choose, forget
from overstory.client.looking import show_status, show_view
from overstory.client.output import PIPE_CLOSED, close_quietly, write_anything
from overstory.client.paths import StatePaths, state_folder
from overstory.client.setting import Setting
from overstory.protocol.errors import OverstoryError, ParameterError

if TYPE_CHECKING:
    from overstory.protocol.metrics import MetricRegistry

BAD_INPUT: Final = 2
INTERRUPTED: Final = 130
COMMANDS: Final = ("on", "local", "off", "forget", "status", "view")

SUMMARIES: Final = {
    "on": "agree to report: shows what is asked for, and records that you agree",
    "local": "record on this machine alone: you can look at it, and none of it is ever sent",
    "off": "record nothing and send nothing",
    "forget": "delete the program's secret on this machine and everything that was recorded",
    "status": "say what may be recorded and why, what waits, and what it has cost",
    "view": "show what was recorded, exactly what is sent, and what that tells",
}
EXAMPLES: Final = {
    "on": "{0} on --app editor --registry metrics.toml",
    "local": "{0} local --app editor --registry metrics.toml",
    "off": "{0} off --app editor",
    "forget": "{0} forget --app editor --yes",
    "status": "{0} status --app editor --json",
    "view": "{0} view --app editor --registry metrics.toml --explain colour=green --html view.html",
}


def add_commands(subparsers: Any, prog: str = "overstory", *, app: str | None = None, embedded: bool = False) -> None:
    """Add the six commands to a parser's subparsers.

    Parameters
    ----------
    subparsers
        What `argparse.ArgumentParser.add_subparsers` returned.
    prog
        How the program is called, for the examples.
    app
        The application, where it is known.
    embedded
        Whether the program brings its own registry.
    """
    for name in COMMANDS:
        summary = SUMMARIES[name]
        parser: argparse.ArgumentParser = subparsers.add_parser(
            name,
            help=summary,
            description=f"{summary[:1].upper()}{summary[1:]}.",
            epilog=f"example:\n  {EXAMPLES[name].format(prog)}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.add_argument("--app", metavar="NAME", default=app, help="the application's name")
        parser.add_argument("--state", metavar="DIR", help="the folder of its state, where it is not the usual one")
        if not embedded:
            parser.add_argument("--registry", metavar="FILE", help=REGISTRY_HELP[name in {"on", "local", "view"}])
        parser.add_argument("--json", action="store_true", help="print JSON")
        _add_own(parser, name)


REGISTRY_HELP: Final = (
    "the metric registry, to name periods and state budgets",
    "the metric registry that the application was built with",
)


def _add_own(parser: argparse.ArgumentParser, name: str) -> None:
    if name in {"on", "local"}:
        parser.add_argument(
            "--moved", action="store_true", help="this machine replaces the one where the state was begun"
        )
        parser.add_argument("--server", metavar="URL", help="the collector that reports go to, where it is known")
    if name == "forget":
        parser.add_argument("--yes", action="store_true", help="do not ask")
    if name == "view":
        parser.add_argument(
            "--explain", action="append", default=[], metavar="METRIC=VALUE", help="explain a value; may be repeated"
        )
        parser.add_argument("--reports", type=int, default=5, metavar="N", help="take apart N reports a metric (5)")
        parser.add_argument("--html", metavar="FILE", help="write a page instead")
        parser.add_argument("--web", action="store_true", help="show a page on this machine until Ctrl-C")


def run(
    args: argparse.Namespace,
    *,
    registry: MetricRegistry | None = None,
    environ: Mapping[str, str] | None = None,
    out: TextIO | None = None,
) -> int:
    """Run the command that was parsed; return the exit status.

    Raises
    ------
    OverstoryError
        When something that was given cannot be used.
    OSError
        When a file cannot be read or written.
    """
    where = os.environ if environ is None else environ
    paths = _paths(args, where)
    metrics = _registry(args, registry)
    setting = Setting(args.app or str(paths.folder), paths, metrics, where, sys.stdout if out is None else out)
    if args.command in {"status", "view"}:
        return show_status(setting, args) if args.command == "status" else show_view(setting, args)
    return forget(setting, args) if args.command == "forget" else choose(args.command, setting, args)


def main(
    argv: Sequence[str] | None = None,
    *,
    app: str | None = None,
    registry: MetricRegistry | None = None,
    prog: str = "python -m overstory.client",
    environ: Mapping[str, str] | None = None,
) -> int:
    """Run one command and return the exit status: 0, or 2 for bad input.

    Parameters
    ----------
    argv
        The arguments; the process's, unless given.
    app, registry
        The program's own, where it offers these commands itself.
    prog
        How it is called.
    environ
        The environment to be honoured: the process's, unless given.
    """
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


def _paths(args: argparse.Namespace, environ: Mapping[str, str]) -> StatePaths:
    if args.state is not None:
        return StatePaths(Path(args.state))
    if args.app is None:
        raise ParameterError("whose state? give --app NAME, or --state DIR")
    return StatePaths(state_folder(args.app, environ))


def _registry(args: argparse.Namespace, given: MetricRegistry | None) -> MetricRegistry:
    from overstory.protocol.metrics import MetricRegistry, RegistryError, load_registry

    if given is not None:
        return given
    if args.registry is None:
        return MetricRegistry({}, "")
    registry = load_registry(args.registry, read_candidates=False)
    if args.command == "view":
        # What a program ships may lack its candidate files: a device has no use for them.
        with contextlib.suppress(RegistryError):
            registry = load_registry(args.registry)
    return registry
