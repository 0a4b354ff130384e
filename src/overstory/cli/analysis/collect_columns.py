"""``overstory collect``: columns of numbers, columns of several choices, and two columns at once."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overstory.cli.arguments import form_of, form_words, print_answer
from overstory.cli.progress import progress
from overstory.presentation.document import Paragraph
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.presentation.document import Column
    from overstory.trial.item_sets import SetTrial
    from overstory.trial.numbers import NumberTrial
    from overstory.trial.run import TrialBudget
    from overstory.trial.summary import Summary
    from overstory.trial.tables import TableTrial

    WriteLearned = Callable[..., None]
    """Writes what was learned as CSV into a path, as a spreadsheet takes it or exactly; ``-`` is standard output."""


def check_options(args: argparse.Namespace, names: Iterable[str], instead: str) -> None:
    """Refuse a seed below 0, and options that do not go with this way; `instead` says what would be right."""
    if args.seed < 0:
        raise ParameterError(f"--seed {args.seed}: give a whole number from 0")
    for name in names:
        if getattr(args, name) is not None:
            raise ParameterError(f"--{name.replace('_', '-')} is for {instead}")


def _write_json(path: Path, trial: NumberTrial | SetTrial | Summary | TableTrial) -> None:
    from overstory.files.io import writing_text

    with writing_text(path) as text:
        text.write(json.dumps(trial.to_json(), indent=2, allow_nan=False) + "\n")


def warn_of_replaced(path: Path) -> None:
    """Say on standard error that a result is replaced, if there is one."""
    if path.exists():
        print(f"overstory collect: replaced the result in {path.parent}; -o DIR keeps both", file=sys.stderr)


def write_together(
    args: argparse.Namespace,
    trial: Summary | TableTrial,
    write_learned: WriteLearned,
    write_page: Callable[[Path], object],
) -> Path:
    """Write every estimate, the JSON and the page, all or none; return the page's path. Say what they replace."""
    import tempfile

    folder = Path(args.output)
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "collect.html"
    with tempfile.TemporaryDirectory(dir=folder, prefix=".part-") as name:
        part = Path(name)
        write_learned(str(part / "learned.csv"), spreadsheet=args.spreadsheet)
        _write_json(part / "collect.json", trial)
        write_page(part / page.name)
        warn_of_replaced(page)
        for file in sorted(part.iterdir()):
            file.replace(folder / file.name)
    return page


def show_trial(args: argparse.Namespace, trial: NumberTrial | SetTrial, write_learned: WriteLearned, every: str) -> int:
    """Write learned.csv and collect.json, and print the trial; with ``-o -`` only the CSV, to standard output."""
    if args.output == "-":
        write_learned("-", spreadsheet=args.spreadsheet)
        return 0
    folder = Path(args.output)
    folder.mkdir(parents=True, exist_ok=True)
    warn_of_replaced(folder / "learned.csv")
    write_learned(str(folder / "learned.csv"), spreadsheet=args.spreadsheet)
    _write_json(folder / "collect.json", trial)
    closing = Paragraph(f"{every}: {folder / 'learned.csv'}")
    print_answer(args, trial.to_json(), chain(trial.blocks(), [closing]))
    return 0


NOT_OF_NUMBERS = ("bins", "candidates", "device_column", "people", "epsilon_permanent")
"""Options of values that are counted one by one."""


def add_numbers(parser: Any) -> None:
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
    from overstory.trial.numbers import COLUMNS

    trial = _collected_numbers(args, path, budget)
    return show_trial(args, trial, partial(_write_rows, COLUMNS, trial), "Every estimate")


def check_without_numbers(args: argparse.Namespace) -> None:
    """Refuse the ends of a range where nothing is collected as a number."""
    for name in ("min", "max"):
        if getattr(args, name) is not None:
            raise ParameterError(f"--{name} is an end of the range of --numeric: give both")


def _collected_numbers(args: argparse.Namespace, path: str, budget: TrialBudget) -> NumberTrial:
    import numpy as np

    from overstory.trial.numbers import collect_numbers, read_column_of_numbers

    check_options(args, NOT_OF_NUMBERS, "values that are counted: --numeric takes none")
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


OF_VALUES = ("bins", "candidates", "device_column", "people")
"""Options of one column that has one value in a row."""


def run_sets(args: argparse.Namespace, path: str, budget: TrialBudget) -> int:
    trial = _collected_sets(args, path, budget)
    truth = trial.truth.round().astype(int).tolist()
    return show_trial(args, trial, partial(write_estimate, trial.estimate, truth), "Every item")


def _collected_sets(args: argparse.Namespace, path: str, budget: TrialBudget) -> SetTrial:
    from overstory.trial.item_sets import collect_sets, count_sets

    check_options(args, OF_VALUES, "one value in a row: leave it out, or --separator")
    with progress("reading", Path(path).stat().st_size) as bar:
        people = count_sets(path, args.column, args.separator, form=form_of(args), advance=bar.advance)
    with progress("devices report", len(people)) as bar:
        return collect_sets(people, budget, args.oracle, args.seed, most=args.most, advance=bar.advance)


def run_table(args: argparse.Namespace, path: str, budget: TrialBudget) -> int:
    from overstory.files.io import writing_text
    from overstory.presentation.render_html import as_page
    from overstory.trial.tables import COLUMNS

    trial = _collected_table(args, path, budget)
    write_learned = partial(_write_rows, COLUMNS, trial)
    if args.output == "-":
        write_learned(args.output, spreadsheet=args.spreadsheet)
        return 0

    def write_page(path: Path) -> None:
        with writing_text(path) as text:
            page = trial.page(_command_of_table(args))
            text.write(as_page(page, title=f"Overstory: {' and '.join(trial.pairs.names)}"))

    page = write_together(args, trial, write_learned, write_page)
    shown = chain(trial.blocks(is_conditional=args.conditional), [Paragraph(f"Page: {page}")])
    print_answer(args, trial.to_json() | {"page": str(page)}, shown)
    return 0


def _collected_table(args: argparse.Namespace, path: str, budget: TrialBudget) -> TableTrial:
    from overstory.trial.tables import collect_pairs, count_pairs

    check_options(args, OF_VALUES, "one column: leave it out, or give one --column")
    with progress("reading", Path(path).stat().st_size) as bar:
        pairs = count_pairs(path, args.column, form=form_of(args), advance=bar.advance)
    with progress("devices report", len(pairs) * budget.reports) as bar:
        return collect_pairs(pairs, budget, args.oracle, args.seed, bar.advance)


def _command_of_table(args: argparse.Namespace) -> str:
    command = ["overstory", "collect", args.file, *(word for name in args.column for word in ("--column", name))]
    for name in ("epsilon", "epsilon_permanent"):
        if getattr(args, name) is not None:
            command += ["--" + name.replace("_", "-"), str(getattr(args, name))]
    command += [*(["--conditional"] if args.conditional else []), "--oracle", args.oracle, *form_words(args)]
    return shlex.join([*command, "--reports-per-device", str(args.reports_per_device), "--seed", str(args.seed)])


def write_estimate(estimate: Any, truth: list[int], path: str, *, spreadsheet: bool) -> None:
    """Write an estimate next to the truth, as CSV."""
    from overstory.analysis.tables.output import write_csv
    from overstory.files.io import writing_csv

    with writing_csv(path, spreadsheet=spreadsheet) as text:
        write_csv(estimate, text, {"truth": truth})


def _write_rows(columns: Sequence[Column], trial: NumberTrial | TableTrial, path: str, *, spreadsheet: bool) -> None:
    """Write a trial's rows as CSV."""
    from overstory.files.io import writing_csv
    from overstory.presentation.render_data import csv_lines

    with writing_csv(path, spreadsheet=spreadsheet) as text:
        text.writelines(csv_lines(columns, ([row[column.name] for column in columns] for row in trial.rows())))
