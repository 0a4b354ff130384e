"""Opening files, plain or gz, read in a stream and written completely or not at all; records of CSV, read exactly.

Parsers of fields raise the problem alone; `row_parser` adds the field, `records` the file and the line.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import repeat
from operator import add
from pathlib import Path
from typing import Any, BinaryIO, Final, TextIO, TypeAlias, TypeVar, cast

from overstory.presentation.render_text import for_spreadsheet
from overstory.protocol.errors import FormatError

FilePath: TypeAlias = str | os.PathLike[str]
Advance: TypeAlias = Callable[[int], object]
"""Called with every number of bytes taken from the disk: what a progress bar needs."""

GZIP_MAGIC = b"\x1f\x8b"
PARQUET_MAGIC: Final = b"PAR1"
STANDARD: Final = "-"  # in place of a file's name: standard input, or standard output


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
    """Say what a file is that begins so and is no UTF-8 text; None when it may be."""
    return next((f"this is {kind}" for begins, kind in FOREIGN if head.startswith(begins)), None)


class _Counted(io.FileIO):
    """A file that reports how many bytes were read."""

    def __init__(self, path: FilePath, advance: Advance) -> None:
        if is_standard(path):
            super().__init__(0, "r", closefd=False)
        else:
            super().__init__(path, "r")
        self._advance = advance

    def readinto(self, buffer: Any) -> int | None:
        count = super().readinto(buffer)
        self._advance(count or 0)
        return count


def is_standard(path: FilePath) -> bool:
    """Whether standard input or output is meant."""
    return os.fspath(path) == STANDARD


def is_parquet(path: FilePath) -> bool:
    """Whether a file begins as Parquet does; a pipe, read once only, carries CSV."""
    if not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        return file.read(4) == PARQUET_MAGIC


@contextmanager
def reading(path: FilePath, advance: Advance | None = None) -> Iterator[BinaryIO]:
    """Open `path` (``-``: standard input) for reading bytes; gz is recognized by its first two bytes."""
    raw = io.BufferedReader(_Counted(path, advance or (lambda _: None)), buffer_size=1 << 18)
    with raw:
        if raw.peek(2)[:2] != GZIP_MAGIC:
            yield cast("BinaryIO", raw)
            return
        try:
            with gzip.GzipFile(fileobj=raw) as inflated:
                yield cast("BinaryIO", inflated)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise FormatError(f"the gz stream is damaged or cut short ({error})", source=os.fspath(path)) from error


@contextmanager
def replacing(path: FilePath) -> Iterator[str]:
    """Give the name of a temporary file that replaces `path`, or is removed after an error; a pipe is kept."""
    # The file is on the disk before it gets its name, and then its name is: power may fail at any time.
    target = Path(os.path.realpath(path))
    earlier = target.stat() if target.exists() else None
    if earlier is not None and not stat.S_ISREG(earlier.st_mode):
        if stat.S_ISDIR(earlier.st_mode):
            raise IsADirectoryError(21, "is a directory; a file is to be written there", os.fspath(path))
        yield str(target)
        return
    temporary = target.with_name(f".{target.name}.{os.urandom(4).hex()}.part")
    try:
        temporary.open("xb").close()
    except OSError as error:  # name the file that was asked for, not the temporary one
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from error
    try:
        yield str(temporary)
        sync(temporary)
        if earlier is not None:
            temporary.chmod(stat.S_IMODE(earlier.st_mode))
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    with suppress(OSError):  # a folder that may not be listed cannot be opened, and some file systems sync none
        sync(target.parent)


@contextmanager
def writing(path: FilePath) -> Iterator[BinaryIO]:
    """Open `path` for writing bytes, gz when its name ends so; an error leaves what was there before."""
    # The gz header carries neither a name nor a time: equal content gives equal files.
    if is_standard(path):
        sys.stdout.flush()
        yield cast("BinaryIO", sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    with replacing(path) as name, open(name, "wb", buffering=1 << 18) as plain:  # noqa: PTH123 - buffered
        if not os.fspath(path).endswith(".gz"):
            yield plain
            return
        with gzip.GzipFile(filename="", mode="wb", fileobj=plain, compresslevel=6, mtime=0) as deflated:
            yield cast("BinaryIO", deflated)


@contextmanager
def writing_text(path: FilePath) -> Iterator[TextIO]:
    """Open `path` for writing UTF-8 text with LF line ends."""
    with writing(path) as raw:
        text = io.TextIOWrapper(raw, encoding="utf-8", newline="")
        try:
            yield text
            text.flush()
        except UnicodeEncodeError as error:
            raise FormatError(f"this cannot be written as UTF-8 ({error.reason})", source=os.fspath(path)) from error
        finally:
            text.detach()  # whoever opened the file closes it


@contextmanager
def writing_csv(path: FilePath, *, spreadsheet: bool) -> Iterator[TextIO]:
    """Open a file to write CSV into; with `spreadsheet`, no cell of what is written is a formula."""
    with writing_text(path) as text:
        if not spreadsheet:
            yield text
            return
        lines = io.StringIO(newline="")
        yield lines
        lines.seek(0)
        text.writelines(for_spreadsheet(lines))


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    if path.is_dir() and os.name == "nt":  # pragma: no cover - a folder cannot be opened there
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
    return b'"' not in raw or _quotes_enclose(raw, delimiter)


def _quotes_enclose(raw: bytes, delimiter: bytes) -> bool:
    """Whether quotes only open and close entire fields, a doubled one inside being closed and opened at once."""
    import numpy as np

    characters = np.frombuffer(raw, np.uint8)
    quotes = np.flatnonzero(characters == ord('"'))
    if quotes.size % 2:
        return False
    opening, closing = quotes[::2], quotes[1::2]
    before = characters[opening[opening > 0] - 1]
    after = characters[closing[closing < characters.size - 1] + 1]
    ends = np.frombuffer(delimiter + b'\n"', np.uint8)
    return bool(np.isin(before, ends).all() and np.isin(after, np.append(ends, np.uint8(13))).all())
