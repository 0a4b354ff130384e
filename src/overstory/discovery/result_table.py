"""How a discovery is shown: rows, a text table, CSV, a plot of the search."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.analysis.tables import output
from overstory.analysis.tables.output import CSV_HEADER, aligned, csv_cells, csv_line

if TYPE_CHECKING:
    from typing import TextIO

    from overstory.discovery.result import Discovered


def rows(found: Discovered, *, everything: bool, level: float = 0.95) -> list[dict[str, Any]]:
    """Return a dictionary per value, most frequent first: as of any estimate, and the question it comes from."""
    both = zip(output.rows(found, None, level), found.sources, strict=True)
    return [{**row, "source": source} for row, source in both if everything or row["detected"]]


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
    """Write the columns of results.csv, and each value's source."""
    if isinstance(target, str | PathLike):
        with Path(target).open("w", encoding="utf-8", newline="") as file:
            write_csv(found, file, everything=everything)
        return
    target.write(csv_line((*CSV_HEADER, "source")))
    detected = found.detected()
    for index, cells in csv_cells(found):
        if everything or detected[index]:
            target.write(csv_line((*cells, found.sources[index])))


MOST: Final = 100
"""Rows of a picture; beyond them its title says how many are left out."""
FEW: Final = 10
"""Values that are drawn where none, or hardly any, was detected."""


def rows_drawn(found: Discovered) -> int:
    """Return how many values a picture shows: all that were detected, as far as there is room."""
    return min(max(int(np.count_nonzero(found.detected())), FEW), MOST)


def plot_values(found: Discovered, ax: Any, limit: int | None) -> Any:
    """Draw a row per value with its interval, as for any estimate."""
    return output.plot(found, ax, rows_drawn(found) if limit is None else limit)


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
        end = np.full(int(chosen.sum()), float(len(found.levels)))
        ax.scatter(end, found.frequencies[chosen], s=20, facecolors="none", edgecolors="C2", label="detected")
    names = [level.name for level in found.levels]
    places = [float(at) for at in range(len(names))]
    if chosen.any():
        places, names = [*places, float(len(found.levels))], [*names, "detected"]
    ax.set_xticks(places, names, rotation=45, parse_math=False)
    ax.set_ylabel("estimated frequency")
    if found.levels:
        ax.legend()
    return ax
