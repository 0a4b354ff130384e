"""Documents as plain text: for a terminal, a pipe or a log, as Markdown; their tables as LaTeX, CSV and JSON.

Nothing that a document holds is markup or can steer the terminal: what is not printable is escaped.
"""

from __future__ import annotations

import csv
import math
import os
import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from typing import Any, Final

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
    Table,
    unfolded,
)
from overstory.presentation.formats import TRUTH, data_text, finite, printable

FORCING: Final = ("FORCE_COLOR", "TTY_COMPATIBLE")  # variables that ask for bold and grey where there is no terminal
ELSEWHERE: Final = 120  # the width of a table in a file or a pipe
GAP: Final = "  "
LONGEST_KEY: Final = 44


@dataclass(frozen=True)
class Layout:
    """How wide text may be, and what it may use."""

    width: int = 100
    is_wrapped: bool = True  # sentences are broken between words; tables are folded in any case
    is_styled: bool = False  # bold and grey

    def bold(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self.is_styled and text else text

    def faint(self, text: str) -> str:
        return f"\x1b[2m{text}\x1b[0m" if self.is_styled and text else text

    def sentence(self, text: str) -> list[str]:
        """Return the lines of a sentence; a word that is longer than a line stays whole, so that no path is cut."""
        shown = printable(text)
        if not self.is_wrapped:
            return [shown]
        return textwrap.wrap(shown, self.width, break_long_words=False, break_on_hyphens=False) or [""]


UNFOLDED: Final = Layout(sys.maxsize, is_wrapped=False)
"""For text that a program asked for: a line for each row and each sentence."""


def print_document(blocks: Iterable[Block]) -> None:
    """Print blocks for a person; in a pipe every sentence is one line."""
    at_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if at_terminal else ELSEWHERE
    is_styled = (at_terminal and os.environ.get("TERM") != "dumb") or any(map(os.environ.get, FORCING))
    sys.stdout.write(as_text(blocks, Layout(width, at_terminal, is_styled)))


def as_text(blocks: Iterable[Block], layout: Layout | None = None) -> str:
    """Return blocks as lines; an empty line parts them, but for a heading and what follows it."""
    chosen, lines = layout or Layout(), []
    before: Block | None = None
    for block in unfolded(blocks):
        if isinstance(block, Form):
            continue
        if before is not None and (not isinstance(before, Heading) or isinstance(block, Heading)):
            lines.append("")
        lines += [line.rstrip() for line in _lines(block, chosen)]
        before = block
    return "".join(f"{line}\n" for line in lines)


def _lines(block: Block, layout: Layout) -> Iterator[str]:
    if isinstance(block, Heading):
        text = printable(block.text)
        yield layout.bold(text)
        if block.level < 3:
            yield "=-"[block.level - 1] * _width(text)
    elif isinstance(block, KeyValues):
        yield from unbroken(block.pairs) if block.kind == "lines" else _pairs(block.pairs, layout)
    elif isinstance(block, Table):
        yield from _table(block, layout)
    elif isinstance(block, Preformatted):
        yield from map(printable, block.text.split("\n"))
    else:
        for sentence in _sentences(block):
            yield from layout.sentence(sentence)


def _sentences(block: Block) -> Sequence[str]:
    match block:
        case Paragraph(text) | Notice(text):
            return (text, *getattr(block, "more", ()))
        case Lines(texts):
            return texts
        case Link(text, address):
            return (f"{text}: {address}",)
        case Links(_, places):
            return [f"{text}: {address}" for text, address in places]
        case Figure(picture):
            return (f"{picture.caption} {picture.alt}",)
    return ()


def unbroken(pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield each pair as one indented line, however long, the second part of all at the same place."""
    room = max((_width(printable(name)) for name, _ in pairs), default=0)
    yield from (f"  {_padded(printable(name), room, is_left=True)}  {printable(text)}" for name, text in pairs)


def _pairs(pairs: Sequence[tuple[str, str]], layout: Layout) -> Iterator[str]:
    """Two columns; what does not fit to the right of a long name goes below it."""
    names = [printable(name) for name, _ in pairs]
    room = min(max(map(_width, names), default=0), LONGEST_KEY)
    for name, (_, text) in zip(names, pairs, strict=True):
        beyond = _width(name) > room
        if beyond:
            yield from textwrap.wrap(name, layout.width - 2, initial_indent="  ", subsequent_indent="  ")
        texts = textwrap.wrap(printable(text), max(layout.width - room - 4, 20), break_on_hyphens=False) or [""]
        for number, line in enumerate(texts):
            yield f"  {_padded('' if number or beyond else name, room, is_left=True)}  {line}"


def _table(table: Table, layout: Layout) -> Iterator[str]:
    if table.caption:
        yield layout.bold(printable(table.caption))
    rows = [tuple(map(printable, row)) for row in (tuple(c.title for c in table.columns), *table.cells())]
    plain = [place for place, column in enumerate(table.columns) if not column.is_code]
    codes = [place for place, column in enumerate(table.columns) if column.is_code]
    if table.fold and codes:
        # Codes are long and their meaning is short: the meaning comes first, the codes may go on below.
        pairs = [(": ".join(row[i] for i in plain), " ".join(row[i] for i in codes)) for row in rows[1:]]
        yield from _pairs(pairs, layout)
        return
    widths = _fitting([max(_width(row[i]) for row in rows) for i in plain], layout.width)
    sides = [table.columns[i].is_left for i in plain]
    for number, row in enumerate(rows):
        for line in _row([row[i] for i in plain], widths, sides):
            yield layout.faint(line) if number - 1 in table.faint else line if number else layout.bold(line)
        for i in codes if number else ():
            yield from textwrap.wrap(row[i], layout.width, initial_indent="    ", subsequent_indent="    ")


def _row(cells: Sequence[str], widths: Sequence[int], sides: Sequence[bool]) -> Iterator[str]:
    """Return a row's lines: a cell that is wider than its column goes on below."""
    for parts in zip_longest(*map(_folded, cells, widths), fillvalue=""):
        yield GAP.join(map(_padded, parts, widths, sides)).rstrip()


def _fitting(widths: list[int], room: int) -> list[int]:
    """Return the widths of columns that fit into a line: the widest give way first."""
    room = max(room - len(GAP) * (len(widths) - 1), len(widths))
    while sum(widths) > room:
        widest = max(widths)
        next_widest = max((width for width in widths if width < widest), default=0)
        among = [place for place, width in enumerate(widths) if width == widest]
        excess = min(sum(widths) - room, (widest - next_widest) * len(among))
        for order, place in enumerate(among):
            widths[place] -= excess // len(among) + (order < excess % len(among))
    return widths


def _folded(text: str, room: int) -> list[str]:
    """Return a cell's lines, broken between words, and within one that is longer than a line."""
    if _width(text) <= room:
        return [text]
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if _width(joined) <= room:
            lines[-1] = joined
            continue
        if lines[-1]:
            lines.append("")
        for character in word:
            if lines[-1] and _width(lines[-1] + character) > room:
                lines.append("")
            lines[-1] += character
    return lines


def _padded(text: str, room: int, is_left: bool) -> str:  # noqa: FBT001 - it is mapped
    space = " " * (room - _width(text))
    return text + space if is_left else space + text


def _width(text: str) -> int:
    """Return how many places a terminal gives to printable text: two to East Asian letters, none to accents."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def as_markdown(blocks: Iterable[Block]) -> str:
    """Return blocks as a Markdown text."""
    shown = (block for block in unfolded(blocks) if not isinstance(block, Form))
    parts = (_markdown_table(block) if isinstance(block, Table) else _markdown(block) for block in shown)
    return "\n\n".join(map("\n".join, parts)) + "\n"


def _markdown(block: Block) -> Iterator[str]:
    match block:
        case Heading(level, text):
            yield f"{'#' * level} {escaped(text)}"
        case Paragraph(text):
            yield escaped(text)
        case Notice(text, more=more):
            yield " ".join((f"**{escaped(text)}**", *map(escaped, more)))
        case Link(text, address):
            yield f"[{escaped(text)}]({address})"
        case Figure(picture):
            yield f"![{escaped(picture.alt)}]({picture.name}.svg)"
        case Lines(texts):
            yield from (f"- {escaped(text)}" for text in texts)
        case KeyValues(pairs):
            yield from (f"- **{escaped(name)}**: {_linked(text)}" for name, text in pairs)
        case Links(places=places):
            yield from (f"- [{escaped(text)}]({address})" for text, address in places)
        case Preformatted(text):
            yield from (f"    {printable(line)}" for line in text.split("\n"))


def _markdown_table(table: Table) -> Iterator[str]:
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


FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a cell that a spreadsheet takes for a formula starts with; the last four are full-width forms."""
IN_QUOTES: Final = re.compile(r'[,"\r\n]')  # what makes a field need quotes
MARK: Final = "'"  # put before such a cell; a reader that wants the exact value takes one away
CHUNK: Final = 256
"""Records that are written together, column by column: of many more, the garbage collector would look at each again."""


def as_json(table: Table) -> list[dict[str, Any]]:
    """Return a dictionary of JSON values for each row."""
    keys = keys_of(table.columns)
    return [{key: finite(row[key]) for key in keys} for row in table.rows]


def as_csv(table: Table) -> Iterator[str]:
    """Yield the lines of a CSV file."""
    named = {key: key if column.keys else column.csv or key for column in table.columns for key in column.data_keys}
    return chain((csv_line(named.values()),), csv_records([row[key] for key in named] for row in table.rows))


def csv_lines(columns: Iterable[Column], records: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Return a header and a line per record; a record holds the values of all columns, in their order."""
    header = csv_line(name for column in columns for name in (column.keys or (column.csv or column.name,)))
    return chain((header,), csv_records(records))


def csv_records(records: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Return a line per record, each as long as the first; what a cell needs is asked once for many of its column."""
    rest = iter(records)
    return chain.from_iterable(map(_written_together, iter(lambda: tuple(islice(rest, CHUNK)), ())))


def _written_together(records: tuple[Sequence[Any], ...]) -> Iterator[str]:
    forms, columns = zip(*map(_written, zip(*records, strict=True)), strict=True)
    return map((",".join(forms) + "\n").__mod__, zip(*columns, strict=True))


def _written(cells: tuple[Any, ...]) -> tuple[str, Iterable[Any]]:
    """Return cells of a column, and the form that writes each of them as `quoted` does its `data_text`."""
    kinds = set(map(type, cells))
    if kinds == {float} and math.isfinite(sum(cells)):
        return "%.10g", cells
    if kinds == {int}:
        return "%d", cells
    if kinds == {bool}:
        return "%s", map(TRUTH.__getitem__, cells)
    texts = cells if kinds == {str} else tuple(map(data_text, cells))
    return "%s", map(quoted, texts) if IN_QUOTES.search("".join(texts)) else texts


def csv_line(cells: Iterable[Any]) -> str:
    """Return cells as a line of CSV, its end included."""
    return ",".join(quoted(str(cell)) for cell in cells) + "\n"


def for_spreadsheet(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines of CSV without formulas: an apostrophe begins what would be one, or begins with an apostrophe."""
    for cells in csv.reader(lines):
        yield csv_line([MARK + cell if _is_marked(cell) else cell for cell in cells])


def keys_of(columns: Iterable[Column]) -> list[str]:
    """Return the entries of a row that columns show, each once."""
    return list(dict.fromkeys(key for column in columns for key in column.data_keys))


def quoted(text: str) -> str:
    """Return `text` as a CSV field, in quotes where it needs them (Python's own writer leaves a lone CR bare)."""
    if IN_QUOTES.search(text):
        return '"' + text.replace('"', '""') + '"'
    return text


def _is_marked(cell: str) -> bool:
    return cell.startswith((*FORMULA, MARK)) and not _is_number(cell)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return cell.isascii() and cell.strip() == cell
