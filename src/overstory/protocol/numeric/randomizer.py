"""A numeric randomizer: an exact channel on a range that is not cut into symbols, and a device's step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from overstory.protocol.domains.numbers import Interval
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Kind, Report, check_count, check_symbol, outward
from overstory.protocol.sampling import Entropy, uniform_below

MAX_RESOLUTION = 1 << 32


def check_numeric_epsilon(epsilon: float) -> float:
    """Return `epsilon` from 0.001 (the window is lost in rounding below) to 20 (2**-32 is too coarse above)."""
    if not isinstance(epsilon, int | float) or isinstance(epsilon, bool) or not 0.001 <= epsilon <= 20:
        raise ParameterError(f"epsilon = {epsilon!r}: give a number from 0.001 to 20")
    return float(epsilon)


class NumberChannel(ABC):
    """An exact channel from positions on a line to payloads."""

    if TYPE_CHECKING:

        @property
        def num_positions(self) -> int:
            """How many inputs there are."""

    @property
    @abstractmethod
    def num_cells(self) -> int:
        """Every payload is a number below this."""

    @property
    @abstractmethod
    def odds(self) -> Fraction:
        """The largest ratio of a payload's probabilities under two positions: exp(epsilon), exact."""

    @property
    @abstractmethod
    def groups(self) -> tuple[tuple[float, int], ...]:
        """Payloads of one position that are equally likely: the probability of each group, and how many there are."""

    def valid(self, payload: int) -> bool:
        return 0 <= payload < self.num_cells

    @abstractmethod
    def probability(self, cell: int, position: int) -> Fraction:
        """P(payload | position)."""

    @abstractmethod
    def draw(self, position: int, entropy: Entropy) -> int:
        """Return a payload drawn exactly."""

    @abstractmethod
    def debias(self, cell: Fraction) -> Fraction:
        """Return the position that a payload is an unbiased estimate of."""

    @abstractmethod
    def spread(self, position: Fraction) -> Fraction:
        """Return the exact variance of `debias`."""

    def likely_cells(self) -> tuple[int, int] | None:
        """Return how many cells are likelier than the others, all alike, and how many of both ends' are the same."""
        return None

    @abstractmethod
    def thresholds(self) -> dict[str, Any]:
        """Return the integers that decide what a report means, as JSON values."""


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
        def channel(self) -> NumberChannel:
            """P(payload | position)."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What `registry.numeric` builds it from."""
        limits = {"minimum": self.domain.minimum, "maximum": self.domain.maximum, "outside": self.domain.outside}
        return {"epsilon": self.epsilon, **limits, "resolution": self.resolution}

    @property
    def num_positions(self) -> int:
        """How many positions there are."""
        return self.channel.num_positions

    @property
    def domain_size(self) -> int:
        """How many values there are: the positions."""
        return self.num_positions

    @property
    def payload_limit(self) -> int:
        return self.channel.num_cells

    def valid(self, payload: int) -> bool:
        return self.channel.valid(payload)

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
        return min(math.floor(step), self.num_positions - 1)

    def value_at(self, position: int) -> Fraction:
        """Return a value that has the position: the middle of those that do."""
        low, high = Fraction(self.domain.minimum), Fraction(self.domain.maximum)
        return low + (position + self.middle) / self.resolution * (high - low)

    def held(self, value: Any, cohort: int) -> int:  # noqa: ARG002 - one cohort
        return self.position(value)

    def draw(self, held: int, cohort: int, entropy: Entropy) -> int:  # noqa: ARG002 - one cohort
        return self.channel.draw(check_symbol(held, self.num_positions), entropy)

    def draw_nothing(self, cohort: int, entropy: Entropy) -> int:
        """Return the response to a uniform position: the mixture of all responses."""
        return self.draw(uniform_below(self.num_positions, entropy), cohort, entropy)

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
        yield from map(self.value_at, outward(self.position(value), self.num_positions, steps))

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
