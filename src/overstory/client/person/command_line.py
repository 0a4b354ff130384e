"""The names and options of the person's commands. Imports nothing that only running them needs."""

from __future__ import annotations

import argparse
from typing import Any, Final

COMMANDS: Final = ("on", "local", "off", "forget", "status", "view")

SUMMARIES: Final = {
    "on": "agree to report: show what is asked for, ask, and record your consent",
    "local": "record on this machine only, for you to look at; nothing is sent",
    "off": "record nothing and send nothing",
    "forget": "delete the program's secret on this machine and everything that was recorded",
    "status": "show what may be recorded and why, what waits, and its privacy cost",
    "view": "show what was recorded, what exactly is sent, and what that reveals",
}
EXAMPLES: Final = {
    "on": "{0} on --app editor",
    "local": "{0} local --app editor",
    "off": "{0} off --app editor\n  {0} off --all",
    "forget": "{0} forget --app editor --yes",
    "status": "{0} status --app editor --details\n  {0} status",
    "view": "{0} view --app editor --html view.html",
}


def add_commands(subparsers: Any, prog: str = "overstory", *, app: str | None = None, embedded: bool = False) -> None:
    """Add the six commands to what `argparse.ArgumentParser.add_subparsers` returned."""
    for name in COMMANDS:
        summary = SUMMARIES[name]
        parser: argparse.ArgumentParser = subparsers.add_parser(
            name,
            help=summary,
            description=f"{summary[:1].upper()}{summary[1:]}.",
            epilog=f"example:\n  {EXAMPLES[name].format(prog)}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.add_argument(
            "--app",
            metavar="NAME",
            default=app,
            help="the application, if there are several; ./FOLDER: the one whose state is there",
        )
        parser.set_defaults(own_app=app)
        if not embedded and name not in {"off", "forget"}:
            parser.add_argument(
                "--registry", metavar="FILE", help="its registry (default: the one that it stored here)"
            )
        parser.add_argument("--json", action="store_true", help="print JSON")
        if name in {"on", "status"}:
            parser.add_argument("--details", action="store_true", help="print everything, not one screen")
        _add_own(parser, name, alone=app is not None)


def _add_own(parser: argparse.ArgumentParser, name: str, *, alone: bool) -> None:
    if name == "off" and not alone:
        parser.add_argument("--all", action="store_true", help="for all applications of this user on this machine")
    if name == "on":
        parser.add_argument("--yes", action="store_true", help="agree without being asked (for scripts)")
    if name in {"on", "local"}:
        parser.add_argument(
            "--moved", action="store_true", help="this machine replaces the machine on which the state was created"
        )
    if name == "on":
        parser.add_argument("--server", metavar="URL", help="the address of the collector")
    if name == "forget":
        parser.add_argument("--yes", action="store_true", help="do not ask")
    if name == "view":
        parser.add_argument("--html", metavar="FILE", help="write an HTML page instead")
