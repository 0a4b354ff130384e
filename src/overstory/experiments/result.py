"""What one experiment gives: comparisons, tables, pictures, and what they rest on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from overstory.experiments.comparison import AGREES, DIFFERS, NEW, Comparison
from overstory.presentation.svg import Picture
from overstory.protocol.errors import ParameterError

Cell = str | int | float | bool | None


@dataclass(frozen=True)
class Table:
    """Rows under named columns."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "rows", tuple(tuple(row) for row in self.rows))
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ParameterError(f"table {self.caption!r}: a row does not have {len(self.columns)} cells")

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"caption": self.caption, "columns": list(self.columns), "rows": [list(row) for row in self.rows]}


@dataclass(frozen=True)
class Result:
    """One reproduced figure, table or section.

    Attributes
    ----------
    name, title, paper, section
        What it is.
    comparisons, tables, figures, notes
        The findings.
    """

    name: str
    title: str
    paper: str
    section: str
    quick: bool  # whether it was made in quick mode
    key: str  # A digest of what it was computed from and by: equal keys, equal results
    inputs: Mapping[str, Any]  # parameters and sizes, as JSON values
    seed: int | None  # what all its randomness follows from; None where nothing is random
    comparisons: tuple[Comparison, ...]
    tables: tuple[Table, ...] = ()
    figures: tuple[Picture, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def verdicts(self) -> dict[str, int]:
        """How many comparisons agree, differ, are new."""
        seen = Counter(comparison.verdict for comparison in self.comparisons)
        return {verdict: seen[verdict] for verdict in (AGREES, DIFFERS, NEW)}

    @property
    def unexplained(self) -> tuple[Comparison, ...]:
        """The comparisons that differ with nothing that says why."""
        return tuple(comparison for comparison in self.comparisons if comparison.unexplained)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "name": self.name,
            "title": self.title,
            "paper": self.paper,
            "section": self.section,
            "quick": self.quick,
            "key": self.key,
            "inputs": dict(self.inputs),
            "seed": self.seed,
            "verdicts": self.verdicts,
            "comparisons": [comparison.to_json() for comparison in self.comparisons],
            "tables": [table.to_json() for table in self.tables],
            "figures": [figure.to_json() for figure in self.figures],
            "notes": list(self.notes),
        }
