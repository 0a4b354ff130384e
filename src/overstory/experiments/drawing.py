"""The verbs that experiments draw with, in the style of `overstory.presentation.figures`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from overstory.presentation import figures

DASHED: Final = (0, (4, 3))


def line(axes: Any, x: Any, y: Any, colour: str, name: str = "", *, place: Any = None, **style: Any) -> None:
    """Draw a curve, with its name at its last point; `place` moves the name."""
    axes.plot(x, y, color=colour, **{"linewidth": 1.8} | style)
    if name:
        figures.label(axes, x[-1], float(y[-1]), name, colour, **place or {})


def interval(axes: Any, x: Any, low: Any, high: Any, colour: str) -> None:
    """Shade what lies between two curves."""
    figures.band(axes, list(x), np.asarray(low).tolist(), np.asarray(high).tolist(), colour)


def spread(axes: Any, x: Any, runs: Any, colour: str) -> None:
    """Shade from the least to the greatest of all runs; `runs` is an array, shape (len(x), runs)."""
    interval(axes, x, runs.min(axis=1), runs.max(axis=1), colour)


def level(axes: Any, y: float, colour: str, name: str = "", x: float = 0.0, **style: Any) -> None:
    """Draw a dashed line across, with its name at `x`; `place` moves the name."""
    place = style.pop("place", {})
    axes.axhline(y, color=colour, **{"linewidth": 1.0, "linestyle": DASHED} | style)
    if name:
        figures.label(axes, x, y, name, colour, **place)


def bars(axes: Any, x: Any, heights: Any, colour: str, **style: Any) -> None:
    """Draw bars, pale enough for other marks to be seen on them."""
    axes.bar(x, heights, color=colour, **{"width": 1.0, "alpha": 0.4, "linewidth": 0} | style)


def key(axes: Any, x: float, entries: Sequence[tuple[float, str, str]]) -> None:
    """Write a column of texts at `x`: for each its height, itself and its colour."""
    for y, text, colour in entries:
        figures.label(axes, x, y, text, colour, xytext=(0, 0))
