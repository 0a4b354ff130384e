"""A chart under construction: a plot with its axes, and marks at numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

from overstory.presentation.charts.scale import FONT, Scale, plain_number, text_width
from overstory.presentation.svg import FAINT, INK, MUTED, PAPER


@dataclass
class Chart:
    """A plot with its axes, and marks at numbers.

    Attributes
    ----------
    width, height
        Of the drawing, in `unit`.
    x, y
        The scales.
    font
        The height of text.
    """

    width: float
    height: float
    x: Scale
    y: Scale
    font: float = FONT
    unit: str = "pt"
    numbers: dict[str, str] = field(default_factory=dict)  # data attributes of the drawing
    _parts: list[str] = field(default_factory=list)

    def line(self, points: Sequence[tuple[float, float]], colour: str, width: float = 1.5, extra: str = "") -> None:
        """Draw a line through points."""
        at = " ".join(f"{self.x.at(x):.1f},{self.y.at(y):.1f}" for x, y in points)
        self.add(f'<polyline fill="none" stroke="{colour}" stroke-width="{width}" {extra} points="{at}"/>')

    def dot(self, x: float, y: float, colour: str, *, hollow: bool = False) -> None:
        """Draw a point."""
        self._dot(self.x.at(x), self.y.at(y), colour, hollow=hollow)

    def _dot(self, x: float, y: float, colour: str, *, hollow: bool) -> None:
        inside = PAPER if hollow else colour
        self.add(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" stroke="{colour}" fill="{inside}"/>')

    def bar(self, x: float, y: float, colour: str) -> None:
        """Draw a short upright bar."""
        self._upright(self.x.at(x), self.y.at(y), colour)

    def _upright(self, x: float, y: float, colour: str) -> None:
        self.add(f'<path d="M{x:.1f} {y - 5:.1f}v10" stroke="{colour}" stroke-width="2"/>')

    def text(self, x: float, y: float, words: str, colour: str = INK, anchor: str = "start", extra: str = "") -> None:
        """Write a line of text at a place in points: its start, middle or end, and its middle in height."""
        place = f'x="{x:.1f}" y="{y + 0.35 * self.font:.1f}" text-anchor="{anchor}" font-size="{self.font:g}"'
        self.add(f'<text {place} fill="{colour}" {extra}>{escape(drawable(words))}</text>')

    def axes(
        self,
        xlabel: str,
        ylabel: str = "",
        *,
        rows: Sequence[str] | None = None,
        columns: Sequence[tuple[float, str]] | None = None,
        number: Callable[[float], str] = plain_number,
    ) -> None:
        """Draw the grid, the axes and what is written at them.

        Parameters
        ----------
        rows
            Names at the places 0, 1, ... of the upright axis, instead of its numbers.
        columns
            Places of the level axis and their names, instead of its numbers.
        number
            How a number at an axis reads.
        """
        left, bottom = self.x.start, self.y.start
        for place, name in [(tick, number(tick)) for tick in self.x.ticks()] if columns is None else columns:
            self._rule(self.x.at(place), bottom, f"V{self.y.stop:.1f}")
            is_cut = self.x.at(place) + text_width(name, self.font) / 2 > self.width
            end = (self.width, "end") if is_cut else (self.x.at(place), "middle")
            self.text(end[0], bottom + self.font + 1, name, anchor=end[1])
        upright = enumerate(rows) if rows is not None else ((tick, number(tick)) for tick in self.y.ticks())
        for place, name in upright:
            self._rule(left, self.y.at(place), f"H{self.x.stop:.1f}")
            self.text(left - 5, self.y.at(place), name, anchor="end")
        frame = f"M{left:.1f} {self.y.stop:.1f}V{bottom:.1f}H{self.x.stop:.1f}"
        self.add(f'<path d="{frame}" fill="none" stroke="{MUTED}" stroke-width="0.8"/>')
        self.text((left + self.x.stop) / 2, bottom + 2.6 * self.font, xlabel, anchor="middle")
        if ylabel:
            middle = (bottom + self.y.stop) / 2
            self.text(9, middle, ylabel, anchor="middle", extra=f'transform="rotate(-90 9 {middle:.1f})"')

    def _rule(self, x: float, y: float, to: str) -> None:
        self.add(f'<path d="M{x:.1f} {y:.1f}{to}" stroke="{FAINT}" stroke-width="0.6"/>')

    def legend(self, entries: Sequence[tuple[str, str, str]]) -> None:
        """Explain the marks above the plot: (``dot``, ``hollow`` or ``bar``, words, colour) of each."""
        x, y = self.x.start, self.y.stop - 12
        for mark, words, colour in entries:
            if mark == "bar":
                self._upright(x + 4, y, colour)
            else:
                self._dot(x + 4, y, colour, hollow=mark == "hollow")
            self.text(x + 12, y, words)
            x += 26 + text_width(words, self.font)

    def add(self, element: str) -> None:
        """Add an element of SVG; who adds it has escaped its text."""
        self._parts.append(element)

    def svg(self) -> str:
        """Return the drawing."""
        size = f'width="{self.width:g}{self.unit}" height="{self.height:g}{self.unit}"'
        data = "".join(f' data-{name}="{escape(text)}"' for name, text in self.numbers.items())
        box = f'viewBox="0 0 {self.width:g} {self.height:g}"'
        paper = f'<path d="M0 0H{self.width:g}V{self.height:g}H0Z" fill="{PAPER}"/>'
        return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box}{data}>{paper}{"".join(self._parts)}</svg>\n'


def drawable(words: str) -> str:
    """Return text that XML can hold."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in words)
