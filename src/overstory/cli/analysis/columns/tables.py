"""``overstory collect FILE --column A --column B``: two of the user's own columns, and what they say of each other."""

from __future__ import annotations

import argparse
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from overstory.cli.analysis.columns.output import as_json, check_options, warn_of_replaced
from overstory.cli.arguments import form_of, form_words

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
    page = _written(trial, folder, _command(args), spreadsheet=args.spreadsheet)
    if args.json:
        print(as_json(trial, page=str(page)))
    else:
        from overstory.presentation.document import Paragraph
        from overstory.presentation.render_text import print_document

        print_document([*trial.blocks(is_conditional=args.conditional), Paragraph(f"Page: {page}")])
    return 0


def _collected(args: argparse.Namespace, path: str, budget: TrialBudget) -> TableTrial:
    from overstory.cli.progress import progress
    from overstory.trial.pairs import count_pairs
    from overstory.trial.tables import collect_pairs

    check_options(args, SINGLE, "one column: leave it out, or give one --column")
    with progress("reading", Path(path).stat().st_size) as bar:
        pairs = count_pairs(path, args.column, form=form_of(args), advance=bar.advance)
    with progress("devices report", len(pairs) * budget.reports) as bar:
        return collect_pairs(pairs, budget, args.oracle, args.seed, bar.advance)


def _command(args: argparse.Namespace) -> str:
    """Return the command that gives the same result."""
    command = ["overstory", "collect", args.file, *(word for name in args.column for word in ("--column", name))]
    for name in ("epsilon", "epsilon_report", "epsilon_permanent"):
        if getattr(args, name) is not None:
            command += ["--" + name.replace("_", "-"), str(getattr(args, name))]
    command += [*(["--conditional"] if args.conditional else []), "--oracle", args.oracle, *form_words(args)]
    return shlex.join([*command, "--reports-per-device", str(args.reports_per_device), "--seed", str(args.seed)])


def _written(trial: TableTrial, folder: Path, command: str, *, spreadsheet: bool) -> Path:
    """Write every pair, the JSON and the page, all or none; return the page's path."""
    from overstory.files.io import writing_text
    from overstory.presentation.render_html import as_page

    page = folder / "collect.html"
    warn_of_replaced(page)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".part-") as name:
        part = Path(name)
        _write_learned(trial, str(part / "learned.csv"), spreadsheet=spreadsheet)
        with writing_text(part / "collect.json") as text:
            text.write(as_json(trial) + "\n")
        with writing_text(part / page.name) as text:
            text.write(as_page(trial.page(command), title=f"Overstory: {' and '.join(trial.pairs.names)}"))
        for file in sorted(part.iterdir()):
            file.replace(folder / file.name)
    return page


def _write_learned(trial: TableTrial, path: str, *, spreadsheet: bool) -> None:
    from overstory.files.io import writing_csv
    from overstory.presentation.render_data import csv_lines
    from overstory.trial.tables import COLUMNS

    with writing_csv(path, spreadsheet=spreadsheet) as text:
        text.writelines(csv_lines(COLUMNS, ([row[column.name] for column in COLUMNS] for row in trial.rows())))
