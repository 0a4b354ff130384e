"""How a user's CSV file is written: sniffed from its first lines, where she does not say."""

from __future__ import annotations

import codecs
import csv
import io
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from overstory.files.io import foreign, reading
from overstory.presentation.streams import printable
from overstory.protocol.errors import FormatError, ParameterError

DELIMITERS: Final = (",", ";", "\t", "|")
HEAD: Final = 1 << 20
"""Bytes that a header fits into."""
SHOWN: Final = 20
"""Columns that an error names."""


@dataclass(frozen=True)
class Form:
    """How a CSV file is written, as far as the user says."""

    delimiter: str | None = None  # between fields; None: sniffed from the first line
    missing: tuple[str, ...] = ()  # texts that mean no value, as the empty field does
    # Whether blanks around a field are dropped; they are, too, where one follows each delimiter of the first line.
    strip: bool = False
    encoding: str | None = None  # as Python calls it; None: UTF-8, or UTF-16 where the file begins with its mark
    header: bool = True  # whether the first line names the columns; else they are called 1, 2, and so on

    def __post_init__(self) -> None:
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise ParameterError(f"--delimiter {printable(self.delimiter)!r}: give one character, or tab")
        try:
            encoding = codecs.lookup(self.encoding or "utf-8")
        except LookupError as error:
            raise ParameterError(f"--encoding {self.encoding}: there is no such encoding") from error
        if not encoding._is_text_encoding:  # noqa: SLF001 - as Python's own `open` asks
            raise ParameterError(f"--encoding {self.encoding}: this is no encoding of text, as latin-1 is")


@dataclass(frozen=True)
class Layout:
    """How a CSV file is written; see `Form`."""

    names: tuple[str, ...]  # of the columns, as a person writes them
    raw_names: tuple[str, ...]  # the same, as the header has them
    delimiter: str
    strip: bool
    encoding: str
    header: bool


def layout_of(path: str, form: Form, wanted: Sequence[str] = ()) -> Layout:
    """Return how the file is written: a delimiter that gives the wanted columns is the right one."""
    with reading(path) as stream:
        head = stream.read(HEAD)
    encoding = form.encoding or ("utf-16" if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8")
    if encoding == "utf-8" and (problem := foreign(head) or ("this is no text" if b"\0" in head else None)):
        raise FormatError(problem, source=path)
    text = _decoded(head, encoding, path)
    if not text.strip():
        raise FormatError("the file is empty: expected a header that names the columns", source=path)
    delimiters = (form.delimiter,) if form.delimiter else DELIMITERS
    firsts = {delimiter: _first_record(text, delimiter) for delimiter in delimiters}
    likeliest = max(delimiters, key=lambda mark: (_has(firsts[mark], wanted) and form.header, len(firsts[mark])))
    first = firsts[likeliest]
    strip = form.strip or (len(first) > 1 and all(field.startswith(" ") for field in first[1:]))
    raw = tuple(first) if form.header else tuple(str(number) for number in range(1, len(first) + 1))
    names = tuple(name.strip() for name in raw) if strip else raw
    return Layout(names, raw, likeliest, strip, encoding, form.header)


def _decoded(head: bytes, encoding: str, path: str) -> str:
    try:
        return codecs.getincrementaldecoder(encoding)().decode(head).removeprefix("\ufeff")
    except UnicodeError as error:
        start = getattr(error, "start", 0)
        line = head.count(b"\n", 0, start) + 1
        raise not_text(path, line, encoding, head[start : start + 1]) from error


def not_text(path: str, line: int, encoding: str, byte: bytes) -> FormatError:
    """Return the error for bytes that are not in the encoding."""
    shown = f"found the byte 0x{byte.hex()}" if byte else "it is cut short"
    other = "--encoding latin-1 or cp1252 reads older files" if encoding == "utf-8" else "give another --encoding"
    return FormatError(f"this is not {encoding.upper()} text ({shown}): {other}", source=path, line=line)


def _first_record(text: str, delimiter: str) -> list[str]:
    lines: Iterator[str] = (line for line in io.StringIO(text, newline="") if line.strip("\r\n"))
    try:
        return next(csv.reader(lines, delimiter=delimiter), [])
    except csv.Error:
        return text.partition("\n")[0].split(delimiter)


def _has(names: Sequence[str], wanted: Sequence[str]) -> bool:
    there = {name.strip() for name in names} | set(names)
    return bool(wanted) and all(name in there for name in wanted)


def check_columns(path: str, names: Sequence[str], columns: Sequence[str]) -> None:
    """Raise ParameterError unless each of the columns is among the names, once; say which may have been meant."""
    for column in columns:
        if column not in names:
            raise ParameterError(f"{path}: there is no column {column!r}{_meant(column, names)}; {_listed(names)}")
        if names.count(column) > 1:
            raise ParameterError(f"{path}: {names.count(column)} columns are called {column!r}: give each its own name")


def _meant(column: str, names: Sequence[str]) -> str:
    import difflib

    plain = {name.strip().casefold(): name for name in names}
    near = difflib.get_close_matches(column.strip().casefold(), plain, n=1, cutoff=0.7)
    return f" (did you mean {plain[near[0]]!r}?)" if near else ""


def _listed(names: Sequence[str]) -> str:
    shown = f"there are: {', '.join(map(repr, names[:SHOWN]))}"
    if len(names) > SHOWN:
        shown += f" and {len(names) - SHOWN:,} more"
    # A file without a header has numbers in its first line, or names that are no names.
    odd = sum(name.strip().replace(".", "", 1).lstrip("-").isdecimal() for name in names)
    numbered = list(names) == [str(number) for number in range(1, len(names) + 1)]
    return shown + ("; if that is no header, give --no-header" if odd and not numbered else "")


def fault(path: str, layout: Layout, column: str | None, no_numbers: frozenset[str]) -> FormatError | None:
    """Return the first thing that is wrong in the file, by a slow and exact reader; None when it sees nothing.

    The column, if there is one, must hold numbers; else only the file's form is looked at.
    """
    index = None if column is None else layout.names.index(column)
    try:
        with reading(path) as stream, io.TextIOWrapper(stream, layout.encoding, newline="") as text:
            return _fault(path, layout, text, index, no_numbers)
    except UnicodeDecodeError:
        return _first_byte(path, layout.encoding)
    except (EOFError, zlib.error):
        return None


def _fault(
    path: str, layout: Layout, text: io.TextIOWrapper, index: int | None, no_numbers: frozenset[str]
) -> FormatError | None:
    reader, line = csv.reader(text, delimiter=layout.delimiter, strict=True), 1
    try:
        for number, fields in enumerate(reader):
            if fields and len(fields) != len(layout.names):
                expected = "as in the header" if layout.header else "as in the first line"
                problem = f"expected {len(layout.names)} fields, {expected}, found {len(fields)}"
                return FormatError(problem, source=path, line=line)
            if index is not None and fields and not (number == 0 and layout.header):
                text_of_field = fields[index].strip()
                if text_of_field not in no_numbers and not _is_number(text_of_field):
                    problem = f"the column is to hold numbers, found {text_of_field[:40]!r}"
                    return FormatError(problem, source=path, line=line, field=layout.names[index])
            line = reader.line_num + 1
    except csv.Error as error:
        reason = str(error)
        if "unexpected end" in reason or "field limit" in reason:
            return FormatError("a quote opens in this record and does not close", source=path, line=line)
        return FormatError(f"this is no CSV record ({reason})", source=path, line=line)
    return None


def line_of(path: str, form: Form, column: str, value: str) -> int | None:
    """Return the first line of a CSV file at which a record begins whose column holds the value."""
    layout = layout_of(path, form, [column])
    index, line = layout.names.index(column), 1
    with reading(path) as stream, io.TextIOWrapper(stream, layout.encoding, newline="") as text:
        reader = csv.reader(text, delimiter=layout.delimiter)
        for fields in reader:
            if index < len(fields) and (fields[index].strip() if layout.strip else fields[index]) == value:
                return line
            line = reader.line_num + 1
    return None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _first_byte(path: str, encoding: str) -> FormatError | None:
    """Return the error that names the first line that is not in the encoding."""
    with reading(path) as stream:
        for line, raw in enumerate(stream, start=1):
            try:
                raw.decode(encoding)
            except UnicodeDecodeError as error:
                return not_text(path, line, encoding, raw[error.start : error.start + 1])
    return None
