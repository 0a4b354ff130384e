"""The papers' figures, drawn by Matplotlib in one style: ready to print, and at home on a light and on a dark page."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.presentation import svg
from overstory.presentation.svg import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    PAPER,
    SERIES,
    SKY,
    VERMILION,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "BLUE",
    "DASHED",
    "FAINT",
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

OURS: Final = BLUE
THEIRS: Final = VERMILION  # where ours and the paper's are in one picture
DOTS_PER_INCH: Final = 200


@dataclass(frozen=True)
class Picture(svg.Picture):
    """A figure drawn by `picture`, or read back from its files."""

    png: bytes = b""

    def to_json(self) -> dict[str, Any]:
        """Return JSON values: the files' names, not their contents."""
        files = [f"{self.name}.png", f"{self.name}.svg"]
        return {"name": self.name, "caption": self.caption, "alt": self.alt, "files": files}


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
    return Picture(name, caption, alt, text.getvalue(), png=pixels.getvalue())


def for_a_page(picture: Picture) -> Picture:
    """Return a figure as a page can take it into its text.

    Its styles become attributes, so that a strict Content-Security-Policy allows them; its identifiers begin with its
    name, so that two figures on one page share none.
    """
    text = re.sub(r"<style.*?</style>", "", picture.svg, flags=re.DOTALL)
    text = re.sub(r'\bstyle="([^"]*)"', lambda style: as_attributes(style[1]), text)
    return replace(picture, svg=with_own_names(text, picture.name))


def as_attributes(style: str) -> str:
    """Return the properties of a style as attributes of an SVG element.

    >>> as_attributes("fill: none; stroke-width: 2"), as_attributes("font: bold 10px 'DejaVu Sans', sans-serif")
    ('fill="none" stroke-width="2"', 'font-weight="bold" font-size="10px"')
    """
    properties = dict(part.split(":", 1) for part in style.split(";") if ":" in part)
    named = {name.strip(): value.strip() for name, value in properties.items()}
    named.pop("font-family", None)  # the page has its own
    font = re.match(r"(?:([a-z0-9]+) )?([\d.]+px) ", named.pop("font", ""))
    if font:
        named |= ({"font-weight": font[1]} if font[1] else {}) | {"font-size": font[2]}
    return " ".join(f'{name}="{value}"' for name, value in named.items())


def with_own_names(text: str, prefix: str) -> str:
    """Return an SVG element whose identifiers all begin with `prefix`.

    >>> with_own_names('<g id="axes_1"/><use xlink:href="#axes_1" clip-path="url(#c)"/>', "a")
    '<g id="a-axes_1"/><use xlink:href="#a-axes_1" clip-path="url(#a-c)"/>'
    """
    text = re.sub(r'\bid="', f'id="{prefix}-', text)
    text = re.sub(r'href="#', f'href="#{prefix}-', text)
    return re.sub(r"url\(#", f"url(#{prefix}-", text)


DASHED: Final = (0, (4, 3))


def level(axes: Any, y: float, colour: str, name: str = "", x: float = 0.0, **style: Any) -> None:
    """Draw a dashed line across, with its name at `x`; `place` moves the name."""
    place = style.pop("place", {})
    axes.axhline(y, color=colour, **{"linewidth": 1.0, "linestyle": DASHED} | style)
    if name:
        label(axes, x, y, name, colour, **place)


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
