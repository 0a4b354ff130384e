"""``overstory collect FILE --column C --separator ";"``: a column with several answers in a row."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from overstory.cli.analysis.columns.output import check_options, show_trial
from overstory.cli.arguments import form_of

if TYPE_CHECKING:
    from overstory.trial.item_sets import SetTrial
    from overstory.trial.run import TrialBudget

OF_VALUES = ("bins", "candidates", "device_column", "people")
"""Options of a column that has one value in a row."""


def run_sets(args: argparse.Namespace, path: str, budget: TrialBudget) -> int:
    """Run the command for a column of sets."""
    trial = _collected(args, path, budget)
    return show_trial(args, trial, partial(_write_learned, trial), "Every item")


def _collected(args: argparse.Namespace, path: str, budget: TrialBudget) -> SetTrial:
    from overstory.cli.progress import progress
    from overstory.trial.item_sets import collect_sets, count_sets

    check_options(args, OF_VALUES, "one value in a row: leave it out, or --separator")
    with progress("reading", Path(path).stat().st_size) as bar:
        people = count_sets(path, args.column, args.separator, form=form_of(args), advance=bar.advance)
    with progress("devices report", len(people)) as bar:
        return collect_sets(people, budget, args.oracle, args.seed, most=args.most, advance=bar.advance)


def _write_learned(trial: SetTrial, path: str, *, spreadsheet: bool) -> None:
    from overstory.analysis.tables.output import write_csv
    from overstory.files.io import writing_csv

    with writing_csv(path, spreadsheet=spreadsheet) as text:
        write_csv(trial.estimate, text, {"truth": trial.people.holders.tolist()})
