"""A chart under construction: scales, axes and marks, drawn for a wide page and for a narrow one."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from os.path import commonprefix
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from overstory.presentation.svg import FAINT, INK, MUTED, PAPER, Picture

F64 = NDArray[np.float64]

CHARACTER: Final = 0.6  # mean width of a character, in heights; East Asian ones have twice that


@dataclass(frozen=True)
class Scale:
    """From numbers to places on paper, in points, along one axis."""

    low: float  # of the axis, as `high`
    high: float
    start: float  # place of `low`
    stop: float

    def at(self, number: float) -> float:
        """Return the number's place; beyond an end it is the end's."""
        low, high = sorted((self.low, self.high))
        within = min(max(number, low), high)
        return self.start + (self.stop - self.start) * (within - self.low) / (self.high - self.low)

    def places(self, numbers: F64) -> F64:
        within = np.clip(numbers, min(self.low, self.high), max(self.low, self.high))
        return np.asarray(self.start + (self.stop - self.start) * (within - self.low) / (self.high - self.low))

    def number(self, place: float) -> float:
        """Return the number at a place."""
        return self.low + (self.high - self.low) * (place - self.start) / (self.stop - self.start)

    def __str__(self) -> str:
        """Return the four numbers, as a drawing carries them: `number` of a scale that is read back works."""
        return f"{self.low:.9g} {self.high:.9g} {self.start:.9g} {self.stop:.9g}"

    def ticks(self) -> list[float]:
        power = 10.0 ** math.floor(math.log10((self.high - self.low) / 4))
        step = next(factor * power for factor in (1, 2, 5, 10) if (self.high - self.low) / (factor * power) <= 6)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def shortened(words: str, most: int) -> str:
    """Return text of at most `most` characters."""
    return words if len(words) <= most else words[: most - 1] + "…"


def plain_number(number: float) -> str:
    """Return a number as an axis shows it."""
    millions = number / 1_000_000
    return f"{millions:,.0f} million" if abs(millions) >= 1 and millions == int(millions) else f"{number:,.12g}"


def apart(places: Sequence[float], least: float) -> list[float]:
    """Return places in the same order, moved until neighbours are `least` apart."""
    order = sorted(range(len(places)), key=places.__getitem__)
    moved = list(places)
    for _ in range(100):
        for below, above in pairwise(order):
            lack = least - (moved[above] - moved[below])
            if lack > 0:
                moved[below], moved[above] = moved[below] - lack / 2, moved[above] + lack / 2
    return moved


@dataclass
class Chart:
    """A plot with its axes, and marks at numbers."""

    sheet: Sheet
    height: float
    x: Scale
    y: Scale
    numbers: dict[str, str] = field(default_factory=dict)  # data attributes of the drawing
    _parts: list[str] = field(default_factory=list)

    def text(self, x: float, y: float, words: str, colour: str = INK, anchor: str = "start", extra: str = "") -> None:
        place = (
            f'x="{x:.1f}" y="{y + 0.35 * self.sheet.font:.1f}" text-anchor="{anchor}" font-size="{self.sheet.font:g}"'
        )
        self.add(f'<text {place} fill="{colour}" {extra}>{escape(drawable(words))}</text>')

    def axes(
        self,
        xlabel: str,
        *,
        rows: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        number: Callable[[float], str] = plain_number,
    ) -> None:
        """Draw grid and axes; for numbers stand names at 0, 1, ...: all `rows`, and of `columns` those with room."""
        left, bottom = self.x.start, self.y.start
        ticks = [(tick, number(tick)) for tick in self.x.ticks()] if columns is None else self._named(columns)
        for place, name in ticks:
            self._rule(self.x.at(place), bottom, f"V{self.y.stop:.1f}")
            is_cut = self.x.at(place) + self.sheet.text_width(name) / 2 > self.sheet.width
            end = (self.sheet.width, "end") if is_cut else (self.x.at(place), "middle")
            self.text(end[0], bottom + self.sheet.font + 1, name, anchor=end[1])
        upright = enumerate(rows) if rows is not None else ((tick, number(tick)) for tick in self.y.ticks())
        for place, name in upright:
            self._rule(left, self.y.at(place), f"H{self.x.stop:.1f}")
            self.text(left - 5, self.y.at(place), name, anchor="end")
        frame = f"M{left:.1f} {self.y.stop:.1f}V{bottom:.1f}H{self.x.stop:.1f}"
        self.add(f'<path d="{frame}" fill="none" stroke="{MUTED}" stroke-width="0.8"/>')
        self.text((left + self.x.stop) / 2, bottom + 2.6 * self.sheet.font, xlabel, anchor="middle")

    def _named(self, labels: Sequence[str]) -> list[tuple[float, str]]:
        """Return the columns whose name has room at the axis, equally far apart; the newest is one of them."""
        room = max(map(self.sheet.text_width, labels), default=0) + 2 * self.sheet.font
        most = max(2, int((self.x.stop - self.x.start) / room) + 1)
        places = list(range(len(labels) - 1, -1, -max(1, -(-(len(labels) - 1) // (most - 1)))))
        newest = min(self.x.at(len(labels) - 1), self.sheet.width - room / 2)  # it is moved where it would be cut
        return [(one, labels[one]) for one in places if one == places[0] or newest - self.x.at(one) > room - 4]

    def _rule(self, x: float, y: float, to: str) -> None:
        self.add(f'<path d="M{x:.1f} {y:.1f}{to}" stroke="{FAINT}" stroke-width="0.6"/>')

    def key(self, x: float, y: float, entries: Sequence[tuple[str, str]], width: float = 24) -> None:
        """Write what signs mean, in a row from a place in points; a sign is drawn to the right of 0, 0."""
        for words, sign in entries:
            self.add(f'<g transform="translate({x:.1f} {y:.1f})">{sign}</g>')
            self.text(x + width + 6, y, words)
            x += width + 18 + self.sheet.text_width(words)

    def add_cursor(
        self, axis: Literal["x", "y"], labels: Sequence[str], series: Sequence[Mapping[str, Any]], shift: float = 0
    ) -> None:
        """Add what a page's script reads: places along an axis and, once is enough, the numbers there."""
        scale: Scale = getattr(self, axis)
        self.numbers["cursor"] = f"{axis} {scale.at(shift):.1f} {scale.at(max(len(labels) - 1, 0) + shift):.1f}"
        if not self.sheet.is_narrow:
            self.add(cursor_numbers(labels, series))

    def add(self, element: str) -> None:
        """Add an element of SVG; who adds it has escaped its text."""
        self._parts.append(element)

    def svg(self) -> str:
        size = f'width="{self.sheet.width:g}px" height="{self.height:g}px"'
        data = "".join(f' data-{name}="{escape(text)}"' for name, text in self.numbers.items())
        box = f'viewBox="0 0 {self.sheet.width:g} {self.height:g}"'
        paper = f'<path d="M0 0H{self.sheet.width:g}V{self.height:g}H0Z" fill="{PAPER}"/>'
        return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box}{data}>{paper}{"".join(self._parts)}</svg>\n'


def drawable(words: str) -> str:
    """Return text that XML can hold."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in words)


@dataclass(frozen=True)
class Sheet:
    """The width of a drawing and the height of its text, in CSS pixels: 11 or more as a page shows it."""

    width: float
    font: float
    longest: int  # characters of a name

    @property
    def is_narrow(self) -> bool:
        return self.width < 600

    def chart(self, height: float, x: Scale, y: Scale) -> Chart:
        return Chart(self, height, x, y, {"x": str(x), "y": str(y)})

    def text_width(self, words: str) -> float:
        """Return about how wide a line of text is."""
        wide = sum(unicodedata.east_asian_width(character) in "WF" for character in words)
        return self.font * CHARACTER * (len(words) + wide)

    def name(self, words: str) -> str:
        return shortened(drawable(words), self.longest)

    def names(self, several: Sequence[str]) -> list[str]:
        """Return names that fit; those that would then read alike are without their common beginning."""
        groups: dict[str, list[str]] = {}
        for words in several:
            groups.setdefault(self.name(words), []).append(words)
        alike = {short: len(commonprefix(group)) - 4 for short, group in groups.items()}  # noqa: RUF071 - no paths
        shorts = ((self.name(words), words) for words in several)
        return [
            self.name(f"…{words[alike[short] :]}") if len(set(groups[short])) > 1 and alike[short] > 0 else short
            for short, words in shorts
        ]


WIDE: Final = Sheet(880, 13, 26)
NARROW: Final = Sheet(420, 14, 15)


def on_both_sheets(name: str, caption: str, alt: str, draw: Callable[[Sheet], str]) -> Picture:
    """Return a picture that is drawn for a wide page and for a narrow one."""
    return Picture(name, caption, alt, draw(WIDE), narrow=draw(NARROW))


def percent_tick(share: float) -> str:
    """Return a share of an axis as it reads there."""
    return f"{100 * share:.4g}%".replace("-", "\N{MINUS SIGN}")


def cursor_numbers(labels: Sequence[str], series: Sequence[Mapping[str, Any]]) -> str:
    """Return a picture's numbers as JSON for a page's script: `series` have a ``name``, and arrays along `labels`."""
    values = {
        "labels": [drawable(label) for label in labels],
        "series": [{key: _json(value) for key, value in each.items()} for each in series],
    }
    return f"<metadata>{escape(json.dumps(values, separators=(',', ':'), allow_nan=False))}</metadata>"


def _json(value: Any) -> Any:
    if isinstance(value, str):
        return drawable(value)
    array = np.asarray(value)
    if array.dtype == bool:
        return "".join("1" if flag else "0" for flag in array.tolist())
    return [None if number != number else round(number, 2) for number in array.tolist()]  # noqa: PLR0124 - NaN


def cursor_series(
    name: str, detected: NDArray[np.bool_], *, unsure: str = "not detected", **shares: F64 | None
) -> dict[str, Any]:
    """Return one of the series of `cursor_numbers`: shares and the ends of their intervals, in percent."""
    known = {key: each for key, each in shares.items() if each is not None}
    percentages = {key: np.where(np.isfinite(each), 100 * each, np.nan) for key, each in known.items()}
    return {"name": name, **percentages, "detected": detected, "unsure": unsure}
