"""One style for every figure: ready to print, safe for the colour-blind, at home on a light and on a dark page.

Colours are those of Okabe and Ito (2008), without the two that paper or ink would swallow. A figure is drawn in the
colours of a light page; on the HTML page each stands for a CSS variable, which the dark scheme sets anew.

A matplotlib figure as SVG text, and that text as an element of a page that colours it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def svg_text(figure: Figure, salt: str) -> str:
    """Return the figure as SVG: the same figure and salt give the same text on every run."""
    import matplotlib as mpl

    out = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": salt, "svg.fonttype": "none"}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()


def inline(text: str, title: str, description: str, variables: Mapping[str, str]) -> str:
    """Return SVG text as an element that a screen reader can name and a style sheet can colour.

    Parameters
    ----------
    variables
        From a colour of the drawing to the CSS variable that stands for it on the page.
    """
    text = text[text.index("<svg") :]
    for colour, variable in variables.items():
        text = re.sub(re.escape(colour), f"var(--{variable})", text, flags=re.IGNORECASE)
    text = re.sub(r'<svg ([^>]*?)width="[^"]*"', r"<svg \1", text, count=1)
    text = re.sub(r'<svg ([^>]*?)height="[^"]*"', r"<svg \1", text, count=1)
    label = f"<title>{escape(title)}</title><desc>{escape(description)}</desc>"
    return re.sub(r"<svg ([^>]*)>", lambda opening: f'<svg role="img" {opening[1]}>{label}', text, count=1)


def with_own_names(text: str, prefix: str) -> str:
    """Return an SVG element whose identifiers all begin with `prefix`: two on one page then share none.

    Examples
    --------
    >>> with_own_names('<g id="axes_1"/><use xlink:href="#axes_1" clip-path="url(#c)"/>', "a")
    '<g id="a-axes_1"/><use xlink:href="#a-axes_1" clip-path="url(#a-c)"/>'
    """
    text = re.sub(r'\bid="', f'id="{prefix}-', text)
    text = re.sub(r'href="#', f'href="#{prefix}-', text)
    return re.sub(r"url\(#", f"url(#{prefix}-", text)


@dataclass(frozen=True)
class Picture:
    """A drawn figure: made by `drawing.picture`, or written as SVG (`plain_svg`).

    Attributes
    ----------
    caption, alt
        What stands under it; what it shows, for a reader who does not see it.
    svg, png
        The drawing; the second is empty where a page is all that shows it.
    """

    name: str  # what its files are called
    caption: str
    alt: str
    svg: str
    png: bytes = b""

    def to_json(self) -> dict[str, Any]:
        """Return JSON values: the files' names, not their contents."""
        return {
            "name": self.name,
            "caption": self.caption,
            "alt": self.alt,
            "files": [f"{self.name}.png", f"{self.name}.svg"],
        }


INK: Final = "#1d2520"
MUTED: Final = "#6f7972"
FAINT: Final = "#d9ddd6"
PAPER: Final = "#fefefe"
BLUE: Final = "#0072b2"
VERMILION: Final = "#d55e00"
GREEN: Final = "#009e73"
PURPLE: Final = "#cc79a7"
ORANGE: Final = "#e69f00"
SKY: Final = "#56b4e9"

SERIES: Final = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, INK)
"""In the order in which series take them."""
OURS: Final = BLUE
THEIRS: Final = VERMILION
"""Where ours and the paper's stand in one picture."""

VARIABLES: Final = {
    INK: "ink",
    MUTED: "muted",
    FAINT: "line",
    PAPER: "paper",
    BLUE: "blue",
    VERMILION: "vermilion",
    GREEN: "green",
    PURPLE: "purple",
    ORANGE: "orange",
    SKY: "sky",
}
"""From the colours of a drawing to the page's variables."""

DOTS_PER_INCH: Final = 200


def panels(width: float = 7.2, height: float = 4.2, rows: int = 1, columns: int = 1, **shared: Any) -> tuple[Any, Any]:
    """Return (figure, axes) in the house's style; axes are an array when there is more than one.

    Parameters
    ----------
    **shared
        ``sharex``, ``sharey``, as matplotlib takes them.
    """
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


def band(axes: Any, x: Sequence[float], low: Sequence[float], high: Sequence[float], colour: str) -> None:
    """Shade what lies between two curves."""
    axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)


def label(axes: Any, x: float, y: float, text: str, colour: str = INK, **place: Any) -> None:
    """Write a series' name at its own place instead of into a legend; by default right of the point.

    The text stands on a little paper of its own, so that it can lie across lines.
    """
    paper = {"facecolor": PAPER, "edgecolor": "none", "alpha": 0.85, "pad": 0.8}
    settled = {"xytext": (5, 0), "ha": "left", "va": "center", "fontsize": 9, "bbox": paper} | place
    axes.annotate(text, (x, y), textcoords="offset points", color=colour, annotation_clip=False, **settled)


def panel_title(axes: Any, text: str) -> None:
    """Write a panel's title."""
    axes.set_title(text, color=INK, fontsize=10, fontweight="bold")


def labels(axes: Any, x: float, entries: Sequence[tuple[float, str, str]], apart: float = 11.0) -> None:
    """Write the names of series at their ends, moved up or down until none covers another.

    Parameters
    ----------
    apart
        Points between two lines of text.
    """
    axes.autoscale_view()
    points = 72 / axes.figure.dpi
    placed = sorted((float(axes.transData.transform((x, y))[1]) * points, y, text, hue) for y, text, hue in entries)
    heights = [height for height, *_ in placed]
    for _ in range(100):  # push neighbours apart, half each, until all are
        for i in range(len(heights) - 1):
            lack = apart - (heights[i + 1] - heights[i])
            if lack > 0:
                heights[i], heights[i + 1] = heights[i] - lack / 2, heights[i + 1] + lack / 2
    for (height, y, text, hue), moved in zip(placed, heights, strict=True):
        label(axes, x, y, text, hue, xytext=(5, moved - height))


def picture(figure: Figure, name: str, caption: str, alt: str) -> Picture:
    """Return the drawn figure as PNG and SVG.

    Parameters
    ----------
    caption
        What stands under it: what is shown, of how many runs, what bands mean.
    alt
        What it shows, in one or two sentences, for a reader who does not see it.
    """
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return Picture(name, caption, alt, svg_text(figure, name), out.getvalue())
