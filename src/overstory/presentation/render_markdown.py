"""Documents as Markdown; nothing that a document holds is markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from overstory.presentation.document import Block, Figure, Heading, KeyValues, Lines, Link, Paragraph, Table
from overstory.presentation.streams import printable


def as_markdown(blocks: Iterable[Block]) -> str:
    r"""Return blocks as a Markdown text.

    Examples
    --------
    >>> print(as_markdown([Heading(2, "A *title*"), Paragraph("5 < 6 | <b>")]), end="")
    ## A \*title\*
    <BLANKLINE>
    5 \< 6 \| \<b>
    """
    return "\n\n".join("\n".join(_lines(block)) for block in blocks) + "\n"


def _lines(block: Block) -> Iterator[str]:
    if isinstance(block, Heading):
        yield f"{'#' * block.level} {escaped(block.text)}"
    elif isinstance(block, Paragraph):
        yield escaped(block.text)
    elif isinstance(block, Lines):
        yield from (f"- {escaped(text)}" for text in block.texts)
    elif isinstance(block, KeyValues):
        yield from (f"- **{escaped(name)}**: {_linked(text)}" for name, text in block.pairs)
    elif isinstance(block, Link):
        yield f"[{escaped(block.text)}]({block.address})"
    elif isinstance(block, Table):
        yield from _table(block)
    elif isinstance(block, Figure):
        yield f"![{escaped(block.picture.alt)}]({block.picture.name}.svg)"
    else:
        yield from (f"    {printable(line)}" for line in block.text.split("\n"))


def _table(table: Table) -> Iterator[str]:
    if table.caption:
        yield from (f"{escaped(table.caption)}:", "")
    yield f"| {' | '.join(escaped(column.title) for column in table.columns)} |"
    yield f"|{'|'.join('---' if column.is_left else '---:' for column in table.columns)}|"
    yield from (f"| {' | '.join(map(escaped, cells))} |" for cells in table.cells())


def _linked(text: str) -> str:
    """Return an address as a link, every other text escaped."""
    is_address = text.startswith(("https://", "http://")) and not re.search(r"[\s<>]", text)
    return f"<{printable(text)}>" if is_address else escaped(text)


def escaped(text: str) -> str:
    r"""Return a text that Markdown shows as it is.

    Examples
    --------
    >>> print(escaped("snake_case _em_ [1] [a](b) `c`"))
    snake_case \_em\_ [1] [a]\(b) \`c\`
    >>> print(escaped("# no heading"), escaped("1. no list"), escaped("- none"))
    \# no heading 1\. no list \- none
    """
    text = re.sub(r"[\\`*<|~]|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", printable(text))
    text = re.sub(r"\](?=[(\[:])", r"]\\", text)
    text = re.sub(r"^(\s*)([#>]|[+-](?=\s|$)|[=-](?=[=-]))", r"\1\\\2", text)
    return re.sub(r"^(\s*\d+)([.)])(?=\s|$)", r"\1\\\2", text)
