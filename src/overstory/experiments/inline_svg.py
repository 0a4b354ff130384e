"""A matplotlib figure as SVG text, and that text as an element of a page that colours it."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

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
    text
        A whole SVG file.
    title, description
        What it is called and shows, as plain text.
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
