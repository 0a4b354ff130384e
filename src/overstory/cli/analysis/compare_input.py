"""The column that ``overstory compare`` tries the oracles on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from overstory.files.columns.layout import Form
from overstory.files.columns.reader import ANY_FORM, blocks
from overstory.protocol.encodings.base import check_count
from overstory.protocol.errors import ParameterError


def read_symbols(
    path: str, column: str, num_reports: int | None, seed: int, form: Form = ANY_FORM
) -> tuple[NDArray[np.integer[Any]], int]:
    """Return what each device holds, as numbers, and how many different values there are.

    Parameters
    ----------
    path, column, form
        See `overstory.files.columns.reader.blocks`; missing values are left out.
    num_reports
        So many devices, drawn from the rows with replacement; unless given, one a row.
    """
    if num_reports is not None:
        check_count("num_reports", num_reports, 1, 1 << 62)
    known: dict[str, int] = {}
    numbers = [values.numbered(known) for (values,) in blocks(path, [column], form=form)]
    if not known:
        raise ParameterError(f"{path}: the column {column!r} holds no values")
    symbols: NDArray[np.integer[Any]] = np.concatenate([some[some >= 0] for some in numbers])
    if num_reports is not None:
        symbols = np.random.default_rng([seed, 1 << 21]).choice(symbols, size=num_reports)
    return symbols, len(known)
