"""Randomizers for a mean: Duchi's, the Piecewise mechanism, and their mixture.

Each report is by itself an unbiased estimate of the value; the mean of n reports estimates the mean of n people.

- Duchi, Jordan, Wainwright, "Minimax optimal procedures for locally private estimation", JASA 2018 (one dimension);
- Wang et al., "Collecting and analyzing multidimensional data with local differential privacy", ICDE 2019: Piecewise
  (section III-B) and Hybrid (section III-C).

On a range of half-width 1 around 0, with E = exp(eps) and x the value, the papers' variances are

    Duchi       ((E + 1) / (E - 1))**2 - x**2
    Piecewise   x**2 / (sqrt(E) - 1) + (sqrt(E) + 3) / (3 (sqrt(E) - 1)**2)

and `variance` gives the exact one of the integers really used. A value is first rounded to the nearest of
`resolution` + 1 positions, which moves it by at most range / (2 resolution): with the default 2**20, half a millionth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from overstory.protocol.channels import ONE, THRESHOLD_BITS, SymbolChannel
from overstory.protocol.domains.domains import Interval
from overstory.protocol.numeric.randomizer import NumberChannel, NumericRandomizer, builder
from overstory.protocol.numeric.windows import WindowChannel
from overstory.protocol.sampling import Entropy, symbol_sampler, uniform_below


@dataclass(frozen=True)
class MeanRandomizer(NumericRandomizer):
    """A randomizer whose reports, debiased, have the value for their mean; both ends of the range are positions."""

    domain: Interval = field(default=Interval(-1, 1))
    resolution: int = 1 << 20

    reading: ClassVar[str] = "mean"


@dataclass(frozen=True)
class EndsChannel(NumberChannel):
    """Round a position at random to one of the two ends, and send that bit by randomized response."""

    resolution: int  # one less than there are positions
    ends: SymbolChannel  # P(reported end | rounded end)

    num_cells: ClassVar[int] = 2
    groups: ClassVar[tuple[tuple[float, int], ...]] = ((1.0, 2),)  # as from the middle, whose reports tell most

    @property
    def num_positions(self) -> int:
        return self.resolution + 1

    @property
    def alpha(self) -> Fraction:
        return self.ends.alpha

    @property
    def odds(self) -> Fraction:
        """The bit's: the ends of the range are never rounded, and reach it."""
        return 1 + self.ends.alpha / self.ends.other

    def _one(self, position: Fraction) -> Fraction:
        return self.ends.other + self.ends.alpha * position / self.resolution

    def probability(self, cell: int, position: int) -> Fraction:
        one = self._one(Fraction(position))
        return one if cell else 1 - one

    def draw(self, position: int, entropy: Entropy) -> int:
        end = int(uniform_below(self.resolution, entropy) < position)
        return symbol_sampler(self.ends)(end, entropy.bits)

    def debias(self, cell: Fraction) -> Fraction:
        """Return (bit - P(1|0)) / alpha, in positions."""
        return (cell - self.ends.other) / self.ends.alpha * self.resolution

    def spread(self, position: Fraction) -> Fraction:
        """Return P(1) (1 - P(1)) / alpha**2, in positions."""
        one = self._one(position)
        return one * (1 - one) * (self.resolution / self.ends.alpha) ** 2

    def thresholds(self) -> dict[str, Any]:
        return {"threshold": int(self.ends.alpha * ONE)}


@dataclass(frozen=True)
class Duchi(MeanRandomizer):
    """Round the value at random to one of the two ends, and report that bit by randomized response.

    Examples
    --------
    >>> duchi = Duchi(1.0)
    >>> [round(float(duchi.debias(bit)), 4) for bit in (0, 1)], round(float(duchi.variance(0)), 4)
    ([-2.164, 2.164], 4.6827)
    """

    name = "duchi"
    server: ClassVar[str] = "analysis.kinds.numbers:EndsSupport"

    @cached_property
    def channel(self) -> EndsChannel:
        """P(payload | position)."""
        return EndsChannel(self.resolution, SymbolChannel.of(2, epsilon=self.epsilon))


@dataclass(frozen=True)
class Piecewise(MeanRandomizer):
    """Report a cell of a window that slides with the value, or any cell: Square Wave's channel at another width.

    The paper's window has width C - 1 on outputs -C .. C, C = (e^(eps/2) + 1) / (e^(eps/2) - 1): a share e^(-eps/2)
    of the way that it slides. So W = round(resolution e^(-eps/2)) cells, one position a cell.

    Examples
    --------
    >>> piecewise = Piecewise(1.0)
    >>> round(float(piecewise.variance(0)), 4), round(float(piecewise.variance(1)), 4)
    (3.6821, 5.2236)
    """

    name = "piecewise"
    server: ClassVar[str] = "analysis.kinds.numbers:MeanSupport"

    @cached_property
    def channel(self) -> WindowChannel:
        """P(payload | position)."""
        window = max(1, round(self.resolution * math.exp(-self.epsilon / 2)))
        return WindowChannel.of(self.resolution + 1, window, epsilon=self.epsilon)


@dataclass(frozen=True)
class EitherChannel(NumberChannel):
    """One of two channels, drawn without looking at the position; the lowest bit says which (1: the first)."""

    threshold: int  # over 2**32, of the first
    first: NumberChannel
    second: NumberChannel

    @property
    def _weighted(self) -> tuple[tuple[Fraction, NumberChannel], ...]:
        weight = Fraction(self.threshold, ONE)
        return (weight, self.first), (1 - weight, self.second)

    def _branch(self, payload: int) -> tuple[Fraction, NumberChannel]:
        return self._weighted[0 if payload & 1 else 1]

    @property
    def num_positions(self) -> int:
        return self.first.num_positions

    @property
    def num_cells(self) -> int:
        return 2 * max(self.first.num_cells, self.second.num_cells)

    def valid(self, payload: int) -> bool:
        return self._branch(payload)[1].valid(payload >> 1)

    @property
    def odds(self) -> Fraction:
        return max(branch.odds for weight, branch in self._weighted if weight)

    @property
    def groups(self) -> tuple[tuple[float, int], ...]:
        return tuple(
            (float(weight) * chance, size) for weight, branch in self._weighted for chance, size in branch.groups
        )

    def probability(self, cell: int, position: int) -> Fraction:
        weight, branch = self._branch(cell)
        return weight * branch.probability(cell >> 1, position)

    def draw(self, position: int, entropy: Entropy) -> int:
        if entropy.bits(THRESHOLD_BITS) < self.threshold:
            return self.first.draw(position, entropy) << 1 | 1
        return self.second.draw(position, entropy) << 1

    def debias(self, cell: Fraction) -> Fraction:
        return self._branch(int(cell))[1].debias(Fraction(int(cell) >> 1))

    def spread(self, position: Fraction) -> Fraction:
        """Return the mean of the branches': each is unbiased by itself."""
        return sum((weight * branch.spread(position) for weight, branch in self._weighted), Fraction(0))

    def thresholds(self) -> dict[str, Any]:
        branches = {"duchi": self.second.thresholds(), "piecewise": self.first.thresholds()}
        return {"threshold": self.threshold, **branches}


# Up to here Duchi's mechanism alone has the smallest worst-case variance (Wang et al. 2019, section III-C).
DUCHI_ALONE = 0.61


@dataclass(frozen=True)
class Hybrid(MeanRandomizer):
    """Piecewise with probability 1 - e^(-eps/2), otherwise Duchi; up to epsilon 0.61 always Duchi.

    The lowest bit of a report says which it is (1: Piecewise). The choice does not depend on the value, so epsilon is
    the larger of the two; the report is each one's own unbiased estimate, so the variance is their average.

    Examples
    --------
    >>> hybrid = Hybrid(1.0)
    >>> round(float(hybrid.variance(0)), 4), round(float(hybrid.variance(1)), 4)
    (4.289, 4.289)
    """

    name = "hybrid"
    server: ClassVar[str] = "analysis.kinds.numbers:HybridSupport"

    @cached_property
    def duchi(self) -> Duchi:
        """The one branch."""
        return Duchi(self.epsilon, self.domain, self.resolution)

    @cached_property
    def piecewise(self) -> Piecewise:
        """The other."""
        return Piecewise(self.epsilon, self.domain, self.resolution)

    @property
    def branches(self) -> tuple[NumericRandomizer, ...]:
        return self.duchi, self.piecewise

    @property
    def piecewise_threshold(self) -> int:
        """The integer over 2**32 that the probability of Piecewise is."""
        return round(-math.expm1(-self.epsilon / 2) * ONE) if self.epsilon > DUCHI_ALONE else 0

    @cached_property
    def channel(self) -> EitherChannel:
        """P(payload | position)."""
        return EitherChannel(self.piecewise_threshold, self.piecewise.channel, self.duchi.channel)


duchi, piecewise, hybrid = builder(Duchi), builder(Piecewise), builder(Hybrid)
