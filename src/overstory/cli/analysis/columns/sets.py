"""``overstory collect FILE --column C --separator ";"``: a column with several answers in a row."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from overstory.cli.arguments import form_of

if TYPE_CHECKING:
    from overstory.trial.item_sets import SetTrial
    from overstory.trial.run import TrialBudget

OF_VALUES = ("bins", "candidates", "device_column", "people")
"""Options of a column that has one value in a row."""


def run_sets(args: argparse.Namespace, path: str, budget: TrialBudget) -> int:
    """Run the command for a column of sets."""
    trial = _collected(args, path, budget)
    if args.output == "-":
        _write_learned(trial, args.output, spreadsheet=args.spreadsheet)
        return 0
    folder = Path(args.output)
    folder.mkdir(parents=True, exist_ok=True)
    _write_learned(trial, str(folder / "learned.csv"), spreadsheet=args.spreadsheet)
    from overstory.files.io import writing_text

    text = json.dumps(trial.to_json(), indent=2, allow_nan=False)
    with writing_text(folder / "collect.json") as file:
        file.write(text + "\n")
    if args.json:
        print(text)
        return 0
    from overstory.presentation.document import Paragraph
    from overstory.presentation.render_text import print_document

    print_document([*trial.blocks(), Paragraph(f"Every item: {folder / 'learned.csv'}")])
    return 0


def _collected(args: argparse.Namespace, path: str, budget: TrialBudget) -> SetTrial:
    from overstory.cli.progress import progress
    from overstory.protocol.errors import ParameterError
    from overstory.trial.item_sets import collect_sets, count_sets

    if args.seed < 0:
        raise ParameterError(f"--seed {args.seed}: give a whole number from 0")
    for name in OF_VALUES:
        if getattr(args, name) is not None:
            raise ParameterError(f"--{name.replace('_', '-')} is for one value in a row: leave it out, or --separator")
    with progress("reading", Path(path).stat().st_size) as bar:
        people = count_sets(path, args.column, args.separator, form=form_of(args), advance=bar.advance)
    with progress("devices report", len(people)) as bar:
        return collect_sets(people, budget, args.oracle, args.seed, most=args.most, advance=bar.advance)


def _write_learned(trial: SetTrial, path: str, *, spreadsheet: bool) -> None:
    from overstory.analysis.tables.output import write_csv
    from overstory.files.io import writing_csv

    if path != "-" and Path(path).exists():
        print(f"overstory collect: replaced the result in {Path(path).parent}; -o DIR keeps both", file=sys.stderr)
    with writing_csv(path, spreadsheet=spreadsheet) as text:
        write_csv(trial.estimate, text, {"truth": trial.people.holders.tolist()})
