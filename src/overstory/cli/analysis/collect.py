"""``overstory collect``: the user's own column, collected by simulated devices."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overstory.cli.command import Answer, check_pipes, command_of, form_of, is_table, progress, seekable
from overstory.files.io import writing_csv, writing_text
from overstory.presentation.document import Paragraph
from overstory.protocol.channels import MAX_EPSILON
from overstory.protocol.errors import ParameterError
from overstory.trial.population import read_population
from overstory.trial.run import TrialBudget
from overstory.trial.values import Subject, ValueTrial, advise, collect

if TYPE_CHECKING:
    from overstory.files.io import Advance
    from overstory.trial.population import People, Population
    from overstory.trial.run import Trial


def run(args: argparse.Namespace) -> Answer:
    check_pipes(args)
    _check(args)
    with seekable(args.file) as name:
        trial = _trial(args, name, _budget(args))
    if args.output == "-" or is_table(args.output):
        every = trial.tables(everything=True)
        return Answer(trial.to_json(), trial.blocks(), write_csv=trial.write_csv, tables=every)
    folder = Path(args.output)
    _write_together(args, trial, folder)
    page = folder / "collect.html"
    return Answer(trial.to_json() | {"page": str(page)}, chain(trial.blocks(), [Paragraph(f"Page: {page}")]))


ONE_COLUMN = ("separator", "numeric", "bins", "candidates", "people")


def _check(args: argparse.Namespace) -> None:
    """Refuse options that do not go together; `args.columns` are the columns, `args.column` is the only one."""
    args.columns, several = args.column, len(args.column) > 1
    args.column = args.columns[0]
    for name in ONE_COLUMN if several else ():
        if getattr(args, name) is not None:
            raise ParameterError(f"--{name.replace('_', '-')} is for one column: give one --column")
    form = form_of(args.csv)
    for name in ("separator", "numeric", "candidates") if form.by or form.dates else ():
        if getattr(args, name) is not None:
            raise ParameterError(f"--csv dates={form.by or form.dates} has no effect with --{name}")


def _trial(args: argparse.Namespace, path: str, budget: TrialBudget) -> Trial:
    """Read the file, and let its rows report: pairs of two columns, sets, numbers, or values."""
    with progress("reading", Path(path).stat().st_size, quiet=args.quiet) as bar:
        people, collect = _people(args, path, {"form": form_of(args.csv), "advance": bar.advance})
    with progress("devices report", len(people), quiet=args.quiet) as bar:
        return collect(people, budget, args.oracle, args.seed, advance=bar.advance)


def _people(args: argparse.Namespace, path: str, how: dict[str, Any]) -> tuple[People, Callable[..., Trial]]:
    """Return who takes part, and what collects their reports."""
    if len(args.columns) > 1:
        from overstory.trial.tables import collect_pairs, count_pairs

        return count_pairs(path, args.columns, **how), collect_pairs
    if args.separator is not None:
        from overstory.trial.item_sets import collect_sets, count_sets

        return count_sets(path, args.column, args.separator, **how), partial(collect_sets, most=args.most)
    if args.numeric is not None:
        from overstory.trial.numbers import collect_numbers, read_column_of_numbers  # which loads SciPy

        ends = dict(zip(("minimum", "maximum"), args.range or (None, None), strict=True))
        return read_column_of_numbers(path, args.column, **how), partial(collect_numbers, learned=args.numeric, **ends)

    how |= {"bins": _bins(args), "candidates": args.candidates, "people": args.people, "seed": args.seed}
    return read_population(path, args.column, **how), partial(_collect_values, args.file, args.column)


def _bins(args: argparse.Namespace) -> tuple[float, float, int] | None:
    if args.bins is None:
        return None
    low, high, count = args.bins
    if not count.is_integer():
        raise ParameterError(f"--bins: {count:g} is no number of bins")
    return low, high, int(count)


def _collect_values(
    file: str, column: str, people: Population, budget: TrialBudget, oracle: str, seed: int, advance: Advance
) -> ValueTrial:
    rows = len(people) + (0 if people.is_drawn else people.missing)
    facts = {"file": file, "column": column, "rows": rows, "missing": people.missing}
    subject = Subject(column, "bin" if people.edges else "value", facts=facts)
    trial = collect(people, budget, oracle, seed, advance)
    return replace(trial, subject=subject, advice=advise(trial, budget))


def _budget(args: argparse.Namespace) -> TrialBudget:
    epsilon = 1.0 if args.epsilon is None else args.epsilon
    if not 0 < epsilon <= MAX_EPSILON:
        raise ParameterError(f"--epsilon {epsilon:g}: give a number above 0 and at most {MAX_EPSILON}")
    return TrialBudget(epsilon, args.epsilon_permanent)


def _write_together(args: argparse.Namespace, trial: Trial, folder: Path) -> None:
    """Write every estimate, the JSON and the page, all or none. Say what they replace."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".part-") as name:
        part = Path(name)
        with writing_csv(part / "learned.csv", spreadsheet=args.spreadsheet) as text:
            trial.write_csv(text)
        with writing_text(part / "collect.json") as text:
            text.write(json.dumps(trial.to_json(), indent=2, allow_nan=False) + "\n")
        trial.write_page(part / "collect.html", command_of(args))
        if (folder / "learned.csv").exists():
            print(f"overstory collect: replaced the result in {folder}; -o DIR keeps both", file=sys.stderr)
        for file in sorted(part.iterdir()):
            file.replace(folder / file.name)
