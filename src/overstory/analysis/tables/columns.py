"""A column of values as labels and codes: from pandas, Polars, Arrow, NumPy, or a list.

Every library's column goes through Arrow, so equal columns give equal labels in equal order, and equal results from
equal seeds. Labels are Python's own: a string, a whole number, a boolean, or None where a value is missing.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.protocol.errors import ParameterError

Label = str | int | bool | None  # A value as a column holds it; None is a missing one

KINDS: Final = "text, categories, booleans, dates or whole numbers"
PERIODS: Final = {"day": 31, "week": 7 * 60, "month": 31 * 60, "year": math.inf}
"""What dates are counted by, and the most days from the first to the last for which that is chosen."""


@dataclass(frozen=True, eq=False)
class Column:
    """A column, its distinct values apart: ordered categories in their order, others sorted, None last."""

    labels: tuple[Label, ...]
    codes: NDArray[np.int64]  # shape (n,): each row's value, as an index into `labels`
    by: str = ""  # what its dates are counted by: day, week, month or year; empty for what is no date
    in_order: bool = False  # whether the values have an order of their own: dates, and ordered categories

    @property
    def counts(self) -> NDArray[np.int64]:
        return np.bincount(self.codes, minlength=len(self.labels)).astype(np.int64)

    @property
    def missing(self) -> int:
        return int(self.counts[-1]) if None in self.labels else 0


def read_column(values: Any, by: str | None = None) -> Column:
    """Return labels (of categories and booleans all) and codes; dates by day, week, month or year, as `by` says."""
    import pyarrow as pa
    from pyarrow import compute

    array = _arrow(values)
    declared, ordered = None, False
    if pa.types.is_dictionary(array.type):
        declared, ordered = _categories(array.dictionary), array.type.ordered
        array = declared.take(array.indices)
    is_dated = pa.types.is_timestamp(array.type) or pa.types.is_date(array.type)
    if by is not None and not is_dated:
        raise ParameterError(f"by = {by!r}: a column of dates is expected, not of {array.type}")
    array, unit = _dated(array, by) if is_dated else (_plain(array), "")
    distinct = compute.unique(array.drop_null())
    seen = distinct.to_pylist()
    distinct_labels = dict.fromkeys([*(declared.drop_null().to_pylist() if declared is not None else ()), *seen])
    labels: list[Label] = list(distinct_labels) if ordered else sorted(distinct_labels)
    if pa.types.is_boolean(array.type):
        labels = [False, True]
    place = {label: index for index, label in enumerate(labels)}
    indices = compute.index_in(array, value_set=distinct)
    places = np.array([*(place[label] for label in seen), len(labels)], np.int64)
    codes = places[indices.fill_null(len(seen)).to_numpy(zero_copy_only=False)]
    return Column((*labels, None) if array.null_count else tuple(labels), codes, unit, ordered or is_dated)


def _dated(array: Any, by: str | None) -> tuple[Any, str]:
    """Return each row's date by its day, week, month or year, and which of these; the clock is that of the column."""
    import pyarrow as pa
    from pyarrow import compute

    if getattr(array.type, "tz", None) is not None:
        array = compute.local_timestamp(array)
    encoded = array.cast(pa.date32(), safe=False).dictionary_encode()
    if not len(encoded.dictionary):
        return pa.array([None] * len(array), pa.large_string()), by or "day"
    unit, labels = period_labels(encoded.dictionary.to_numpy(zero_copy_only=False).astype("datetime64[D]"), by)
    return pa.array(labels, pa.large_string()).take(encoded.indices), unit


def period_labels(days: NDArray[np.datetime64], by: str | None = None) -> tuple[str, list[str]]:
    """Return what days are counted by, unless given the shortest that leaves few, and each day's label by that.

    >>> period_labels(np.array(["2026-11-09", "2027-01-03"], "datetime64[D]"))
    ('week', ['2026-W46', '2026-W53'])
    """
    if by not in {None, *PERIODS}:
        raise ParameterError(f"dates are not counted by {by!r}: choose one of {', '.join(PERIODS)}")
    span = int((days.max() - days.min()).astype(np.int64)) + 1
    unit = by or next(unit for unit, most in PERIODS.items() if span <= most)
    if unit == "week":
        weeks = (day.isocalendar() for day in days.astype(object))
        return unit, [f"{week.year}-W{week.week:02}" for week in weeks]
    return unit, days.astype(f"datetime64[{unit[0].upper()}]").astype(str).tolist()


def read_numbers(values: Any) -> NDArray[np.float64]:
    """Return a column of any numbers; NaN is a missing one."""
    import pyarrow as pa

    array = _arrow(values)
    kind = pa.types
    if not (kind.is_integer(array.type) or kind.is_floating(array.type) or kind.is_decimal(array.type)):
        raise ParameterError(f"a column of numbers is expected, not of {array.type}")
    numbers: NDArray[np.float64] = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return numbers.astype(np.float64)


def coded(values: Any, labels: Sequence[Label], *, missing: int | None = None) -> NDArray[np.int64]:
    """Return each row's value as an index into `labels`, and `missing` for one that is missing and not among them."""
    column = read_column(values)
    place: dict[Label, int] = {} if missing is None else {None: missing}
    place |= {label: index for index, label in enumerate(labels)}
    held = column.counts > 0
    for label in (label for label, there in zip(column.labels, held, strict=True) if there and label not in place):
        if label is None:
            raise missing_values(column.missing, len(column.codes))
        first = ", ".join(map(repr, labels[:5])) + (", ..." if len(labels) > 5 else "")
        raise ParameterError(f"the value {label!r} is none of the {len(labels)} labels: {first}")
    places = np.array([place.get(label, 0) for label in column.labels], np.int64)
    return places[column.codes] if len(column.codes) else column.codes


def missing_values(missing: int, rows: int) -> ParameterError:
    """Return the error for a column in which values are missing, where none was expected."""
    return ParameterError(
        f"{missing:,} of {rows:,} rows hold no value. List None among the labels, so that a missing value is "
        "randomized like any other, or drop those rows: then everyone sees who has none"
    )


def labels_from(values: Any) -> tuple[Label, ...]:
    """Return the labels that are listed: in their order, or the distinct values of a column in which some repeat."""
    column = read_column(list(values) if isinstance(values, range | Mapping) else values)
    listed = column.labels
    if len(column.codes) == len(np.unique(column.codes)) and len(column.codes) > 1:
        listed = tuple(column.labels[code] for code in column.codes)
    if len(listed) < 2:
        raise ParameterError(f"labels = {list(listed)}: give at least two values that there can be")
    return listed


def lookup_key(value: Any) -> Hashable:
    """Return the label that a value stands for: NaN and NA are None, a whole float is its number.

    >>> lookup_key(float("nan")), lookup_key(3.0), lookup_key("3")
    (None, 3, '3')
    """
    if type(value).__name__ in {"NAType", "NaTType"} or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, Hashable) else repr(value)


def _arrow(values: Any) -> Any:
    """Return one column as an Arrow array, in one piece."""
    import pyarrow as pa

    if isinstance(values, str | bytes) or np.isscalar(values):
        raise ParameterError(f"{values!r} is one value: give a column of them")
    if hasattr(type(values), "columns") or isinstance(values, Mapping) or getattr(values, "ndim", 1) != 1:
        raise ParameterError("this is no single column: give one, as in frame['name']")
    categories = getattr(getattr(values, "cat", None), "categories", None)
    if categories is not None and type(categories).__name__ in {"IntervalIndex", "DatetimeIndex", "PeriodIndex"}:
        values = values.cat.rename_categories(categories.astype(str))
    kind = getattr(values, "dtype", None)
    if str(kind).startswith("period["):  # of pandas: each is called as it prints
        values = [None if value != value else str(value) for value in values]  # noqa: PLR0124 - NaT
    elif isinstance(values, np.ndarray) and getattr(kind, "kind", "") == "M":  # Arrow reads no months, years and hours
        values = values.astype("datetime64[D]")
    if isinstance(values, pa.Array | pa.ChunkedArray):
        read = values
    elif hasattr(values, "__arrow_c_stream__") and not hasattr(values, "iloc"):  # pandas has its own NaN to null
        read = _explained(pa.chunked_array, values)
    elif isinstance(values, Iterable) or hasattr(values, "__arrow_c_array__"):
        given = values if hasattr(values, "dtype") or hasattr(values, "__arrow_c_array__") else list(values)
        read = _explained(lambda column: pa.array(column, from_pandas=True), given)
    else:
        raise ParameterError(f"{type(values).__name__} is no column: give a Series, an array or a list")
    return read.combine_chunks() if isinstance(read, pa.ChunkedArray) else read


def _explained(read: Any, values: Any) -> Any:
    import pyarrow as pa

    try:
        return read(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        problem = str(error).partition("\n")[0]
        raise ParameterError(f"the column cannot be read ({problem}): give {KINDS}, all of one kind") from error


def _categories(dictionary: Any) -> Any:
    """Return categories as labels; those of another kind, such as 0.5 or a day, become text."""
    import pyarrow as pa

    try:
        return _plain(dictionary)
    except ParameterError:
        return _explained(lambda categories: categories.cast(pa.large_string()), dictionary)


def _plain(array: Any) -> Any:
    """Return an array as strings, int64 or booleans; NaN is null."""
    import pyarrow as pa
    from pyarrow import compute

    kind, types = array.type, pa.types
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return array.cast(pa.large_string())
    if types.is_boolean(kind) or types.is_integer(kind):
        return array
    if types.is_null(kind):
        return array.cast(pa.large_string())
    if not types.is_floating(kind) and not types.is_decimal(kind):
        raise ParameterError(
            f"a column of {array.type} has no labels: give {KINDS}, or make text of it: astype(str), or cast to text"
        )
    if types.is_floating(kind):
        array = array.cast(pa.float64())
        array = compute.if_else(compute.is_nan(array), pa.scalar(None, pa.float64()), array)
    try:
        return array.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise _fraction(array) from error


def _fraction(array: Any) -> ParameterError:
    """Return the error for a column of numbers that are not all integers."""
    numbers = array.cast("float64").to_numpy(zero_copy_only=False)
    row = int(np.flatnonzero(~np.isnan(numbers) & ((numbers != np.floor(numbers)) | (abs(numbers) >= 2.0**63)))[0])
    there = numbers[np.isfinite(numbers)]
    low, high = (math.floor(there.min()), math.ceil(there.max())) if there.size else (0, 100)
    fraction = numbers[row] != np.floor(numbers[row])
    bins = f"({low}, {max(high, low + 1)}, 20)" if fraction else "(minimum, maximum, count)"
    return ParameterError(
        f"row {row} holds {numbers[row]:g}, which is no whole number{'' if fraction else ' of 64 bits'}: a survey "
        f"counts values, so put such numbers into bins, as in overstory.survey(column, bins={bins})"
    )
