"""How a discovery is shown: rows, a text table, CSV, a plot of the search."""

from __future__ import annotations

import csv
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.analysis.estimate_output import aligned, finite

if TYPE_CHECKING:
    from typing import TextIO

    from overstory.discovery.result import Discovered

CSV_HEADER = (
    "value",
    "count",
    "standard_error",
    "frequency",
    "low",
    "high",
    "p_value",
    "q_value",
    "source",
    "detected",
)


def rows(found: Discovered, *, everything: bool, level: float = 0.95) -> list[dict[str, Any]]:
    """Return a dictionary per value, most frequent first."""
    low, high = found.confidence_interval(level)
    detected, frequencies = found.detected(), found.frequencies
    return [
        {
            "value": found.values[i],
            "count": float(found.counts[i]),
            "standard_error": finite(found.standard_errors[i]),
            "frequency": float(frequencies[i]),
            "low": finite(low[i]),
            "high": finite(high[i]),
            "p_value": float(found.p_values[i]),
            "q_value": float(found.q_values[i]),
            "source": found.sources[i],
            "detected": bool(detected[i]),
        }
        for i in range(len(found))
        if everything or detected[i]
    ]


def table(found: Discovered, *, everything: bool) -> str:
    """Return the rows as aligned text under a header."""
    header = ("value", "count", "std error", "share", "95% interval of the count", "p", "source")
    return "\n".join(aligned([header, *(cells(row) for row in rows(found, everything=everything))]))


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    """Return a row as a person reads it."""
    unknown = row["low"] is None
    return (
        row["value"],
        f"{row['count']:,.0f}",
        "unknown" if unknown else f"{row['standard_error']:,.0f}",
        f"{row['frequency']:.3%}",
        "unknown" if unknown else f"{row['low']:,.0f} .. {row['high']:,.0f}",
        f"{row['p_value']:.1e}",
        row["source"] if row["detected"] else f"{row['source']}, not detected",
    )


def write_csv(found: Discovered, target: str | PathLike[str] | TextIO, *, everything: bool) -> None:
    """Write rows under `CSV_HEADER`; an unknown number is an empty field."""
    if isinstance(target, str | PathLike):
        with Path(target).open("w", encoding="utf-8", newline="") as file:
            write_csv(found, file, everything=everything)
        return
    writer = csv.writer(target, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(CSV_HEADER)
    for row in rows(found, everything=everything):
        writer.writerow(["" if row[name] is None else row[name] for name in CSV_HEADER])


def plot(found: Discovered, ax: Any) -> Any:
    """Draw each level's kept estimates as dots, its cut as a dash, and the detected values as rings at the end."""
    if ax is None:
        from matplotlib import pyplot as plt

        ax = plt.gca()
    for at, (level, kept) in enumerate(zip(found.levels, found.tree, strict=True)):
        spread = at + np.linspace(-0.3, 0.3, max(kept.size, 1))[: kept.size]
        ax.scatter(spread, np.sort(kept)[::-1], s=5, color="C0", alpha=0.5, label="kept" if not at else None)
        ax.hlines(level.cut, at - 0.35, at + 0.35, color="C3", linewidth=1, label="cut" if not at else None)
    chosen = found.detected()
    if chosen.any():
        end = np.full(int(chosen.sum()), len(found.levels) - 0.5)
        ax.scatter(end, found.frequencies[chosen], s=20, facecolors="none", edgecolors="C2", label="detected")
    ax.set_xticks(range(len(found.levels)), [level.name for level in found.levels], rotation=45)
    ax.set_ylabel("estimated frequency")
    if found.levels:
        ax.legend()
    return ax
