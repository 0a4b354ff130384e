"""Tables for a paper: LaTeX that needs `booktabs` alone; nothing that a table holds is markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from overstory.presentation.document import Block, Heading, Table
from overstory.presentation.streams import printable

MARKS: Final = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "ε": r"$\varepsilon$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "\N{MINUS SIGN}": "$-$",
} | {mark: f"\\{mark}" for mark in "&%$#_{}"}
BARS: Final = re.compile(r"[\u2580-\u259f ]*")  # what a terminal draws with: a column of nothing else is left out


def as_latex(blocks: Iterable[Block]) -> str:
    """Return the tables among some blocks; one without a caption has the heading above it."""
    caption, tables = "", list[str]()
    for block in blocks:
        if isinstance(block, Heading):
            caption = block.text
        elif isinstance(block, Table):
            tables.append("\n".join(_table(block, block.caption or caption)) + "\n")
    return "% \\usepackage{booktabs}\n" + "\n".join(tables)


def _table(table: Table, caption: str) -> Iterator[str]:
    rows = list(table.cells())
    kept = [place for place in range(len(table.columns)) if not all(BARS.fullmatch(row[place]) for row in rows)]
    yield "\\begin{table}"
    if caption:
        yield f"  \\caption{{{escaped(caption)}}}"
    yield f"  \\begin{{tabular}}{{{''.join('l' if table.columns[place].is_left else 'r' for place in kept)}}}"
    yield "    \\toprule"
    yield f"    {' & '.join(escaped(table.columns[place].title) for place in kept)} \\\\"
    yield "    \\midrule"
    yield from (f"    {' & '.join(escaped(row[place]) for place in kept)} \\\\" for row in rows)
    yield from ("    \\bottomrule", "  \\end{tabular}", "\\end{table}")


def escaped(text: str) -> str:
    """Return a text that LaTeX shows as it is."""
    return "".join(MARKS.get(mark, mark) for mark in printable(text))
