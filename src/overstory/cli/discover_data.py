"""The column that ``overstory discover`` gives its simulated devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.discovery import Integers
from overstory.protocol.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from overstory.discovery import Domain
    from overstory.files.fields import Place
    from overstory.files.opening import Advance


def read_column(path: str, column: str, domain: Domain, advance: Advance | None = None) -> Any:
    """Return the values of a column, one a device; empty fields are left out.

    Parameters
    ----------
    path
        A CSV file with a header, plain or gz, or a Parquet file.
    column
        Its column.
    domain
        Where the values must lie.
    advance
        Told how many bytes were read.

    Raises
    ------
    FormatError
        When there is no such column, or a value is outside the domain.
    """
    read = _read_parquet if path.endswith(".parquet") else _read_csv
    values = read(path, column, domain, advance)
    return np.array(values, np.uint64) if isinstance(domain, Integers) else values


def _read_csv(path: str, column: str, domain: Domain, advance: Advance | None) -> list[Any]:
    from overstory.files.opening import reading
    from overstory.files.records import blocks, records, split_header

    with reading(path, advance) as stream:
        names, rest = split_header(blocks(stream, path), path, (column,))
        convert = _converter(column, names.index(column), len(names), domain)
        return [value for block in rest for value in records(block, path, convert) if value is not None]


def _converter(column: str, index: int, count: int, domain: Domain) -> Callable[[Place, list[str]], Any]:
    known: dict[str, Any] = {"": None}  # values repeat: each is parsed once

    def convert(place: Place, fields: list[str]) -> Any:
        text = place.column(fields, index, count)
        if text not in known:
            try:
                known[text] = domain.parse(place.text(text, column))
            except ParameterError as error:
                raise place.error(str(error), column) from error
        return known[text]

    return convert


def _read_parquet(path: str, column: str, domain: Domain, advance: Advance | None) -> list[Any]:  # noqa: ARG001
    import pyarrow as pa
    from pyarrow import parquet

    try:
        names = parquet.read_schema(path).names
        if column not in names:
            raise FormatError(f"there is no column {column!r}: choose one of {', '.join(names)}", source=path)
        held = parquet.read_table(path, columns=[column]).column(column).drop_null().to_pylist()
    except pa.ArrowInvalid as error:
        raise FormatError(str(error).partition("\n")[0], source=path) from error
    try:
        return [domain.value(domain.code(value)) for value in held]
    except ParameterError as error:
        raise FormatError(str(error), source=path, field=column) from error
