"""Tables as CSV and as JSON: the numbers of the rows that a page or a terminal shows as text."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from overstory.presentation.document import Column, Table
from overstory.presentation.formats import TRUTH, data_text, finite

if TYPE_CHECKING:
    import pyarrow as pa

FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a cell that a spreadsheet takes for a formula starts with; the last four are full-width forms."""
MARKS: Final = re.compile(r'[,"\r\n]')  # what makes a field need quotes
MARK: Final = "'"  # put before such a cell; a reader that wants the exact value takes one away
CHUNK: Final = 256
"""Records that are written together, column by column: of many more, the garbage collector would look at each again."""


def as_json(table: Table) -> list[dict[str, Any]]:
    """Return a dictionary of JSON values for each row."""
    keys = _keys(table.columns)
    return [{key: finite(row[key]) for key in keys} for row in table.rows]


def as_csv(table: Table) -> Iterator[str]:
    """Yield the lines of a CSV file."""
    named = {key: key if column.keys else column.csv or key for column in table.columns for key in column.data_keys}
    return chain((csv_line(named.values()),), csv_records([row[key] for key in named] for row in table.rows))


def as_arrow(table: Table) -> pa.Table:
    """Return an Arrow table; a column is of texts where only some are, such as names and numbers of quantiles."""
    import pyarrow as pa

    rows, columns = as_json(table), {}
    for key in _keys(table.columns):
        values = [row[key] for row in rows]
        is_mixed = any(isinstance(value, str) for value in values)
        columns[key] = [None if value is None else data_text(value) for value in values] if is_mixed else values
    return pa.table(columns)


def as_parquet(table: Table) -> bytes:
    """Return a Parquet file of `as_arrow`."""
    from pyarrow import parquet

    file = io.BytesIO()
    parquet.write_table(as_arrow(table), file)
    return file.getvalue()


def csv_lines(columns: Iterable[Column], records: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Return a header and a line per record; a record holds the values of all columns, in their order."""
    header = csv_line(name for column in columns for name in (column.keys or (column.csv or column.name,)))
    return chain((header,), csv_records(records))


def csv_records(records: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Return a line per record, each as long as the first; what a cell needs is asked once for many of its column."""
    rest = iter(records)
    return chain.from_iterable(map(_lines, iter(lambda: tuple(islice(rest, CHUNK)), ())))


def _lines(records: tuple[Sequence[Any], ...]) -> Iterator[str]:
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
    return "%s", map(quoted, texts) if MARKS.search("".join(texts)) else texts


def csv_line(cells: Iterable[Any]) -> str:
    """Return cells as a line of CSV, its end included."""
    return ",".join(quoted(str(cell)) for cell in cells) + "\n"


def for_spreadsheet(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines of CSV without formulas: an apostrophe begins what would be one, or begins with an apostrophe."""
    for cells in csv.reader(lines):
        yield csv_line([MARK + cell if _is_marked(cell) else cell for cell in cells])


def _keys(columns: Iterable[Column]) -> list[str]:
    return list(dict.fromkeys(key for column in columns for key in column.data_keys))


def quoted(text: str) -> str:
    """Return `text` as a CSV field, in quotes where it needs them (Python's own writer leaves a lone CR bare)."""
    if MARKS.search(text):
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
