"""Rows of estimates as a picture and as the columns of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.analysis.selection import ADJUSTMENTS
from overstory.analysis.tables.output import file_columns
from overstory.presentation.charts.intervals import dots
from overstory.presentation.document import Column, Field

if TYPE_CHECKING:
    from overstory.analysis.selection import Adjustment
    from overstory.presentation.svg import Picture

NAMES: Final[Mapping[Adjustment, str]] = {"fcr": "wider", "conditional": "given that they were {0}", "none": "plain"}


def period_columns(adjustment: Adjustment = "fcr") -> tuple[Column, ...]:
    """Return the columns of the files: those of the file that `overstory decode -o` writes."""
    return (Column("from"), Column("to"), *file_columns(adjustment=adjustment))


def adjustment_field(chosen: Adjustment, selected: str = "detected") -> Field:
    """Return the field that asks for the intervals of selected values."""
    choices = tuple((adjustment, NAMES[adjustment].format(selected)) for adjustment in ADJUSTMENTS)
    hint = f"They were chosen because they are {selected}: plain ones are too short."
    return Field("adjustment", f"Intervals of {selected} values", chosen, "choice", choices, hint=hint)


def estimate_picture(name: str, caption: str, rows: Sequence[Mapping[str, Any]], tags: Sequence[str] = ()) -> Picture:
    """Draw rows of estimates: each with its interval, what was not detected hollow."""
    keys = ("frequency", "frequency_low", "frequency_high")
    shares, low, high = (np.array([np.nan if row[key] is None else row[key] for row in rows], float) for key in keys)
    detected = np.array([row["detected"] for row in rows], bool)
    names = [row["value"] for row in rows]
    return dots(name, caption, names, shares=shares, low=low, high=high, detected=detected, tags=tags)
