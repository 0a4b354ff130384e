"""Blocks as one page of HTML: no script, nothing from elsewhere, dark and light, made for keyboards and readers.

Blocks as text for a terminal; nothing in them can steer it.
"""

from __future__ import annotations

import base64
import hashlib
import textwrap
from collections.abc import Iterable, Iterator
from html import escape
from typing import Final

from overstory.client.person.document import Block, Costs, Heading, KeyValues, Paragraph, Table
from overstory.presentation.streams import printable
from overstory.privacy.text import columns

STYLE: Final = """
:root { color-scheme: light dark; --ink: #1d2520; --soft: #566059; --mark: #1f6f4a; --paper: #fbfaf6; --line: #cfd4ca; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8ece6; --soft: #a9b3ab; --mark: #6fcf9c; --paper: #141a16; --line: #3a453d; }
}
body { margin: 0 auto; max-width: 56rem; padding: 1.5rem 1.25rem 4rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; }
h2 { margin-top: 3rem; border-top: 2px solid var(--mark); padding-top: .6rem; }
h3 { margin-top: 2rem; } a { color: var(--mark); }
.skip { position: absolute; left: -99rem; } .skip:focus { position: static; }
dl { display: grid; grid-template-columns: minmax(8rem, 16rem) 1fr; gap: .3rem 1.2rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .6rem 0 .3rem; }
details caption { position: absolute; left: -99rem; }
th, td { text-align: left; vertical-align: top; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); }
code { overflow-wrap: anywhere; font-size: .9em; } summary { cursor: pointer; padding: .35rem 0; }
:focus-visible { outline: 3px solid var(--mark); outline-offset: 2px; }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; } dd { margin-bottom: .5rem; } }
"""

POLICY: Final = (
    "default-src 'none'; style-src 'sha256-"
    f"{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'; base-uri 'none'; form-action 'none'"
)
"""The page's Content-Security-Policy: its own style, and nothing else, from anywhere."""


def as_page(content: Iterable[Block]) -> str:
    """Return blocks as a complete HTML document.

    Examples
    --------
    >>> page = as_page([Heading(1, "<Title>"), Paragraph("A & B")])
    >>> "<h1" in page, "&lt;Title&gt;" in page, "A &amp; B" in page, "<script" in page
    (True, True, True, False)
    """
    blocks = list(content)
    title = next((block.text for block in blocks if isinstance(block, Heading)), "Overstory")
    chapters = [
        (f"h{i}", block.text) for i, block in enumerate(blocks) if isinstance(block, Heading) and block.level == 2
    ]
    links = "".join(f'<li><a href="#{name}">{escape(text)}</a></li>' for name, text in chapters)
    contents = f'<nav aria-label="Contents"><ul>{links}</ul></nav>' if links else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f'<a class="skip" href="#main">To the content</a>\n{contents}\n<main id="main" tabindex="-1">\n'
        f"{''.join(_parts(blocks))}</main>\n</body>\n</html>\n"
    )


def _parts(blocks: list[Block]) -> Iterator[str]:
    """Return the blocks' HTML; a chapter is a section that its heading names."""
    open_section = False
    for i, block in enumerate(blocks):
        if isinstance(block, Heading) and block.level == 2:
            yield f'{"</section>" if open_section else ""}\n<section aria-labelledby="h{i}">\n'
            open_section = True
        newest = isinstance(block, Table) and not isinstance(blocks[i - 1], Table)
        yield _html(block, f"h{i}", unfolded=newest) + "\n"
    yield "</section>\n" if open_section else ""


def _html(block: Block, name: str, *, unfolded: bool) -> str:
    if isinstance(block, Heading):
        return f'<h{block.level} id="{name}">{escape(block.text)}</h{block.level}>'
    if isinstance(block, Paragraph):
        return f"<p>{escape(block.text)}</p>"
    if isinstance(block, KeyValues | Costs):
        pairs = (f"<dt>{escape(key)}</dt><dd>{_linked(said)}</dd>" for key, said in block.pairs)
        return f"<dl>{''.join(pairs)}</dl>"
    if "bytes" not in block.columns:
        return _html_table(block)
    is_open = " open" if unfolded else ""
    return f"<details{is_open}><summary>{escape(block.caption)}</summary>{_html_table(block)}</details>"


def _linked(said: str) -> str:
    """Escape a text; one that is a web address becomes a link."""
    shown = escape(said)
    web = said.startswith(("https://", "http://")) and not any(c.isspace() for c in said)
    return f'<a href="{shown}" rel="noreferrer">{shown}</a>' if web else shown


def _html_table(grid: Table) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in grid.columns)
    body = "".join(f"<tr>{''.join(_cells(grid, row))}</tr>" for row in grid.rows)
    return (
        f"<table><caption>{escape(grid.caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _cells(grid: Table, row: tuple[str, ...]) -> Iterator[str]:
    for name, text in zip(grid.columns, row, strict=True):
        yield f"<td><code>{escape(text)}</code></td>" if name in grid.code else f"<td>{escape(text)}</td>"


def as_text(blocks: Iterable[Block], width: int = 100) -> str:
    """Return blocks as lines of about `width` characters; bits and bytes are broken, words are not.

    Examples
    --------
    >>> print(as_text([Heading(2, "Colour"), Paragraph("Which of three."), KeyValues((("until", "2027"),))]), end="")
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
    elif isinstance(block, Paragraph):
        yield from textwrap.wrap(printable(block.text), width, break_long_words=False, break_on_hyphens=False)
    elif isinstance(block, KeyValues):
        yield from _columns([(name, said) for name, said in block.pairs], width)
    elif isinstance(block, Costs):
        yield from columns([(printable(amount), printable(words)) for amount, words in block.pairs])
    else:
        yield ""
        yield printable(block.caption)
        yield from _table(block, width)


def _table(grid: Table, width: int) -> Iterator[str]:
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
