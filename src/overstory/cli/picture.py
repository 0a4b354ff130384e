"""A picture in a file, written whole or not at all, and the same from the same data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from matplotlib.figure import Figure


TIMELESS: Final = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""What would differ from one run to the next."""


@contextmanager
def picture(path: str, width: float = 10, height: float = 5) -> Iterator[Figure]:
    """Give a figure to draw into, in inches; write it when that is done, as .svg, .pdf or .png by the name."""
    from matplotlib import figure, rc_context

    from overstory.files.io import replacing

    with rc_context({"svg.hashsalt": "overstory"}):
        drawn = figure.Figure(figsize=(width, height), layout="constrained")
        yield drawn
        kind = path.rpartition(".")[2]
        with replacing(path) as name:
            drawn.savefig(name, format=kind, metadata=TIMELESS.get(kind))
