"""Square Wave: a number becomes a nearby number, so that the collector can draw the whole distribution.

Li, Wang, Lopuhaa-Zwakenberg, Li and Skoric, "Estimating numerical distributions under local differential privacy",
SIGMOD 2020, section 5, in the discrete form of its section 5.4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from overstory.protocol.numeric.randomizer import NumericRandomizer
from overstory.protocol.numeric.windows import WindowChannel
from overstory.protocol.sampling import Entropy


def half_width(epsilon: float) -> float:
    """Return b, half the window's width on a range of length 1: (eps E - E + 1) / (2 E (E - 1 - eps)), E = exp(eps).

    It maximizes an upper bound of the mutual information between value and report (section 5.3); 1/2 at epsilon = 0.

    Examples
    --------
    >>> round(half_width(1.0), 6), round(half_width(0.001), 6)
    (0.256083, 0.499667)
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

    @cached_property
    def channel(self) -> WindowChannel:
        """P(cell | position)."""
        window = 2 * math.floor(half_width(self.epsilon) * self.resolution) + 1
        return WindowChannel.of(self.resolution, window, epsilon=self.epsilon)

    @property
    def payload_bits(self) -> int:
        """A cell's width."""
        return (self.channel.num_cells - 1).bit_length()

    @property
    def odds(self) -> Fraction:
        """The channel's."""
        return self.channel.odds

    @property
    def report_groups(self) -> tuple[tuple[float, int], ...]:
        """The cells of the window, and the others."""
        return self.channel.groups

    @property
    def num_positions(self) -> int:
        """A position for every piece of the range."""
        return self.resolution

    def position(self, value: Any) -> int:
        """Return the number of the small interval that owns the value."""
        return min(math.floor(self.domain.share(value) * self.resolution), self.resolution - 1)

    def draw(self, position: int, entropy: Entropy) -> int:
        """Return a cell."""
        return self.channel.draw(position, entropy)

    def debias(self, payload: int) -> Fraction:
        """Return an estimate of the value that is unbiased but for half a position's width (range / 2R)."""
        share = (self.channel.debias(Fraction(payload)) + Fraction(1, 2)) / self.resolution
        return Fraction(self.domain.minimum) + share * Fraction(self.domain.width)

    def variance(self, value: Any) -> Fraction:
        """Return the exact variance of `debias` over the reports of `value`."""
        spread = self.channel.variance(Fraction(self.position(value)))
        return spread * (Fraction(self.domain.width) / (self.channel.alpha * self.resolution)) ** 2

    def thresholds(self) -> dict[str, Any]:
        """Return the window's width and alpha's threshold."""
        return {"window": self.channel.window, "threshold": self.channel.threshold}
