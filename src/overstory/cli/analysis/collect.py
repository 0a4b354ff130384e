"""``overstory collect``: the user's own column, collected by simulated devices; ``overstory demo``: real data."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.cli.arguments import check_pipes, form_of, seekable
from overstory.cli.output import Answer, is_table, progress
from overstory.files.io import writing_csv, writing_text
from overstory.files.rappor import RapporParameters, read_params
from overstory.presentation.document import Paragraph
from overstory.protocol.channels import MAX_EPSILON
from overstory.protocol.errors import ParameterError
from overstory.trial.population import Column, draw_population, read_population
from overstory.trial.run import TrialBudget
from overstory.trial.values import ValueTrial, collect, subject_of

if TYPE_CHECKING:
    from overstory.trial.population import Population
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
    read, collect = _ways(args, path, budget)
    with progress("reading", Path(path).stat().st_size, quiet=args.quiet) as bar:
        held = read(advance=bar.advance)
    with progress("devices report", len(held) * budget.reports, quiet=args.quiet) as bar:
        return collect(held, advance=bar.advance)


def _ways(args: argparse.Namespace, path: str, budget: TrialBudget) -> tuple[Callable[..., Any], Callable[..., Trial]]:
    """Return what reads a file of this kind, and what collects it."""
    form = form_of(args.csv)
    if len(args.columns) > 1:
        from overstory.trial.tables import collect_pairs, count_pairs

        collect = partial(collect_pairs, budget=budget, oracle=args.oracle, seed=args.seed)
        return partial(count_pairs, path, args.columns, form=form), collect
    if args.separator is not None:
        from overstory.trial.item_sets import collect_sets, count_sets

        chosen = {"budget": budget, "oracle": args.oracle, "seed": args.seed, "most": args.most}
        return partial(count_sets, path, args.column, args.separator, form=form), partial(collect_sets, **chosen)
    if args.numeric is not None:
        from overstory.trial.numbers import collect_numbers, read_column_of_numbers  # which loads SciPy

        chosen = {"learned": args.numeric, "epsilon": budget.epsilon, "oracle": args.oracle}
        chosen |= dict(zip(("minimum", "maximum"), args.range or (None, None), strict=True))
        rng = np.random.default_rng([args.seed, 3])
        return partial(read_column_of_numbers, path, args.column, form=form), partial(
            collect_numbers, rng=rng, **chosen
        )

    column = _column(args, path)
    return partial(read_population, column, seed=args.seed), partial(_collect_values, args, column, budget)


def _column(args: argparse.Namespace, path: str) -> Column:
    bins = None
    if args.bins is not None:
        low, high, count = args.bins
        if not count.is_integer():
            raise ParameterError(f"--bins: {count:g} is no number of bins")
        bins = low, high, int(count)
    return Column(path, args.column, bins, args.candidates, args.people, form_of(args.csv))


def _collect_values(
    args: argparse.Namespace, column: Column, budget: TrialBudget, population: Population, advance: Callable[..., Any]
) -> ValueTrial:
    trial = collect(population, budget, args.oracle, args.seed, advance)
    return replace(trial, subject=subject_of(replace(column, path=args.file), population), is_advised=True)


def _budget(args: argparse.Namespace) -> TrialBudget:
    epsilon = 1.0 if args.epsilon is None else args.epsilon
    if not 0 < epsilon <= MAX_EPSILON:
        raise ParameterError(f"--epsilon {epsilon:g}: give a number above 0 and at most {MAX_EPSILON}")
    return TrialBudget(epsilon, args.epsilon_permanent, args.reports_per_device)


def _write_together(args: argparse.Namespace, trial: Trial, folder: Path) -> None:
    """Write every estimate, the JSON and the page, all or none. Say what they replace."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".part-") as name:
        part = Path(name)
        with writing_csv(part / "learned.csv", spreadsheet=args.spreadsheet) as text:
            trial.write_csv(text)
        with writing_text(part / "collect.json") as text:
            text.write(json.dumps(trial.to_json(), indent=2, allow_nan=False) + "\n")
        trial.write_page(part / "collect.html", shlex.join(args.line))
        if (folder / "learned.csv").exists():
            print(f"overstory collect: replaced the result in {folder}; -o DIR keeps both", file=sys.stderr)
        for file in sorted(part.iterdir()):
            file.replace(folder / file.name)


def demo(args: argparse.Namespace) -> Answer:
    """Do the main job on bundled real data, from devices to a page."""
    from overstory.trial.service import demonstrate

    usual = RapporParameters(k=128, h=2, m=16, p=0.5, q=0.75, f=0.5)
    parameters = read_params(args.params) if args.params else usual
    population = draw_population(args.states, args.reports, np.random.default_rng([args.seed, 0]))
    with progress("devices report", len(population), quiet=args.quiet) as bar:
        summary = demonstrate(population, parameters, args.seed, Path(args.output), bar.advance)
    page = summary.write_page(Path(args.output, "demo.html"), shlex.join(args.line))
    files = Paragraph(f"Files: {args.output}; page: {page.resolve()}")
    return Answer(summary.to_json() | {"page": str(page)}, chain(summary.blocks(), [files]))
