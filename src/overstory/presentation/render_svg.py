"""A picture as a file of its own: the same drawing as on a page, legible in light and in dark, in any program."""

from __future__ import annotations

import re
from typing import Final

from overstory.presentation.render_html import STYLE
from overstory.presentation.svg import VARIABLES, Picture, labelled

_DARK: Final = dict(re.findall(r"--(\w+): (#\w+)", STYLE[STYLE.index("@media (prefers-color-scheme: dark)") :]))

DRAWING_STYLE: Final = "@media(prefers-color-scheme:dark){{{}}}".format(
    "".join(
        f'[{part}="{colour}"]{{{part}:{_DARK[name]}}}'
        for colour, name in VARIABLES.items()
        for part in ("fill", "stroke")
    )
)
"""The style of a file: the page's dark colours. A program that reads no style sheets shows the light ones."""


def as_svg(picture: Picture) -> str:
    """Return a chart as an SVG document; a Content-Security-Policy must allow `DRAWING_STYLE`, by its hash.

    Examples
    --------
    >>> from overstory.presentation.charts.bars import sparkline
    >>> import numpy as np
    >>> as_svg(sparkline("reports", "Reports", np.array([3.0, 4.0])))[:42]
    '<svg role="img" font-family="system-ui, sa'
    """
    text = labelled(picture, picture.svg[picture.svg.index("<svg") :], 'font-family="system-ui, sans-serif"')
    opening, rest = text.split(">", 1)
    return f"{opening}><style>{DRAWING_STYLE}</style>{rest}"
