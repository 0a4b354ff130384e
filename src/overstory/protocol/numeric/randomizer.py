"""A numeric randomizer: an exact channel on a range that is not cut into symbols, and a device's step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

from overstory.protocol.channels import log_ratio, round_up
from overstory.protocol.domains.numbers import Interval
from overstory.protocol.encodings.base import check_cohort, check_count
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import LocalRandomizer, Report, outward
from overstory.protocol.sampling import Entropy, KeyedEntropy, check_secret, context, uniform_below

MAX_RESOLUTION = 1 << 32


def check_numeric_epsilon(epsilon: float) -> float:
    """Return `epsilon`, or raise ParameterError unless it is a number from 0.001 to 20.

    Below, the window's width would be lost in rounding; above, 2**-32 is too coarse for the rest's probability.
    """
    if not isinstance(epsilon, int | float) or isinstance(epsilon, bool) or not 0.001 <= epsilon <= 20:
        raise ParameterError(f"epsilon = {epsilon!r}: give a number from 0.001 to 20")
    return float(epsilon)


@dataclass(frozen=True)
class NumericRandomizer(LocalRandomizer):
    """The device's half of a numeric collection: one round, whose response is sent as it is.

    A value becomes a whole number, its *position*, before anything is drawn; this is the only rounding there is, and
    it happens before privacy begins. What is drawn depends on the position alone, through exact integer thresholds.

    Parameters
    ----------
    epsilon
        The wish; `epsilon_report` is what the thresholds give, never above it.
    domain
        The range of values; values outside are clamped or rejected.
    resolution
        How finely the range is divided.

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

    epsilon: float
    domain: Interval = field(default=Interval(0, 1))
    resolution: int = 1 << 16

    num_cohorts = 1
    payload: ClassVar[str] = "numbers"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_numeric_epsilon(self.epsilon))
        check_count("resolution", self.resolution, 2, MAX_RESOLUTION)

    @property
    def branches(self) -> tuple[NumericRandomizer, ...]:
        """What a report may be of; where there are two, the lowest bit of its payload says which."""
        return (self,)

    @property
    @abstractmethod
    def odds(self) -> Fraction:
        """The largest ratio of a report's probabilities under two positions: exp(epsilon), exact."""

    def epsilon_n(self, reports: int) -> float:  # noqa: ARG002 - one permanent response, however often it is sent
        """Exact epsilon, rounded up, of reports of one position by `responder`; n drawn afresh cost n times as much."""
        return round_up(log_ratio(self.odds, Fraction(1)))

    @property
    def epsilon_permanent(self) -> float:
        """Epsilon of any number of reports of one position by `responder`: all are the same."""
        return self.epsilon_report

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What `registry.numeric` builds it from."""
        limits = {"minimum": self.domain.minimum, "maximum": self.domain.maximum, "outside": self.domain.outside}
        return {"epsilon": self.epsilon, **limits, "resolution": self.resolution}

    @property
    @abstractmethod
    def num_positions(self) -> int:
        """How many positions there are."""

    @property
    def domain_size(self) -> int:
        """How many values there are: the positions."""
        return self.num_positions

    @property
    @abstractmethod
    def report_groups(self) -> tuple[tuple[float, int], ...]:
        """Reports of one position that are equally likely: the probability of each group, and how many there are."""

    @abstractmethod
    def position(self, value: Any) -> int:
        """Return the position of `value`.

        Raises
        ------
        ParameterError
            When it is no finite number, or is outside a domain that rejects such values.
        """

    @abstractmethod
    def draw(self, position: int, entropy: Entropy) -> int:
        """Return the payload of a report of that position."""

    @abstractmethod
    def debias(self, payload: int) -> Fraction:
        """Return the report's unbiased estimate of the value: its mean over reports is the value at its position."""

    @abstractmethod
    def variance(self, value: Any) -> Fraction:
        """Return the exact variance of `debias` over the reports of `value`."""

    @abstractmethod
    def thresholds(self) -> dict[str, Any]:
        """Return the integers that decide what a report means, as JSON values."""

    def randomize(self, value: Any, entropy: Entropy) -> Report:
        """Return one fresh report.

        Raises
        ------
        ParameterError
            When the value is not in the domain.
        """
        return Report(0, self.draw(self.position(value), entropy))

    def responder(self, secret: bytes, metric: str, cohort: int = 0) -> Callable[[Any], int]:
        """Return the function from a value to the payload that this device reports for it; see `LocalRandomizer`.

        It is a keyed function of (secret, metric, parameters, position): any number of reports of one position
        reveal what one does.
        """
        entropy = self._permanent(secret, metric, cohort)

        def respond(value: Any) -> int:
            position = self.position(value)
            return self.draw(position, entropy(position))

        return respond

    def response_key(self, value: Any, cohort: int) -> int:  # noqa: ARG002 - one cohort
        """Return the position."""
        return self.position(value)

    def neighbours(self, value: Any, steps: int) -> Iterator[Fraction]:
        """Yield the values of other positions, nearest first, up to `steps` steps away."""
        yield from map(self.value_at, outward(self.position(value), self.num_positions, steps))

    @abstractmethod
    def value_at(self, position: int) -> Fraction:
        """Return a value that has the position: the middle of those that do."""

    def nothing(self, secret: bytes, metric: str, cohort: int = 0) -> int:
        """Return the response to a uniform position, the mixture of all responses; see `LocalRandomizer.nothing`."""
        entropy = self._permanent(secret, metric, cohort)(b"nothing")  # a position there is a number
        return self.draw(uniform_below(self.num_positions, entropy), entropy)

    def _permanent(self, secret: bytes, metric: str, cohort: int) -> Callable[[int | bytes], Entropy]:
        """Return the function from a position, or nothing, to the keyed stream that its response is drawn from."""
        check_cohort(cohort, 1)
        key, about = check_secret(secret), (metric, self.digest, cohort)
        return lambda held: KeyedEntropy(key, context(*about, held), purpose=b"permanent")

    def canonical(self) -> dict[str, Any]:
        """Return all that a report's meaning and privacy depend on, as JSON values."""
        return {"name": self.name, "resolution": self.resolution, **self.thresholds(), **self.domain.canonical()}
