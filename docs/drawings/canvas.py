"""An SVG under construction: boxes, words, arrows, rows of bits; light or dark as the reader's system is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

STYLE = """\
svg { --paper: #ffffff; --ink: #1c2b2a; --muted: #52625f; --line: #b9c6c3; --room: #eef4f2; --one: #00695c;
  --zero: #ffffff; --truth: #8a6d1d; font: 14px system-ui, "Segoe UI", Roboto, Helvetica, Arial, sans-serif }
@media (prefers-color-scheme: dark) { svg { --paper: #17201f; --ink: #e3ece9; --muted: #a3b5b0; --line: #4a5b57;
  --room: #202c2a; --one: #4db6a4; --zero: #17201f; --truth: #e0bd62 } }
.paper { fill: var(--paper) } .room { fill: var(--room); stroke: var(--line) }
.box { fill: var(--paper); stroke: var(--line) }
.line { stroke: var(--muted); fill: none; stroke-width: 1.5 } .rule { stroke: var(--line) } .head { fill: var(--muted) }
.one { fill: var(--one); stroke: var(--one) } .zero { fill: var(--zero); stroke: var(--line) }
.bar { fill: var(--one) } .truth { fill: var(--truth) } .interval { stroke: var(--one); stroke-width: 2 }
text { fill: var(--ink) } .muted { fill: var(--muted); font-size: 12px } .strong { font-weight: 600 }
.accent { fill: var(--one); font-weight: 600 } .middle { text-anchor: middle } .end { text-anchor: end }
.mark { font-size: 18px; fill: var(--one) }"""


class Canvas:
    """A drawing of a fixed size, in pixels, with its text for those who do not see it.

    Parameters
    ----------
    width, height
        In pixels.
    title
        What the drawing is, in a few words.
    description
        All that the drawing says, in sentences.
    """

    def __init__(self, width: int, height: int, title: str, description: str) -> None:
        size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title description">',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="description">{escape(description)}</desc>',
            f"<style>{STYLE}</style>",
            f'<rect class="paper" width="{width}" height="{height}" rx="8"/>',
        ]

    def box(self, x: float, y: float, width: float, height: float, kind: str = "box", radius: int = 6) -> None:
        """Draw a rectangle with round corners."""
        self.parts.append(
            f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius}"/>'
        )

    def text(self, x: float, y: float, lines: str | Iterable[str], kind: str = "") -> None:
        """Write lines, the first with its foot at `y`, each 17 pixels under the one before."""
        for place, line in enumerate([lines] if isinstance(lines, str) else lines):
            named = f' class="{kind}"' if kind else ""
            self.parts.append(f'<text{named} x="{x:g}" y="{y + 17 * place:g}">{escape(line)}</text>')

    def line(self, *points: tuple[float, float], kind: str = "rule") -> None:
        """Draw a line through points."""
        places = " ".join(f"{x:g},{y:g}" for x, y in points)
        self.parts.append(f'<polyline class="{kind}" fill="none" points="{places}"/>')

    def arrow(self, *points: tuple[float, float]) -> None:
        """Draw a line through points, level or upright at its end, with a head there."""
        (before_x, before_y), (x, y) = points[-2:]
        along = ((x > before_x) - (x < before_x), (y > before_y) - (y < before_y))
        back = (x - 8 * along[0], y - 8 * along[1])
        sides = [(back[0] + 4 * s * along[1], back[1] + 4 * s * along[0]) for s in (1, -1)]
        self.line(*points[:-1], back, kind="line")
        corners = " ".join(f"{a:g},{b:g}" for a, b in ((x, y), *sides))
        self.parts.append(f'<polygon class="head" points="{corners}"/>')

    def bits(self, x: float, y: float, bits: Sequence[int], size: int = 16) -> None:
        """Draw a row of bits, filled where they are 1."""
        for place, bit in enumerate(bits):
            self.box(x + place * (size + 3), y, size, size, "one" if bit else "zero", 2)

    def circle(self, x: float, y: float, radius: float, kind: str) -> None:
        """Draw a disc."""
        self.parts.append(f'<circle class="{kind}" cx="{x:g}" cy="{y:g}" r="{radius:g}"/>')

    def svg(self) -> str:
        """Return the drawing as a file's text."""
        return "\n".join((*self.parts, "</svg>\n"))
