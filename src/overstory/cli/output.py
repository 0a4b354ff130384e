"""An answer as a person asks for it: printed, written into files, and drawn."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.presentation.result import Result
    from overstory.presentation.svg import Picture


def show_answer(args: argparse.Namespace, answer: Result) -> None:
    """Write an answer to the files that the options ask for, and print it as JSON or as blocks that name the file."""
    if args.output == "-":
        from overstory.files.io import writing_csv

        with writing_csv(args.output, spreadsheet=args.spreadsheet) as text:
            text.writelines(answer.csv_lines())
        return
    written = str(_write(args, answer)) if args.output else None
    if args.json:
        print(_json(args, answer))
    else:
        from overstory.presentation.render_text import print_document

        print_document(answer.blocks(everything=args.all, written=None if args.quiet else written))


def _json(args: argparse.Namespace, answer: Result) -> str:
    """Return the facts and what was detected, or all values where the options say so."""
    return json.dumps(answer.to_json(everything=args.all), separators=(",", ":"), allow_nan=False)


def _write(args: argparse.Namespace, answer: Result) -> Path:
    """Write NAME.csv (every value) and NAME.json (what was detected, and the facts to read it by)."""
    from overstory.files.io import writing_csv, writing_text

    folder = Path(args.output)
    folder.mkdir(parents=True, exist_ok=True)
    with writing_csv(folder / f"{answer.name}.csv", spreadsheet=args.spreadsheet) as text:
        text.writelines(answer.csv_lines())
    with writing_text(folder / f"{answer.name}.json") as text:
        text.write(_json(args, answer) + "\n")
    return folder / f"{answer.name}.csv"


def draw(path: str, pictures: Sequence[Picture]) -> None:
    """Write pictures into an SVG file, below each other."""
    if not pictures:
        raise ParameterError(f"--plot {path}: there are no reports to draw")
    from overstory.files.io import writing_text
    from overstory.presentation.render_html import as_svg

    with writing_text(path) as text:
        text.write(as_svg(*pictures))
