"""``overstory collect``: the user's own column, collected by simulated devices, and what was learned of it."""

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

from overstory.cli.arguments import (
    add_command,
    add_form,
    add_option,
    check_pipes,
    form_of,
    form_words,
    print_answer,
    seekable,
)
from overstory.cli.progress import progress
from overstory.presentation.document import Paragraph
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.presentation.document import Column as ShownColumn
    from overstory.trial.column import Column
    from overstory.trial.item_sets import SetTrial
    from overstory.trial.numbers import NumberTrial
    from overstory.trial.run import TrialBudget
    from overstory.trial.summary import Summary
    from overstory.trial.tables import TableTrial

    WriteLearned = Callable[..., None]
    """Writes what was learned as CSV into a path, as a spreadsheet takes it or exactly; ``-`` is standard output."""

MORE = """\
Each row of the column is one device, which randomizes its value and sends it. The reports are counted and decoded, and
you see the estimates next to the truth, and the privacy loss. You also see which oracle is best for such a column, how
many people rare values need, and which shares these people show. The file is read in a stream, and nothing of it leaves
this machine.

A column of numbers is counted in bins, given or chosen. Rows without a value are counted and send nothing. With
--numeric its numbers are collected as they are: you see the estimated mean, quantiles and shares next to the true ones.

Of two columns each row reports its pair of values: you see the shares of the second in each value of the first, whether
the two depend on each other, and how strongly.

Of a column with several answers in a row, --separator counts each of them, and how many a row has."""

EXAMPLE = """\
overstory collect survey.csv --column state --epsilon 2
  overstory collect survey.csv --column state --column party --epsilon 2
  overstory collect survey.csv --column languages --separator ";" --epsilon 2
  overstory collect homes.parquet --column kwh --numeric distribution --min 0 --max 5
  overstory collect homes.parquet --column kwh --bins 0 5 50 --epsilon 1 --epsilon-permanent 3 -o homes"""

WEAK = 10
"""Epsilon of one report above which there is a warning."""


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers, "collect", "simulate a private collection on your own data", more=MORE, example=EXAMPLE
    )
    parser.add_argument("file", metavar="FILE", help="CSV (gz too), JSON lines or Parquet; - for standard input")
    parser.add_argument(
        "--column",
        required=True,
        action="append",
        metavar="C",
        help="the column to collect; give two to see what they say of each other",
    )
    parser.add_argument(
        "--conditional",
        action="store_true",
        help="of two columns: how the shares of the second differ between the values of the first",
    )
    parser.add_argument("--separator", metavar="S", help="count the items of a row that has several, such as ';'")
    parser.add_argument(
        "--most",
        type=int,
        metavar="M",
        help="with --separator: as many items of one row count (default: as many as make the least error)",
    )
    add_numbers(parser)
    add_form(parser)
    _add_collection(parser)
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the same seed gives the same output")
    meaning = "folder for the results (default out/collect); -: only learned.csv, to standard output"
    parser.add_argument("-o", "--output", default="out/collect", metavar="DIR", help=meaning)
    add_option(parser, "--spreadsheet")
    add_option(parser, "--json")


def _add_collection(parser: argparse.ArgumentParser) -> None:
    """Add what is collected of each row, and how privately."""
    parser.add_argument(
        "--oracle", default="auto", metavar="NAME", help="what the devices randomize with (default auto: the best)"
    )
    parser.add_argument("--epsilon", type=float, metavar="E", help="privacy loss of one report (default 1)")
    add_option(parser, "--epsilon-permanent")
    parser.add_argument(
        "--reports-per-device", type=int, default=1, metavar="R", help="reports of each device (default 1)"
    )
    parser.add_argument(
        "--device-column", metavar="D", help="column with the device's id: a device's rows are its reports"
    )
    parser.add_argument(
        "--bins",
        type=float,
        nargs=3,
        metavar=("MIN", "MAX", "COUNT"),
        help="count numbers in COUNT equal bins from MIN to MAX (default: chosen)",
    )
    parser.add_argument(
        "--candidates", metavar="FILE", help="values to look for, one per line; all others count as one value"
    )
    parser.add_argument(
        "--most-values", type=int, default=10_000, metavar="M", help="most distinct values (default 10,000)"
    )
    parser.add_argument(
        "--people", type=int, metavar="N", help="draw N people from the rows, instead of one person per row"
    )


def run(args: argparse.Namespace) -> int:
    check_pipes(args)
    several = len(args.column) > 1
    if several:
        if args.separator is not None or args.most is not None:
            raise ParameterError("--separator and --most are for one column: give one --column")
    else:
        (args.column,) = args.column
        _check_single(args)
    if several or (args.separator is None and args.numeric is None):
        check_without_numbers(args)
    with seekable(args.file) as name:
        if several:
            return run_table(args, name, _budget(args))
        if args.separator is not None:
            return run_sets(args, name, _budget(args))
        if args.numeric is not None:
            return run_numbers(args, name, _budget(args))
        summary = _collected(args, _column(args, name), _budget(args))
    from overstory.trial.page import terminal_blocks, write_page

    write_learned = partial(write_estimate, summary.result.shown, summary.result.population.counts.tolist())
    if args.output == "-":
        write_learned(args.output, spreadsheet=args.spreadsheet)
        return 0
    page = write_together(args, summary, write_learned, lambda path: write_page(summary, path, _command(args)))
    values, closing = summary.to_json() | {"page": str(page)}, Paragraph(f"Page: {page}")
    print_answer(args, values, chain(terminal_blocks(summary), [closing]))
    return 0


def _check_single(args: argparse.Namespace) -> None:
    if args.conditional:
        raise ParameterError("--conditional compares the values of a first column: give two, --column A --column B")
    if args.most is not None and args.separator is None:
        raise ParameterError("--most is for several items in a row: give --separator too, such as --separator ';'")


def _column(args: argparse.Namespace, path: str) -> Column:
    from overstory.trial.column import Column

    if args.seed < 0:
        raise ParameterError(f"--seed {args.seed}: give a whole number from 0")
    bins = None
    if args.bins is not None:
        low, high, count = args.bins
        if not count.is_integer():
            raise ParameterError(f"--bins: {count:g} is no number of bins")
        bins = low, high, int(count)
    asked = (path, args.column, bins, args.candidates, args.device_column, args.most_values, args.people)
    return Column(*asked, form=form_of(args))


def _budget(args: argparse.Namespace) -> TrialBudget:
    from overstory.protocol.channels import MAX_EPSILON
    from overstory.trial.run import TrialBudget

    if args.epsilon is None and args.epsilon_permanent is not None:
        raise ParameterError("--epsilon-permanent needs --epsilon, what one report may reveal")
    epsilon = 1.0 if args.epsilon is None else args.epsilon
    if not 0 < epsilon <= MAX_EPSILON:
        raise ParameterError(f"--epsilon {epsilon:g}: give a number above 0 and at most {MAX_EPSILON}")
    if epsilon > WEAK:
        warning = "protects next to nothing: a report practically names the value; 1 or 2 is usual"
        print(f"overstory collect: warning: --epsilon {epsilon:g} {warning}", file=sys.stderr)
    return TrialBudget(epsilon, args.epsilon_permanent, args.reports_per_device)


def _collected(args: argparse.Namespace, column: Column, budget: TrialBudget) -> Summary:
    from dataclasses import replace

    import numpy as np

    from overstory.trial.column import read_population
    from overstory.trial.run import collect
    from overstory.trial.summary import Summary, advise, subject_of

    size = Path(column.path).stat().st_size
    with progress("reading", size) as bar:
        population = read_population(column, np.random.default_rng([args.seed, 0]), bar.advance)
    with progress("devices report", len(population) * budget.reports) as bar:
        result = collect(population, budget, args.oracle, args.seed, bar.advance)
    return Summary(subject_of(replace(column, path=args.file), result), result, advise(result))


def _begun(args: argparse.Namespace, columns: Sequence[str], names: Iterable[str]) -> list[str]:
    """Return the command with its columns, those of these options that were given, and its oracle."""
    command = ["overstory", "collect", args.file, *chain.from_iterable(("--column", name) for name in columns)]
    for name in names:
        if getattr(args, name) is not None:
            command += ["--" + name.replace("_", "-"), str(getattr(args, name))]
    return [*command, "--oracle", args.oracle]


def _command(args: argparse.Namespace) -> str:
    command = _begun(args, [args.column], ("epsilon", "epsilon_permanent", "device_column", "candidates", "people"))
    if args.bins is not None:
        command += ["--bins", *(repr(number).removesuffix(".0") for number in args.bins)]
    command += form_words(args)
    command += ["--reports-per-device", str(args.reports_per_device), "--most-values", str(args.most_values)]
    return shlex.join([*command, "--seed", str(args.seed)])


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
    command = _begun(args, args.column, ("epsilon", "epsilon_permanent"))
    command += [*(["--conditional"] if args.conditional else []), *form_words(args)]
    return shlex.join([*command, "--reports-per-device", str(args.reports_per_device), "--seed", str(args.seed)])


def write_estimate(estimate: Any, truth: list[int], path: str, *, spreadsheet: bool) -> None:
    """Write an estimate next to the truth, as CSV."""
    from overstory.analysis.tables.output import write_csv
    from overstory.files.io import writing_csv

    with writing_csv(path, spreadsheet=spreadsheet) as text:
        write_csv(estimate, text, {"truth": truth})


def _write_rows(
    columns: Sequence[ShownColumn], trial: NumberTrial | TableTrial, path: str, *, spreadsheet: bool
) -> None:
    """Write a trial's rows as CSV."""
    from overstory.files.io import writing_csv
    from overstory.presentation.render_data import csv_lines

    with writing_csv(path, spreadsheet=spreadsheet) as text:
        text.writelines(csv_lines(columns, ([row[column.name] for column in columns] for row in trial.rows())))
