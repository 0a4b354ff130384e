"""What commands share: progress while they work, and answers printed and drawn."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from overstory.presentation.document import Block, Lines
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    import rich.progress

    from overstory.presentation.svg import Picture
    from overstory.queries.comparison import Comparison
    from overstory.queries.readings import GroupedReading, Reading


@dataclass
class Answer:
    """What a command found: values for --json, and blocks for a person; of some also tables for -o."""

    values: dict[str, Any]
    blocks: Iterable[Block]
    status: int = 0  # of the process
    write_csv: Callable[[TextIO], object] | None = None  # every value, where -o takes it: a file's name, or -
    tables: Iterable[Block] = ()  # then: for -o of a name that ends in .md or .tex
    indent: int | None = 2  # of the JSON; None: it stands in one line

    def give(self, args: argparse.Namespace) -> int:
        """Write -o where it is of tables, and print the answer; return the process's status."""
        if args.writes_tables and args.output:
            self.blocks = list(self.blocks)
            write_tables(args.output, self.blocks)
        elif self.write_csv is not None and (args.output == "-" or is_table(args.output)):
            self._write(args, self.write_csv)
            if args.output == "-":
                return self.status
        if args.json:
            print(self.as_json())
        else:
            self.say(args)
        return self.status

    def as_json(self) -> str:
        return json.dumps(
            self.values, indent=self.indent, separators=None if self.indent else (",", ":"), allow_nan=False
        )

    def say(self, args: argparse.Namespace) -> None:  # noqa: ARG002 - an answer is also for the quiet
        from overstory.presentation.render_text import print_document

        print_document(self.blocks)

    def _write(self, args: argparse.Namespace, write_csv: Callable[[TextIO], object]) -> None:
        Path(args.output).parent.mkdir(parents=True, exist_ok=True)
        if args.output.endswith((".md", ".tex")):
            write_tables(args.output, self.tables)
            return
        from overstory.files.io import writing_csv

        with writing_csv(args.output, spreadsheet=args.spreadsheet) as text:
            write_csv(text)


class Outcome(Answer):
    """What a command has done, in sentences: none with --quiet, and on the error stream where -o is a pipe."""

    def __init__(self, values: dict[str, Any], *blocks: str | Block) -> None:
        super().__init__(values, [Lines(block) if isinstance(block, str) else block for block in blocks])

    def say(self, args: argparse.Namespace) -> None:
        from overstory.presentation.render_text import UNFOLDED, as_text

        if getattr(args, "output", None) == "-":
            sys.stderr.write("" if args.quiet else as_text(self.blocks, UNFOLDED))
        elif not args.quiet:
            super().say(args)


def answer_of(
    args: argparse.Namespace, result: Reading | GroupedReading | Comparison, more: Iterable[Block] = ()
) -> Answer:
    """Write a result into the folder that -o may name, and return it as an answer that says where it is."""
    written = args.output
    is_folder = bool(written) and written != "-" and not is_table(written)

    def write_csv(text: TextIO) -> None:
        text.writelines(result.csv_lines())

    values = result.to_json(everything=args.all) if args.json or is_folder else {}
    answer = Answer(values, (), write_csv=write_csv, tables=result.blocks(everything=args.all), indent=None)
    if is_folder:
        from overstory.files.io import writing_csv, writing_text

        folder = Path(args.output)
        written = str(folder / f"{result.stem}.csv")
        folder.mkdir(parents=True, exist_ok=True)
        with writing_csv(written, spreadsheet=args.spreadsheet) as text:
            write_csv(text)
        with writing_text(folder / f"{result.stem}.json") as text:
            text.write(answer.as_json() + "\n")
    shown = result.blocks(everything=args.all, written=None if args.quiet else written)
    answer.blocks = chain(shown, more)
    return answer


def is_table(output: str | None) -> bool:
    """Return whether an output is a file of tables, by its ending: .csv, .md or .tex."""
    from overstory.presentation.result import ENDINGS

    return Path(output or "").suffix in ENDINGS


def write_tables(output: str, blocks: Iterable[Block]) -> None:
    """Write the tables of an answer in the form that the file's ending says."""
    from overstory.files.io import writing_text
    from overstory.presentation.result import ENDINGS, in_form

    if not is_table(output):
        raise ParameterError(f"{output}: a table is written into a file that ends in .csv, .md or .tex")
    with writing_text(output) as text:
        text.write(in_form(blocks, ENDINGS[Path(output).suffix]))


def command_of(args: argparse.Namespace) -> str:
    """Return the command that made a page, without where the page was written."""
    words = [word for word in args.line if not word.startswith("--output=")]
    for name in {"-o", "--output"}.intersection(words):
        place = words.index(name)
        del words[place : place + 2]
    return shlex.join(words)


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
