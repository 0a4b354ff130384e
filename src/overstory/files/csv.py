"""Records of a CSV file, read exactly: quoted fields, and every error with its file, line and field.

A file is split into blocks of complete records. A fast reader may read a block; blocks that it does not understand are
left to the exact reader here. `RecordPosition` checks fields and makes the errors.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, Final, TypeVar

from overstory.protocol.errors import FormatError

_WHOLE: Final = re.compile(r"-?[0-9]{1,19}")  # within 64 bits; Python's int would also take 1_000 and other scripts
_NUMBER: Final = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,4})?")
_MARKS: Final = re.compile(r'[,"\r\n]')
_BLANK: Final = " \t\r"


@dataclass(frozen=True, slots=True)
class RecordPosition:
    """A record's place in its file.

    Examples
    --------
    >>> RecordPosition("params.csv", 2).whole("12", "k", 1, 10)
    Traceback (most recent call last):
    overstory.protocol.errors.FormatError: params.csv, line 2, field k: expected a whole number from 1 to 10, found '12'
    """

    source: str
    line: int

    def error(self, problem: str, field: str | None = None) -> FormatError:
        """Return the error that says `problem` here."""
        return FormatError(problem, source=self.source, line=self.line, field=field)

    def whole(self, text: str, field: str, low: int, high: int) -> int:
        """Return the whole number in `text`."""
        bare = text.strip(_BLANK)
        if not _WHOLE.fullmatch(bare) or not low <= (value := int(bare)) <= high:
            raise self.error(f"expected a whole number from {low} to {high}, found {short(text)}", field)
        return value

    def number(self, text: str, field: str) -> float:
        """Return the decimal number in `text`."""
        bare = text.strip(_BLANK)
        if not _NUMBER.fullmatch(bare):
            raise self.error(f"expected a number such as 0.5, found {short(text)}", field)
        return float(bare)

    def text(self, text: str, field: str) -> str:
        """Return `text`, which must be UTF-8."""
        if not text.isascii() and not _is_utf8(text):
            raise self.error(f"expected UTF-8 text, found {short(text)}", field)
        return text

    def bits(self, text: str, field: str, num_bits: int) -> int:
        """Return the bits in `text`, most significant first, as an integer."""
        if len(text) != num_bits:
            raise self.error(f"expected {num_bits} characters 0 or 1, found {len(text)}", field)
        if text.strip("01"):
            wrong = text.strip("01")[0]
            raise self.error(f"expected {num_bits} characters 0 or 1, found {short(wrong)} among them", field)
        return int(text, 2)

    def column(self, fields: list[str], index: int, count: int) -> str:
        """Return the field at `index` of a record that must have `count`."""
        if len(fields) != count:
            raise self.error(f"expected {count} fields, as in the header, found {len(fields)}")
        return fields[index]


def quoted(text: str) -> str:
    """Return `text` as a CSV field, in quotes where it needs them (Python's own writer leaves a lone CR bare).

    Examples
    --------
    >>> quoted("plain"), quoted('say "hi", twice')
    ('plain', '"say ""hi"", twice"')
    """
    if _MARKS.search(text):
        return '"' + text.replace('"', '""') + '"'
    return text


def short(text: str, longest: int = 40) -> str:
    """Return `text` as an error message quotes it.

    Examples
    --------
    >>> short("a" * 100)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...'"
    """
    return ascii(text if len(text) <= longest else text[:longest] + "...")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


BLOCK: Final = 1 << 23
LONGEST_RECORD: Final = 1 << 26
BOM: Final = b"\xef\xbb\xbf"

T = TypeVar("T")


@dataclass
class Skipped:
    """Bad records that were counted instead of stopping the reading.

    Examples
    --------
    >>> skipped = Skipped(shown=1)
    >>> skipped.add(FormatError("expected 0 or 1")), skipped.add(FormatError("expected 4 bits"))
    (None, None)
    >>> skipped.count, [str(error) for error in skipped.examples]
    (2, ['expected 0 or 1'])
    """

    shown: int = 5
    count: int = 0
    examples: list[FormatError] = field(default_factory=list)

    def add(self, error: FormatError) -> None:
        """Count one."""
        self.count += 1
        if len(self.examples) < self.shown:
            self.examples.append(error)


@dataclass(frozen=True)
class Block:
    """Whole records: their bytes, and the number of their first line."""

    first_line: int
    raw: bytes


FOREIGN: Final = (
    (b"PK\x03\x04", "a zip archive or an Excel workbook: unpack it, or save the sheet as CSV"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook: save the sheet as CSV"),
    (b"\xff\xfe", "UTF-16 text: save it as UTF-8, or convert it (iconv -f utf-16 -t utf-8)"),
    (b"\xfe\xff", "UTF-16 text: save it as UTF-8, or convert it (iconv -f utf-16 -t utf-8)"),
    (b"\xfd7zXZ\0", "compressed by xz: unpack it (gz is read as it is)"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd: unpack it (gz is read as it is)"),
)
"""How files begin that are not UTF-8 text, and what to do about them."""


def foreign(head: bytes) -> str | None:
    r"""Say what a file is that begins so and is no UTF-8 text; None when it may be.

    Examples
    --------
    >>> foreign(b"PK\x03\x04..."), foreign(b"k,h,m,p,q,f")
    ('this is a zip archive or an Excel workbook: unpack it, or save the sheet as CSV', None)
    """
    return next((f"this is {said}" for begins, said in FOREIGN if head.startswith(begins)), None)


def blocks(stream: BinaryIO, source: str, size: int = BLOCK) -> Iterator[Block]:
    """Cut `stream` into blocks of whole records; a byte order mark is dropped."""
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


def records(
    block: Block, source: str, convert: Callable[[RecordPosition, list[str]], T], skipped: Skipped | None = None
) -> Iterator[T]:
    """Yield what `convert` makes of each record of a block; blank lines are passed over.

    With `skipped`, a record that is no CSV or that `convert` refuses is counted, and reading resumes on the line
    after its first one: a quote that is never closed costs one line, not the rest of the file.
    """
    lines = block.raw.decode("utf-8", "surrogateescape").split("\n")
    start = 0
    while start < len(lines):
        reader = csv.reader((line + "\n" for line in _from(lines, start)), strict=True)
        first = start
        while True:
            place = RecordPosition(source, block.first_line + first)
            try:
                fields = _next(reader, place)
                if fields is None:
                    return
                if fields:
                    yield convert(place, fields)
            except FormatError as error:
                if skipped is None:
                    raise
                skipped.add(error)
                if reader.line_num + start > first + 1:
                    break
            first = start + reader.line_num
        start = first + 1


def _from(lines: list[str], start: int) -> Iterator[str]:
    return (lines[i] for i in range(start, len(lines)))


def _next(reader: Iterator[list[str]], place: RecordPosition) -> list[str] | None:
    try:
        return next(reader, None)
    except csv.Error as error:
        raise place.error(f"this is no CSV record ({error})") from error


def all_records(
    stream: BinaryIO, source: str, convert: Callable[[RecordPosition, list[str]], T], skipped: Skipped | None = None
) -> Iterator[T]:
    """Yield what `convert` makes of every record of a file without a header."""
    for block in blocks(stream, source):
        yield from records(block, source, convert, skipped)


def split_header(
    cut: Iterator[Block], source: str, needed: tuple[str, ...], other_names: Mapping[str, str] | None = None
) -> tuple[list[str], Iterator[Block]]:
    """Take the header line off the first block.

    Returns
    -------
    names : list of str
        The columns, in the file's order.
    rest : iterator of Block
        What follows the header.
    """
    head = next(cut, None)
    expected = ",".join(needed)
    if head is None or not head.raw.strip():
        raise FormatError(f"the file is empty: expected a header with {expected}", source=source)
    line, end, rest = head.raw.partition(b"\n")
    place = RecordPosition(source, head.first_line)
    names = [name.strip() for name in next(records(Block(head.first_line, line), source, _fields), [])]
    for usual, other in (other_names or {}).items():
        names = [usual if name == other and usual not in names else name for name in names]
    missing = [name for name in needed if name not in names]
    if missing:
        raise place.error(f"expected a header with {expected}; {', '.join(missing)} not found in {_shown(names)}")
    twice = [name for name in needed if names.count(name) > 1]
    if twice:
        raise place.error(f"the header names {', '.join(twice)} twice")
    return names, _after(Block(head.first_line + len(end), rest), cut)


def _fields(place: RecordPosition, fields: list[str]) -> list[str]:  # noqa: ARG001 - a converter
    return fields


def _after(head: Block, rest: Iterable[Block]) -> Iterator[Block]:
    if head.raw:
        yield head
    yield from rest


def _shown(names: list[str], longest: int = 100) -> str:
    text = ",".join(names)
    return repr(text if len(text) <= longest else text[:longest] + "...")
