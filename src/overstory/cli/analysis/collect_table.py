"""``overstory collect FILE --column A --column B``: two of the user's own columns, and what they say of each other."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from overstory.cli.arguments import form_of

if TYPE_CHECKING:
    from overstory.trial.run import TrialBudget
    from overstory.trial.tables import TableTrial

SINGLE = ("bins", "candidates", "device_column", "people")
"""Options of one column."""


def run_table(args: argparse.Namespace, path: str, budget: TrialBudget) -> int:
    """Run the command for two columns."""
    trial = _collected(args, path, budget)
    if args.output == "-":
        _write_learned(trial, args.output, spreadsheet=args.spreadsheet)
        return 0
    folder = Path(args.output)
    folder.mkdir(parents=True, exist_ok=True)
    _write_learned(trial, str(folder / "learned.csv"), spreadsheet=args.spreadsheet)
    from overstory.files.io import writing_text

    with writing_text(folder / "collect.json") as text:
        text.write(json.dumps(trial.to_json(), indent=2, allow_nan=False) + "\n")
    if args.json:
        print(json.dumps(trial.to_json(), indent=2, allow_nan=False))
    else:
        from overstory.presentation.document import Paragraph
        from overstory.presentation.render_text import print_document

        written = Paragraph(f"Every pair: {folder / 'learned.csv'}")
        print_document([*trial.blocks(is_conditional=args.conditional), written])
    return 0


def _collected(args: argparse.Namespace, path: str, budget: TrialBudget) -> TableTrial:
    from overstory.cli.progress import progress
    from overstory.protocol.errors import ParameterError
    from overstory.trial.tables import collect_pairs, count_pairs

    if args.seed < 0:
        raise ParameterError(f"--seed {args.seed}: give a whole number from 0")
    for name in SINGLE:
        if getattr(args, name) is not None:
            raise ParameterError(f"--{name.replace('_', '-')} is for one column: leave it out, or give one --column")
    with progress("reading", Path(path).stat().st_size) as bar:
        pairs = count_pairs(path, args.column, form=form_of(args), advance=bar.advance)
    with progress("devices report", len(pairs) * budget.reports) as bar:
        return collect_pairs(pairs, budget, args.oracle, args.seed, bar.advance)


def _write_learned(trial: TableTrial, path: str, *, spreadsheet: bool) -> None:
    from overstory.files.io import writing_csv
    from overstory.presentation.render_data import csv_lines
    from overstory.trial.tables import COLUMNS

    if path != "-" and Path(path).exists():
        print(f"overstory collect: replaced the result in {Path(path).parent}; -o DIR keeps both", file=sys.stderr)
    with writing_csv(path, spreadsheet=spreadsheet) as text:
        text.writelines(csv_lines(COLUMNS, ([row[column.name] for column in COLUMNS] for row in trial.rows())))
