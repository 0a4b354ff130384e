"""A channel from positions on a line to cells on a line: a window around the truth is more likely than the rest.

Square Wave and the Piecewise mechanism are both it, at other widths. Both papers draw a real number; here the line is
cut into cells *before* anything is drawn, so that every probability is a ratio of integers and epsilon is exact:

    position s of 0 .. R - 1;   its window: the W cells s .. s + W - 1;   cells 0 .. M - 1, M = R + W - 1

    with probability alpha a uniform cell of the window, otherwise a uniform cell of all M.

So P(c | s) is alpha / W + (1 - alpha) / M inside the window and (1 - alpha) / M outside. Two windows always differ
in some cell, hence epsilon = ln(1 + alpha M / (W (1 - alpha))), exactly, for any R > 1. No real number is ever drawn.

Square Wave makes a number a nearby number, so that the collector can draw the distribution:
Li, Wang, Lopuhaa-Zwakenberg, Li and Skoric, "Estimating numerical distributions under local differential privacy",
SIGMOD 2020, section 5, in the discrete form of its section 5.4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from overstory.protocol.channels import ONE, THRESHOLD_BITS, check_probability, log_ratio, round_up
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import check_count, check_symbol
from overstory.protocol.numeric.randomizer import (
    MAX_RESOLUTION,
    NumberChannel,
    NumericRandomizer,
    builder,
    check_numeric_epsilon,
)
from overstory.protocol.sampling import Entropy, uniform_below


@dataclass(frozen=True)
class WindowChannel(NumberChannel):
    """The channel above."""

    num_positions: int  # R, at least 2
    window: int  # W, at least 1
    alpha: Fraction

    def __post_init__(self) -> None:
        check_count("num_positions", self.num_positions, 2, MAX_RESOLUTION + 1)
        check_count("window", self.window, 1, MAX_RESOLUTION)
        object.__setattr__(self, "alpha", check_probability("alpha", self.alpha))
        if (self.alpha * ONE).denominator != 1 or self.alpha == 1:
            raise ParameterError(f"alpha = {self.alpha} must be below 1 and a whole number over 2**32")

    @classmethod
    def of(cls, num_positions: int, window: int, *, epsilon: float) -> WindowChannel:
        """Return the channel of that epsilon: alpha is rounded down, until the exact epsilon is not above the wish."""
        excess = math.expm1(check_numeric_epsilon(epsilon)) * window / (num_positions + window - 1)
        threshold = min(math.floor(ONE * (excess / (1 + excess))), ONE - 1)
        channel = cls(num_positions, window, Fraction(threshold, ONE))
        while channel.epsilon > epsilon:
            channel = cls(num_positions, window, channel.alpha - Fraction(1, ONE))
        return channel

    @property
    def num_cells(self) -> int:
        """M."""
        return self.num_positions + self.window - 1

    @property
    def threshold(self) -> int:
        return int(self.alpha * ONE)

    @property
    def outside(self) -> Fraction:
        """P(one cell) outside the window."""
        return (1 - self.alpha) / self.num_cells

    @property
    def inside(self) -> Fraction:
        """P(one cell) of the window."""
        return self.outside + self.alpha / self.window

    @property
    def odds(self) -> Fraction:
        """Inside / outside: exp(epsilon)."""
        return self.inside / self.outside

    @property
    def groups(self) -> tuple[tuple[float, int], ...]:
        inside = float(self.inside * self.window)
        return (inside, self.window), (1 - inside, self.num_cells - self.window)

    @cached_property
    def epsilon(self) -> float:
        """ln(inside / outside), rounded up."""
        return round_up(log_ratio(self.inside, self.outside))

    def probability(self, cell: int, position: int) -> Fraction:
        return self.inside if 0 <= cell - position < self.window else self.outside

    def draw(self, position: int, entropy: Entropy) -> int:
        check_symbol(position, self.num_positions)
        if entropy.bits(THRESHOLD_BITS) < self.threshold:
            return position + uniform_below(self.window, entropy)
        return uniform_below(self.num_cells, entropy)

    def mean(self, position: Fraction) -> Fraction:
        """Return the mean cell, which rises by alpha a position."""
        return self.alpha * (position + Fraction(self.window - 1, 2)) + (1 - self.alpha) * Fraction(
            self.num_cells - 1, 2
        )

    def debias(self, cell: Fraction) -> Fraction:
        if not self.alpha:
            raise ParameterError("alpha = 0: the report does not depend on the value, and nothing can be learned")
        return (cell - self.mean(Fraction(0))) / self.alpha

    def spread(self, position: Fraction) -> Fraction:
        return self.variance(position) / self.alpha**2

    def likely_cells(self) -> tuple[int, int]:
        return self.window, max(0, self.window - (self.num_positions - 1))

    def thresholds(self) -> dict[str, Any]:
        return {"window": self.window, "threshold": self.threshold}

    def variance(self, position: Fraction) -> Fraction:
        """Return the variance of the cell: a mixture's, from the two uniform laws' means and variances."""
        centre, middle = position + Fraction(self.window - 1, 2), Fraction(self.num_cells - 1, 2)
        within = self.alpha * _spread(self.window) + (1 - self.alpha) * _spread(self.num_cells)
        return within + self.alpha * (1 - self.alpha) * (centre - middle) ** 2


def _spread(size: int) -> Fraction:
    return Fraction(size * size - 1, 12)


def half_width(epsilon: float) -> float:
    """Return b, half the window's width on a range of length 1: (eps E - E + 1) / (2 E (E - 1 - eps)), E = exp(eps).

    It maximizes an upper bound of the mutual information between value and report (section 5.3); 1/2 at epsilon = 0.
    """
    if epsilon < 0.01:  # both differences vanish with epsilon squared: their series instead
        over = 1 / 2 + epsilon / 3 + epsilon**2 / 8 + epsilon**3 / 30
        under = 1 / 2 + epsilon / 6 + epsilon**2 / 24 + epsilon**3 / 120
        return over / (2 * math.exp(epsilon) * under)
    odds = math.exp(epsilon)
    return (epsilon * odds - math.expm1(epsilon)) / (2 * odds * (math.expm1(epsilon) - epsilon))


@dataclass(frozen=True)
class SquareWave(NumericRandomizer):
    """Report a cell within b of the value with density p, and any other with density q = p / E.

    The range is cut into `resolution` = R positions, position i being ``i / R <= share < (i + 1) / R`` (the last one
    closed), and the window is W = 2 floor(b R) + 1 cells, its middle one at the value. A report is one of
    M = R + W - 1 cells. As R grows, p and q approach the paper's E / (2bE + 1) and 1 / (2bE + 1).

    Examples
    --------
    >>> wave = SquareWave(1.0)
    >>> 1 - 1e-8 < wave.epsilon_report <= 1
    True
    >>> round(float(wave.channel.inside * wave.resolution), 3), round(float(wave.channel.outside * wave.resolution), 3)
    (1.136, 0.418)
    """

    name = "square-wave"
    reading: ClassVar[str] = "distribution"
    server: ClassVar[str] = "analysis.kinds.numbers:WaveSupport"
    middle: ClassVar[Fraction] = Fraction(1, 2)

    @cached_property
    def channel(self) -> WindowChannel:
        """P(cell | position)."""
        window = 2 * math.floor(half_width(self.epsilon) * self.resolution) + 1
        return WindowChannel.of(self.resolution, window, epsilon=self.epsilon)


square_wave = builder(SquareWave)
