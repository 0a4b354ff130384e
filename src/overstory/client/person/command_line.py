"""The names and options of the person's commands. Imports nothing that only running them needs."""

from __future__ import annotations

import argparse
from typing import Any, Final

COMMANDS: Final = ("on", "local", "off", "forget", "status", "view")

SUMMARIES: Final = {
    "on": "agree to report: shows what is asked for, asks, and records that you agree",
    "local": "record on this machine alone: you can look at it, and none of it is ever sent",
    "off": "record nothing and send nothing",
    "forget": "delete the program's secret on this machine and everything that was recorded",
    "status": "say what may be recorded and why, what waits, and what it has cost",
    "view": "show what was recorded, exactly what is sent, and what that tells",
}
EXAMPLES: Final = {
    "on": "{0} on --app editor",
    "local": "{0} local --app editor",
    "off": "{0} off --app editor\n  {0} off --all",
    "forget": "{0} forget --app editor --yes",
    "status": "{0} status --app editor --json\n  {0} status",
    "view": "{0} view --app editor --explain colour=green --html view.html",
}


def add_commands(subparsers: Any, prog: str = "overstory", *, app: str | None = None, embedded: bool = False) -> None:
    """Add the six commands to a parser's subparsers.

    Parameters
    ----------
    subparsers
        What `argparse.ArgumentParser.add_subparsers` returned.
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
        parser.add_argument("--app", metavar="NAME", default=app, help="the application, where there are several")
        parser.add_argument("--state", metavar="DIR", help="the folder of its state, where it is not the usual one")
        parser.set_defaults(own_app=app)
        if not embedded:
            parser.add_argument(
                "--registry", metavar="FILE", help="its registry, in place of the one that it left here"
            )
        parser.add_argument("--json", action="store_true", help="print JSON")
        _add_own(parser, name, alone=app is not None)


def _add_own(parser: argparse.ArgumentParser, name: str, *, alone: bool) -> None:
    if name in {"off", "status"} and not alone:
        parser.add_argument("--all", action="store_true", help="all applications of this user on this machine")
    if name == "on":
        parser.add_argument("--yes", action="store_true", help="agree without being asked, for scripts")
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
