"""How an estimate is shown: a text table, rows for JSON, RAPPOR's results.csv, a plot."""

from __future__ import annotations

import math
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from overstory.analysis.selection import INTERVAL_KINDS, z_values
from overstory.analysis.tables.columns import label_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import TextIO

    from numpy.typing import NDArray

    from overstory.analysis.selection import IntervalKind

    F64 = NDArray[np.float64]

CSV_HEADER = (
    *("string", "estimate", "std_error", "proportion", "prop_std_error", "prop_low_95", "prop_high_95"),
    *("raw_estimate", "p_value", "q_value", "detected", "interval"),
)
"""The seven columns of Google's results.csv, and ours: one dialect for every file of estimates.

`interval` names the kind of standard errors and intervals: ``reports`` or ``population``.
"""

COLUMNS: Final = (
    *("count", "raw_count", "standard_error", "frequency", "frequency_standard_error"),
    *("low", "high", "frequency_low", "frequency_high", "z", "p_value", "q_value", "detected", "interval"),
)
"""What is known of each value: the columns of `columns`."""


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
    def num_reports(self) -> int: ...  # noqa: D102
    @property
    def p_values(self) -> F64: ...  # noqa: D102
    @property
    def q_values(self) -> F64: ...  # noqa: D102
    def detected(self) -> NDArray[np.bool_]: ...  # noqa: D102
    def errors(self) -> F64: ...  # noqa: D102
    def interval(self, level: float = 0.95) -> tuple[F64, F64]: ...  # noqa: D102
    def order(self) -> NDArray[np.intp]: ...  # noqa: D102


def columns(estimate: Shown, places: NDArray[np.intp] | None = None, level: float = 0.95) -> dict[str, NDArray[Any]]:
    """Return a column for each thing that is known of a value, at `places`: all, most frequent first, unless given."""
    chosen = estimate.order() if places is None else places
    low, high = estimate.interval(level)
    errors = estimate.errors()
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
        "detected": estimate.detected(),
        "interval": np.full(len(estimate.values), estimate.interval_kind),
    }
    return {name: column[chosen] for name, column in every.items()}


def rows(estimate: Shown, limit: int | None = None, level: float = 0.95) -> list[dict[str, Any]]:
    """Return a dictionary per value, most frequent first; infinite and undefined numbers become None."""
    places = estimate.order()[:limit]
    each = zip(*(map(plain, column) for column in columns(estimate, places, level).values()), strict=True)
    return [
        {"value": label_text(estimate.values[place]), **dict(zip(COLUMNS, numbers, strict=True))}
        for place, numbers in zip(places, each, strict=True)
    ]


def table(estimate: Shown, limit: int | None, level: float) -> str:
    """Return the rows as aligned text under a header."""
    cells = table_cells(estimate, limit, level)
    lines = aligned(cells)
    left = len(estimate.values) - len(cells) + 1
    if left > 0:
        lines.append(f"... and {left:,} more")
    lines.append(f"intervals: {INTERVAL_KINDS[estimate.interval_kind]}")
    return "\n".join(lines)


def table_cells(estimate: Shown, limit: int | None, level: float) -> list[tuple[str, ...]]:
    """Return a table's header and its rows of texts."""
    header = ("value", "count", "std error", "share", f"{level:.0%} interval of the share", "p", "detected")
    return [header, *(_cells(row) for row in rows(estimate, limit, level))]


def write_csv(
    estimate: Shown, target: str | PathLike[str] | TextIO, more: Mapping[str, Sequence[Any]] | None = None
) -> None:
    """Write every value, most frequent first; `more` columns, in the order of the values, stand last."""
    if isinstance(target, str | PathLike):
        with Path(target).open("w", encoding="utf-8", newline="") as file:
            write_csv(estimate, file, more)
        return
    added = more or {}
    target.write(csv_line((*CSV_HEADER, *added)))
    for index, cells in csv_cells(estimate):
        target.write(csv_line((*cells, *(column[index] for column in added.values()))))


def csv_cells(estimate: Shown, limit: int | None = None) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield each value's index and its cells under `CSV_HEADER`, most frequent first; an unknown number is empty."""
    low, high = estimate.interval(0.95)
    scale = max(estimate.num_reports, 1)
    detected = estimate.detected()
    errors = estimate.errors()
    columns = (
        *(estimate.counts, errors, estimate.counts / scale, errors / scale, low / scale, high / scale),
        *(estimate.raw_counts, estimate.p_values, estimate.q_values),
    )
    for index in estimate.order()[:limit]:
        cells = ("" if not math.isfinite(column[index]) else f"{column[index]:.10g}" for column in columns)
        last = ("true" if detected[index] else "false", estimate.interval_kind)
        yield int(index), (label_text(estimate.values[index]), *cells, *last)


def csv_line(cells: Iterable[Any]) -> str:
    r"""Return cells as a line of CSV, its end included.

    Examples
    --------
    >>> csv_line(["ash, white", 3, 'a "b" c'])
    '"ash, white",3,"a ""b"" c"\n'
    """
    return ",".join(_quoted(str(cell)) for cell in cells) + "\n"


def _quoted(text: str) -> str:
    """Quote a field that needs it; Python's own writer leaves a lone carriage return bare."""
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\r\n') else text


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
    known = order[np.isfinite(estimate.standard_errors[order])]
    drawn = known[:limit]
    shares, raw = estimate.counts[drawn] / scale, estimate.raw_counts[drawn] / scale
    low, high = (bound[drawn] / scale for bound in estimate.interval(0.95))
    place, found = np.arange(drawn.size), detected[drawn]
    ax.hlines(place, low, high, color="C0", linewidth=2, alpha=0.5)
    for chosen, fill, label in (
        (found, "C0", f"detected, 95% interval {_of(estimate)}"),
        (~found, "white", "not detected"),
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
    ax.set_title(_title(drawn.size, known.size, found, detected), fontsize=9, loc="left")
    if drawn.size:
        ax.legend(fontsize=8)
    return ax


def _of(estimate: Shown) -> str:
    """Return the kind of intervals in a few words."""
    return INTERVAL_KINDS[estimate.interval_kind].partition(" (")[0]


def plot_height(estimate: Shown, limit: int = 50) -> float:
    """Return how high a picture of an estimate should be, in inches."""
    return 1.2 + ROW * max(min(len(estimate.values), limit), 4)


def _title(drawn: int, known: int, found: NDArray[np.bool_], detected: NDArray[np.bool_]) -> str:
    if drawn == known:
        return f"{int(detected.sum()):,} of {known:,} values detected"
    shown = f"{drawn:,} of {known:,} values shown, the most frequent"
    return f"{shown}; {int(found.sum()):,} of the {int(detected.sum()):,} detected are among them"


def _label(text: str) -> str:
    shown = inert(text)
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "\N{HORIZONTAL ELLIPSIS}"


def inert(text: str) -> str:
    """Return a text without characters that could steer a terminal or turn a page's letters round."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    low, high = row["frequency_low"], row["frequency_high"]
    interval = "unknown" if low is None else f"{low:8.3%} .. {high:.3%}"
    error = "unknown" if row["standard_error"] is None else f"{row['standard_error']:,.0f}"
    return (
        inert(row["value"]),
        f"{row['count']:,.0f}",
        error,
        f"{row['frequency']:.3%}",
        interval,
        f"{row['p_value']:.1e}",
        "yes" if row["detected"] else "-",
    )


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of cells as lines: the first and the last column stand left, those between them right.

    Examples
    --------
    >>> aligned([("value", "count", "p"), ("a", "7", "0.1")])
    ['value  count  p', 'a          7  0.1']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    outer = {0, len(widths) - 1}

    def padded(place: int, cell: str) -> str:
        return cell.ljust(widths[place]) if place in outer else cell.rjust(widths[place])

    return ["  ".join(padded(place, cell) for place, cell in enumerate(row)).rstrip() for row in rows]


def plain(number: Any) -> Any:
    """Return a number or truth value of NumPy as Python's own; None in place of one that JSON has no word for."""
    own = number.item()
    return finite(own) if isinstance(own, float) else own


def finite(number: float) -> float | None:
    """Return the number, or None in place of one that JSON has no word for."""
    return float(number) if math.isfinite(number) else None
