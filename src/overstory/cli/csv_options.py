"""Options that say how a user's CSV file is written, where its first lines do not, and how ours are."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from overstory.files.columns.layout import Form

TAB: Final = ("tab", r"\t")


def add_form(parser: argparse.ArgumentParser) -> None:
    """Add ``--delimiter``, ``--missing``, ``--strip``, ``--encoding`` and ``--no-header``."""
    group = parser.add_argument_group("how the CSV file is written, where that is not sniffed")
    group.add_argument("--delimiter", metavar="C", help="between fields (default: sniffed among , ; | and tab)")
    group.add_argument(
        "--missing", nargs="+", default=[], metavar="TEXT", help="texts that stand for no value, such as NA '?'"
    )
    group.add_argument("--strip", action="store_true", help="drop the blanks around fields")
    group.add_argument("--encoding", metavar="NAME", help="such as latin-1 (default: UTF-8, or UTF-16 by its mark)")
    group.add_argument("--no-header", action="store_true", help="the first line is data; columns are 1, 2, ...")


def add_spreadsheet(parser: argparse.ArgumentParser) -> None:
    """Add ``--spreadsheet``; `overstory.files.spreadsheet.writing_csv` takes it."""
    meaning = "put an apostrophe before texts in CSV files that a spreadsheet would run as formulas (=, +, -, @)"
    parser.add_argument("--spreadsheet", action="store_true", help=meaning)


def form_of(args: argparse.Namespace) -> Form:
    """Return what these options say."""
    from overstory.files.columns.layout import Form

    delimiter = "\t" if args.delimiter in TAB else args.delimiter
    return Form(delimiter, tuple(args.missing), args.strip, args.encoding, not args.no_header)


@contextmanager
def seekable(name: str) -> Iterator[str]:
    """Give the file's name; standard input (``-``) is kept in a file meanwhile, as columns are read several times."""
    if name != "-":
        yield name
        return
    import shutil
    import tempfile
    from pathlib import Path

    from overstory.files.io import reading
    from overstory.protocol.errors import OverstoryError

    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder, "standard-input")
        with reading(name) as stream, kept.open("wb") as file:
            shutil.copyfileobj(stream, file)
        try:
            yield str(kept)
        except OverstoryError as error:
            error.args = (str(error).replace(str(kept), "standard input"),)  # nobody knows the file it is kept in
            raise


def form_words(args: argparse.Namespace) -> list[str]:
    """Return the options as they are written again."""
    words = ["--missing", *args.missing] if args.missing else []
    for name in ("delimiter", "encoding"):
        if getattr(args, name) is not None:
            words += ["--" + name, getattr(args, name)]
    return words + [option for option, on in (("--strip", args.strip), ("--no-header", args.no_header)) if on]
