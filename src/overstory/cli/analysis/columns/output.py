"""What the ways to collect columns share: which options do not go with them, and the files and text that they write."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from overstory.presentation.document import Block


class Trial(Protocol):
    """A simulated collection, next to the truth."""

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        ...

    def blocks(self) -> Iterable[Block]:
        """Return what was learned."""
        ...


class WriteLearned(Protocol):
    """Writes what was learned as CSV; ``-`` is standard output."""

    def __call__(self, path: str, *, spreadsheet: bool) -> None:
        """Write it."""
        ...


def check_options(args: argparse.Namespace, names: Iterable[str], instead: str) -> None:
    """Refuse a seed below 0, and options that do not go with this way; `instead` says what would be right."""
    from overstory.protocol.errors import ParameterError

    if args.seed < 0:
        raise ParameterError(f"--seed {args.seed}: give a whole number from 0")
    for name in names:
        if getattr(args, name) is not None:
            raise ParameterError(f"--{name.replace('_', '-')} is for {instead}")


def as_json(trial: Trial, **more: Any) -> str:
    """Return a trial as JSON text."""
    return json.dumps(trial.to_json() | more, indent=2, allow_nan=False)


def warn_of_replaced(path: Path) -> None:
    """Say on standard error that a result is replaced, if there is one."""
    if path.exists():
        print(f"overstory collect: replaced the result in {path.parent}; -o DIR keeps both", file=sys.stderr)


def show_trial(args: argparse.Namespace, trial: Trial, write_learned: WriteLearned, every: str) -> int:
    """Write learned.csv and collect.json, and print the trial; with ``-o -`` only the CSV, to standard output."""
    from overstory.files.io import writing_text

    if args.output == "-":
        write_learned("-", spreadsheet=args.spreadsheet)
        return 0
    folder = Path(args.output)
    folder.mkdir(parents=True, exist_ok=True)
    warn_of_replaced(folder / "learned.csv")
    write_learned(str(folder / "learned.csv"), spreadsheet=args.spreadsheet)
    with writing_text(folder / "collect.json") as file:
        file.write(as_json(trial) + "\n")
    if args.json:
        print(as_json(trial))
    else:
        from overstory.presentation.document import Paragraph
        from overstory.presentation.render_text import print_document

        print_document([*trial.blocks(), Paragraph(f"{every}: {folder / 'learned.csv'}")])
    return 0
