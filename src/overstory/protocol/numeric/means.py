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
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal

from overstory.protocol.channels import ONE, THRESHOLD_BITS, SymbolChannel
from overstory.protocol.domains.numbers import Interval
from overstory.protocol.encodings.base import check_symbol
from overstory.protocol.numeric.randomizer import NumericRandomizer
from overstory.protocol.numeric.windows import WindowChannel
from overstory.protocol.sampling import Entropy, symbol_sampler, uniform_below


@dataclass(frozen=True)
class MeanRandomizer(NumericRandomizer):
    """A randomizer whose reports, debiased, have the value for their mean; a share runs from 0 to 1 over the range."""

    domain: Interval = field(default=Interval(-1, 1))
    resolution: int = 1 << 20

    reading: ClassVar[str] = "mean"

    @abstractmethod
    def debiased_share(self, payload: int) -> Fraction:
        """Return the report's unbiased estimate of the value's share."""

    @abstractmethod
    def share_variance(self, share: Fraction) -> Fraction:
        """Return the exact variance of `debiased_share` at a position's share."""

    @property
    def num_positions(self) -> int:
        """One more than there are steps: both ends are positions."""
        return self.resolution + 1

    def position(self, value: Any) -> int:
        """Return the nearest of the resolution + 1 positions."""
        return math.floor(self.domain.share(value) * self.resolution + Fraction(1, 2))

    def value_at(self, position: int) -> Fraction:
        """Return the position's own value."""
        return Fraction(self.domain.minimum) + Fraction(position, self.resolution) * self._exact_width

    @property
    def _exact_width(self) -> Fraction:
        return Fraction(self.domain.maximum) - Fraction(self.domain.minimum)

    def debias(self, payload: int) -> Fraction:
        """Return the report's unbiased estimate of the value."""
        return Fraction(self.domain.minimum) + self.debiased_share(payload) * Fraction(self.domain.width)

    def variance(self, value: Any) -> Fraction:
        """Return the exact variance of `debias` over the reports of `value`."""
        share = Fraction(self.position(value), self.resolution)
        return self.share_variance(share) * Fraction(self.domain.width) ** 2


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
    server: ClassVar[str] = "analysis.support.numbers:EndsSupport"

    @cached_property
    def channel(self) -> SymbolChannel:
        """P(reported end | rounded end)."""
        return SymbolChannel.of(2, epsilon=self.epsilon)

    @property
    def payload_bits(self) -> int:
        """One bit."""
        return 1

    @property
    def report_groups(self) -> tuple[tuple[float, int], ...]:
        """Both ends alike, as from the middle of the range, whose reports tell most."""
        return ((1.0, 2),)

    @property
    def odds(self) -> Fraction:
        """The channel's: the ends of the range are never rounded, and reach it."""
        return 1 + self.channel.alpha / self.channel.other

    def draw(self, position: int, entropy: Entropy) -> int:
        """Return the bit."""
        check_symbol(position, self.resolution + 1)
        end = int(uniform_below(self.resolution, entropy) < position)
        return symbol_sampler(self.channel)(end, entropy.bits)

    def debiased_share(self, payload: int) -> Fraction:
        """Return (bit - P(1|0)) / alpha."""
        return (payload - self.channel.other) / self.channel.alpha

    def share_variance(self, share: Fraction) -> Fraction:
        """Return P(1) (1 - P(1)) / alpha**2."""
        one = self.channel.other + self.channel.alpha * share
        return one * (1 - one) / self.channel.alpha**2

    def thresholds(self) -> dict[str, Any]:
        """Return alpha's threshold."""
        return {"threshold": int(self.channel.alpha * ONE)}


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
    server: ClassVar[str] = "analysis.support.numbers:MeanSupport"

    @cached_property
    def channel(self) -> WindowChannel:
        """P(cell | position)."""
        window = max(1, round(self.resolution * math.exp(-self.epsilon / 2)))
        return WindowChannel.of(self.resolution + 1, window, epsilon=self.epsilon)

    @property
    def payload_bits(self) -> int:
        """A cell's width."""
        return (self.channel.num_cells - 1).bit_length()

    @property
    def payload_limit(self) -> int:
        """The number of cells."""
        return self.channel.num_cells

    @property
    def report_groups(self) -> tuple[tuple[float, int], ...]:
        """The cells of the window, and the others."""
        return self.channel.groups

    @property
    def odds(self) -> Fraction:
        """The channel's."""
        return self.channel.odds

    def draw(self, position: int, entropy: Entropy) -> int:
        """Return a cell."""
        return self.channel.draw(position, entropy)

    def debiased_share(self, payload: int) -> Fraction:
        """Return the position that the cell speaks for, as a share."""
        return self.channel.debias(Fraction(payload)) / self.resolution

    def share_variance(self, share: Fraction) -> Fraction:
        """Return the channel's variance, in shares."""
        return self.channel.variance(share * self.resolution) / (self.channel.alpha * self.resolution) ** 2

    def thresholds(self) -> dict[str, Any]:
        """Return the window's width and alpha's threshold."""
        return {"window": self.channel.window, "threshold": self.channel.threshold}


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
    server: ClassVar[str] = "analysis.support.numbers:HybridSupport"

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

    @property
    def payload_bits(self) -> int:
        """One more than Piecewise's."""
        return 1 + self.piecewise.payload_bits

    @property
    def payload_limit(self) -> int:
        """Twice Piecewise's."""
        return 2 * self.piecewise.payload_limit

    def valid(self, payload: int) -> bool:
        """Whether a branch can have this payload."""
        branch = self.piecewise if payload & 1 else self.duchi
        return branch.valid(payload >> 1)

    @property
    def report_groups(self) -> tuple[tuple[float, int], ...]:
        """Those of both branches, each with its branch's probability."""
        share = self.piecewise_threshold / ONE
        branches = (share, self.piecewise.report_groups), (1 - share, self.duchi.report_groups)
        return tuple((weight * chance, size) for weight, groups in branches for chance, size in groups)

    @property
    def odds(self) -> Fraction:
        """The larger of the two; Duchi's where it is alone."""
        return max(self.duchi.odds, self.piecewise.odds) if self.piecewise_threshold else self.duchi.odds

    def draw(self, position: int, entropy: Entropy) -> int:
        """Return the branch's payload, shifted by one, and the branch."""
        if entropy.bits(THRESHOLD_BITS) < self.piecewise_threshold:
            return self.piecewise.draw(position, entropy) << 1 | 1
        return self.duchi.draw(position, entropy) << 1

    def debiased_share(self, payload: int) -> Fraction:
        """Return the branch's own estimate."""
        branch = self.piecewise if payload & 1 else self.duchi
        return branch.debiased_share(payload >> 1)

    def share_variance(self, share: Fraction) -> Fraction:
        """Return the average of the branches'."""
        weight = Fraction(self.piecewise_threshold, ONE)
        return weight * self.piecewise.share_variance(share) + (1 - weight) * self.duchi.share_variance(share)

    def thresholds(self) -> dict[str, Any]:
        """Return both branches' integers, and the choice's."""
        branches = {"duchi": self.duchi.thresholds(), "piecewise": self.piecewise.thresholds()}
        return {"threshold": self.piecewise_threshold, **branches}


def _builder(kind: type[MeanRandomizer]) -> Callable[..., MeanRandomizer]:
    def build(
        *,
        epsilon: float,
        minimum: float = -1.0,
        maximum: float = 1.0,
        outside: Literal["clamp", "reject"] = "clamp",
        resolution: int = MeanRandomizer.resolution,
    ) -> MeanRandomizer:
        return kind(epsilon, Interval(minimum, maximum, outside), resolution)

    build.__doc__ = kind.__doc__
    return build


duchi, piecewise, hybrid = _builder(Duchi), _builder(Piecewise), _builder(Hybrid)
