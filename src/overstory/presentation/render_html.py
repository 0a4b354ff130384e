"""Documents as pages of HTML: no script, nothing from elsewhere, dark and light, made for keyboards and readers.

A page needs no inline style, so that its Content-Security-Policy can allow its own style sheet and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final

from overstory.presentation.document import (
    Block,
    Column,
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
    Row,
    Table,
)
from overstory.presentation.html_form import as_form
from overstory.presentation.html_text import escaped, escaped_lines, linked, safe_address
from overstory.presentation.svg import inline

STYLE: Final = (Path(__file__).parent / "style.css").read_text("utf-8")

POLICY: Final = (
    "default-src 'none'; style-src 'sha256-"
    f"{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'; base-uri 'none'; form-action 'none'"
)
"""The Content-Security-Policy of every page: its own style, and nothing else, from anywhere."""


def as_page(content: Iterable[Block], *, title: str | None = None, contents: bool = False) -> str:
    """Return blocks as a complete HTML document; with a list of its chapters where `contents` asks for one.

    Examples
    --------
    >>> page = as_page([Heading(1, "<Title>"), Paragraph("A & B")])
    >>> "<h1" in page, "&lt;Title&gt;" in page, "A &amp; B" in page, "<script" in page
    (True, True, True, False)
    """
    blocks = list(content)
    headings = ((_anchor(block, i), block) for i, block in enumerate(blocks) if isinstance(block, Heading))
    links = "".join(
        f'<li><a href="#{name}">{escaped(block.text)}</a></li>' for name, block in headings if block.level == 2
    )
    chapters = f'<nav aria-label="Contents"><ol>{links}</ol></nav>\n' if contents and links else ""
    named = title or next((block.text for block in blocks if isinstance(block, Heading)), "Overstory")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escaped(named)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f'<a class="skip" href="#main">To the content</a>\n{chapters}<main id="main" tabindex="-1">\n'
        f"{as_html(blocks)}</main>\n</body>\n</html>\n"
    )


def as_html(blocks: Sequence[Block]) -> str:
    """Return blocks as the inside of a page; a chapter is a section that its heading names."""
    return "".join(_parts(blocks))


def _parts(blocks: Sequence[Block]) -> Iterator[str]:
    open_section = False
    for i, block in enumerate(blocks):
        if isinstance(block, Heading) and block.level == 2:
            yield f'{"</section>" if open_section else ""}\n<section aria-labelledby="{_anchor(block, i)}">\n'
            open_section = True
        yield (_heading(block, i) if isinstance(block, Heading) else _html(block)) + "\n"
    yield "</section>\n" if open_section else ""


def _anchor(heading: Heading, number: int) -> str:
    return escape(heading.anchor) or f"h{number}"


def _heading(heading: Heading, number: int) -> str:
    return f'<h{heading.level} id="{_anchor(heading, number)}">{escaped(heading.text)}</h{heading.level}>'


def _html(block: Block) -> str:
    match block:
        case Table():
            return _folding(block) if block.fold else as_table(block)
        case KeyValues():
            return _key_values(block)
        case Links():
            return _links(block)
        case Form():
            return as_form(block)
        case Figure(picture):
            return f"<figure>{inline(picture)}<figcaption>{escaped(picture.caption)}</figcaption></figure>"
    return _sentences(block)


def _sentences(block: Block) -> str:
    match block:
        case Paragraph(text, is_lead):
            return f"<p{_class('lead' if is_lead else '')}>{escaped(text)}</p>"
        case Lines(texts):
            return f'<ul class="lines">{"".join(f"<li>{escaped(text)}</li>" for text in texts)}</ul>'
        case Link(text, address):
            return f"<p>{linked(text, address)}</p>"
        case Notice(text, tone, address):
            return f'<p{_class("notice", tone)} role="note">{linked(text, address)}</p>'
        case Preformatted(text):
            return f'<pre tabindex="0"><code>{escaped_lines(text)}</code></pre>'
    return ""


def _links(block: Links) -> str:
    places = (f"<li>{linked(text, address, is_current=text == block.current)}</li>" for text, address in block.places)
    return f'<nav class="links" aria-label="{escaped(block.label)}"><ul>{"".join(places)}</ul></nav>'


def _key_values(block: KeyValues) -> str:
    if block.kind == "figures":
        pairs = (f"<div><dt>{escaped(name)}</dt><dd>{escaped(text)}</dd></div>" for name, text in block.pairs)
        return f'<dl class="figures">{"".join(pairs)}</dl>'
    return f"<dl>{''.join(f'<dt>{escaped(name)}</dt><dd>{_linked(text)}</dd>' for name, text in block.pairs)}</dl>"


def _folding(table: Table) -> str:
    is_open = " open" if table.fold == "open" else ""
    return f"<details{is_open}><summary>{escaped(table.caption)}</summary>{as_table(table)}</details>"


def as_table(table: Table) -> str:
    """Return a table that scrolls by itself, and that a keyboard can scroll; the first cell of each row names it."""
    head = "".join(map(_head_cell, table.columns))
    body = "".join(
        f"<tr{_class('faint' if number in table.faint else '')}>{''.join(_cells(table.columns, row))}</tr>\n"
        for number, row in enumerate(table.rows)
    )
    caption = escaped(table.caption)
    region = f' role="region" aria-label="{caption}"' if caption else ""  # two regions of one name are one too many
    return (
        f'<div class="wide" tabindex="0"{region}><table>'
        f"{f'<caption>{caption}</caption>' if caption else ''}\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{body}</tbody>\n</table></div>"
    )


def _head_cell(column: Column) -> str:
    """Return what stands above a column: a header without words would name nothing."""
    if not column.title:
        return "<td></td>"
    return f'<th scope="col"{_class(_side(column))}>{escaped(column.title)}</th>'


def _cells(columns: Sequence[Column], row: Row) -> Iterator[str]:
    for number, column in enumerate(columns):
        text = escaped(column.cell(row))
        tone = column.tone(row[column.data_keys[0]]) if column.tone else ""
        drawn = column.picture(row) if column.picture else None
        shown = inline(drawn) if drawn else f"<code>{text}</code>" if column.is_code else text
        address = column.link(row) if column.link else ""
        shown = f'<a href="{safe_address(address)}">{shown}</a>' if address else shown
        kind = 'th scope="row"' if not number and not column.is_code else "td"
        yield f"<{kind}{_class(_side(column), tone)}>{shown}</{kind[:2]}>"


def _side(column: Column) -> str:
    return "text" if column.is_left else ""


def _class(*names: str) -> str:
    given = " ".join(filter(None, names))
    return f' class="{given}"' if given else ""


def _linked(text: str) -> str:
    """Escape a text; one that is a web address becomes a link."""
    shown = escaped(text)
    is_address = text.startswith(("https://", "http://")) and text.isprintable() and not any(map(str.isspace, text))
    return f'<a href="{shown}" rel="noreferrer">{shown}</a>' if is_address else shown
