"""Documents as Markdown, and their tables as LaTeX; nothing that a document holds is markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from overstory.presentation.document import (
    Block,
    Figure,
    Form,
    Heading,
    KeyValues,
    Lines,
    Link,
    Links,
    Notice,
    Paragraph,
    Preformatted,
    Table,
    unfolded,
)
from overstory.presentation.streams import printable


def as_markdown(blocks: Iterable[Block]) -> str:
    """Return blocks as a Markdown text."""
    return "\n\n".join("\n".join(_lines(block)) for block in unfolded(blocks) if not isinstance(block, Form)) + "\n"


def _lines(block: Block) -> Iterable[str]:
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Preformatted):
        return (f"    {printable(line)}" for line in block.text.split("\n"))
    return _lists(block) if isinstance(block, Lines | KeyValues | Links) else (_line(block),)


def _line(block: Block) -> str:
    match block:
        case Heading(level, text):
            return f"{'#' * level} {escaped(text)}"
        case Paragraph(text):
            return escaped(text)
        case Notice(text, more=more):
            return " ".join((f"**{escaped(text)}**", *map(escaped, more)))
        case Link(text, address):
            return f"[{escaped(text)}]({address})"
        case Figure(picture):
            return f"![{escaped(picture.alt)}]({picture.name}.svg)"
    return ""


def _lists(block: Lines | KeyValues | Links) -> Iterator[str]:
    if isinstance(block, Lines):
        yield from (f"- {escaped(text)}" for text in block.texts)
    elif isinstance(block, KeyValues):
        yield from (f"- **{escaped(name)}**: {_linked(text)}" for name, text in block.pairs)
    else:
        yield from (f"- [{escaped(text)}]({address})" for text, address in block.places)


def _table(table: Table) -> Iterator[str]:
    if table.caption:
        yield from (f"{escaped(table.caption)}:", "")
    yield f"| {' | '.join(escaped(column.title) for column in table.columns)} |"
    yield f"|{'|'.join('---' if column.is_left else '---:' for column in table.columns)}|"
    yield from (f"| {' | '.join(map(escaped, cells))} |" for cells in table.cells())


def _linked(text: str) -> str:
    is_address = text.startswith(("https://", "http://")) and not re.search(r"[\s<>]", text)
    return f"<{printable(text)}>" if is_address else escaped(text)


def escaped(text: str) -> str:
    """Return a text that Markdown shows as it is."""
    text = re.sub(r"[\\`*<|~]|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", printable(text))
    text = re.sub(r"\](?=[(\[:])", r"]\\", text)
    text = re.sub(r"^(\s*)([#>]|[+-](?=\s|$)|[=-](?=[=-]))", r"\1\\\2", text)
    return re.sub(r"^(\s*\d+)([.)])(?=\s|$)", r"\1\\\2", text)


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
            tables.append("\n".join(_latex_table(block, block.caption or caption)) + "\n")
    return "% \\usepackage{booktabs}\n" + "\n".join(tables)


def _latex_table(table: Table, caption: str) -> Iterator[str]:
    rows = list(table.cells())
    kept = [place for place in range(len(table.columns)) if not all(BARS.fullmatch(row[place]) for row in rows)]
    yield "\\begin{table}"
    if caption:
        yield f"  \\caption{{{latex_escaped(caption)}}}"
    yield f"  \\begin{{tabular}}{{{''.join('l' if table.columns[place].is_left else 'r' for place in kept)}}}"
    yield "    \\toprule"
    yield f"    {' & '.join(latex_escaped(table.columns[place].title) for place in kept)} \\\\"
    yield "    \\midrule"
    yield from (f"    {' & '.join(latex_escaped(row[place]) for place in kept)} \\\\" for row in rows)
    yield from ("    \\bottomrule", "  \\end{tabular}", "\\end{table}")


def latex_escaped(text: str) -> str:
    """Return a text that LaTeX shows as it is."""
    return "".join(MARKS.get(mark, mark) for mark in printable(text))
