"""``overstory reproduce``: the papers' results, in a checkout of the source alone, which has what runs it."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

from overstory.cli.arguments import AT_LEAST_ONE, Command, Option, flag
from overstory.protocol.errors import ParameterError

COMMANDS: Final = {
    "reproduce": Command(
        "reproduce",
        "overstory reproduce --list\n"
        "  overstory reproduce rappor-75-of-100 -o results\n"
        "  overstory reproduce --all --quick",
        Option("names", "what to reproduce (--list prints the names)", "NAME", nargs="*"),
        flag("--all", "reproduce everything"),
        flag("--list", "list everything, and exit"),
        flag("--quick", "use smaller sizes and fewer replicates: seconds each"),
        flag("--fresh", "compute finished results again"),
        Option("--value", "the value whose report is drawn (rappor-figure-1)", "TEXT"),
        Option("--params", "RAPPOR's parameters for --value: header k,h,m,p,q,f and one row"),
        Option("--readings", "real meter readings, instead of synthetic ones (protecting-...)", "FILE"),
        Option(
            "--workers",
            "processes, each of one result; the results are the same (default: 1)",
            "N",
            int,
            fits=AT_LEAST_ONE,
        ),
        Option("--output", "folder", "DIR", default="out/reproduce"),
        more="""\
Writes every result into the folder: NAME.json with the published numbers, ours, their intervals and the verdicts; the
pictures as PNG and SVG; and index.html and summary.md with all results in the folder. A verdict is always computed.
Finished results are not computed again, unless --fresh is given. The papers are in a checkout of the source only.""",
        runs="checkout",
    )
}


def papers() -> Path:
    """Return the papers' folder of the checkout that this package is run from; ParameterError where there is none."""
    import overstory

    found = Path(overstory.__file__).resolve().parents[2] / "papers"
    if not next(found.glob("*.py"), None):
        raise ParameterError(
            "the papers' experiments are in the folder papers/ of the source: clone the repository, install it with "
            "`pip install -e .[analysis] --group papers` and run this there"
        )
    return found


def run(args: argparse.Namespace) -> int:
    sys.path.append(str(papers().parent))
    status: int = import_module("papers.command").run(args)
    return status
