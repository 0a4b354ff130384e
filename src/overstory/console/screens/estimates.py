"""Rows of estimates as a picture and as the columns of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.analysis.tables.output import CSV
from overstory.presentation.charts.intervals import dots
from overstory.presentation.document import Column

if TYPE_CHECKING:
    from overstory.presentation.svg import Picture

FILE_COLUMNS: Final = (Column("from"), Column("to"), *CSV)
"""The columns of the files: those of the file that `overstory decode -o` writes."""


def estimate_picture(name: str, caption: str, rows: Sequence[Mapping[str, Any]], tags: Sequence[str] = ()) -> Picture:
    """Draw rows of estimates: each with its interval, what was not detected hollow."""
    keys = ("frequency", "frequency_low", "frequency_high")
    shares, low, high = (np.array([np.nan if row[key] is None else row[key] for row in rows], float) for key in keys)
    detected = np.array([row["detected"] for row in rows], bool)
    names = [row["value"] for row in rows]
    return dots(name, caption, names, shares=shares, low=low, high=high, detected=detected, tags=tags)
