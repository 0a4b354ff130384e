"""The fast readers of a CSV file: each is used where it surely agrees with the exact reader.

Blocks are read by Arrow, a small file by Python's own reader: loading Arrow would take far longer. Where readers of CSV
might disagree, and wherever something is wrong, the answer is None, and Arrow is asked: so there is one set of rules,
and one set of errors.

A file of JSON lines: an object a line, whose keys are the columns.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.files.columns.layout import Layout
from overstory.files.io import Advance, reading
from overstory.protocol.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Mapping


SMALLEST: Final = 1 << 20
"""Below this many bytes the exact reader is done before Arrow is even imported."""


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


NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?")
"""How numbers are written, for sure; there are other ways."""

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


def numbers_of(fields: Fields, no_numbers: Collection[str]) -> NDArray[np.float64] | None:
    """Return the fields as numbers, NaN where one is missing; None where Arrow must say whether it is a number."""
    bare = ["" if field is None else field.strip() for field in fields]
    there = [field for field in bare if field not in no_numbers]
    if not all(map(NUMBER.fullmatch, there)):
        return None
    return np.array(["nan" if field in no_numbers else field for field in bare], np.str_).astype(np.float64)


ROWS: Final = 1 << 16
"""Lines in a block."""
LONGEST: Final = 1 << 26
"""Bytes of a line."""


def is_json(path: str) -> bool:
    """Whether the file begins as JSON lines do, or as one JSON text."""
    with reading(path) as stream:
        first = stream.read(1 << 12).removeprefix(b"\xef\xbb\xbf").lstrip()
    if first.startswith(b"[") and first[1:].lstrip().startswith(b"{"):
        raise FormatError("this is one JSON list: write an object a line (jq -c '.[]' FILE)", source=path)
    return first.startswith(b"{") and first[1:].lstrip().startswith((b'"', b"}"))


def keys_of(path: str) -> tuple[str, ...]:
    """Return the keys of the first object, in order."""
    return next((tuple(record) for _, record in _records(path, None)), ())


def texts_of(path: str, columns: Sequence[str], advance: Advance | None) -> Iterator[list[list[str | None]]]:
    """Yield blocks of some columns as text, None where a key is missing, null or an empty text."""
    block: list[list[str | None]] = [[] for _ in columns]
    for line, record in _records(path, advance):
        for texts, column in zip(block, columns, strict=True):
            texts.append(_text(record.get(column), path, line, column))
        if len(block[0]) == ROWS:
            yield block
            block = [[] for _ in columns]
    if block[0]:
        yield block


def _records(path: str, advance: Advance | None) -> Iterator[tuple[int, dict[str, Any]]]:
    with reading(path, advance) as stream:
        for line, raw in enumerate(iter(lambda: stream.readline(LONGEST), b""), start=1):
            if not raw.strip():
                continue
            try:
                record = json.loads(raw.removeprefix(b"\xef\xbb\xbf") if line == 1 else raw)
            except (ValueError, RecursionError) as error:
                raise FormatError("this line is no JSON: expected an object a line", source=path, line=line) from error
            if not isinstance(record, dict):
                raise FormatError("expected an object a line", source=path, line=line)
            yield line, record


def _text(value: Any, path: str, line: int, column: str) -> str | None:
    if value is None or isinstance(value, str):
        return value or None
    if isinstance(value, list | dict):
        kind = "a list" if isinstance(value, list) else "an object"
        raise FormatError(f"expected a text or a number, found {kind}", source=path, line=line, field=column)
    return json.dumps(value)
