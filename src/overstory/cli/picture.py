"""A picture in a file, written whole or not at all, and the same from the same data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@contextmanager
def picture(path: str, width: float = 10, height: float = 5) -> Iterator[Figure]:
    """Give a figure to draw into; write it when that is done, as .svg or .png by the name. Sizes are in inches."""
    from matplotlib import figure, rc_context

    from overstory.files.opening import replacing

    with rc_context({"svg.hashsalt": "overstory"}):
        drawn = figure.Figure(figsize=(width, height), layout="constrained")
        yield drawn
        kind = path.rpartition(".")[2]
        with replacing(path) as name:
            drawn.savefig(name, format=kind, metadata={"Date": None} if kind == "svg" else None)
