"""How an estimate is shown: a text table, rows for JSON, RAPPOR's results.csv, a plot."""

from __future__ import annotations

import math
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from overstory.analysis.selection import z_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import TextIO

    from numpy.typing import NDArray

    from overstory.analysis.estimate import Estimate

    F64 = NDArray[np.float64]

CSV_HEADER = (
    *("string", "estimate", "std_error", "proportion", "prop_std_error", "prop_low_95", "prop_high_95"),
    *("raw_estimate", "p_value", "q_value", "detected"),
)
"""The seven columns of Google's results.csv, and ours: one dialect for every file of estimates."""


class Shown(Protocol):
    """What has estimates to show: an `Estimate`, or a discovery."""

    @property
    def values(self) -> Sequence[str]: ...  # noqa: D102 - see `Estimate`
    @property
    def counts(self) -> F64: ...  # noqa: D102
    @property
    def raw_counts(self) -> F64: ...  # noqa: D102
    @property
    def standard_errors(self) -> F64: ...  # noqa: D102
    @property
    def num_reports(self) -> int: ...  # noqa: D102
    @property
    def p_values(self) -> F64: ...  # noqa: D102
    @property
    def q_values(self) -> F64: ...  # noqa: D102
    def detected(self) -> NDArray[np.bool_]: ...  # noqa: D102
    def interval(self, level: float = 0.95) -> tuple[F64, F64]: ...  # noqa: D102
    def order(self) -> NDArray[np.intp]: ...  # noqa: D102


def rows(estimate: Shown, limit: int | None = None, level: float = 0.95) -> list[dict[str, Any]]:
    """Return a dictionary per value, most frequent first; infinite and undefined numbers become None."""
    low, high = estimate.interval(level)
    detected = estimate.detected()
    scale = max(estimate.num_reports, 1)
    columns = {
        "count": estimate.counts,
        "raw_count": estimate.raw_counts,
        "standard_error": estimate.standard_errors,
        "frequency": estimate.counts / scale,
        "frequency_standard_error": estimate.standard_errors / scale,
        "low": low,
        "high": high,
        "frequency_low": low / scale,
        "frequency_high": high / scale,
        "z": z_values(estimate.raw_counts, estimate.standard_errors),
        "p_value": estimate.p_values,
        "q_value": estimate.q_values,
    }
    return [
        {
            "value": str(estimate.values[index]),
            **{name: finite(column[index]) for name, column in columns.items()},
            "detected": bool(detected[index]),
        }
        for index in estimate.order()[:limit]
    ]


def table(estimate: Estimate, limit: int | None, level: float) -> str:
    """Return the rows as aligned text under a header."""
    header = ("value", "count", "std error", "share", f"{level:.0%} interval of the share", "p", "detected")
    body = [_cells(row) for row in rows(estimate, limit, level)]
    lines = aligned([header, *body])
    left = len(estimate) - len(body)
    if left > 0:
        lines.append(f"... and {left:,} more")
    return "\n".join(lines)


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
    errors = estimate.standard_errors
    columns = (
        *(estimate.counts, errors, estimate.counts / scale, errors / scale, low / scale, high / scale),
        *(estimate.raw_counts, estimate.p_values, estimate.q_values),
    )
    for index in estimate.order()[:limit]:
        cells = ("" if not math.isfinite(column[index]) else f"{column[index]:.10g}" for column in columns)
        yield int(index), (str(estimate.values[index]), *cells, "true" if detected[index] else "false")


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


def plot(estimate: Estimate, ax: Any, limit: int) -> Any:
    """Draw raw frequencies with 95% intervals, in order; detected values filled, the others hollow."""
    if ax is None:
        from matplotlib import pyplot as plt

        ax = plt.gca()
    order = estimate.order()[:limit]
    order = order[np.isfinite(estimate.standard_errors[order])]
    raw = estimate.raw_frequencies[order]
    low, high = (bound[order] / max(estimate.num_reports, 1) for bound in estimate.confidence_interval(0.95))
    found = estimate.detected()[order]
    place = np.arange(order.size)
    for chosen, fill, label in ((found, "C0", "detected"), (~found, "none", "not detected")):
        reach = np.vstack((raw - low, high - raw))[:, chosen]
        ax.errorbar(
            place[chosen], raw[chosen], reach, fmt="o", color="C0", markerfacecolor=fill, markersize=4, label=label
        )
    ax.bar(place, estimate.frequencies[order], color="C0", alpha=0.2, label="reported")
    ax.axhline(0.0, color="0.5", linewidth=0.8)
    ax.set_xticks(place, [str(estimate.values[index]) for index in order], rotation=90, fontsize=7)
    ax.set_ylabel("frequency")
    ax.legend()
    return ax


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    low, high = row["frequency_low"], row["frequency_high"]
    interval = "unknown" if low is None else f"{low:8.3%} .. {high:.3%}"
    error = "unknown" if row["standard_error"] is None else f"{row['standard_error']:,.0f}"
    return (
        row["value"],
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


def finite(number: float) -> float | None:
    """Return the number, or None in place of one that JSON has no word for."""
    return float(number) if math.isfinite(number) else None
