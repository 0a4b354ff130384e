"""What commands share: progress while they work, and answers printed and drawn."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    import rich.progress

    from overstory.presentation.document import Block
    from overstory.presentation.svg import Picture
    from overstory.queries.comparison import Comparison
    from overstory.queries.readings import GroupedReading, Reading


def show_answer(
    args: argparse.Namespace, answer: Reading | GroupedReading | Comparison, more: Iterable[Block] = ()
) -> None:
    """Write an answer to the files that are asked for, and print it as JSON or as blocks that name the file."""
    written, facts = args.output, partial(answer.to_json, everything=args.all)
    if args.output == "-" or is_table(args.output):
        Path(args.output).parent.mkdir(parents=True, exist_ok=True)
        write_table(args, answer.blocks(everything=args.all), lambda text: text.writelines(answer.csv_lines()))
    elif args.output:
        from overstory.files.io import writing_csv, writing_text

        folder = Path(args.output)
        written = str(folder / f"{answer.stem}.csv")
        folder.mkdir(parents=True, exist_ok=True)
        with writing_csv(written, spreadsheet=args.spreadsheet) as text:
            text.writelines(answer.csv_lines())
        with writing_text(folder / f"{answer.stem}.json") as text:
            text.write(_json(facts()) + "\n")
    if args.output == "-":
        return
    if args.json:
        print(_json(facts()))
    else:
        from overstory.presentation.render_text import print_document

        shown = answer.blocks(everything=args.all, written=None if args.quiet else written)
        print_document(chain(shown, more))


def _json(facts: dict[str, Any]) -> str:
    return json.dumps(facts, separators=(",", ":"), allow_nan=False)


def write_table(args: argparse.Namespace, blocks: Iterable[Block], write_csv: Callable[[TextIO], object]) -> None:
    """Write -o: the tables into .md or .tex, else CSV, with every value."""
    if args.output.endswith((".md", ".tex")):
        write_tables(args.output, blocks)
        return
    from overstory.files.io import writing_csv

    with writing_csv(args.output, spreadsheet=args.spreadsheet) as text:
        write_csv(text)


def is_table(output: str | None) -> bool:
    """Return whether an output is a file of tables, by its ending: .csv, .md or .tex."""
    from overstory.presentation.result import ENDINGS

    return Path(output or "").suffix in ENDINGS


def write_tables(output: str, blocks: Iterable[Block]) -> None:
    """Write the tables of an answer in the form that the file's ending says."""
    from overstory.files.io import writing_text
    from overstory.presentation.result import ENDINGS, in_form

    with writing_text(output) as text:
        text.write(in_form(blocks, ENDINGS[Path(output).suffix]))


def draw(path: str, pictures: Sequence[Picture]) -> None:
    if not pictures:
        raise ParameterError(f"--plot {path}: there are no reports to draw")
    from overstory.files.io import writing_text
    from overstory.presentation.render_html import as_svg

    with writing_text(path) as text:
        text.write(as_svg(*pictures))


class Progress:
    """A bar on the error stream, or nothing where that is no terminal."""

    def __init__(self, shown: rich.progress.Progress | None = None, task: Any = None) -> None:
        self._shown, self._task = shown, task

    @property
    def is_shown(self) -> bool:
        return self._shown is not None

    def advance(self, amount: float) -> None:
        if self._shown is not None:
            self._shown.advance(self._task, amount)

    def reach(self, done: float, label: str) -> None:
        if self._shown is not None:
            self._shown.update(self._task, completed=done, description=label)


@contextmanager
def progress(label: str, total: float | None, *, quiet: bool = False, in_bytes: bool = False) -> Iterator[Progress]:
    if quiet or not sys.stderr.isatty():
        yield Progress()
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar
    except ImportError:  # of the extra `analysis`; what it shows is not worth an error
        yield Progress()
        return

    amount = DownloadColumn() if in_bytes else TaskProgressColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as shown:
        yield Progress(shown, shown.add_task(label, total=total))


@contextmanager
def reading_bar(label: str, paths: Sequence[str], *, quiet: bool = False) -> Iterator[Callable[[int], None] | None]:
    """Show how much of some files has been read; yield the function that takes bytes, None where nobody sees it."""
    size = None if "-" in paths else sum(os.path.getsize(path) for path in paths) or None  # noqa: PTH202
    with progress(label, size, quiet=quiet, in_bytes=True) as shown:
        yield shown.advance if shown.is_shown else None


def tell_notes(command: str, notes: Iterable[str]) -> None:
    for note in notes:
        print(f"overstory {command}: note: {note}", file=sys.stderr)
