"""``overstory collect FILE --column C --numeric``: a mean, a distribution or ranges of the user's own numbers."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overstory.cli.analysis.columns.output import check_options, show_trial
from overstory.cli.arguments import form_of

if TYPE_CHECKING:
    from overstory.trial.numbers import NumberTrial
    from overstory.trial.run import TrialBudget

OTHERS = ("bins", "candidates", "device_column", "people", "epsilon_permanent")
"""Options of values that are counted one by one."""


def add_numbers(parser: Any) -> None:
    """Add the options."""
    parser.add_argument(
        "--numeric",
        nargs="?",
        const="mean",
        choices=("mean", "distribution", "ranges"),
        help="collect numbers as they are, and learn their mean (default), their distribution, or shares of ranges",
    )
    parser.add_argument("--min", type=float, metavar="A", help="with --numeric: the least number (default: chosen)")
    parser.add_argument("--max", type=float, metavar="B", help="with --numeric: the greatest number (default: chosen)")


def run_numbers(args: argparse.Namespace, path: str, budget: TrialBudget) -> int:
    """Run the command for numbers."""
    trial = _collected(args, path, budget)
    return show_trial(args, trial, partial(_write_learned, trial), "Every estimate")


def check_without_numbers(args: argparse.Namespace) -> None:
    """Refuse the ends of a range where nothing is collected as a number."""
    from overstory.protocol.errors import ParameterError

    for name in ("min", "max"):
        if getattr(args, name) is not None:
            raise ParameterError(f"--{name} is an end of the range of --numeric: give both")


def _collected(args: argparse.Namespace, path: str, budget: TrialBudget) -> NumberTrial:
    import numpy as np

    from overstory.cli.progress import progress
    from overstory.protocol.errors import ParameterError
    from overstory.trial.numbers import collect_numbers, read_column_of_numbers

    check_options(args, OTHERS, "values that are counted: --numeric takes none")
    if budget.reports != 1:
        raise ParameterError("--reports-per-device: all reports of a number are the same, so a second adds nothing")
    with progress("reading", Path(path).stat().st_size) as bar:
        numbers, missing = read_column_of_numbers(path, args.column, form=form_of(args), advance=bar.advance)
    with progress("devices report", numbers.size) as bar:
        return collect_numbers(
            numbers,
            args.numeric,
            epsilon=budget.epsilon,
            oracle=args.oracle,
            minimum=args.min,
            maximum=args.max,
            name=args.column,
            missing=missing,
            rng=np.random.default_rng([args.seed, 3]),
            advance=bar.advance,
        )


def _write_learned(trial: NumberTrial, path: str, *, spreadsheet: bool) -> None:
    from overstory.files.io import writing_csv
    from overstory.presentation.render_data import csv_lines
    from overstory.trial.numbers import COLUMNS

    with writing_csv(path, spreadsheet=spreadsheet) as text:
        text.writelines(csv_lines(COLUMNS, ([row[column.name] for column in COLUMNS] for row in trial.rows())))
