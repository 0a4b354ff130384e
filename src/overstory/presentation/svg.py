"""Pictures as SVG: their colours, and how one becomes a part of a page that colours it, in light and in dark.

Colours are those of Okabe and Ito (2008), safe for the colour-blind, without the two that paper or ink would swallow. A
picture is drawn in the colours of a light page; on a page each stands for a CSS variable, which a dark scheme replaces.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import Final

from overstory.presentation.formats import printable

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

SERIES: Final = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, INK)  # in the order in which series take them

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

COLOUR: Final = re.compile(rf"""(["'] ?|: ?)({"|".join(VARIABLES)})\b""", re.IGNORECASE)
"""A colour of a drawing, where it is a value: a text that looks like one is escaped or between other signs."""


@dataclass(frozen=True)
class Picture:
    """A drawing as SVG, such as those of `charts`."""

    name: str  # what its files are called
    caption: str
    alt: str  # what it shows, for a reader who does not see it
    svg: str
    narrow: str = ""  # the same for a narrow page, where its text would be too small

    def _repr_svg_(self) -> str:
        return self.svg


def inline(picture: Picture) -> str:
    """Return a picture as an element; with a narrow drawing as two, of classes ``on-wide`` and ``on-narrow``."""
    if not picture.narrow:
        return _element(picture, picture.svg, "")
    wide = _element(picture, picture.svg, 'class="on-wide" ')
    return wide + _element(picture, picture.narrow, 'class="on-narrow" ')


def _element(picture: Picture, svg: str, attributes: str) -> str:
    text = COLOUR.sub(lambda match: f"{match[1]}var(--{VARIABLES[match[2].lower()]})", svg[svg.index("<svg") :])
    text = re.sub(r'<svg ([^>]*?)width="[^"]*"', r"<svg \1", text, count=1)
    text = re.sub(r'<svg ([^>]*?)height="[^"]*"', r"<svg \1", text, count=1)
    return labelled(picture, text, f'{attributes}stroke-linejoin="round"')


def labelled(picture: Picture, svg: str, attributes: str) -> str:
    """Return an SVG element with a title and a description; its caption and its text alternative."""
    label = f"<title>{escape(printable(picture.caption))}</title><desc>{escape(printable(picture.alt))}</desc>"
    opening, rest = svg.split(">", 1)
    return f'<svg role="img" {attributes} {opening.removeprefix("<svg ")}>{label}{rest}'
