"""What every command has: its options, declared as data, so that help loads nothing; and the answer that it gives.

One name of an option means one thing everywhere. Answers are printed and drawn, and long work shows its progress.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TextIO

from overstory.protocol.errors import OverstoryError, ParameterError

if TYPE_CHECKING:
    import rich.progress

    from overstory.engines.driver import Engine, Run
    from overstory.engines.units import Job, Unit
    from overstory.files.columns import Form as ColumnForm
    from overstory.presentation.document import Block
    from overstory.presentation.svg import Picture
    from overstory.queries.comparison import Comparison
    from overstory.queries.readings import GroupedReading, Reading


def _whole(least: int) -> tuple[Callable[[int], bool], str]:
    return lambda number: number >= least, f"give a whole number, {least} or more"


AT_LEAST_ONE: Final = _whole(1)
SHORT: Final = {"--output": "-o"}
SHARED: Final[dict[str, Option]] = {}  # the options that several commands share; a command adds what differs


class Option:
    """An option or an argument as data, a shared one with what differs; one with a scope is a setting."""

    def __init__(
        self,
        name: str,
        text: str | None = None,
        metavar: str | tuple[str, ...] | None = None,
        type: Any = None,  # noqa: A002 - as argparse calls it
        default: Any = None,
        *,
        fits: tuple[Callable[[Any], bool], str] | None = None,
        **differences: Any,
    ) -> None:
        self.fits: tuple[Callable[[Any], bool], str] | None = fits or (
            SHARED[name].fits if name in SHARED and type is not str else None
        )
        positional = {"help": text, "metavar": metavar, "type": type, "default": default}
        given = {key: value for key, value in positional.items() if value is not None}
        self.name: str = name
        self.settings: dict[str, Any] = (SHARED[name].settings if name in SHARED else {}) | given | differences
        self.default, self.kind = self.settings.get("default"), self.settings.get("type", str)
        self.scope: str | None = None
        self.on_command_line = True
        text = self.settings.get("help", "")
        if isinstance(self.default, (str, int, float)) and self.default and "default" not in (text or ""):
            shown = f"{self.default:g}" if isinstance(self.default, float) else self.default
            self.settings["help"] = f"{text} (default: {shown})"

    @property
    def key(self) -> str:
        return str(self.settings.get("dest", self.name.removeprefix("--").replace("-", "_")))

    @property
    def shown(self) -> str:
        """What a sentence calls it: its name, or what the help shows in its place on the command line."""
        return self.name if self.name.startswith("--") else str(self.settings.get("metavar", self.name))

    def is_given(self, args: argparse.Namespace) -> bool:
        """Whether the command line has it; one that repeats the default counts as left out."""
        value = getattr(args, self.key)
        return value is not None and value is not False and value not in ([], self.default)

    def check_value(self, value: Any, where: str) -> None:
        if self.fits is not None and not self.fits[0](value):
            raise ParameterError(f"{where}: {self.fits[1]}")

    @property
    def variable(self) -> str:
        return f"{PREFIX}{self.scope}{self.key.upper()}"

    def add_to(self, parser: Any) -> None:
        """Add it to a command or a group; a setting is None unless it is given there."""
        names = [SHORT[self.name], self.name] if self.name in SHORT else [self.name]
        chosen = self.settings if self.scope is None else self.settings | {"default": None}
        if self.kind is bool:
            chosen = {"help": chosen["help"], "default": None, "action": argparse.BooleanOptionalAction}
        parser.add_argument(*names, **chosen)


SHARED.update(
    (option.name, option)
    for option in (
        Option("--alpha", "the bound, a fraction", type=float, default=0.05),
        Option("--column", "the column with the values", "C"),
        Option("--epsilon", "privacy loss of one report (epsilon; smaller is more private)", "E", float),
        Option("--epsilon-permanent", "privacy loss of all reports of one value together", "Y", float),
        Option("--from", "the first period, such as 2026-11-21 or 2026-W47", "PERIOD", dest="first"),
        Option("--group", "only the devices of this group, of a metric with groups", "NAME"),
        Option("--output", None, "FILE"),
        Option("--param", "a parameter of the oracle; may be repeated", "NAME=VALUE", action="append", default=[]),
        Option("--params", "RAPPOR's parameters: header k,h,m,p,q,f (and hash_family, hash_key) and one row", "FILE"),
        Option("--registry", "the metric registry", "FILE"),
        Option("--seed", "the same seed gives the same output", "N", int, fits=_whole(0)),
        Option(
            "--spreadsheet",
            "write an apostrophe before texts in CSV files that a spreadsheet would run as formulas (=, +, -, @)",
            action="store_true",
        ),
        Option("--to", "the last period, included", "PERIOD", dest="last"),
    )
)


class Group:
    """Options under a title."""

    def __init__(self, title: str, *options: Option) -> None:
        self._title, self.options = title, options

    def add_to(self, parser: Any) -> None:
        group = parser.add_argument_group(self._title)
        for option in self.options:
            option.add_to(group)


@dataclass
class Rule:
    """What must hold of the options that are given together."""

    options: tuple[str, ...]
    others: tuple[str, ...] = ()
    why: str = ""
    must: bool = False  # of `OneOf`: one of them must be given

    def check(self, given: Sequence[str]) -> None:
        """Raise ParameterError where it does not hold; `given` are the options' names, in the order of the help."""
        if problem := self.problem(given):
            raise ParameterError(f"{problem}: {self.why}" if self.why else problem)

    def problem(self, given: Sequence[str]) -> str | None:
        raise NotImplementedError


class Needs(Rule):
    """Options that have no effect unless one of others is given."""

    def problem(self, given: Sequence[str]) -> str | None:
        idle = [name for name in given if name in self.options]
        is_idle = idle and not set(given).intersection(self.others)
        return f"{idle[0]} has no effect without {' or '.join(self.others)}" if is_idle else None


class Idle(Rule):
    """Options that have no effect where one of others is given."""

    def problem(self, given: Sequence[str]) -> str | None:
        idle, others = ([name for name in given if name in names] for names in (self.options, self.others))
        return f"{idle[0]} has no effect with {others[0]}" if idle and others else None


class OneOf(Rule):
    """Options of which one may be given, or must be."""

    def problem(self, given: Sequence[str]) -> str | None:
        chosen = [name for name in given if name in self.options]
        if len(chosen) > 1:
            return f"{' and '.join(chosen)} exclude each other: give one"
        return f"give one of {', '.join(self.options)}" if self.must and not chosen else None


class Together(Rule):
    """Options that are given all, or none of them."""

    def problem(self, given: Sequence[str]) -> str | None:
        missing = [name for name in self.options if name not in given]
        is_part = 0 < len(missing) < len(self.options)
        return f"{', '.join(missing)} missing: {' and '.join(self.options)} belong together" if is_part else None


@dataclass(frozen=True)
class Form:
    """A form of a command: which options choose it, which it needs, and which it takes that others may not."""

    name: str  # after "has no effect"
    chosen: tuple[str, ...] = ()  # none: it is the last form, for whatever chooses no other
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


class Forms(Rule):
    """The forms of a command: the first that is chosen counts."""

    def __init__(self, *forms: Form, why: str = "") -> None:
        super().__init__((), why=why)
        self.forms = forms

    def problem(self, given: Sequence[str]) -> str | None:
        form = next(form for form in self.forms if not form.chosen or not set(given).isdisjoint(form.chosen))
        fitting = {*form.chosen, *form.takes, *form.needs}
        for name in given:
            if name not in fitting and any(name in (*other.chosen, *other.takes) for other in self.forms):
                return f"{name} has no effect {form.name}"
        missing = [name for name in form.needs if name not in given]
        return f"{', '.join(missing)} missing {form.name}" if missing else None


class Command:
    """A command, or an action of one, as data; it runs in MODULE, or MODULE:FUNCTION, below `overstory.cli`."""

    def __init__(
        self,
        name: str,
        example: str,
        *options: Option | Group,
        summary: str = "",
        more: str = "",
        runs: str = "",
        actions: Iterable[Command] = (),
        rules: tuple[Rule, ...] = (),
        prints_json: bool = True,
        writes_tables: bool = False,
    ) -> None:
        self.name, self._example, self._summary, self._more = name, example, summary, more
        each = [one for given in options for one in (given.options if isinstance(given, Group) else (given,))]
        self.options, self.actions = [one for one in each if one.on_command_line], tuple(actions)
        self.rules = rules
        self._groups = tuple(one for one in options if isinstance(one, Group) or one.on_command_line)
        if keys := [one for one in each if not one.on_command_line]:
            lines = (f"  {one.key:16} {one.settings['help']}" for one in keys)
            self._more = "\n".join((more, "", "Settings without an option:", *lines))
        self._runs, self._prints_json, self._writes_tables = runs, prints_json, writes_tables

    def add_to(self, commands: Any, summary: str = "") -> None:
        """Add it, with its actions, and the options that every command has."""
        summary = summary or self._summary
        parser = commands.add_parser(
            self.name,
            help=summary,
            description=f"{summary[:1].upper()}{summary[1:]}.\n\n{self._more}".rstrip(),
            epilog=f"example:\n  {self._example}",
        )
        for option in self._groups:
            option.add_to(parser)
        if self._runs:
            parser.set_defaults(
                runs=self._runs, check_options=self.check, json=False, writes_tables=self._writes_tables
            )
            common = parser.add_argument_group("of every command")
            if self._prints_json:
                common.add_argument("--json", action="store_true", help="print the outcome as JSON")
            common.add_argument("--quiet", action="store_true", help="print no progress bar and no closing line")
        if self.actions:
            actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
            for action in self.actions:
                action.add_to(actions)

    def check(self, args: argparse.Namespace) -> None:
        """Raise ParameterError where an option has no value that fits, or options do not go together."""
        chosen = [option for option in self.options if option.is_given(args)]
        for option in chosen:
            value = getattr(args, option.key)
            shown = f"{value:g}" if isinstance(value, float) else value
            option.check_value(value, f"{option.shown} {shown}")
        given = [option.shown for option in chosen]
        for rule in self.rules:
            rule.check(given)


PREFIX: Final = "OVERSTORY_"


def settings(scope: str, *options: Option) -> tuple[Option, ...]:
    for option in options:
        option.scope = scope
    return options


def keys(*options: Option) -> tuple[Option, ...]:
    """Return settings that few need: the command line does not have them."""
    for option in options:
        option.on_command_line = False
    return options


def flag(name: str, text: str) -> Option:
    return Option(name, text, action="store_true")


def check_pipes(args: argparse.Namespace, *inputs: str) -> None:
    """Raise ParameterError when two inputs are standard input, or two outputs standard output."""
    named = [getattr(args, name) for name in inputs]
    if sum(name.count("-") if isinstance(name, list) else name == "-" for name in named) > 1:
        raise ParameterError("standard input (-) can be read only once: give it to one option")
    if args.output == "-" and args.json:
        raise ParameterError("-o - and --json both write to standard output: give only one of them")


def shown(output: str) -> str:
    return "standard output" if output == "-" else output


def is_address(store: str) -> bool:
    return store.startswith(("http://", "https://"))


def token_of_environment(role: str) -> str:
    """Return the token for sending (`WRITE`) or for reading (`ADMIN`) from the environment."""
    return os.environ.get(f"OVERSTORY_{role}_TOKEN", "")


CSV: Final = Option(
    "--csv",
    "how the file is written; may be repeated: delimiter=C (one character, or tab), missing=TEXT, encoding=NAME, "
    "no-header (the columns are 1, 2, ...), tidy (texts that differ in blanks or case are one), decimal=C (comma or "
    "point), dates=dmy or mdy (day or month first), dates=day, week, month or year (what dates are counted by), words "
    "(count texts as they are)",
    "KEY[=VALUE]",
    action="append",
    default=[],
)


CSV_KEYS: Final = (
    *(f"{key}=..." for key in ("delimiter", "missing", "encoding", "decimal", "dates")),
    *("tidy", "no-header", "words"),
)


def form_of(words: Sequence[str]) -> ColumnForm:
    from overstory.analysis.tables.columns import PERIODS
    from overstory.files.columns import Form

    given: dict[str, list[str]] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if f"{key}{equals and '=...'}" not in CSV_KEYS:
            raise ParameterError(f"--csv {word}: give {', '.join(CSV_KEYS)}")
        given.setdefault(key, []).append(value)
    delimiter, encoding, decimal = (given.get(key, [None])[-1] for key in ("delimiter", "encoding", "decimal"))
    tab, missing = "\t" if delimiter in {"tab", r"\t"} else delimiter, tuple(given.get("missing", ()))
    dates = {"by" if value in PERIODS else "dates": value for value in given.get("dates", ())}
    flags = "tidy" in given, encoding, "no-header" not in given
    return Form(tab, missing, *flags, decimal, dates.get("dates"), dates.get("by"), "words" in given)


@contextmanager
def seekable(name: str) -> Iterator[str]:
    """Give the file's name; standard input (``-``) is copied into a file, for columns are read several times."""
    if name != "-":
        yield name
        return
    import shutil
    import tempfile
    from pathlib import Path

    from overstory.files.io import reading

    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "standard-input")
        with reading(name) as stream, copy.open("wb") as file:
            shutil.copyfileobj(stream, file)
        try:
            yield str(copy)
        except OverstoryError as error:
            # The copy has a name that the user never gave.
            error.args = (str(error).replace(str(copy), "standard input"),)
            raise


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
        import json

        return json.dumps(
            self.values, indent=self.indent, separators=None if self.indent else (",", ":"), allow_nan=False
        )

    def say(self, args: argparse.Namespace) -> None:  # noqa: ARG002 - an answer is also for the quiet
        from overstory.presentation.render_text import print_document

        print_document(self.blocks)

    def _write(self, args: argparse.Namespace, write_csv: Callable[[TextIO], object]) -> None:
        from pathlib import Path

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
        from overstory.presentation.document import Lines

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
        from pathlib import Path

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

    return (output or "").endswith(tuple(ENDINGS))


OF_TABLES: Final = "tables are written into a file that ends in .csv, .md or .tex"
TABLES: Final = Option("--output", "write the tables: .csv, .md or .tex (LaTeX)", fits=(is_table, OF_TABLES))


def write_tables(output: str, blocks: Iterable[Block]) -> None:
    """Write the tables of an answer in the form that the file's ending says."""
    from overstory.files.io import writing_text
    from overstory.presentation.result import ENDINGS, in_form

    if not is_table(output):
        raise ParameterError(f"--output {output}: {OF_TABLES}")
    with writing_text(output) as text:
        text.write(in_form(blocks, ENDINGS[output[output.rindex(".") :]]))


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


def count_units(engine: Engine, job: Job, units: Sequence[Unit], *, quiet: bool) -> Run:
    """Return what the engine counts, and show how much of it is done."""
    from overstory.engines.driver import count

    size = sum(unit.num_bytes for unit in units)
    with progress(f"counting ({engine.name})", size or None, quiet=quiet, in_bytes=True) as bar:
        return count(engine, job, units, advance=bar.advance)


def tell_notes(command: str, notes: Iterable[str]) -> None:
    for note in notes:
        print(f"overstory {command}: note: {note}", file=sys.stderr)
