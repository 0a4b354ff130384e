"""Charts as SVG text, written by hand in the house's style: a page with a picture does not load a plotting library.

A picture that two pages share: what was true beside what was learned, a row for each value.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from overstory.presentation.svg import FAINT, INK, MUTED, OURS, PAPER, THEIRS

FONT: Final = 9
CHARACTER: Final = 0.55
"""Mean width of a character, in heights; East Asian ones have twice that."""


@dataclass(frozen=True)
class Scale:
    """From numbers to places on paper, along one axis.

    Attributes
    ----------
    low, high
        The ends of the axis.
    start, stop
        Their places, in points.
    """

    low: float
    high: float
    start: float
    stop: float
    logarithmic: bool = False  # whether equal ratios, not equal differences, are equally far apart

    def at(self, number: float) -> float:
        """Return the number's place; beyond an end it is the end's."""
        low, high, here = (math.log(x) if self.logarithmic else x for x in (self.low, self.high, self._held(number)))
        return self.start + (self.stop - self.start) * (here - low) / (high - low)

    def _held(self, number: float) -> float:
        ends = sorted((self.low, self.high))
        return min(max(number, ends[0]), ends[1])

    def ticks(self) -> list[float]:
        """Return round numbers to write at the axis.

        Examples
        --------
        >>> Scale(-3, 42, 0, 1).ticks(), Scale(80, 2e4, 0, 1, logarithmic=True).ticks()
        ([0, 10, 20, 30, 40], [100, 1000, 10000])
        """
        if self.logarithmic:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            return [_whole(float(f"1e{power}")) for power in range(first, last + 1)]
        power = 10.0 ** math.floor(math.log10((self.high - self.low) / 4))
        step = next(factor * power for factor in (1, 2, 5, 10) if (self.high - self.low) / (factor * power) <= 6)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [_whole(float(f"{i * step:.12g}")) for i in range(first, last + 1)]


def _whole(number: float) -> float:
    return int(number) if number == int(number) else number


@dataclass
class Chart:
    """A chart under construction: a plot with its axes, and marks at numbers.

    Attributes
    ----------
    width, height
        Of the whole drawing, in points.
    x, y
        The scales.
    """

    width: float
    height: float
    x: Scale
    y: Scale
    _parts: list[str] = field(default_factory=list)

    def line(self, points: Sequence[tuple[float, float]], colour: str, width: float = 1.5, extra: str = "") -> None:
        """Draw a line through points."""
        at = " ".join(f"{self.x.at(x):.1f},{self.y.at(y):.1f}" for x, y in points)
        self._parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="{width}" {extra} points="{at}"/>')

    def dot(self, x: float, y: float, colour: str, *, hollow: bool = False) -> None:
        """Draw a point."""
        self._dot(self.x.at(x), self.y.at(y), colour, hollow=hollow)

    def _dot(self, x: float, y: float, colour: str, *, hollow: bool) -> None:
        inside = PAPER if hollow else colour
        self._parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" stroke="{colour}" fill="{inside}"/>')

    def bar(self, x: float, y: float, colour: str) -> None:
        """Draw a short upright bar."""
        self._upright(self.x.at(x), self.y.at(y), colour)

    def _upright(self, x: float, y: float, colour: str) -> None:
        self._parts.append(f'<path d="M{x:.1f} {y - 5:.1f}v10" stroke="{colour}" stroke-width="2"/>')

    def text(self, x: float, y: float, words: str, colour: str = INK, anchor: str = "start", extra: str = "") -> None:
        """Write a line of text at a place in points: its start, middle or end, and its middle in height."""
        place = f'x="{x:.1f}" y="{y + 0.35 * FONT:.1f}" text-anchor="{anchor}" font-size="{FONT}"'
        self._parts.append(f'<text {place} fill="{colour}" {extra}>{escape(_drawable(words))}</text>')

    def axes(self, xlabel: str, ylabel: str = "", rows: Sequence[str] = ()) -> None:
        """Draw the grid, the axes and what is written at them.

        Parameters
        ----------
        rows
            Names at the places 0, 1, ... of the upright axis, instead of its numbers.
        """
        left, bottom = self.x.start, self.y.start
        for tick in self.x.ticks():
            self._rule(self.x.at(tick), bottom, f"V{self.y.stop:.1f}")
            self.text(self.x.at(tick), bottom + 10, _number(tick), anchor="middle")
        upright = list(enumerate(rows)) if rows else [(tick, _number(tick)) for tick in self.y.ticks()]
        for place, name in upright:
            self._rule(left, self.y.at(place), f"H{self.x.stop:.1f}")
            self.text(left - 5, self.y.at(place), name, anchor="end")
        frame = f"M{left:.1f} {self.y.stop:.1f}V{bottom:.1f}H{self.x.stop:.1f}"
        self._parts.append(f'<path d="{frame}" fill="none" stroke="{MUTED}" stroke-width="0.8"/>')
        self.text((left + self.x.stop) / 2, bottom + 24, xlabel, anchor="middle")
        if ylabel:
            middle = (bottom + self.y.stop) / 2
            self.text(9, middle, ylabel, anchor="middle", extra=f'transform="rotate(-90 9 {middle:.1f})"')

    def _rule(self, x: float, y: float, to: str) -> None:
        self._parts.append(f'<path d="M{x:.1f} {y:.1f}{to}" stroke="{FAINT}" stroke-width="0.6"/>')

    def legend(self, entries: Sequence[tuple[str, str, str]]) -> None:
        """Explain the marks above the plot: (``dot``, ``hollow`` or ``bar``, words, colour) of each."""
        x, y = self.x.start, self.y.stop - 12
        for mark, words, colour in entries:
            if mark == "bar":
                self._upright(x + 4, y, colour)
            else:
                self._dot(x + 4, y, colour, hollow=mark == "hollow")
            self.text(x + 12, y, words)
            x += 26 + text_width(words)

    def svg(self) -> str:
        """Return the drawing."""
        size = f'width="{self.width:g}pt" height="{self.height:g}pt" viewBox="0 0 {self.width:g} {self.height:g}"'
        paper = f'<path d="M0 0H{self.width:g}V{self.height:g}H0Z" fill="{PAPER}"/>'
        return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{paper}{"".join(self._parts)}</svg>\n'


def text_width(words: str) -> float:
    """Return about how many points a line of text is wide."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in words)
    return FONT * CHARACTER * (len(words) + wide)


def _drawable(words: str) -> str:
    """Return text that XML can hold."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in words)


def _number(number: float) -> str:
    millions = number / 1_000_000
    return f"{millions:,.0f} million" if abs(millions) >= 1 and millions == int(millions) else f"{number:,.12g}"


def apart(places: Sequence[float], least: float) -> list[float]:
    """Return places in the same order, moved until neighbours are `least` apart.

    Examples
    --------
    >>> apart([0.0, 1.0, 20.0], 5.0)
    [-2.0, 3.0, 20.0]
    """
    order = sorted(range(len(places)), key=places.__getitem__)
    moved = list(places)
    for _ in range(100):
        for below, above in pairwise(order):
            lack = least - (moved[above] - moved[below])
            if lack > 0:
                moved[below], moved[above] = moved[below] - lack / 2, moved[above] + lack / 2
    return moved


F64 = NDArray[np.float64]


def against_truth(
    names: Sequence[str],
    *,
    truth: F64,
    learned: F64,
    low: F64,
    high: F64,
    detected: NDArray[np.bool_],
    xlabel: str,
) -> str:
    """Draw truth against estimate with its 95% interval as SVG; what was not detected is hollow.

    Parameters
    ----------
    truth, learned, low, high, detected : ndarray, shape (values,)
        In the unit that `xlabel` names.
    """
    width, height, count = 518.0, 68 + 15.0 * max(len(names), 3), len(names)
    least, most = float(min(low.min(), truth.min())), float(max(high.max(), truth.max()))
    margin = 0.03 * (most - least) or 0.5
    left = 14 + max(map(text_width, names))
    chart = Chart(
        width,
        height,
        Scale(least - margin, most + margin, left, width - 12),
        Scale(count - 0.4, -0.6, height - 34, 26),
    )
    chart.axes(xlabel, rows=names)
    for row in range(count):
        chart.line([(float(low[row]), row), (float(high[row]), row)], OURS, 2, 'stroke-opacity="0.55"')
        chart.dot(float(learned[row]), row, OURS, hollow=not detected[row])
        chart.bar(float(truth[row]), row, THEIRS)
    entries = [("dot", "learned, 95% interval", OURS)]
    entries += [] if detected.all() else [("hollow", "not detected", OURS)]
    chart.legend([*entries, ("bar", "truth", THEIRS)])
    return chart.svg()
