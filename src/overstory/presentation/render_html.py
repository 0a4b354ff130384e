"""Documents as pages of HTML: no script, nothing from elsewhere, dark and light, made for keyboards and readers."""

from __future__ import annotations

import base64
import hashlib
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final

from overstory.presentation.document import (
    Block,
    Column,
    Field,
    Figure,
    Folded,
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
from overstory.presentation.formats import printable
from overstory.presentation.svg import INK, PAPER, VARIABLES, Picture, inline, labelled

_SAFE_ADDRESS: Final = re.compile(r"https?://|[^:]*\Z|[^:]*[/?#]")
"""An address of the web, or one without a scheme."""


def escaped(text: str) -> str:
    """Return text as HTML shows it: nothing in it is markup, and nothing turns its letters round."""
    return escape(printable(text))


def escaped_lines(text: str) -> str:
    """Return the lines of a text; their ends stay."""
    return "\n".join(map(escaped, text.split("\n")))


def safe_address(address: str) -> str:
    """Return an address for an attribute; one of another scheme than the web's leads nowhere."""
    return escaped(address) if _SAFE_ADDRESS.match(address) else "#"


def linked(text: str, address: str, *, is_current: bool = False) -> str:
    """Return a text that leads to an address, where there is one."""
    current = ' aria-current="page"' if is_current else ""
    return f'<a href="{safe_address(address)}"{current}>{escaped(text)}</a>' if address else escaped(text)


def as_form(form: Form) -> str:
    """Return a form."""
    action = f' action="{safe_address(form.action)}"' if form.action else ""
    is_live = " data-live" if form.is_live else ""
    sends_file = any(field.kind == "file" for field in form.fields)
    kind = ' enctype="multipart/form-data"' if sends_file else ""
    return (
        f'<form method="{form.method}"{action}{kind} aria-label="{escaped(form.label)}"{is_live}>'
        f'{"".join(map(_field, form.fields))}<button type="submit">{escaped(form.submit)}</button></form>'
    )


def _field(field: Field) -> str:
    if field.kind == "hidden":
        return f'<input type="hidden" name="{escaped(field.name)}" value="{escaped(field.value)}">'
    hint = f"<small>{escaped(field.hint)}</small>" if field.hint else ""
    return f"<label><span>{escaped(field.label)}</span>{_control(field)}{hint}</label>"


def _control(field: Field) -> str:
    name, value = f'name="{escaped(field.name)}"', f'value="{escaped(field.value)}"'
    match field.kind:
        case "choice":
            options = (
                f'<option value="{escaped(choice)}"{" selected" * (choice == field.value)}>{escaped(text)}</option>'
                for choice, text in field.choices
            )
            return f"<select {name}>{''.join(options)}</select>"
        case "lines":  # HTML leaves out a line end that follows the tag
            return f'<textarea {name} rows="6">\n{escaped_lines(field.value)}</textarea>'
        case "file":
            return f'<input type="file" {name}>'
    return f'<input type="{field.kind}" {name} {value}{_limits(field)}>'


def _limits(field: Field) -> str:
    limits = (("min", field.least), ("max", field.most), ("step", field.step))
    return "".join(f' {name}="{number:g}"' for name, number in limits if number is not None)


STYLE: Final = (Path(__file__).parent / "style.css").read_text("utf-8")


def policy_of(*styles: str) -> str:
    """Return the Content-Security-Policy of a page or a picture: its own styles, and nothing else, from anywhere."""
    hashes = (base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() for style in styles)
    allowed = " ".join(f"'sha256-{hashed}'" for hashed in hashes)
    return f"default-src 'none'; style-src {allowed}; base-uri 'none'; form-action 'none'"


def document(head: str, main: Sequence[Block], *, before: str = "", after: str = "", kind: str = "") -> str:
    """Return a complete HTML document: the rest of its head, and what is before and after its main part."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n{head}</head>\n<body{_class(kind)}>\n'
        f'<a class="skip" href="#main">To the content</a>\n{before}<main id="main" tabindex="-1">\n'
        f"{as_html(main)}</main>\n{after}</body>\n</html>\n"
    )


def as_page(content: Iterable[Block], *, title: str | None = None, contents: bool = False) -> str:
    """Return blocks as a complete HTML document; with a list of its chapters where `contents` asks for one."""
    blocks = list(content)
    headings = ((_anchor(block, i), block) for i, block in enumerate(blocks) if isinstance(block, Heading))
    links = "".join(
        f'<li><a href="#{name}">{escaped(block.text)}</a></li>' for name, block in headings if block.level == 2
    )
    chapters = f'<nav aria-label="Contents"><ol>{links}</ol></nav>\n' if contents and links else ""
    named = title or next((block.text for block in blocks if isinstance(block, Heading)), "Overstory")
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy_of(STYLE)}">\n'
        f'<meta name="referrer" content="no-referrer">\n<title>{escaped(named)}</title>\n<style>{STYLE}</style>\n'
    )
    return document(head, blocks, before=chapters)


def as_html(blocks: Sequence[Block]) -> str:
    """Return blocks as the inside of a page; a chapter is a section that its heading names."""
    return "".join(_parts(blocks))


def _parts(blocks: Sequence[Block]) -> Iterator[str]:
    open_section = False
    for i, block in enumerate(blocks):
        if isinstance(block, Heading) and block.level == 2:
            yield f'{"</section>" if open_section else ""}\n<section aria-labelledby="{_anchor(block, i)}">\n'
            open_section = True
        if isinstance(block, Heading):
            yield f'<h{block.level} id="{_anchor(block, i)}">{escaped(block.text)}</h{block.level}>\n'
        else:
            yield f"{_html(block)}\n"
    yield "</section>\n" if open_section else ""


def _anchor(heading: Heading, number: int) -> str:
    return escape(heading.anchor) or f"h{number}"


def _html(block: Block) -> str:
    match block:
        case Table() | Folded():
            return _folding(block)
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
        case Notice(text, tone, address, more):
            folded = "".join(f"<p>{escaped(one)}</p>" for one in more)
            shown = f"<details><summary>{escaped(text)}</summary>{folded}</details>" if more else linked(text, address)
            return f'<{"div" if more else "p"}{_class("notice", tone)} role="note">{shown}</{"div" if more else "p"}>'
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


def _folding(block: Table | Folded) -> str:
    if isinstance(block, Table):
        summary, inner, fold = block.caption, as_table(block), block.fold
    else:
        summary, inner, fold = block.summary, as_html(block.blocks), "closed"
    is_open = " open" if fold == "open" else ""
    return f"<details{is_open}><summary>{escaped(summary)}</summary>{inner}</details>" if fold else inner


def as_table(table: Table) -> str:
    """Return a table that scrolls by itself, and that a keyboard can scroll; the first cell of each row names it."""
    # A header without words would name nothing.
    head = "".join(
        f'<th scope="col"{_class(_side(column))}>{escaped(column.title)}</th>' if column.title else "<td></td>"
        for column in table.columns
    )
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
    shown = escaped(text)
    is_address = text.startswith(("https://", "http://")) and text.isprintable() and not any(map(str.isspace, text))
    return f'<a href="{shown}" rel="noreferrer">{shown}</a>' if is_address else shown


_DARK: Final = dict(re.findall(r"--(\w+): (#\w+)", STYLE[STYLE.index("@media (prefers-color-scheme: dark)") :]))

DRAWING_STYLE: Final = "@media(prefers-color-scheme:dark){{{}}}".format(
    "".join(
        f'[{part}="{colour}"]{{{part}:{_DARK[name]}}}'
        for colour, name in VARIABLES.items()
        for part in ("fill", "stroke")
    )
)
"""The style of a file: the page's dark colours. A program that reads no style sheets shows the light ones."""


LINE: Final = 18  # pixels from one line of a caption to the next
CHARACTER: Final = 7.5  # pixels that a character of it takes, with some to spare


def as_svg(*pictures: Picture) -> str:
    """Return charts as one SVG document, each under its caption; a policy must allow `DRAWING_STYLE` by its hash."""
    parts, top, widest = [], 0.0, 0.0
    for picture in pictures:
        svg = picture.svg[picture.svg.index("<svg") :]
        width, height = (float(size) for size in re.findall(r'\b(?:width|height)="([\d.]+)', svg)[:2])
        for words in textwrap.wrap(printable(picture.caption), int(width / CHARACTER)):
            top += LINE
            parts.append(f'<text x="8" y="{top:g}" font-size="13" fill="{INK}">{escape(words)}</text>')
        top += LINE / 2
        parts.append(labelled(picture, svg, f'y="{top:g}"'))
        top, widest = top + height, max(widest, width)
    size = f'width="{widest:g}" height="{top:g}" viewBox="0 0 {widest:g} {top:g}"'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" font-family="system-ui, sans-serif" {size}>'
    paper = f'<rect width="{widest:g}" height="{top:g}" fill="{PAPER}"/>'
    return f"{opening}<style>{DRAWING_STYLE}</style>{paper}{''.join(parts)}</svg>\n"
