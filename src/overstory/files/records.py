"""Records of a CSV file, exactly: quoted fields, every error with its file, line and field.

A file is cut into blocks of whole records. A fast reader may take a block as a whole; what it does not understand it
leaves to the exact reader here, which says what is wrong and where.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, Final, TypeVar

from overstory.files.fields import Place
from overstory.protocol.errors import FormatError

BLOCK: Final = 1 << 23
LONGEST_RECORD: Final = 1 << 26
BOM: Final = b"\xef\xbb\xbf"

T = TypeVar("T")


@dataclass
class Skipped:
    """Bad records that were counted instead of stopping the reading.

    Parameters
    ----------
    shown
        How many errors are kept; all are counted.

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
    """Cut `stream` into blocks of whole records; a byte order mark is dropped.

    Raises
    ------
    FormatError
        When a record does not end, or the first bytes are those of another kind of file.
    """
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
    block: Block, source: str, convert: Callable[[Place, list[str]], T], skipped: Skipped | None = None
) -> Iterator[T]:
    """Yield what `convert` makes of each record of a block; blank lines are passed over.

    With `skipped`, a record that is no CSV or that `convert` refuses is counted, and reading resumes on the line
    after its first one: a quote that is never closed costs one line, not the rest of the file.

    Raises
    ------
    FormatError
        At the first bad record, unless they are skipped.
    """
    lines = block.raw.decode("utf-8", "surrogateescape").split("\n")
    start = 0
    while start < len(lines):
        reader = csv.reader((line + "\n" for line in _from(lines, start)), strict=True)
        first = start
        while True:
            place = Place(source, block.first_line + first)
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


def _next(reader: Iterator[list[str]], place: Place) -> list[str] | None:
    try:
        return next(reader, None)
    except csv.Error as error:
        raise place.error(f"this is no CSV record ({error})") from error


def all_records(
    stream: BinaryIO, source: str, convert: Callable[[Place, list[str]], T], skipped: Skipped | None = None
) -> Iterator[T]:
    """Yield what `convert` makes of every record of a file without a header."""
    for block in blocks(stream, source):
        yield from records(block, source, convert, skipped)


def split_header(
    cut: Iterator[Block], source: str, needed: tuple[str, ...], other_names: Mapping[str, str] | None = None
) -> tuple[list[str], Iterator[Block]]:
    """Take the header line off the first block.

    Parameters
    ----------
    cut
        The file.
    source
        Its name, for errors.
    needed
        Columns that must be there.
    other_names
        For some of these, the name that a file without them may use.

    Returns
    -------
    names : list of str
        The columns, in the file's order.
    rest : iterator of Block
        What follows the header.

    Raises
    ------
    FormatError
        When the file is empty, or lacks a needed column.
    """
    head = next(cut, None)
    expected = ",".join(needed)
    if head is None or not head.raw.strip():
        raise FormatError(f"the file is empty: expected a header with {expected}", source=source)
    line, end, rest = head.raw.partition(b"\n")
    place = Place(source, head.first_line)
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


def _fields(place: Place, fields: list[str]) -> list[str]:  # noqa: ARG001 - a converter
    return fields


def _after(head: Block, rest: Iterable[Block]) -> Iterator[Block]:
    if head.raw:
        yield head
    yield from rest


def _shown(names: list[str], longest: int = 100) -> str:
    text = ",".join(names)
    return repr(text if len(text) <= longest else text[:longest] + "...")
