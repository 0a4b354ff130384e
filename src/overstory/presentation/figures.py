"""Figures drawn by matplotlib, in one style: ready to print, and at home on a light and on a dark page."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.presentation.svg import FAINT, INK, MUTED, PAPER, Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure


DOTS_PER_INCH: Final = 200


def panels(width: float = 7.2, height: float = 4.2, rows: int = 1, columns: int = 1, **shared: Any) -> tuple[Any, Any]:
    """Return (figure, axes) in the house's style; axes are an array when there is more than one."""
    from matplotlib.figure import Figure as NewFigure

    figure = NewFigure(figsize=(width, height), layout="constrained", facecolor=PAPER)
    axes = figure.subplots(rows, columns, **shared)
    for one in np.atleast_1d(axes).flat:
        _dress(one)
    return figure, axes


def _dress(axes: Any) -> None:
    axes.set_facecolor("none")
    axes.set_axisbelow(True)
    axes.grid(visible=True, color=FAINT, linewidth=0.6)
    axes.tick_params(which="both", colors=INK, length=3, labelsize=9)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(MUTED)
    for text in (axes.xaxis.label, axes.yaxis.label):
        text.set_color(INK)
        text.set_fontsize(10)
    axes.minorticks_off()


def label(axes: Any, x: float, y: float, text: str, colour: str = INK, **place: Any) -> None:
    """Write a series' name at its own place, on a little paper across lines; by default right of the point."""
    paper = {"facecolor": PAPER, "edgecolor": "none", "alpha": 0.85, "pad": 0.8}
    settled = {"xytext": (5, 0), "ha": "left", "va": "center", "fontsize": 9, "bbox": paper} | place
    axes.annotate(text, (x, y), textcoords="offset points", color=colour, annotation_clip=False, **settled)


def picture(figure: Figure, name: str, caption: str, alt: str) -> Picture:
    """Return the drawn figure as PNG and SVG; `alt` says in a sentence or two what who does not see it would see."""
    import matplotlib as mpl

    pixels, text = io.BytesIO(), io.StringIO()
    figure.savefig(pixels, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    with mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):  # the same figure gives the same text
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return Picture(name, caption, alt, text.getvalue(), pixels.getvalue())


DASHED: Final = (0, (4, 3))


def level(axes: Any, y: float, colour: str, name: str = "", x: float = 0.0, **style: Any) -> None:
    """Draw a dashed line across, with its name at `x`; `place` moves the name."""
    place = style.pop("place", {})
    axes.axhline(y, color=colour, **{"linewidth": 1.0, "linestyle": DASHED} | style)
    if name:
        label(axes, x, y, name, colour, **place)
