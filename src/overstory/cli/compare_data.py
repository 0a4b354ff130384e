"""The column that ``overstory compare`` tries the oracles on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from overstory.protocol.errors import FormatError, ParameterError


def read_symbols(path: str, column: str, num_reports: int | None, seed: int) -> tuple[NDArray[np.integer[Any]], int]:
    """Return what each device holds, as numbers, and how many different values there are.

    Parameters
    ----------
    path
        A CSV file with a header, or a Parquet file.
    column
        Its column; missing values are left out.
    num_reports
        So many devices, drawn from the rows with replacement; unless given, one a row.
    seed
        Of the draw.

    Raises
    ------
    ParameterError
        When there is no such column, or it holds nothing.
    """
    import pyarrow as pa

    values = _table(path, column).column(column).combine_chunks().drop_null().cast(pa.string()).dictionary_encode()
    if not len(values):
        raise ParameterError(f"{path}: the column {column!r} holds no values")
    symbols: NDArray[np.integer[Any]] = values.indices.to_numpy(zero_copy_only=False)
    if num_reports is not None and num_reports > 0:
        symbols = np.random.default_rng([seed, 1 << 21]).choice(symbols, size=num_reports)
    return symbols, len(values.dictionary)


def _table(path: str, column: str) -> Any:
    import pyarrow as pa
    from pyarrow import csv, parquet

    try:
        empty_is_missing = csv.ConvertOptions(strings_can_be_null=True)
        is_parquet = path.endswith(".parquet")
        table = parquet.read_table(path) if is_parquet else csv.read_csv(path, convert_options=empty_is_missing)
    except pa.ArrowInvalid as error:
        raise FormatError(str(error).partition("\n")[0], source=path) from error
    if column not in table.column_names:
        raise ParameterError(f"{path}: there is no column {column!r}: choose one of {', '.join(table.column_names)}")
    return table
