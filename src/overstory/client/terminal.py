"""Blocks as text for a terminal; nothing in them can steer it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from overstory.client.output import printable
from overstory.client.story import Block, Costs, Facts, Grid, Heading, Says
from overstory.client.wording import columns


def as_text(blocks: Iterable[Block], width: int = 100) -> str:
    """Return blocks as lines of about `width` characters; bits and bytes are broken, words are not.

    Examples
    --------
    >>> print(as_text([Heading(2, "Colour"), Says("Which of three."), Facts((("until", "2027"),))]), end="")
    <BLANKLINE>
    Colour
    ------
    Which of three.
      until  2027
    """
    return "".join(f"{line.rstrip()}\n" for block in blocks for line in _lines(block, width))


def _lines(block: Block, width: int) -> Iterator[str]:
    if isinstance(block, Heading):
        text = printable(block.text)
        yield from ("", text) if block.level == 3 else ("", text, "=-"[block.level - 1] * len(text))
    elif isinstance(block, Says):
        yield from textwrap.wrap(printable(block.text), width, break_long_words=False, break_on_hyphens=False)
    elif isinstance(block, Facts):
        yield from _columns([(name, said) for name, said in block.pairs], width)
    elif isinstance(block, Costs):
        yield from columns([(printable(amount), printable(words)) for amount, words in block.pairs])
    else:
        yield ""
        yield printable(block.caption)
        yield from _table(block, width)


def _table(grid: Grid, width: int) -> Iterator[str]:
    if "bytes" in grid.columns:
        # Bytes are long and their meaning is short: the meaning stands first, the bytes may go on below.
        yield from _columns([(f"{row[1]}: {row[2]}", row[0]) for row in grid.rows], width)
        return
    rows = [tuple(map(printable, row)) for row in (grid.columns, *grid.rows)]
    plain = [i for i, name in enumerate(grid.columns) if name not in grid.code]
    bits = [i for i, name in enumerate(grid.columns) if name in grid.code]
    widths = {i: max(len(row[i]) for row in rows) for i in plain}
    for number, row in enumerate(rows):
        yield "  " + "  ".join(row[i].ljust(widths[i]) for i in plain)
        for i in bits if number else ():
            yield from textwrap.wrap(row[i], width, initial_indent="      ", subsequent_indent="      ")


def _columns(pairs: list[tuple[str, str]], width: int) -> Iterator[str]:
    """Two columns; what does not fit beside a long name goes below it."""
    names = [printable(name) for name, _ in pairs]
    room = min(max(map(len, names), default=0), 44)
    for name, (_, said) in zip(names, pairs, strict=True):
        wrapped = textwrap.wrap(printable(said), width - room - 4, break_on_hyphens=False) or [""]
        if len(name) > room:
            yield from textwrap.wrap(name, width - 2, initial_indent="  ", subsequent_indent="  ")
            name = ""  # noqa: PLW2901 - it stands above already
        for line in wrapped:
            yield f"  {name:<{room}}  {line}"
            name = ""  # noqa: PLW2901 - once is enough
