"""An answer as a person asks for it: printed, written into files, and drawn."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.presentation.document import Block
    from overstory.presentation.result import Result
    from overstory.presentation.svg import Picture


@dataclass(frozen=True)
class Printing:
    """What is printed and written of an answer."""

    json: bool
    quiet: bool
    output: str | None  # the folder; -: the CSV to standard output
    spreadsheet: bool
    everything: bool  # also what was not detected

    @classmethod
    def of(cls, args: argparse.Namespace) -> Printing:
        """Return what the options say."""
        return cls(args.json, args.quiet, args.output, args.spreadsheet, args.all)


def show_answer(printing: Printing, answer: Result, more: Iterable[Block] = ()) -> None:
    """Write an answer to the files that are asked for, and print it as JSON or as blocks that name the file."""
    if printing.output == "-":
        from overstory.files.io import writing_csv

        with writing_csv(printing.output, spreadsheet=printing.spreadsheet) as text:
            text.writelines(answer.csv_lines())
        return
    written = str(_write(printing, printing.output, answer)) if printing.output else None
    if printing.json:
        print(_json(printing, answer))
    else:
        from overstory.presentation.render_text import print_document

        shown = answer.blocks(everything=printing.everything, written=None if printing.quiet else written)
        print_document(chain(shown, more))


def _json(printing: Printing, answer: Result) -> str:
    """Return the facts and what was detected, or all values where the options say so."""
    return json.dumps(answer.to_json(everything=printing.everything), separators=(",", ":"), allow_nan=False)


def _write(printing: Printing, output: str, answer: Result) -> Path:
    """Write NAME.csv (every value) and NAME.json (what was detected, and the facts to read it by)."""
    from overstory.files.io import writing_csv, writing_text

    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    with writing_csv(folder / f"{answer.name}.csv", spreadsheet=printing.spreadsheet) as text:
        text.writelines(answer.csv_lines())
    with writing_text(folder / f"{answer.name}.json") as text:
        text.write(_json(printing, answer) + "\n")
    return folder / f"{answer.name}.csv"


def draw(path: str, pictures: Sequence[Picture]) -> None:
    """Write pictures into an SVG file, below each other."""
    if not pictures:
        raise ParameterError(f"--plot {path}: there are no reports to draw")
    from overstory.files.io import writing_text
    from overstory.presentation.render_html import as_svg

    with writing_text(path) as text:
        text.write(as_svg(*pictures))
