"""From numbers to places on paper: scales, round numbers at their axes, and labels that do not overlap."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

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

    def places(self, numbers: F64) -> F64:
        """Return the places of numbers on an axis with equal differences; NaN stays NaN."""
        within = np.clip(numbers, min(self.low, self.high), max(self.low, self.high))
        return np.asarray(self.start + (self.stop - self.start) * (within - self.low) / (self.high - self.low))

    def number(self, place: float) -> float:
        """Return the number at a place of an axis with equal differences.

        Examples
        --------
        >>> scale = Scale(-1, 3, 100, 20)
        >>> scale.number(scale.at(0.5))
        0.5
        """
        return self.low + (self.high - self.low) * (place - self.start) / (self.stop - self.start)

    def __str__(self) -> str:
        """Return the four numbers, as a drawing carries them: `number` of a scale that is read back works."""
        return f"{self.low:.9g} {self.high:.9g} {self.start:.9g} {self.stop:.9g}"

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


def text_width(words: str, font: float = FONT) -> float:
    """Return about how wide a line of text is, in the unit of its height."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in words)
    return font * CHARACTER * (len(words) + wide)


def shortened(words: str, most: int) -> str:
    """Return text of at most `most` characters.

    Examples
    --------
    >>> shortened("chestnut", 5), shortened("oak", 5)
    ('ches…', 'oak')
    """
    return words if len(words) <= most else words[: most - 1] + "…"


def plain_number(number: float) -> str:
    """Return a number as an axis shows it.

    Examples
    --------
    >>> plain_number(2_000_000), plain_number(12_500), plain_number(0.25)
    ('2 million', '12,500', '0.25')
    """
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
