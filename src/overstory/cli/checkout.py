"""``overstory reproduce``: the papers' results, in a checkout of the source alone, which has what runs it."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

from overstory.cli.command import Command, Option, flag
from overstory.protocol.errors import ParameterError

COMMANDS: Final = {
    "reproduce": Command(
        "reproduce",
        "overstory reproduce\n  overstory reproduce rappor-75-of-100 -o results\n  overstory reproduce --all --quick",
        Option("names", "what to reproduce; without a name, all are listed", "NAME", nargs="*"),
        flag("--all", "reproduce everything"),
        flag("--quick", "use smaller sizes and fewer replicates: seconds each"),
        Option("--output", "folder", "DIR", default="out/reproduce"),
        more="""\
Writes every result into the folder: NAME.json with the published numbers, ours, their intervals and the verdicts; the
pictures as PNG and SVG; and index.html, summary.md and summary.tex with all results in the folder. A verdict is always
computed. A finished result in the folder is not computed again. The papers are in a checkout of the source only.""",
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
