"""How an estimate is shown: a text table, rows for JSON, RAPPOR's results.csv, a plot, a data frame; in a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from overstory.analysis.selection import INTERVAL_KINDS, interval_words, z_values
from overstory.analysis.tables.columns import lookup_key
from overstory.presentation.document import Column, Lines, Table
from overstory.presentation.formats import detection, interval, marked, p_value, percent, thousands
from overstory.presentation.render_text import csv_lines
from overstory.presentation.result import Result, TableForm, in_form
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import TextIO

    import pandas as pd
    import pyarrow as pa
    from numpy.typing import NDArray

    from overstory.analysis.estimate import Estimate
    from overstory.analysis.selection import IntervalKind
    from overstory.presentation.document import Block
    from overstory.presentation.svg import Picture


VALUE: Final = Column("value", is_left=True)


def count_interval(level: float = 0.95) -> Column:
    """Return the column of the intervals of the counts."""
    return Column("count_interval", f"{level:.0%} interval", interval(thousands), ("low", "high"))


def share_interval(level: float = 0.95) -> Column:
    """Return the column of the intervals of the shares."""
    return Column("share_interval", f"{level:.0%} interval", interval(percent), ("frequency_low", "frequency_high"))


def estimate_table(
    rows: Sequence[Mapping[str, Any]], *, first: Sequence[Column] = (), last: Sequence[Column] = (), level: float = 0.95
) -> Table:
    """Return rows of estimates as a table, like every table of estimates; what was not detected is faint."""
    columns = (
        VALUE,
        Column("count", text=thousands),
        count_interval(level),
        Column("frequency", "share", percent),
        share_interval(level),
        Column("p_value", "p", p_value),
        Column("detected", "", detection, ("detected", "low"), is_left=True),
    )
    return Table("", (*first, *columns, *last), rows, not_detected(rows))


def not_detected(rows: Sequence[Mapping[str, Any]]) -> frozenset[int]:
    """Return the numbers of the rows of values that were not detected."""
    return frozenset(number for number, row in enumerate(rows) if not row["detected"])


CSV: Final = (
    Column("value", csv="string"),
    Column("count", csv="estimate"),
    Column("standard_error", csv="std_error"),
    Column("frequency", csv="proportion"),
    Column("frequency_standard_error", csv="prop_std_error"),
    Column("frequency_low", csv="prop_low_95"),
    Column("frequency_high", csv="prop_high_95"),
    Column("raw_count", csv="raw_estimate"),
    *map(Column, ("p_value", "q_value", "detected", "interval", "adjustment")),
    Column("plain_frequency_low", csv="prop_plain_low_95"),
    Column("plain_frequency_high", csv="prop_plain_high_95"),
)
"""The seven columns of Google's results.csv, and ours: one dialect for every file of estimates.

`interval` names the kind of standard errors and intervals: ``reports`` or ``population``. `adjustment` names what the
interval of the row is corrected for: ``fcr`` for a detected value, else ``none``; the plain one is in columns of its
own.
"""


MISSING: Final = "(missing)"  # how a missing value is written


NOT_LISTED: Final = "not listed"  # what strings outside the list of candidates are called together


def unlike(name: str, others: Collection[str]) -> str:
    """Return a name for several values that is none of theirs: in parentheses where one of them has it.

    >>> unlike("not listed", ["oak", "not listed"])
    '(not listed)'
    """
    return unlike(f"({name})", others) if name in others else name


def label_text(label: Any) -> str:
    """Return a label as tables, files and pictures write it."""
    return MISSING if label is None else str(label)


def columns(estimate: Estimate, places: NDArray[np.intp] | None = None, level: float = 0.95) -> dict[str, NDArray[Any]]:
    """Return the columns of the values at `places`: all, most frequent first, unless given."""
    chosen = estimate.order() if places is None else places
    low, high = estimate.interval(level)
    plain_low, plain_high = estimate.interval(level, adjusted=False)
    errors, detected = estimate.errors(), estimate.detected()
    scale = max(estimate.num_reports, 1)
    every = {
        "count": estimate.counts,
        "raw_count": estimate.raw_counts,
        "standard_error": errors,
        "frequency": estimate.counts / scale,
        "frequency_standard_error": errors / scale,
        "low": low,
        "high": high,
        "frequency_low": low / scale,
        "frequency_high": high / scale,
        "z": z_values(estimate.raw_counts, estimate.standard_errors),
        "p_value": estimate.p_values,
        "q_value": estimate.q_values,
        "detected": detected,
        "interval": np.full(len(estimate.values), estimate.interval_kind),
        "adjustment": np.where(detected, "fcr", "none"),
        "plain_low": plain_low,
        "plain_high": plain_high,
        "plain_frequency_low": plain_low / scale,
        "plain_frequency_high": plain_high / scale,
    }
    return {name: column[chosen] for name, column in every.items()}


def _labels(estimate: Estimate, places: NDArray[np.intp]) -> Iterator[str]:
    return map(label_text, map(estimate.values.__getitem__, places.tolist()))


def write_csv(
    estimate: Estimate, target: str | PathLike[str] | TextIO, more: Mapping[str, Sequence[Any]] | None = None
) -> None:
    """Write every value, most frequent first; `more` columns, in the order of the values, come last."""
    if isinstance(target, str | PathLike):
        with Path(target).open("w", encoding="utf-8", newline="") as file:
            write_csv(estimate, file, more)
        return
    added, order = more or {}, estimate.order().tolist()
    lists = (map(column.__getitem__, order) for column in added.values())
    target.writelines(csv_lines((*CSV, *map(Column, added)), records(estimate, more=lists)))


def file_columns(level: float = 0.95) -> tuple[Column, ...]:
    """Return the columns of a file of estimates, `CSV`, whose intervals are named by their level."""
    percent = f"_{100 * level:.10g}"
    return tuple(replace(column, csv=column.csv.replace("_95", percent)) for column in CSV)


def records(
    estimate: Estimate, limit: int | None = None, level: float = 0.95, more: Iterable[Iterable[Any]] = ()
) -> Iterator[tuple[Any, ...]]:
    """Yield the values of the columns of `file_columns`, most frequent first, and of `more`; labels are texts."""
    places = estimate.order()[:limit]
    shown = columns(estimate, places, level)
    numbers = (shown[column.name].tolist() for column in CSV[1:])
    return zip(_labels(estimate, places), *numbers, *more, strict=True)


MOST_DRAWN: Final = 50  # values in a picture, the most frequent


def estimate_picture(
    name: str,
    caption: str,
    rows: Sequence[Mapping[str, Any]],
    keys: Sequence[str] = ("frequency", "frequency_low", "frequency_high", "detected"),
    **more: Any,
) -> Picture:
    """Draw rows: of `keys`, each number with its interval, hollow where it is not sure; `more` as `Dots` takes it."""
    from overstory.presentation.charts.numbers import Dots

    shares, low, high, sure = (
        np.array([np.nan if row[key] is None else row[key] for row in rows], float) for key in keys
    )
    names = [marked(row["value"]) for row in rows]
    return Dots(names=names, shares=shares, low=low, high=high, sure=sure > 0, **more).picture(name, caption)


def interval_caption(level: float, kind: IntervalKind = "population") -> str:
    """Return what the intervals of a picture are, for its caption."""
    return f"{level:.0%} intervals {INTERVAL_KINDS[kind].partition(' (')[0]}, wider for detected values"


def _shown_words(estimate: Estimate, shown: int) -> str:
    """Say how many values were detected, and how many of all values a picture shows."""
    every, detected = len(estimate.values), estimate.detected()
    if shown == every:
        return f"{int(detected.sum()):,} of {every:,} values detected"
    among = int(detected[estimate.order()[:shown]].sum())
    which = "first" if estimate.in_order else "most frequent"
    words = f"{shown:,} of {every:,} values shown, the {which}"
    return f"{words}; {among:,} of the {int(detected.sum()):,} detected are among them"


def plain(column: NDArray[Any]) -> list[Any]:
    """Return a column's numbers or truth values as Python's own; None in place of one that JSON has no word for."""
    numbers: list[Any] = column.tolist()
    if column.dtype.kind != "f" or np.isfinite(column).all():
        return numbers
    return [number if known else None for number, known in zip(numbers, np.isfinite(column), strict=True)]


SHOWN: Final = 20  # values that a notebook shows, the most frequent
SHOWN_IN_ORDER: Final = 100  # as many, of bins and dates: a part of them says little


class Row(NamedTuple):
    """One value of an estimate; an unknown number is None.

    `count` and `frequency` are the estimate as it is reported; `raw_count` and the standard errors are the unbiased
    one's. Intervals of 95% are wider for detected values (`adjustment`); the plain ones are not.
    """

    value: Any  # the value itself; None where it stands for a missing one
    count: float  # type: ignore[assignment] # a tuple's own `count` is given up for it
    raw_count: float
    standard_error: float | None
    frequency: float
    frequency_standard_error: float | None
    low: float | None
    high: float | None
    frequency_low: float | None
    frequency_high: float | None
    z: float
    p_value: float
    q_value: float
    detected: bool
    interval: IntervalKind  # what the standard errors and the interval are for: ``reports``, or ``population``
    adjustment: str  # of this value's interval: ``fcr``, or ``none`` where it was not detected
    plain_low: float | None
    plain_high: float | None
    plain_frequency_low: float | None
    plain_frequency_high: float | None


class UnknownValueError(ParameterError, KeyError):
    """A value that an estimate does not have."""

    def __str__(self) -> str:
        return str(self.args[0])


class Frame(Result):
    """What makes an estimate a table: rows, the most frequent first, and each of them by its value.

    ``estimate["First"]`` is a `Row`; ``for row in estimate`` goes through all of them, and so does
    ``pandas.DataFrame(estimate)``.
    """

    in_order: bool = False  # whether values keep their own order, as bins and dates do; else most frequent first

    def rows(
        self: Any, limit: int | None = None, level: float = 0.95, *, everything: bool = True
    ) -> list[dict[str, Any]]:
        """Return a dictionary per value, or per detected one, most frequent first; unknown numbers are None."""
        order = self.order()
        places = (order if everything else order[self.detected()[order]])[:limit]
        shown = columns(self, places, level)
        keys, numbers = ("value", *shown), map(plain, shown.values())
        return [dict(zip(keys, row, strict=True)) for row in zip(_labels(self, places), *numbers, strict=True)]

    def table(self: Any, limit: int | None = None, level: float = 0.95, *, form: TableForm = "text") -> str:
        """Return a table, most frequent first, and what its intervals are for; in a form of `Result.table`."""
        shown, about = Frame._rows_and_words(self, limit, level)
        return in_form([estimate_table(shown, level=level), Lines(*about)], form)

    def _rows_and_words(self: Any, limit: int | None, level: float = 0.95) -> tuple[list[dict[str, Any]], list[str]]:
        shown = Frame.rows(self, limit, level)
        left = len(self.values) - len(shown)
        more = [f"... and {left:,} more"] if left > 0 else []
        return shown, [*more, f"intervals: {interval_words(self.interval_kind)}"]

    def blocks(self: Any, **_: Any) -> Iterator[Block]:
        shown, about = Frame._rows_and_words(self, SHOWN_IN_ORDER if self.in_order else SHOWN)
        yield estimate_table(shown)
        yield Lines(*about, *(f"note: {note}" for note in self.notes))

    def to_json(self: Any, limit: int | None = None, level: float = 0.95, *, everything: bool = True) -> dict[str, Any]:
        """Return `summary` and, under ``estimates``, `rows`: all, or of what was detected."""
        return {**self.summary(), "estimates": self.rows(limit, level, everything=everything)}

    def to_csv(self: Any, target: str | PathLike[str] | TextIO) -> None:
        """Write results.csv (see `overstory.analysis.tables.output.CSV`): every value, most frequent first."""
        write_csv(self, target)

    def plot(self: Any, limit: int = MOST_DRAWN) -> Picture:
        """Return a picture of the most frequent values with their 95% intervals; its caption says how many are left.

        A notebook shows it; `Picture.svg` is its text, for a file.
        """
        rows = Frame.rows(self, max(limit, SHOWN_IN_ORDER) if self.in_order else limit)
        about = interval_caption(0.95, self.interval_kind)
        return estimate_picture("estimates", f"{_shown_words(self, len(rows))}, with {about}.", rows)

    def __iter__(self: Any) -> Iterator[Row]:
        """Yield a row for each value, most frequent first."""
        places = self.order()
        numbers_of = map(plain, columns(self, places).values())
        for place, *numbers in zip(places, *numbers_of, strict=True):
            yield Row(self.values[place], *numbers)

    def __getitem__(self: Any, value: Any) -> Row:
        """Return the row of a value; None, NaN and NA stand for a missing one."""
        place = self._place(lookup_key(value))
        numbers = (plain(column)[0] for column in columns(self, np.array([place])).values())
        return Row(self.values[place], *numbers)

    def __contains__(self, value: Any) -> bool:
        try:
            self._place(lookup_key(value))
        except UnknownValueError:
            return False
        return True

    def _place(self: Any, key: Any) -> int:
        places: dict[Any, int] = self._places
        if key not in places and isinstance(key, int) and str(key) in places:
            key = str(key)  # an oracle without labels names its symbols "0", "1", ...
        if key not in places:
            raise UnknownValueError(_unknown(key, self.values))
        return places[key]

    @cached_property
    def _places(self: Any) -> dict[Any, int]:
        return {value: place for place, value in reversed(list(enumerate(self.values)))}

    def to_arrow(self: Any) -> pa.Table:
        """Return an Arrow table, a row for each value, most frequent first; what is not known is null."""
        import pyarrow as pa

        places = self.order()
        arrays = {
            name: pa.array(column, mask=~np.isfinite(column) if column.dtype.kind == "f" else None)
            for name, column in columns(self, places).items()
        }
        return pa.table({"value": _arrow_labels([self.values[place] for place in places]), **arrays})

    def to_pandas(self) -> pd.DataFrame:
        """Return a pandas DataFrame, a row for each value, most frequent first; a missing value is NA."""
        import pandas as pd

        table = self.to_arrow()
        frame: pd.DataFrame = table.drop_columns("value").to_pandas()
        labels = table.column("value").to_pylist()
        frame.insert(0, "value", pd.array(labels) if labels else pd.array([], dtype="str"))
        return frame

    def __str__(self) -> str:
        return Result.table(self)

    def _headline(self: Any) -> str:
        detected = int(np.count_nonzero(self.detected()))
        return f"{self.num_reports:,} reports, {len(self.values):,} values, {detected:,} detected"


def _arrow_labels(labels: list[Any]) -> Any:
    """Return labels as one Arrow array: text, where they are of several kinds."""
    import pyarrow as pa

    kinds = {type(label) for label in labels if label is not None}
    if len(kinds) > 1:
        labels = [None if label is None else label_text(label) for label in labels]
    return pa.array(labels, None if kinds else pa.string())


def _unknown(key: Any, values: Sequence[Any]) -> str:
    import difflib  # only after a mistake

    texts = [label_text(value) for value in values]
    near = difflib.get_close_matches(label_text(key), texts, n=1)
    if near:
        return f"there is no value {key!r}: did you mean {values[texts.index(near[0])]!r}?"
    first = ", ".join(repr(value) for value in values[:5])
    return f"there is no value {key!r} among the {len(values):,}: {first}{', ...' if len(values) > 5 else ''}"
