"""Tables and lines for a person: drawn by Rich at a terminal; elsewhere the same characters, without loading it."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.console import Console

    from overstory.analysis.estimate import Estimate


FORCING: Final = ("FORCE_COLOR", "TTY_COMPATIBLE")
"""Variables that make Rich write for a terminal where there is none."""

GAP: Final = "  "


def print_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: Collection[str],
    width: int,
    dim: Collection[int] = (),
) -> None:
    """Print rows of printable text under a header, all columns but those in `left` to the right."""
    lines = None if _is_drawn() else plain_lines(head, rows, left, width)
    if lines is not None:
        print("\n".join(lines))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in head:
        table.add_column(name, justify="left" if name in left else "right", overflow="fold")
    for index, row in enumerate(rows):
        table.add_row(*map(Text, row), style="dim" if index in dim else None)
    _console(width).print(table)


def print_lines(lines: Sequence[str], *, width: int) -> None:
    """Print lines, however long; see `print_line` for a terminal's."""
    if not _is_drawn() and all(line.isprintable() for line in lines):
        print("\n".join(lines))
        return
    console = _console(width)
    for line in lines:
        print_line(console, line)


def print_line(console: Console, line: str) -> None:
    """Print a line: at a terminal broken between words, so that no path is cut; elsewhere as it is."""
    from rich.text import Text

    from overstory.presentation.streams import wrapped

    console.print(Text(wrapped(line, console.width) if sys.stdout.isatty() else line), soft_wrap=True)


def plain_lines(
    head: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[str], width: int
) -> list[str] | None:
    """Return the lines that Rich would draw; None where a cell would be folded, or has letters of another width."""
    cells = [head, *rows]
    if not all(_is_narrow(cell) for row in cells for cell in row):
        return None
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    if sum(widths) + len(GAP) * (len(widths) - 1) > width:
        return None
    places = [(wide, name in left) for name, wide in zip(head, widths, strict=True)]
    return [
        GAP.join(
            cell.ljust(wide) if is_left else cell.rjust(wide) for cell, (wide, is_left) in zip(row, places, strict=True)
        )
        for row in cells
    ]


def _is_narrow(text: str) -> bool:
    """Whether each character is sure to take one place: letters of the alphabets of Western Europe, and dashes."""
    return text.isprintable() and all(c < "\u0300" or c == "\N{EN DASH}" for c in text)


def _is_drawn() -> bool:
    return sys.stdout.isatty() or any(map(os.environ.get, FORCING))


def _console(width: int) -> Console:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else width, highlight=False)


def chosen_rows(decoded: Estimate, *, everything: bool) -> list[dict[str, Any]]:
    """Return a row per detected candidate, or per candidate, most frequent first."""
    if everything:
        return decoded.rows()
    ranks = decoded.detected()[decoded.order()].nonzero()[0]
    if not ranks.size:
        return []
    return [row for row in decoded.rows(int(ranks[-1]) + 1) if row["detected"]]
