"""The papers' figures: those of `overstory.presentation.figures`, and the curves, bands and bars that papers draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from overstory.presentation.figures import DASHED, label, level, panels, picture
from overstory.presentation.svg import (
    BLUE,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    OURS,
    SERIES,
    SKY,
    THEIRS,
    VERMILION,
    Picture,
)

__all__ = [
    "BLUE",
    "DASHED",
    "GREEN",
    "INK",
    "MUTED",
    "ORANGE",
    "OURS",
    "SERIES",
    "SKY",
    "THEIRS",
    "VERMILION",
    "Picture",
    "label",
    "labels",
    "level",
    "panels",
    "picture",
]

LINE: Final = 11.0
"""Points from one line of text to the next."""


def panel_title(axes: Any, text: str) -> None:
    """Write a panel's title."""
    axes.set_title(text, color=INK, fontsize=10, fontweight="bold")


def labels(axes: Any, x: float, entries: Sequence[tuple[float, str, str]]) -> None:
    """Write the names of series at their ends, moved up or down until none covers another."""
    axes.autoscale_view()
    points = 72 / axes.figure.dpi
    placed = sorted((float(axes.transData.transform((x, y))[1]) * points, y, text, hue) for y, text, hue in entries)
    heights = [height for height, *_ in placed]
    for _ in range(100):  # push neighbours apart, half each, until all are
        for i in range(len(heights) - 1):
            lack = LINE - (heights[i + 1] - heights[i])
            if lack > 0:
                heights[i], heights[i + 1] = heights[i] - lack / 2, heights[i + 1] + lack / 2
    for (height, y, text, hue), moved in zip(placed, heights, strict=True):
        label(axes, x, y, text, hue, xytext=(5, moved - height))


def line(axes: Any, x: Any, y: Any, colour: str, name: str = "", *, place: Any = None, **style: Any) -> None:
    """Draw a curve, with its name at its last point; `place` moves the name."""
    axes.plot(x, y, color=colour, **{"linewidth": 1.8} | style)
    if name:
        label(axes, x[-1], float(y[-1]), name, colour, **place or {})


def interval(axes: Any, x: Any, low: Any, high: Any, colour: str) -> None:
    """Shade what lies between two curves."""
    axes.fill_between(list(x), np.asarray(low), np.asarray(high), color=colour, alpha=0.18, linewidth=0)


def spread(axes: Any, x: Any, runs: Any, colour: str) -> None:
    """Shade from the least to the greatest of all runs; `runs` is an array, shape (len(x), runs)."""
    interval(axes, x, runs.min(axis=1), runs.max(axis=1), colour)


def bars(axes: Any, x: Any, heights: Any, colour: str, **style: Any) -> None:
    """Draw bars, pale enough for other marks to be seen on them."""
    axes.bar(x, heights, color=colour, **{"width": 1.0, "alpha": 0.4, "linewidth": 0} | style)


def key(axes: Any, x: float, entries: Sequence[tuple[float, str, str]]) -> None:
    """Write a column of texts at `x`: for each its height, itself and its colour."""
    for y, text, colour in entries:
        label(axes, x, y, text, colour, xytext=(0, 0))
