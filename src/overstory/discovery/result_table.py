"""How a discovery is shown: rows, a text table, CSV, a plot of the search."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.analysis.tables import output
from overstory.presentation.document import Column, Table
from overstory.presentation.render_data import csv_lines
from overstory.presentation.render_text import UNFOLDED, as_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

    from overstory.discovery.result import Discovered


def rows(found: Discovered, *, everything: bool, level: float = 0.95) -> list[dict[str, Any]]:
    """Return a dictionary per value, most frequent first: as of any estimate, and the question it comes from."""
    both = zip(output.rows(found, None, level), found.sources, strict=True)
    return [{**row, "source": source} for row, source in both if everything or row["detected"]]


def discovery_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return rows of a discovery as a table: as of any estimate, and what found each value."""
    return output.estimate_table(rows, last=(Column("source", "found by", is_left=True),))


def table(found: Discovered, *, everything: bool) -> str:
    """Return the rows as aligned text under a header."""
    return as_text([discovery_table(rows(found, everything=everything))], UNFOLDED).rstrip("\n")


def write_csv(found: Discovered, target: str | PathLike[str] | TextIO, *, everything: bool) -> None:
    """Write the columns of results.csv, and each value's source."""
    if isinstance(target, str | PathLike):
        with Path(target).open("w", encoding="utf-8", newline="") as file:
            write_csv(found, file, everything=everything)
        return
    detected = found.detected()
    records = zip(found.order().tolist(), output.records(found), strict=True)
    chosen = ((*record, found.sources[place]) for place, record in records if everything or detected[place])
    target.writelines(csv_lines((*output.CSV, Column("source")), chosen))


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
