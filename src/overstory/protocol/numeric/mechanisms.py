"""Randomizers of a number: for its distribution (Square Wave), or for a mean (Hybrid, of Duchi and Piecewise).

**Windows.** Square Wave and Piecewise are one channel, at other widths: from positions on a line to cells
on a line, a window around the truth being more likely than the rest. Both papers draw a real number; here the line is
cut into cells *before* anything is drawn, so that every probability is a ratio of integers and epsilon is exact:

    position s of 0 .. R - 1;   its window: the W cells s .. s + W - 1;   cells 0 .. M - 1, M = R + W - 1

    with probability alpha a uniform cell of the window, otherwise a uniform cell of all M.

So P(c | s) is alpha / W + (1 - alpha) / M inside the window and (1 - alpha) / M outside. Two windows always differ
in some cell, hence epsilon = ln(1 + alpha M / (W (1 - alpha))), exactly, for any R > 1. No real number is ever drawn.

Square Wave makes a number a nearby number, so that the collector can draw the distribution:
Li, Wang, Lopuhaa-Zwakenberg, Li and Skoric, "Estimating numerical distributions under local differential privacy",
SIGMOD 2020, section 5, in the discrete form of its section 5.4.

**Means.** Each report is by itself an unbiased estimate of the value; the mean of n reports estimates that of n people.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from overstory.protocol.channels import ONE, THRESHOLD_BITS, SymbolChannel, check_probability, log_ratio, round_up
from overstory.protocol.domains.numbers import Interval
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Kind, Report, check_count, check_symbol, outward
from overstory.protocol.sampling import Entropy, symbol_sampler, uniform_below

MAX_RESOLUTION = 1 << 32


def check_numeric_epsilon(epsilon: float) -> float:
    """Return `epsilon` from 0.001 (the window is lost in rounding below) to 20 (2**-32 is too coarse above)."""
    if not isinstance(epsilon, int | float) or isinstance(epsilon, bool) or not 0.001 <= epsilon <= 20:
        raise ParameterError(f"epsilon = {epsilon!r}: give a number from 0.001 to 20")
    return float(epsilon)


@dataclass(frozen=True)
class NumericRandomizer(Kind):
    """The device's half of a numeric collection: one round, whose response is sent as it is.

    A value becomes a whole number, its *position*, before anything is drawn; this is the only rounding there is, and
    it happens before privacy begins. What is drawn depends on the position alone, through exact integer thresholds.

    Raises
    ------
    ParameterError
        When epsilon is not from 0.001 to 20, or the resolution not from 2 to 2**32.

    Examples
    --------
    >>> from overstory.protocol.numeric import SquareWave
    >>> isinstance(SquareWave(1.0), NumericRandomizer)
    True
    """

    epsilon: float  # the wish; `epsilon_report` is what the thresholds give, never above it
    domain: Interval = field(default=Interval(0, 1))  # the range of values; values outside are clamped or rejected
    resolution: int = 1 << 16  # how finely the range is divided

    num_cohorts = 1
    payload: ClassVar[str] = "numbers"
    terms_place: ClassVar[str] = "privacy.payloads.symbols:NumberTerms"
    middle: ClassVar[Fraction] = Fraction(0)  # where in its position's step a position's own value lies

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_numeric_epsilon(self.epsilon))
        check_count("resolution", self.resolution, 2, MAX_RESOLUTION)

    if TYPE_CHECKING:

        @property
        def channel(self) -> WindowChannel | EndsChannel | EitherChannel:
            """P(payload | position)."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What `registry.numeric` builds it from."""
        limits = {"minimum": self.domain.minimum, "maximum": self.domain.maximum, "outside": self.domain.outside}
        return {"epsilon": self.epsilon, **limits, "resolution": self.resolution}

    @property
    def domain_size(self) -> int:
        """How many values there are: the positions."""
        return self.channel.num_positions

    @property
    def payload_limit(self) -> int:
        return self.channel.num_cells

    @property
    def odds(self) -> Fraction:
        return self.channel.odds

    def position(self, value: Any) -> int:
        """Return the position of `value`.

        Raises
        ------
        ParameterError
            When it is no finite number, or is outside a domain that rejects such values.
        """
        step = self.domain.share(value) * self.resolution + Fraction(1, 2) - self.middle
        return min(math.floor(step), self.domain_size - 1)

    def value_at(self, position: int) -> Fraction:
        """Return a value that has the position: the middle of those that do."""
        low, high = Fraction(self.domain.minimum), Fraction(self.domain.maximum)
        return low + (position + self.middle) / self.resolution * (high - low)

    def held(self, value: Any, cohort: int) -> int:  # noqa: ARG002 - one cohort
        return self.position(value)

    def draw(self, held: int, cohort: int, entropy: Entropy) -> int:  # noqa: ARG002 - one cohort
        return self.channel.draw(check_symbol(held, self.domain_size), entropy)

    def draw_nothing(self, cohort: int, entropy: Entropy) -> int:
        """Return the response to a uniform position: the mixture of all responses."""
        return self.draw(uniform_below(self.domain_size, entropy), cohort, entropy)

    def likelihood(self, report: Report, value: Any) -> Fraction:
        return self.channel.probability(report.bits, self.position(value))

    def debias(self, payload: int) -> Fraction:
        """Return the report's unbiased estimate of the value: its mean over reports is the value at its position.

        Where positions are pieces of the range, that is the middle of the piece that owns the value.
        """
        share = (self.channel.debias(Fraction(payload)) + self.middle) / self.resolution
        return Fraction(self.domain.minimum) + share * Fraction(self.domain.width)

    def variance(self, value: Any) -> Fraction:
        """Return the exact variance of `debias` over the reports of `value`."""
        spread = self.channel.spread(Fraction(self.position(value)))
        return spread * (Fraction(self.domain.width) / self.resolution) ** 2

    def payload_words(self, payload: int, labels: Sequence[str] = ()) -> str:  # noqa: ARG002 - numbers have no labels
        return f"output {payload}, which counts as {float(self.debias(payload)):.4g}"

    def neighbours(self, value: Any, steps: int) -> Iterator[Fraction]:
        yield from map(self.value_at, outward(self.position(value), self.domain_size, steps))

    def canonical(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "resolution": self.resolution,
            **self.channel.thresholds(),
            **self.domain.canonical(),
        }


def builder(kind: type[NumericRandomizer]) -> Callable[..., NumericRandomizer]:
    """Return what builds randomizers of a kind from a registry's parameters."""

    def build(
        *,
        epsilon: float,
        minimum: float = kind.domain.minimum,
        maximum: float = kind.domain.maximum,
        outside: Literal["clamp", "reject"] = "clamp",
        resolution: int = kind.resolution,
    ) -> NumericRandomizer:
        return kind(epsilon, Interval(minimum, maximum, outside), resolution)

    build.__doc__ = kind.__doc__
    return build


@dataclass(frozen=True)
class WindowChannel:
    """The channel above; those of means answer the same questions of positions and payloads."""

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
        """M: every payload is a number below this."""
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
        """Inside / outside: exp(epsilon), the largest ratio of a payload's probabilities under two positions."""
        return self.inside / self.outside

    @property
    def groups(self) -> tuple[tuple[float, int], ...]:
        """Payloads of one position that are equally likely: the probability of each group, and how many there are."""
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

    def debias(self, cell: Fraction) -> Fraction:
        """Return the position whose mean cell this is: the mean rises by alpha a position."""
        if not self.alpha:
            raise ParameterError("alpha = 0: the report does not depend on the value, and nothing can be learned")
        of_the_first = (self.alpha * (self.window - 1) + (1 - self.alpha) * (self.num_cells - 1)) / 2
        return (cell - of_the_first) / self.alpha

    def spread(self, position: Fraction) -> Fraction:
        """Return a mixture's variance, from the two uniform laws' means and variances, over alpha squared."""
        apart = position + Fraction(self.window - self.num_cells, 2)
        within = (self.alpha * (self.window**2 - 1) + (1 - self.alpha) * (self.num_cells**2 - 1)) / 12
        return (within + self.alpha * (1 - self.alpha) * apart**2) / self.alpha**2

    def thresholds(self) -> dict[str, Any]:
        """Return the integers that decide what a report means, as JSON values."""
        return {"window": self.window, "threshold": self.threshold}


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


@dataclass(frozen=True)
class EndsChannel:
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
class EitherChannel:
    """Piecewise's channel or Duchi's, drawn without looking at the position; the lowest bit says which (1: Piecewise).

    The mean of each is the position, so the variance is the average of theirs.
    """

    threshold: int  # over 2**32, of Piecewise
    piecewise: WindowChannel
    duchi: EndsChannel

    @property
    def _weighted(self) -> tuple[tuple[Fraction, WindowChannel | EndsChannel], ...]:
        weight = Fraction(self.threshold, ONE)
        return (1 - weight, self.duchi), (weight, self.piecewise)

    @property
    def num_positions(self) -> int:
        return self.piecewise.num_positions

    @property
    def num_cells(self) -> int:
        return 2 * max(self.piecewise.num_cells, self.duchi.num_cells)

    @property
    def odds(self) -> Fraction:
        return max(branch.odds for _, branch in self._weighted)

    @property
    def groups(self) -> tuple[tuple[float, int], ...]:
        return tuple(
            (float(weight) * chance, size) for weight, branch in self._weighted for chance, size in branch.groups
        )

    def probability(self, cell: int, position: int) -> Fraction:
        weight, branch = self._weighted[cell & 1]
        return weight * branch.probability(cell >> 1, position)

    def draw(self, position: int, entropy: Entropy) -> int:
        if entropy.bits(THRESHOLD_BITS) < self.threshold:
            return self.piecewise.draw(position, entropy) << 1 | 1
        return self.duchi.draw(position, entropy) << 1

    def debias(self, cell: Fraction) -> Fraction:
        return self._weighted[int(cell) & 1][1].debias(Fraction(int(cell) >> 1))

    def spread(self, position: Fraction) -> Fraction:
        return sum((weight * branch.spread(position) for weight, branch in self._weighted), Fraction(0))

    def thresholds(self) -> dict[str, Any]:
        branches = {"duchi": self.duchi.thresholds(), "piecewise": self.piecewise.thresholds()}
        return {"threshold": self.threshold, **branches}


# Up to here Duchi's mechanism alone has the smallest worst-case variance (Wang et al. 2019, section III-C).
DUCHI_ALONE = 0.61


@dataclass(frozen=True)
class Hybrid(NumericRandomizer):
    """Piecewise with probability 1 - e^(-eps/2), otherwise Duchi; up to epsilon 0.61 always Duchi, in one bit.

    *Duchi* rounds the value at random to one of the two ends, and sends that bit by randomized response. *Piecewise*
    sends a cell of a window that slides with the value, or any cell: Square Wave's channel at another width. The
    paper's window has width C - 1 on outputs -C .. C, C = (e^(eps/2) + 1) / (e^(eps/2) - 1): a share e^(-eps/2) of the
    way that it slides. So W = round(resolution e^(-eps/2)) cells, one position a cell.

    Both have the whole epsilon, and both ends of the range are positions.

    Examples
    --------
    >>> hybrid = Hybrid(1.0)
    >>> round(float(hybrid.variance(0)), 4), round(float(hybrid.variance(1)), 4)
    (4.289, 4.289)
    """

    domain: Interval = field(default=Interval(-1, 1))
    resolution: int = 1 << 20

    name = "hybrid"
    reading: ClassVar[str] = "mean"
    server: ClassVar[str] = "analysis.kinds.numbers:MeanSupport"

    @cached_property
    def channel(self) -> EitherChannel | EndsChannel:
        """P(payload | position)."""
        duchi = EndsChannel(self.resolution, SymbolChannel.of(2, epsilon=self.epsilon))
        if self.epsilon <= DUCHI_ALONE:
            return duchi
        threshold = round(-math.expm1(-self.epsilon / 2) * ONE)
        window = max(1, round(self.resolution * math.exp(-self.epsilon / 2)))
        return EitherChannel(threshold, WindowChannel.of(self.resolution + 1, window, epsilon=self.epsilon), duchi)

    def valid(self, payload: int) -> bool:
        channel = self.channel
        if isinstance(channel, EndsChannel):
            return super().valid(payload)
        branch = channel.piecewise if payload & 1 else channel.duchi
        return 0 <= payload >> 1 < branch.num_cells


hybrid = builder(Hybrid)
