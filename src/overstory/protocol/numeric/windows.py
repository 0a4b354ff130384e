"""A channel from positions on a line to cells on a line: a window around the truth is more likely than the rest.

Square Wave and the Piecewise mechanism are both it, at other widths. Both papers draw a real number; here the line is
cut into cells *before* anything is drawn, so that every probability is a ratio of integers and epsilon is exact:

    position s of 0 .. R - 1;   its window: the W cells s .. s + W - 1;   cells 0 .. M - 1, M = R + W - 1

    with probability alpha a uniform cell of the window, otherwise a uniform cell of all M.

So P(c | s) is alpha / W + (1 - alpha) / M inside the window and (1 - alpha) / M outside. Two windows always differ
in some cell, hence epsilon = ln(1 + alpha M / (W (1 - alpha))), exactly, for any R > 1. No real number is ever drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from overstory.protocol.encodings.base import check_count, check_symbol
from overstory.protocol.errors import ParameterError
from overstory.protocol.probability import ONE, THRESHOLD_BITS, check_probability, log_ratio, round_up
from overstory.protocol.sampling import Entropy, uniform_below

MAX_RESOLUTION = 1 << 32


def check_numeric_epsilon(epsilon: float) -> float:
    """Return `epsilon`, or raise ParameterError unless it is a number from 0.001 to 20.

    Below, the window's width would be lost in rounding; above, 2**-32 is too coarse for the rest's probability.
    """
    if not isinstance(epsilon, int | float) or isinstance(epsilon, bool) or not 0.001 <= epsilon <= 20:
        raise ParameterError(f"epsilon = {epsilon!r}: give a number from 0.001 to 20")
    return float(epsilon)


@dataclass(frozen=True)
class WindowChannel:
    """The channel above.

    Parameters
    ----------
    num_positions
        R, at least 2.
    window
        W, at least 1.

    Examples
    --------
    >>> channel = WindowChannel(3, 2, Fraction(1, 2))
    >>> [str(channel.probability(cell, 1)) for cell in range(channel.num_cells)]
    ['1/8', '3/8', '3/8', '1/8']
    >>> round(channel.epsilon, 9) == round(math.log(3), 9)
    True
    """

    num_positions: int
    window: int
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
        """M: how many outputs there are."""
        return self.num_positions + self.window - 1

    @property
    def threshold(self) -> int:
        """The integer over 2**32 that alpha is."""
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
        """Cells of equal probability: that of the window and how many it has, and that of the others."""
        inside = float(self.inside * self.window)
        return (inside, self.window), (1 - inside, self.num_cells - self.window)

    @cached_property
    def epsilon(self) -> float:
        """ln(inside / outside), rounded up."""
        return round_up(log_ratio(self.inside, self.outside))

    def probability(self, cell: int, position: int) -> Fraction:
        """P(cell | position)."""
        return self.inside if 0 <= cell - position < self.window else self.outside

    def draw(self, position: int, entropy: Entropy) -> int:
        """Return a cell drawn exactly."""
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
        """Return the position that a cell is an unbiased estimate of: `mean` inverted."""
        if not self.alpha:
            raise ParameterError("alpha = 0: the report does not depend on the value, and nothing can be learned")
        return (cell - self.mean(Fraction(0))) / self.alpha

    def variance(self, position: Fraction) -> Fraction:
        """Return the variance of the cell: a mixture's, from the two uniform laws' means and variances."""
        centre, middle = position + Fraction(self.window - 1, 2), Fraction(self.num_cells - 1, 2)
        within = self.alpha * _spread(self.window) + (1 - self.alpha) * _spread(self.num_cells)
        return within + self.alpha * (1 - self.alpha) * (centre - middle) ** 2


def _spread(size: int) -> Fraction:
    """Variance of a uniform integer of `size` consecutive ones."""
    return Fraction(size * size - 1, 12)
