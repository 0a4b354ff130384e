"""A column of a user's own file, CSV or Parquet, read in a stream; what she does not say is sniffed."""

from __future__ import annotations

import codecs
import csv
import io
import math
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from overstory.files.io import SMALLEST, Advance, foreign, is_parquet, reading, surely_csv
from overstory.presentation.formats import printable
from overstory.protocol.errors import FormatError, ParameterError

DELIMITERS: Final = (",", ";", "\t", "|")
HEAD: Final = 1 << 20  # bytes that a header fits into
SHOWN: Final = 20  # columns that an error names
JSON: Final = re.compile(r'\s*(\[\s*)?\{\s*["}]')  # how objects begin, a line each or in a list
WHOLE: Final = r"[-+\u2212]?([1-9][0-9]{0,2}([%s'’ \xa0\u202f])[0-9]{3}(\2[0-9]{3})*|0|[1-9][0-9]*)"
GROUPED: Final = {
    mark: re.compile(WHOLE % other + rf"([{mark}][0-9]+)?([eE][-+]?[0-9]{{1,3}})?")
    for mark, other in ((".", ","), (",", "."))
}
"""How numbers are written with a decimal point or a decimal comma, their thousands apart; no postcodes, as 00501 is."""


@dataclass(frozen=True)
class Form:
    """How a file of columns is written, as far as the user says."""

    delimiter: str | None = None  # between fields; None: sniffed from the first line
    missing: tuple[str, ...] = ()  # texts that mean no value, as the empty field does
    tidy: bool = False  # whether texts that differ in blanks, case or an accent's form alone are one value
    encoding: str | None = None  # as Python calls it; None: UTF-8, or UTF-16 where the file begins with its mark
    header: bool = True  # whether the first line names the columns; else they are called 1, 2, and so on
    decimal: str | None = None  # before a number's fraction, a comma or a point; None: as the column's texts have it
    dates: str | None = None  # the order of a date's parts, dmy or mdy; None: as the column's texts have it
    by: str | None = None  # what dates are counted by: day, week, month or year; None: by how many there are
    words: bool = False  # whether texts are counted as they are, numbers and dates, too

    def __post_init__(self) -> None:
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise ParameterError(f"--csv delimiter={printable(self.delimiter)!r}: give one character, or tab")
        if self.decimal not in {None, *GROUPED}:
            raise ParameterError(f"--csv decimal={printable(str(self.decimal))}: give a comma or a point")
        if self.dates not in {None, "dmy", "mdy"}:
            raise ParameterError(f"--csv dates={printable(str(self.dates))}: give dmy, mdy, day, week, month or year")
        try:
            encoding = codecs.lookup(self.encoding or "utf-8")
        except LookupError as error:
            raise ParameterError(f"--csv encoding={self.encoding}: there is no such encoding") from error
        if not encoding._is_text_encoding:  # noqa: SLF001 - as Python's own `open` asks
            raise ParameterError(f"--csv encoding={self.encoding}: this is no encoding of text, as latin-1 is")


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
    if JSON.match(text):
        made = """jq -rs 'flatten | ["NAME"], (.[] | [.NAME]) | @csv'"""
        raise FormatError(f"this is JSON: make it CSV ({made})", source=path)
    delimiters = (form.delimiter,) if form.delimiter else DELIMITERS
    firsts = {delimiter: _first_records(text, delimiter) for delimiter in delimiters}

    def likelihood(mark: str) -> tuple[bool, int, bool]:
        first, second = firsts[mark]
        has_wanted = bool(wanted) and {*wanted} <= {*first, *(name.strip() for name in first)}
        return has_wanted and form.header, len(first), len(first) == len(second)

    likeliest = max(delimiters, key=likelihood)
    first = firsts[likeliest][0]
    strip = form.tidy or (len(first) > 1 and all(field.startswith(" ") for field in first[1:]))
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
    other = (
        "--csv encoding=latin-1 or cp1252 reads older files" if encoding == "utf-8" else "give another --csv encoding="
    )
    return FormatError(f"this is not {encoding.upper()} text ({shown}): {other}", source=path, line=line)


def _first_records(text: str, delimiter: str) -> tuple[list[str], list[str]]:
    lines: Iterator[str] = (line for line in io.StringIO(text, newline="") if line.strip("\r\n"))
    try:
        reader = csv.reader(lines, delimiter=delimiter)
        return next(reader, []), next(reader, [])
    except csv.Error:
        return text.partition("\n")[0].split(delimiter), []


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
    return shown + ("; if that is no header, give --csv no-header" if odd and not numbered else "")


def fault(path: str, layout: Layout) -> FormatError | None:
    """Return the first fault of the file's form, by a slow and exact reader; None when it sees none."""
    try:
        with reading(path) as stream, io.TextIOWrapper(stream, layout.encoding, newline="") as text:
            return _fault(path, layout, text)
    except UnicodeDecodeError:
        return _first_byte(path, layout.encoding)
    except (EOFError, zlib.error):
        return None


def _fault(path: str, layout: Layout, text: io.TextIOWrapper) -> FormatError | None:
    reader, line = csv.reader(text, delimiter=layout.delimiter, strict=True), 1
    try:
        for fields in reader:
            if fields and len(fields) != len(layout.names):
                expected = "as in the header" if layout.header else "as in the first line"
                problem = f"expected {len(layout.names)} fields, {expected}, found {len(fields)}"
                return FormatError(problem, source=path, line=line)
            line = reader.line_num + 1
    except csv.Error as error:
        reason = str(error)
        if "unexpected end" in reason or "field limit" in reason:
            return FormatError("a quote opens in this record and does not close", source=path, line=line)
        return FormatError(f"this is no CSV record ({reason})", source=path, line=line)
    return None


def line_of(path: str, form: Form, column: str, value: str) -> int | None:
    """Return the first line of a CSV file at which a record begins whose column holds the value; None of others."""
    if is_parquet(path):
        return None
    layout = layout_of(path, form, [column])
    index, line = layout.names.index(column), 1
    with reading(path) as stream, io.TextIOWrapper(stream, layout.encoding, newline="") as text:
        reader = csv.reader(text, delimiter=layout.delimiter)
        for fields in reader:
            if index < len(fields) and (fields[index].strip() if layout.strip else fields[index]) == value:
                return line
            line = reader.line_num + 1
    return None


def is_number(text: str) -> bool:
    """Whether Python reads a text as a number, without underscores in it."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def as_number(text: str, decimal: str | None) -> str | None:
    """Return a number of this decimal mark as Python writes it; None for what is none. No mark: as Python reads it."""
    if decimal is None:
        return text if is_number(text) else None
    if not GROUPED[decimal].fullmatch(text):
        return None
    text = text.replace("\u2212", "-")  # the minus of typesetters
    return "".join("." if c == decimal else c for c in text if c.isalnum() or c in {"-", "+", decimal})


def _first_byte(path: str, encoding: str) -> FormatError | None:
    with reading(path) as stream:
        for line, raw in enumerate(stream, start=1):
            try:
                raw.decode(encoding)
            except UnicodeDecodeError as error:
                return not_text(path, line, encoding, raw[error.start : error.start + 1])
    return None


Fields = list[str | None]


def read_plain(path: str, layout: Layout, columns: Sequence[str]) -> list[Fields] | None:
    """Return some columns of a small CSV file, None in them being an empty, unquoted field; or None: ask Arrow."""
    with reading(path) as stream:
        raw = stream.read(SMALLEST + 1)
    try:
        text = raw.decode(layout.encoding).removeprefix("\ufeff")
        octets = text.encode()
    except UnicodeError:
        return None
    delimiter = layout.delimiter.encode()
    quoted_nothing = b'""' in octets  # an empty text, or a quote within one: Python does not tell which
    last_nothing = octets.endswith(delimiter)  # after a quoted field Arrow takes it for an empty text
    if len(raw) > SMALLEST or quoted_nothing or last_nothing or b"\0" in octets:
        return None
    return _columns(text, layout, columns) if surely_csv(octets, delimiter) else None


def _columns(text: str, layout: Layout, columns: Sequence[str]) -> list[Fields] | None:
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=layout.delimiter)
        records = [record for record in reader if record]
    except csv.Error:
        return None
    header = records.pop(0) if layout.header else list(layout.raw_names)
    if not records or header != list(layout.raw_names) or any(len(record) != len(header) for record in records):
        return None
    places = [layout.names.index(name) for name in columns]
    read: list[Fields] = [[record[place] or None for record in records] for place in places]
    if layout.strip:
        return [[field and field.strip() for field in fields] for fields in read]
    return read


BLOCK: Final = 1 << 22  # bytes of CSV at a time
ROWS: Final = 1 << 17  # rows of Parquet at a time
NO_NUMBERS: Final = frozenset(
    {
        *("", "?", "-", ".", "..", "None", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND"),
        *("1.#QNAN", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null"),
    }
)
"""What columns of numbers hold where there is no number."""
ANY_FORM: Final = Form()

I32 = NDArray[np.int32]


class FewTexts:
    """Some rows of a column of text, as a list with None where a row has no text."""

    def __init__(self, texts: list[str | None], missing: Collection[str] = ()) -> None:
        self._texts = [None if text in missing else text for text in texts] if missing else texts

    def __len__(self) -> int:
        return len(self._texts)

    @property
    def missing(self) -> int:
        return self._texts.count(None)

    def counted(self) -> dict[str, int]:
        return Counter(text for text in self._texts if text is not None)

    def numbered(self, number_of: dict[str, int]) -> I32:
        """Return each row's number, -1 where it has no text; new texts are given numbers as they come."""
        numbers = (-1 if text is None else number_of.setdefault(text, len(number_of)) for text in self._texts)
        return np.fromiter(numbers, np.int32, len(self._texts))


class ArrowTexts:
    """The same of an Arrow array, with nulls where a row has no text."""

    def __init__(self, array: Any, absent: Collection[str] = ()) -> None:
        import pyarrow as pa

        self._array, self._absent = array, absent
        self._is_numeric = pa.types.is_integer(array.type) or pa.types.is_floating(array.type)
        if not self._is_numeric:
            self._array = self._texts

    def __len__(self) -> int:
        return len(self._array)

    @cached_property
    def _texts(self) -> Any:
        return _text(self._array, self._absent)

    def numbers(self, no_numbers: Collection[str]) -> NDArray[np.float64] | None:
        """Return each row's number, NaN where it has none; None where Arrow reads them not."""
        import pyarrow as pa
        from pyarrow import compute

        numbers = self._array
        try:
            if not self._is_numeric:
                numbers = _text(compute.utf8_trim_whitespace(numbers), no_numbers)
            return np.asarray(numbers.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
        except pa.ArrowInvalid:
            return None

    @property
    def missing(self) -> int:
        return int(self._texts.null_count)

    def counted(self) -> dict[str, int]:
        return {entry["values"]: entry["counts"] for entry in self._texts.drop_null().value_counts().to_pylist()}

    def numbered(self, number_of: dict[str, int]) -> I32:
        encoded = self._texts.dictionary_encode()
        numbers = [number_of.setdefault(text, len(number_of)) for text in encoded.dictionary.to_pylist()]
        rows: I32 = encoded.indices.fill_null(len(numbers)).to_numpy(zero_copy_only=False)
        return np.array([*numbers, -1], np.int32)[rows]


def blocks(
    path: str,
    columns: Sequence[str],
    *,
    numbers: bool = False,
    form: Form = ANY_FORM,
    advance: Advance | None = None,
    block: int = BLOCK,
) -> Iterator[tuple[Any, ...]]:
    """Yield the columns in blocks, each a tuple of `FewTexts` or `ArrowTexts`; with `numbers` the first as float64."""
    # Missing are the nulls of Parquet, the empty, unquoted fields of CSV, and what `form` says.
    for first, *others in _tables(path, columns, form, advance, block):
        yield (_numbers(first, path, columns[0], form) if numbers else first, *others)


def _tables(
    path: str, columns: Sequence[str], form: Form, advance: Advance | None, block: int
) -> Iterator[tuple[Any, ...]]:
    layout = None if is_parquet(path) else layout_of(path, form, columns)
    if layout is None:
        with _explained(path):
            from pyarrow import parquet

            names = tuple(parquet.read_schema(path).names)
    check_columns(path, names if layout is None else layout.names, columns)
    is_small = Path(path).stat().st_size <= min(SMALLEST, block)
    if layout is not None and is_small and (small := read_plain(path, layout, columns)) is not None:
        if advance is not None:
            advance(Path(path).stat().st_size)
        yield tuple(FewTexts(fields, form.missing) for fields in small)
        return
    for read in _parquet(path, columns, advance) if layout is None else _csv(path, layout, columns, advance, block):
        with _explained(path):
            yield tuple(ArrowTexts(values, form.missing) for values in read)


def _numbers(texts: FewTexts | ArrowTexts, path: str, column: str, form: Form) -> NDArray[np.float64]:
    no_numbers = NO_NUMBERS.union(form.missing)
    # Quickly, where Arrow can: else each text once.
    quick = texts.numbers(no_numbers) if form.decimal is None and isinstance(texts, ArrowTexts) else None
    if quick is not None:
        return quick
    known: dict[str, int] = {}
    rows, numbers = texts.numbered(known), []
    for text in known:
        bare = text.strip()
        plain = "nan" if bare in no_numbers else as_number(bare, form.decimal)
        if plain is None:
            problem = f"the column is to hold numbers, found {bare[:40]!r}"
            problem += "; --csv decimal=, reads a decimal comma" * (form.decimal is None and "," in bare)
            raise FormatError(problem, source=path, line=line_of(path, form, column, text), field=column)
        numbers.append(float(plain))
    return np.array([*numbers, math.nan])[rows]


def _csv(
    path: str, layout: Layout, columns: Sequence[str], advance: Advance | None, block: int
) -> Iterator[tuple[Any, ...]]:
    import pyarrow as pa
    from pyarrow import compute, csv

    raw = [layout.raw_names[layout.names.index(name)] for name in columns]
    with reading(path, advance) as stream:
        quotes = _Quotes(stream)
        try:
            for batch in csv.open_csv(
                pa.PythonFile(quotes, mode="r"),
                read_options=csv.ReadOptions(
                    block_size=block,
                    encoding=layout.encoding,
                    column_names=None if layout.header else list(layout.raw_names),
                ),
                parse_options=csv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=True),
                convert_options=csv.ConvertOptions(
                    column_types=dict.fromkeys(raw, pa.string()),
                    include_columns=list(dict.fromkeys(raw)),
                    strings_can_be_null=True,
                    null_values=[""],
                    quoted_strings_can_be_null=False,
                ),
            ):
                fields = (batch.column(name) for name in raw)
                yield tuple(compute.utf8_trim_whitespace(values) if layout.strip else values for values in fields)
        except pa.ArrowException as error:
            raise fault(path, layout) or _unsound(path, error) from error
    if quotes.odd and (problem := fault(path, layout)):
        raise problem


class _Quotes:
    """A stream whose quotes are counted: an odd number says that one is not closed, or is inside a plain field."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self.odd, self.closed = stream, False, False

    def read(self, size: int = -1) -> bytes:
        raw = self._stream.read(size)
        self.odd ^= bool(raw.count(b'"') % 2)
        return raw

    def close(self) -> None:
        """Arrow is done: who opened the stream closes it."""
        self.closed = True


def _parquet(path: str, columns: Sequence[str], advance: Advance | None) -> Iterator[tuple[Any, ...]]:
    from pyarrow import parquet

    with _explained(path), parquet.ParquetFile(path) as file:
        size, rows, reported, done = Path(path).stat().st_size, max(file.metadata.num_rows, 1), 0, 0
        for batch in file.iter_batches(batch_size=ROWS, columns=list(dict.fromkeys(columns))):
            yield tuple(batch.column(name) for name in columns)
            done += batch.num_rows
            if advance is not None:  # by rows: Arrow does not say how many bytes it read
                share = size * done // rows - reported
                reported += share
                advance(share)


def _text(values: Any, missing: Collection[str]) -> Any:
    """Return a column as text, without what means no value."""
    import pyarrow as pa
    from pyarrow import compute

    text = values if values.type == pa.string() else values.cast(pa.string())
    if not missing:
        return text
    absent = compute.is_in(text, value_set=pa.array(list(missing), pa.string()))
    return compute.if_else(absent, pa.scalar(None, pa.string()), text)


@contextmanager
def _explained(path: str) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except pa.ArrowNotImplementedError as error:
        raise FormatError(f"a column of text or numbers is expected ({_first(error)})", source=path) from error
    except pa.ArrowException as error:
        raise _unsound(path, error) from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise _unsound(path, error) from error


def _unsound(path: str, error: Exception) -> FormatError:
    return FormatError(f"this is no sound CSV or Parquet file ({_first(error)})", source=path)


def _first(error: Exception) -> str:
    return printable(str(error).strip().partition("\n")[0])
