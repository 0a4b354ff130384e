"""A column of a user's CSV or Parquet file, read in a stream: memory is that of one block, however long the file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from overstory.protocol.errors import FormatError, ParameterError

BLOCK: Final = 1 << 22
"""Bytes of CSV at a time."""
ROWS: Final = 1 << 17
"""Rows of Parquet at a time."""
PARQUET_MAGIC: Final = b"PAR1"

Advance = Callable[[int], object]
"""Called with every number of bytes that were read."""


def columns_of(path: str) -> tuple[str, ...]:
    """Return the names of the file's columns.

    Raises
    ------
    FormatError
        When the file is neither CSV with a header nor Parquet.
    OSError
        When it cannot be opened.
    """
    with _explained(path):
        if is_parquet(path):
            from pyarrow import parquet

            return tuple(parquet.read_schema(path).names)
        return tuple(_csv(path, None, numbers=False, block=BLOCK).schema.names)


def is_parquet(path: str) -> bool:
    """Whether the file begins as Parquet does, whatever it is called."""
    with Path(path).open("rb") as file:
        return file.read(4) == PARQUET_MAGIC


def blocks(
    path: str, columns: Sequence[str], *, numbers: bool = False, advance: Advance | None = None, block: int = BLOCK
) -> Iterator[tuple[Any, ...]]:
    """Yield the columns block by block, each block a tuple of Arrow arrays of equal length.

    Parameters
    ----------
    path
        A CSV file with a header (gz too), or a Parquet file; known by how it begins.
    columns
        Which, in order. Missing are the nulls of Parquet and the empty, unquoted fields of CSV.
    numbers
        Whether the first column holds numbers: it is then an array of float64, and ``NA``, ``null``, ``NaN`` and their
        like are missing. Otherwise all columns are text.
    advance
        Told of the progress, in bytes.
    block
        Bytes of CSV, at least, in a block.

    Raises
    ------
    ParameterError
        When there is no such column; the message names those there are.
    FormatError
        When the file is damaged, or a field is no number where numbers are asked for.
    OSError
        When it cannot be opened.
    """
    check_columns(path, columns)
    with _explained(path):
        read = (
            _parquet_batches(path, columns) if is_parquet(path) else _csv(path, columns, numbers=numbers, block=block)
        )
        size, told, done = Path(path).stat().st_size, 0, 0
        for batch in read:
            yield tuple(_typed(batch.column(name), numbers and i == 0) for i, name in enumerate(columns))
            done += batch.nbytes
            if advance is not None:  # the bytes in memory stand for those on the disk, which Arrow does not tell
                share = min(done, size) - told
                told += share
                advance(share)


def check_columns(path: str, columns: Sequence[str]) -> None:
    """Raise ParameterError unless the file has each of the columns, once."""
    names = columns_of(path)
    for column in columns:
        if column not in names:
            raise ParameterError(f"{path}: there is no column {column!r}; there are: {', '.join(map(repr, names))}")
        if names.count(column) > 1:
            raise ParameterError(f"{path}: {names.count(column)} columns are called {column!r}: give each its own name")


def _csv(path: str, columns: Sequence[str] | None, *, numbers: bool, block: int) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    wanted = {} if columns is None else dict.fromkeys(columns, pa.string())
    missing: dict[str, Any] = {"null_values": [""], "quoted_strings_can_be_null": False}
    if numbers and columns:
        wanted[columns[0]] = pa.float64()
        missing = {}
    return csv.open_csv(
        path,
        read_options=csv.ReadOptions(block_size=block),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types=wanted, include_columns=list(wanted), strings_can_be_null=True, **missing
        ),
    )


def _parquet_batches(path: str, columns: Sequence[str]) -> Iterator[Any]:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        yield from file.iter_batches(batch_size=ROWS, columns=list(dict.fromkeys(columns)))


def _typed(values: Any, number: bool) -> Any:  # noqa: FBT001 - one of two kinds
    import pyarrow as pa

    kind = pa.float64() if number else pa.string()
    return values if values.type == kind else values.cast(kind, safe=not number)


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """Say in one error of ours what the reader says."""
    import pyarrow as pa

    try:
        yield
    except pa.ArrowNotImplementedError as error:
        raise FormatError(f"a column of text or numbers is expected ({_first(error)})", source=path) from error
    except pa.ArrowException as error:
        if "conversion error to double" in str(error) or "Failed to parse string" in str(error):
            raise FormatError(f"the column is to hold numbers ({_first(error)})", source=path) from error
        raise FormatError(f"this is no sound CSV or Parquet file ({_first(error)})", source=path) from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise FormatError(f"this is no sound CSV or Parquet file ({_first(error)})", source=path) from error
    except UnicodeDecodeError as error:
        raise FormatError("the header is not UTF-8 text", source=os.fspath(path)) from error


def _first(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
