"""Options that several commands share, so that one name means one thing everywhere; those of CSV files, too."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from overstory.presentation.document import Lines
from overstory.protocol.errors import OverstoryError, ParameterError

if TYPE_CHECKING:
    from overstory.files.columns import Form
    from overstory.files.rappor import RapporParameters
    from overstory.presentation.document import Block
    from overstory.protocol.kinds.bits import BitMechanism


SHORT: Final = {"--output": "-o"}
SHARED: Final[dict[str, Option]] = {}
"""The options that several commands share; a command adds what differs."""


class Option:
    """An option or an argument of a command, as data; a shared one needs only what differs from its usual settings.

    One with a scope is a setting: also a variable, and a key of a file (`settings`).
    """

    def __init__(
        self,
        name: str,
        text: str | None = None,
        metavar: str | tuple[str, ...] | None = None,
        type: Any = None,  # noqa: A002 - as argparse calls it
        default: Any = None,
        **differences: Any,
    ) -> None:
        positional = {"help": text, "metavar": metavar, "type": type, "default": default}
        given = {key: value for key, value in positional.items() if value is not None}
        self.name: str = name
        self.settings: dict[str, Any] = (SHARED[name].settings if name in SHARED else {}) | given | differences
        self.default, self.kind = self.settings.get("default"), self.settings.get("type", str)
        self.choices: tuple[str, ...] = self.settings.get("choices", ())
        self.scope: str | None = None
        text = self.settings.get("help", "")
        if isinstance(self.default, (str, int, float)) and self.default and "default" not in (text or ""):
            shown = f"{self.default:g}" if isinstance(self.default, float) else self.default
            self.settings["help"] = f"{text} (default: {shown})"

    @property
    def key(self) -> str:
        """The name of the parsed argument."""
        return self.name.removeprefix("--").replace("-", "_")

    @property
    def repeatable(self) -> bool:
        """Whether it is a list of texts: several options, a list or one text in a file, `;` between a variable's."""
        return self.settings.get("action") == "append"

    @property
    def variable(self) -> str:
        """The environment variable of a setting."""
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
        Option(
            "--adjustment",
            "the intervals of detected (or changed) values: fcr, wider, so that the level holds for those too; "
            "conditional, given the detection, with a corrected estimate; none, plain",
            choices=("fcr", "conditional", "none"),
            default="fcr",
        ),
        Option("--alpha", "the bound, a fraction", type=float, default=0.05),
        Option("--column", "the column with the values", "C"),
        Option(
            "--correction",
            "what --alpha bounds: fdr, the share of false detections; bonferroni, the chance of any",
            choices=("fdr", "bonferroni"),
            default="fdr",
        ),
        Option("--epsilon", "privacy loss of one report (epsilon; smaller is more private)", "E", float),
        Option("--epsilon-permanent", "privacy loss of all reports of one value together", "Y", float),
        Option("--from", "the first period, such as 2026-11-21 or 2026-W47", "PERIOD", dest="first"),
        Option("--group", "only the devices of this group, of a metric with groups", "NAME"),
        Option("--hash-family", None, "NAME"),
        Option("--hash-key", "public key of overstory-v1 (default: none)", "KEY", default=""),
        Option("--interval", choices=("reports", "population")),
        Option("--json", "print the outcome as JSON", action="store_true"),
        Option("--output", None, "FILE"),
        Option("--param", "a parameter of the oracle; may be repeated", "NAME=VALUE", action="append", default=[]),
        Option("--params", "RAPPOR's parameters: header k,h,m,p,q,f and one row", "FILE"),
        Option("--plot", "draw a picture into this file, an .svg", "FILE"),
        Option("--quiet", "print no progress bar and no closing line", action="store_true"),
        Option("--registry", "the metric registry", "FILE"),
        Option("--seed", "the same seed gives the same output", "N", int),
        Option("--skip-bad", action="store_true"),
        Option(
            "--spreadsheet",
            "write an apostrophe before texts in CSV files that a spreadsheet would run as formulas (=, +, -, @)",
            action="store_true",
        ),
        Option("--to", "the last period, included", "PERIOD", dest="last"),
        Option("--token", None, "TOKEN"),
    )
)


class Group:
    """Options under a title; without one, options that exclude each other."""

    def __init__(self, title: str | None, *options: Option | Group) -> None:
        self._title, self._options = title, options

    def add_to(self, parser: Any) -> None:
        """Add them to a command."""
        group = parser.add_argument_group(self._title) if self._title else parser.add_mutually_exclusive_group()
        for option in self._options:
            option.add_to(group)


class Command:
    """A command, or an action of one, as data: its help loads nothing that runs.

    It runs in a module below `overstory.cli` with ``run(args) -> int``, or in a function: ``MODULE:FUNCTION``.
    """

    def __init__(
        self,
        name: str,
        example: str,
        *options: Option | Group,
        summary: str = "",
        more: str = "",
        runs: str = "",
        actions: Iterable[Command] = (),
    ) -> None:
        self.name, self._example, self._options, self._summary, self._more = name, example, options, summary, more
        self._runs, self._actions = runs, tuple(actions)

    def add_to(self, commands: Any, summary: str = "") -> None:
        """Add it, with its actions."""
        summary = summary or self._summary
        parser = commands.add_parser(
            self.name,
            help=summary,
            description=f"{summary[:1].upper()}{summary[1:]}.\n\n{self._more}".rstrip(),
            epilog=f"example:\n  {self._example}",
        )
        for option in self._options:
            option.add_to(parser)
        if self._runs:
            parser.set_defaults(runs=self._runs)
        if self._actions:
            actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
            for action in self._actions:
                action.add_to(actions)


PREFIX: Final = "OVERSTORY_"


def settings(scope: str, *options: Option) -> tuple[Option, ...]:
    """Return options that are settings; their variables have the scope after the prefix."""
    for option in options:
        option.scope = scope
    return options


def flag(name: str, text: str) -> Option:
    """Return an option without a value."""
    return Option(name, text, action="store_true")


def hashing_options(*, otherwise: str = "overstory-v1", note: str = "") -> tuple[Option, ...]:
    """Return ``--hash-family`` and ``--hash-key``; `hashing` reads them."""
    families = f"overstory-v1 or google-rappor-python (default: {otherwise}){note}"
    return Option("--hash-family", families), Option("--hash-key")


PAIR: Final = (
    Option("--pair", "the two variables of every report: columns of its files", "NAME", nargs=2),
    Option("--boolean", "the one of them that is one bit: true or false", "NAME"),
)


ENGINES: Final = ("local", "dask", "spark")
UNFINISHED: Final = ".unfinished"
ENGINE_ALONE: Final = ("engine", "workers", "scheduler", "master", "no_verify", "resume", "dry_run")
"""Options that only an engine takes."""


def engine_options(*more: Option, unfinished: bool = False) -> Group:
    """Return the options, and a command's own; one without a file of its name resumes only where a file is named."""
    default = f"the name of the output and {UNFINISHED}" if unfinished else "nowhere"
    return Group(
        "of Parquet and packed batches, by an engine",
        Option("--engine", "what counts: processes here, Dask or Spark (default: local)", choices=ENGINES),
        Option("--workers", "processes (default: one for each core)", "N", int),
        Option("--scheduler", "of a running Dask scheduler, such as tcp://host:8786", "ADDRESS"),
        Option("--master", "of Spark, such as spark://host:7077 (default: this machine)", "URL"),
        *more,
        flag("--no-verify", "count without comparing the files' checksums"),
        Option(
            "--resume",
            f"where finished units are written; a run that was killed goes on from there (default: {default})",
            "FILE",
        ),
        flag("--dry-run", "print what would be read and how long it may take"),
    )


SOURCES: Final = Group(
    "what made the reports (unless given: the label of a Parquet file)",
    Option("--params"),
    *hashing_options(otherwise="any", note="; packed and Parquet files are checked against it"),
    Option("--registry"),
    Option("--metric", "with --registry: the metric", "ID"),
)


def check_sources(args: argparse.Namespace) -> None:
    """Refuse two sources, or half of one."""
    if args.params and args.registry:
        raise ParameterError("--params and --registry are two sources: give one")
    if bool(args.registry) != bool(args.metric):
        raise ParameterError("--registry and --metric belong together: the file, and the metric's id in it")
    if (args.hash_family or args.hash_key) and not args.params:
        raise ParameterError("--hash-family and --hash-key have no effect without --params")


def hashing(args: argparse.Namespace) -> dict[str, Any]:
    """Return the hash family and key that were asked for, as what makes a RAPPOR takes them."""
    asked = {"hash_family": args.hash_family, "hash_key": args.hash_key}
    return {name: value for name, value in asked.items() if value is not None}


def given(args: argparse.Namespace, names: Iterable[str]) -> list[str]:
    """Return which of these options were given, as they are written."""
    values = {name: getattr(args, name) for name in names}
    return [
        "--" + name.replace("_", "-")
        for name, value in values.items()
        if value is not None and value is not False and value != ""
    ]


def check_plot(path: str | None) -> None:
    """Raise ParameterError unless a picture can be drawn into a file of that name."""
    if path and not path.endswith(".svg"):
        raise ParameterError(f"--plot {path}: pictures are SVG: give a name that ends in .svg")


def check_pipes(args: argparse.Namespace, *inputs: str) -> None:
    """Raise ParameterError when two inputs are standard input, or two outputs standard output."""
    named = [getattr(args, name) for name in inputs]
    if sum(name.count("-") if isinstance(name, list) else name == "-" for name in named) > 1:
        raise ParameterError("standard input (-) can be read only once: give it to one option")
    if args.output == "-" and args.json:
        raise ParameterError("-o - and --json both write to standard output: give only one of them")


def shown(output: str) -> str:
    """Return an output's name in a sentence."""
    return "standard output" if output == "-" else output


def check_seed(seed: int | None) -> None:
    """Raise ParameterError unless the generators take such a seed."""
    if seed is not None and seed < 0:
        raise ParameterError(f"--seed {seed}: give a whole number, 0 or more")


def read_mechanism(args: argparse.Namespace) -> tuple[RapporParameters, BitMechanism]:
    """Return the parameters that ``--params`` names, and their mechanism with the hash family asked for."""
    from overstory.files.rappor import read_params

    parameters = read_params(args.params)
    return parameters, parameters.mechanism(**hashing(args))


def token_of_environment(role: str) -> str:
    """Return the token for sending (`WRITE`) or for reading (`ADMIN`) from the environment."""
    return os.environ.get(f"OVERSTORY_{role}_TOKEN", "")


def print_answer(args: argparse.Namespace, values: dict[str, Any], blocks: Iterable[Block]) -> None:
    """Print values as JSON with ``--json``, else blocks, also with ``--quiet``."""
    if args.json:
        print(json.dumps(values, indent=2, allow_nan=False))
    else:
        from overstory.presentation.render_text import print_document

        print_document(blocks)


def print_outcome(args: argparse.Namespace, outcome: dict[str, Any], *shown: str | Block) -> None:
    """Print the outcome: as JSON with ``--json``, nothing with ``--quiet``, else as sentences and blocks.

    These go to the error stream where the data go to standard output.
    """
    from overstory.presentation.render_text import UNFOLDED, as_text, print_document

    if args.json:
        print(json.dumps(outcome, indent=2, allow_nan=False))
    elif not getattr(args, "quiet", False):
        blocks = [Lines(block) if isinstance(block, str) else block for block in shown]
        if getattr(args, "output", None) == "-":
            sys.stderr.write(as_text(blocks, UNFOLDED))
        else:
            print_document(blocks)


TAB: Final = ("tab", r"\t")


FORM: Final = Group(
    "format of the CSV file",
    Option("--delimiter", "between fields: , ; | or tab (default: detected)", "C"),
    Option("--missing", "texts that mean a missing value, such as NA '?'", "TEXT", nargs="+", default=[]),
    flag("--strip", "remove spaces around fields"),
    Option("--encoding", "such as latin-1 (default: UTF-8, or UTF-16 by its mark)", "NAME"),
    flag("--no-header", "the first line is data; columns are 1, 2, ..."),
)


def form_of(args: argparse.Namespace) -> Form:
    """Return the format that these options give."""
    from overstory.files.columns import Form

    delimiter = "\t" if args.delimiter in TAB else args.delimiter
    return Form(delimiter, tuple(args.missing), args.strip, args.encoding, not args.no_header)


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
            error.args = (
                str(error).replace(str(copy), "standard input"),
            )  # the copy has a name that the user never gave
            raise


def form_words(args: argparse.Namespace) -> list[str]:
    """Return these options as they are written on a command line."""
    words = ["--missing", *args.missing] if args.missing else []
    for name in ("delimiter", "encoding"):
        if getattr(args, name) is not None:
            words += ["--" + name, getattr(args, name)]
    return words + [option for option, on in (("--strip", args.strip), ("--no-header", args.no_header)) if on]
