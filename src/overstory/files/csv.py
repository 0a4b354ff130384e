"""Records of a CSV file, read exactly: quoted fields, and every error with its file, line and field.

Parsers of fields raise the problem alone; `row_parser` adds the field, `records` the file and the line.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import add
from typing import Any, BinaryIO, Final, TypeVar

import numpy as np

from overstory.files.io import Advance, FilePath, foreign, reading
from overstory.protocol.errors import FormatError

_WHOLE: Final = re.compile(r"-?[0-9]{1,19}")  # within 64 bits; Python's int would also take 1_000 and other scripts
_NUMBER: Final = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,4})?")
_BLANK: Final = " \t\r"

T = TypeVar("T")
Parser = Callable[[str], Any]


def integer(text: str, low: int, high: int) -> int:
    """Return the whole number in a field."""
    bare = text.strip(_BLANK)
    if not _WHOLE.fullmatch(bare) or not low <= (value := int(bare)) <= high:
        raise FormatError(f"expected a whole number from {low} to {high}, found {short(text)}")
    return value


def decimal(text: str) -> float:
    """Return the decimal number in a field."""
    bare = text.strip(_BLANK)
    if not _NUMBER.fullmatch(bare):
        raise FormatError(f"expected a number such as 0.5, found {short(text)}")
    return float(bare)


def utf8(text: str) -> str:
    """Return a field's text, which must be UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise FormatError(f"expected UTF-8 text, found {short(text)}") from None
    return text


def bit_string(text: str, num_bits: int) -> int:
    """Return the bits in a field, most significant first, as an integer."""
    if len(text) != num_bits:
        raise FormatError(f"expected {num_bits} characters 0 or 1, found {len(text)}")
    if text.strip("01"):
        wrong = text.strip("01")[0]
        raise FormatError(f"expected {num_bits} characters 0 or 1, found {short(wrong)} among them")
    return int(text, 2)


def parse_field(text: str, name: str, parser: Callable[[str], T]) -> T:
    """Return the value of one field, whose name an error has."""
    try:
        return parser(text)
    except FormatError as error:
        raise FormatError(error.problem, field=name) from None


def row_parser(
    width: int, columns: Iterable[tuple[int, str, Parser]], expected: str = "fields, as in the header"
) -> Callable[[list[str]], list[Any]]:
    """Return the function from a record's fields to the values of columns, each an index, a name and a parser."""
    parsers = tuple(columns)

    def parse(fields: list[str]) -> list[Any]:
        if len(fields) != width:
            raise FormatError(f"expected {width} {expected}, found {len(fields)}")
        values = []
        for index, name, parser in parsers:
            try:
                values.append(parser(fields[index]))
            except FormatError as error:
                raise FormatError(error.problem, field=name) from None
        return values

    return parse


def short(text: str) -> str:
    """Return `text` as an error message quotes it."""
    return ascii(text if len(text) <= 40 else text[:40] + "...")


BLOCK: Final = 1 << 23
LONGEST_RECORD: Final = 1 << 26
BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Block:
    """Complete records: their bytes, and the number of their first line."""

    first_line: int
    raw: bytes


def blocks(stream: BinaryIO, source: str, size: int = BLOCK) -> Iterator[Block]:
    """Cut `stream` into blocks of complete records; a byte order mark is dropped."""
    line, held = 1, b""
    while chunk := stream.read(size):
        held += chunk
        if line == 1 and len(held) == len(chunk) and (problem := foreign(held)):
            raise FormatError(problem, source=source)
        if line == 1:
            held = held.removeprefix(BOM)
        cut = _record_end(held)
        if not cut and len(held) > LONGEST_RECORD:
            cut = held.rfind(b"\n") + 1
            if not cut:
                raise FormatError(f"this line is longer than {LONGEST_RECORD} bytes", source=source, line=line)
        if cut:
            yield Block(line, held[:cut])
            line += held.count(b"\n", 0, cut)
            held = held[cut:]
    if held:
        yield Block(line, held)


def _record_end(raw: bytes) -> int:
    """Return the length up to the last line end that lies outside quotes: an even number of quotes precedes it."""
    cut = raw.rfind(b"\n") + 1
    odd = b'"' in raw and raw.count(b'"', 0, cut) % 2
    while cut and odd:
        previous = raw.rfind(b"\n", 0, cut - 1) + 1
        odd ^= raw.count(b'"', previous, cut) % 2
        cut = previous
    return cut


def records(block: Block, source: str, convert: Callable[[list[str]], T]) -> Iterator[T]:
    """Yield what `convert` makes of each record of a block; blank lines are passed over."""
    lines = block.raw.decode("utf-8", "surrogateescape").split("\n")
    first = 0  # line of the block in which the record begins
    reader = csv.reader(map(add, lines, repeat("\n")), strict=True)
    try:
        for fields in reader:
            if fields:
                yield convert(fields)
            first = reader.line_num
    except (FormatError, csv.Error) as error:
        problem, name = f"this is no CSV record ({error})", None
        if isinstance(error, FormatError):
            problem, name = error.problem, error.field
        raise FormatError(problem, source=source, line=block.first_line + first, field=name) from error


def read_records(path: FilePath, convert: Callable[[list[str]], T], *, advance: Advance | None = None) -> Iterator[T]:
    """Yield what `convert` makes of every record of a file without a header, in a stream."""
    source = os.fspath(path)
    with reading(path, advance) as stream:
        for block in blocks(stream, source):
            yield from records(block, source, convert)


def read_table(
    path: FilePath,
    parsers: Mapping[str, Parser],
    convert: Callable[..., T],
    *,
    optional: Mapping[str, Parser] | None = None,
    advance: Advance | None = None,
) -> Iterator[T]:
    """Yield what `convert` makes of some columns of a file with a header; those of `optional` that it has come last."""
    source = os.fspath(path)
    with reading(path, advance) as stream:
        names, rest = split_header(blocks(stream, source), source, tuple(parsers))
        chosen = {**parsers, **{name: parser for name, parser in (optional or {}).items() if name in names}}
        parse = row_parser(len(names), ((names.index(name), name, parser) for name, parser in chosen.items()))
        more = tuple(chosen)[len(parsers) :]
        for block in rest:
            yield from records(block, source, lambda fields: convert(parse(fields), *more))


def split_header(
    cut: Iterator[Block], source: str, needed: tuple[str, ...], other_names: Mapping[str, str] | None = None
) -> tuple[list[str], Iterator[Block]]:
    """Take the header line off the first block; return the columns, in the file's order, and what follows."""
    head = next(cut, None)
    expected = ",".join(needed)
    if head is None or not head.raw.strip():
        raise FormatError(f"the file is empty: expected a header with {expected}", source=source)
    line, end, rest = head.raw.partition(b"\n")
    names = [name.strip() for name in next(records(Block(head.first_line, line), source, list), [])]
    for usual, other in (other_names or {}).items():
        names = [usual if name == other and usual not in names else name for name in names]
    missing = [name for name in needed if name not in names]
    if missing:
        problem = f"expected a header with {expected}; {', '.join(missing)} not found in {_shown(names)}"
        raise FormatError(problem, source=source, line=head.first_line)
    twice = [name for name in needed if names.count(name) > 1]
    if twice:
        raise FormatError(f"the header names {', '.join(twice)} twice", source=source, line=head.first_line)
    return names, _after(Block(head.first_line + len(end), rest), cut)


def _after(head: Block, rest: Iterable[Block]) -> Iterator[Block]:
    if head.raw:
        yield head
    yield from rest


def _shown(names: list[str], longest: int = 100) -> str:
    text = ",".join(names)
    return repr(text if len(text) <= longest else text[:longest] + "...")


SMALLEST: Final = 1 << 20  # below this many bytes the exact reader is done before Arrow is even imported


def read_block(raw: bytes, names: Sequence[str], types: Mapping[str, Any]) -> Any:
    """Return the columns named in `types` as an Arrow table, or None where only the exact reader can tell."""
    if not surely_csv(raw):
        return None
    import pyarrow as pa
    from pyarrow import csv

    try:
        return csv.read_csv(
            pa.BufferReader(raw),
            read_options=csv.ReadOptions(column_names=list(names)),
            parse_options=csv.ParseOptions(newlines_in_values=b'"' in raw),
            convert_options=csv.ConvertOptions(
                include_columns=list(types), column_types=dict(types), null_values=[], strings_can_be_null=False
            ),
        ).combine_chunks()
    except pa.ArrowInvalid:
        return None


def surely_csv(raw: bytes, delimiter: bytes = b",") -> bool:
    """Whether readers of CSV cannot disagree about these bytes."""
    if b"\r" in raw and raw.count(b"\r") != raw.count(b"\r\n"):
        return False  # Arrow ends a line there, Python refuses it
    return b'"' not in raw or _quotes_enclose(np.frombuffer(raw, np.uint8), delimiter)


def _quotes_enclose(characters: np.ndarray[Any, np.dtype[np.uint8]], delimiter: bytes = b",") -> bool:
    """Whether quotes only open and close entire fields, a doubled one inside being closed and opened at once."""
    quotes = np.flatnonzero(characters == ord('"'))
    if quotes.size % 2:
        return False
    opening, closing = quotes[::2], quotes[1::2]
    before = characters[opening[opening > 0] - 1]
    after = characters[closing[closing < characters.size - 1] + 1]
    ends = np.frombuffer(delimiter + b'\n"', np.uint8)
    return bool(np.isin(before, ends).all() and np.isin(after, np.append(ends, np.uint8(13))).all())
