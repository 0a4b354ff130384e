"""``overstory bench``: run the benchmarks of a source checkout."""

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
        more="Without a name it lists the benchmarks. They are not part of the installed package.",
        example="overstory bench decode",
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="benchmarks to run, one after the other; part of a name is enough"
    )


def folder() -> Path:
    """Return where a source checkout keeps its benchmarks."""
    import overstory

    return Path(overstory.__file__).resolve().parents[2] / "bench"


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    benchmarks = {path.stem: path for path in sorted(folder().glob("[!_]*.py"))}
    if not benchmarks:
        raise ParameterError(
            "the benchmarks are in the folder bench/ of the source: clone the repository, "
            "install it with `pip install -e .[analysis]` and run this there"
        )
    if not args.names:
        print("\n".join(benchmarks))
    chosen = [path for name in args.names for path in _matching(benchmarks, name)]
    return max(map(_run, chosen), default=0)


def _matching(benchmarks: dict[str, Path], name: str) -> list[Path]:
    """Return every benchmark that has `name` in its own: `decode` selects its accuracy and its speed."""
    matching = [path for stem, path in benchmarks.items() if name in stem]
    if not matching:
        raise ParameterError(f"there is no benchmark {name}: choose from {', '.join(benchmarks)}")
    return matching


def _run(path: Path) -> int:
    import subprocess

    return subprocess.run([sys.executable, str(path)], check=False).returncode  # noqa: S603 - a file of ours
