"""CSV for spreadsheets: no cell of it is a formula, and every value can be read back exactly."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from overstory.files.csv import quoted
from overstory.files.io import FilePath, writing_text

FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a cell that a spreadsheet takes for a formula starts with; the last four are full-width forms."""
MARK: Final = "'"
"""Put before such a cell; a reader that wants the exact value takes one away."""


def for_spreadsheet(lines: Iterable[str]) -> Iterator[str]:
    r"""Yield lines of CSV of which no cell is a formula: one that would be begins with an apostrophe.

    So does a cell that begins with one anyway, twice: taking one away gives every value back. Candidates may be words
    that devices made up.

    Examples
    --------
    >>> list(for_spreadsheet(["value,estimate\n", "=1+1,-2.5\n", "'tis,7\n"]))
    ['value,estimate\n', "'=1+1,-2.5\n", "''tis,7\n"]
    """
    for cells in csv.reader(lines):
        yield ",".join(quoted(MARK + cell if _is_marked(cell) else cell) for cell in cells) + "\n"


def _is_marked(cell: str) -> bool:
    return cell.startswith((*FORMULA, MARK)) and not _is_number(cell)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return cell.isascii() and cell.strip() == cell


@contextmanager
def writing_csv(path: FilePath, *, spreadsheet: bool) -> Iterator[TextIO]:
    """Open a file to write CSV into; with `spreadsheet`, no cell of what is written is a formula."""
    with writing_text(path) as text:
        if not spreadsheet:
            yield text
            return
        lines = io.StringIO(newline="")
        yield lines
        lines.seek(0)
        text.writelines(for_spreadsheet(lines))
