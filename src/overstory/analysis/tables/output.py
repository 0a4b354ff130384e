"""How an estimate is shown: a text table, rows for JSON, RAPPOR's results.csv, a plot."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from overstory.analysis.selection import INTERVAL_KINDS, interval_words, z_values
from overstory.presentation.document import Column, Lines, Table
from overstory.presentation.formats import detection, interval, p_value, percent, thousands
from overstory.presentation.render_data import csv_lines
from overstory.presentation.render_text import UNFOLDED, as_text
from overstory.presentation.streams import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import TextIO

    from numpy.typing import NDArray

    from overstory.analysis.estimate import Estimate
    from overstory.analysis.selection import Adjustment, IntervalKind

    F64 = NDArray[np.float64]

VALUE: Final = Column("value", csv="string", is_left=True)


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
        *((Column("corrected_frequency", "corrected", percent),) if rows and "corrected_frequency" in rows[0] else ()),
        Column("p_value", "p", p_value),
        Column("detected", "", detection, is_left=True),
    )
    return Table("", (*first, *columns, *last), rows, not_detected(rows))


def not_detected(rows: Sequence[Mapping[str, Any]]) -> frozenset[int]:
    """Return the numbers of the rows of values that were not detected."""
    return frozenset(number for number, row in enumerate(rows) if not row["detected"])


CSV: Final = (
    VALUE,
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
interval of the row is corrected for: ``fcr`` or ``conditional`` for a detected value, else ``none``; the plain one is
in columns of its own.
"""
COLUMNS: Final = (
    *("count", "raw_count", "standard_error", "frequency", "frequency_standard_error"),
    *("low", "high", "frequency_low", "frequency_high", "z", "p_value", "q_value", "detected", "interval"),
    *("adjustment", "plain_low", "plain_high", "plain_frequency_low", "plain_frequency_high"),
)
"""The columns of `columns`, for each value; those of `CORRECTED` may follow."""

CORRECTED: Final = (
    Column("corrected_count", csv="corrected_estimate"),
    Column("corrected_frequency", csv="corrected_proportion"),
)
"""The columns of estimates that are corrected for detection: there where intervals are ``conditional``."""


MISSING: Final = "(missing)"
"""How a missing value is written."""


def label_text(label: Any) -> str:
    """Return a label as tables, files and pictures write it.

    Examples
    --------
    >>> label_text("First"), label_text(3), label_text(None)
    ('First', '3', '(missing)')
    """
    return MISSING if label is None else str(label)


class Shown(Protocol):
    """What has estimates to show: an `Estimate`, or a discovery."""

    @property
    def values(self) -> Sequence[Any]: ...  # noqa: D102 - see `Estimate`
    @property
    def counts(self) -> F64: ...  # noqa: D102
    @property
    def raw_counts(self) -> F64: ...  # noqa: D102
    @property
    def standard_errors(self) -> F64: ...  # noqa: D102
    @property
    def interval_kind(self) -> IntervalKind: ...  # noqa: D102
    @property
    def adjustment(self) -> Adjustment: ...  # noqa: D102
    @property
    def num_reports(self) -> int: ...  # noqa: D102
    @property
    def p_values(self) -> F64: ...  # noqa: D102
    @property
    def q_values(self) -> F64: ...  # noqa: D102
    def detected(self) -> NDArray[np.bool_]: ...  # noqa: D102
    def errors(self) -> F64: ...  # noqa: D102
    def interval(  # noqa: D102
        self, level: float = 0.95, kind: IntervalKind | None = None, adjustment: Adjustment | None = None
    ) -> tuple[F64, F64]: ...
    def corrected_counts(self) -> F64: ...  # noqa: D102
    def order(self) -> NDArray[np.intp]: ...  # noqa: D102


def columns(estimate: Shown, places: NDArray[np.intp] | None = None, level: float = 0.95) -> dict[str, NDArray[Any]]:
    """Return the columns of the values at `places`: all, most frequent first, unless given."""
    chosen = estimate.order() if places is None else places
    low, high = estimate.interval(level)
    plain_low, plain_high = estimate.interval(level, adjustment="none")
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
        "adjustment": np.where(detected, estimate.adjustment, "none"),
        "plain_low": plain_low,
        "plain_high": plain_high,
        "plain_frequency_low": plain_low / scale,
        "plain_frequency_high": plain_high / scale,
    }
    if estimate.adjustment == "conditional":
        corrected = estimate.corrected_counts()
        every |= {"corrected_count": corrected, "corrected_frequency": corrected / scale}
    return {name: column[chosen] for name, column in every.items()}


def rows(estimate: Shown, limit: int | None = None, level: float = 0.95) -> list[dict[str, Any]]:
    """Return a dictionary per value, most frequent first; infinite and undefined numbers become None."""
    places = estimate.order()[:limit]
    shown = columns(estimate, places, level)
    each = zip(*map(plain, shown.values()), strict=True)
    return [
        {"value": label_text(estimate.values[place]), **dict(zip(shown, numbers, strict=True))}
        for place, numbers in zip(places, each, strict=True)
    ]


def table(estimate: Shown, limit: int | None, level: float, notes: Sequence[str] = ()) -> str:
    """Return the rows as text: aligned under a header, then what the intervals are for, and notes."""
    shown = rows(estimate, limit, level)
    left = len(estimate.values) - len(shown)
    more = [f"... and {left:,} more"] if left > 0 else []
    words = interval_words(estimate.interval_kind, estimate.adjustment)
    about = [*more, f"intervals: {words}", *(f"note: {note}" for note in notes)]
    return as_text([estimate_table(shown, level=level), Lines(*about)], UNFOLDED).rstrip("\n")


def write_csv(
    estimate: Shown, target: str | PathLike[str] | TextIO, more: Mapping[str, Sequence[Any]] | None = None
) -> None:
    """Write every value, most frequent first; `more` columns, in the order of the values, come last."""
    if isinstance(target, str | PathLike):
        with Path(target).open("w", encoding="utf-8", newline="") as file:
            write_csv(estimate, file, more)
        return
    added = more or {}
    order = estimate.order().tolist()
    lists = (map(column.__getitem__, order) for column in added.values())
    lines = zip(records(estimate), *lists, strict=True)
    header = (*file_columns(adjustment=estimate.adjustment), *map(Column, added))
    target.writelines(csv_lines(header, ((*record, *extra) for record, *extra in lines)))


def file_columns(level: float = 0.95, adjustment: Adjustment = "fcr") -> tuple[Column, ...]:
    """Return the columns of a file of estimates with intervals of that level: `CSV`, whose intervals are named by it.

    Examples
    --------
    >>> [column.csv for column in file_columns(0.99) if "high" in column.csv]
    ['prop_high_99', 'prop_plain_high_99']
    """
    percent = f"_{100 * level:.10g}"
    every = (*CSV, *(CORRECTED if adjustment == "conditional" else ()))
    return tuple(replace(column, csv=column.csv.replace("_95", percent)) for column in every)


def records(estimate: Shown, limit: int | None = None, level: float = 0.95) -> Iterator[tuple[Any, ...]]:
    """Yield the values of the columns of `file_columns`, most frequent first; labels are texts."""
    places = estimate.order()[:limit]
    shown = columns(estimate, places, level)
    labels = (label_text(estimate.values[place]) for place in places)
    every = file_columns(level, estimate.adjustment)
    return zip(labels, *(shown[column.name].tolist() for column in every[1:]), strict=True)


ROW: Final = 0.21
"""Inches that a row of the picture takes."""
LONGEST: Final = 40
"""Characters of a label in it."""


def plot(estimate: Shown, ax: Any, limit: int) -> Any:
    """Draw a row per value, most frequent on top: the estimate with its interval; what was detected is filled."""
    if ax is None:
        from matplotlib import pyplot as plt

        ax = plt.gca()
    order, detected, scale = estimate.order(), estimate.detected(), max(estimate.num_reports, 1)
    estimated = order[np.isfinite(estimate.standard_errors[order])]
    drawn = estimated[:limit]
    shares, raw = estimate.counts[drawn] / scale, estimate.raw_counts[drawn] / scale
    low, high = (bound[drawn] / scale for bound in estimate.interval(0.95))
    place, filled = np.arange(drawn.size), detected[drawn]
    ax.hlines(place, low, high, color="C0", linewidth=2, alpha=0.5)
    for chosen, fill, label in (
        (filled, "C0", f"detected, {_interval_name(estimate)}"),
        (~filled, "white", "not detected"),
    ):
        if chosen.any():
            style = {"color": "C0", "markerfacecolor": fill, "markersize": 5, "label": label}
            ax.plot(shares[chosen], place[chosen], "o", linestyle="none", **style)
    if not np.array_equal(shares, raw):
        ax.plot(raw, place, "|", color="C1", markersize=7, linestyle="none", label="unbiased")
    ax.axvline(0.0, color="0.5", linewidth=0.8)
    # Values are people's texts: a pair of $ in one is no formula.
    ax.set_yticks(place, [_label(label_text(estimate.values[index])) for index in drawn], fontsize=8, parse_math=False)
    ax.set_ylim(max(drawn.size, 1) - 0.4, -0.6)
    ax.set_xlabel("share of the reports")
    ax.set_title(_title(drawn.size, estimated.size, filled, detected), fontsize=9, loc="left")
    if drawn.size:
        ax.legend(fontsize=8)
    return ax


SHORT: Final = {"fcr": "false coverage rate 5%", "conditional": "given the detection", "none": "plain"}
"""The adjustments in a picture's key."""


def _interval_name(estimate: Shown) -> str:
    """Return what the intervals of detected values are, in a few words."""
    kind = INTERVAL_KINDS[estimate.interval_kind].partition(" (")[0]
    return f"95% interval {kind} ({SHORT[estimate.adjustment]})"


def plot_height(estimate: Shown, limit: int = 50) -> float:
    """Return how high a picture of an estimate should be, in inches."""
    return 1.2 + ROW * max(min(len(estimate.values), limit), 4)


def _title(drawn: int, estimated: int, filled: NDArray[np.bool_], detected: NDArray[np.bool_]) -> str:
    if drawn == estimated:
        return f"{int(detected.sum()):,} of {estimated:,} values detected"
    shown = f"{drawn:,} of {estimated:,} values shown, the most frequent"
    return f"{shown}; {int(filled.sum()):,} of the {int(detected.sum()):,} detected are among them"


def _label(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "\N{HORIZONTAL ELLIPSIS}"


def plain(column: NDArray[Any]) -> list[Any]:
    """Return a column's numbers or truth values as Python's own; None in place of one that JSON has no word for.

    Examples
    --------
    >>> plain(np.array([0.5, np.inf])), plain(np.array([True]))
    ([0.5, None], [True])
    """
    numbers: list[Any] = column.tolist()
    if column.dtype.kind != "f" or np.isfinite(column).all():
        return numbers
    return [number if known else None for number, known in zip(numbers, np.isfinite(column), strict=True)]


def chosen_rows(decoded: Estimate, *, everything: bool) -> list[dict[str, Any]]:
    """Return a row per detected candidate, or per candidate, most frequent first."""
    if everything:
        return decoded.rows()
    ranks = decoded.detected()[decoded.order()].nonzero()[0]
    if not ranks.size:
        return []
    return [row for row in decoded.rows(int(ranks[-1]) + 1) if row["detected"]]
