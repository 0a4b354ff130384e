"""``overstory bench``: run the benchmarks that stand beside the source."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from overstory.cli.arguments import add_command
from overstory.protocol.errors import ParameterError


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "bench",
        "run the benchmarks of a source checkout, with ratios",
        more="Without a name it lists them. They are not part of the installed package.",
        example="overstory bench decode",
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="which to run, one after the other; a part of a name will do"
    )


def folder() -> Path:
    """Return where a source checkout keeps its benchmarks."""
    import overstory

    return Path(overstory.__file__).resolve().parents[2] / "bench"


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    known = {path.stem: path for path in sorted(folder().glob("[!_]*.py"))}
    if not known:
        raise ParameterError(
            "the benchmarks stand in the folder bench/ of the source: clone the repository, "
            "install it with `pip install -e .[analysis]` and run this there"
        )
    if not args.names:
        print("\n".join(known))
    chosen = [path for name in args.names for path in _matching(known, name)]
    return max(map(_run, chosen), default=0)


def _matching(known: dict[str, Path], name: str) -> list[Path]:
    """Return every benchmark that has `name` in its own: `decode` stands for its accuracy and its speed."""
    found = [path for stem, path in known.items() if name in stem]
    if not found:
        raise ParameterError(f"there is no benchmark {name}: choose from {', '.join(known)}")
    return found


def _run(path: Path) -> int:
    import subprocess

    return subprocess.run([sys.executable, str(path)], check=False).returncode  # noqa: S603 - a file of ours
