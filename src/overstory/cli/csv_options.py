"""Options for the format of a user's CSV file, and of the CSV files that we write."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from overstory.cli.arguments import add_option

if TYPE_CHECKING:
    from overstory.files.columns.layout import Form

TAB: Final = ("tab", r"\t")


def add_form(parser: argparse.ArgumentParser) -> None:
    """Add ``--delimiter``, ``--missing``, ``--strip``, ``--encoding`` and ``--no-header``."""
    group = parser.add_argument_group("format of the CSV file")
    group.add_argument("--delimiter", metavar="C", help="between fields: , ; | or tab (default: detected)")
    group.add_argument(
        "--missing", nargs="+", default=[], metavar="TEXT", help="texts that mean a missing value, such as NA '?'"
    )
    group.add_argument("--strip", action="store_true", help="remove spaces around fields")
    group.add_argument("--encoding", metavar="NAME", help="such as latin-1 (default: UTF-8, or UTF-16 by its mark)")
    group.add_argument("--no-header", action="store_true", help="the first line is data; columns are 1, 2, ...")


def add_spreadsheet(parser: argparse.ArgumentParser) -> None:
    """Add ``--spreadsheet``; `writing_csv` takes it."""
    add_option(parser, "--spreadsheet")


def form_of(args: argparse.Namespace) -> Form:
    """Return the format that these options give."""
    from overstory.files.columns.layout import Form

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
    from overstory.protocol.errors import OverstoryError

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
