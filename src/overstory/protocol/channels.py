"""Probabilities as integers over 2**32, and the small stochastic matrices that every mechanism is made of.

A floating-point comparison must never decide a bit (Mironov 2012 shows what leaks through the least significant
ones), so a probability is the integer `threshold` in ``0 .. 2**32``, and everything said about a mechanism, its
epsilon and its debiasing, is computed from those very integers. Logarithms err towards privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from overstory.protocol.errors import ParameterError

THRESHOLD_BITS: Final = 32
ONE: Final = 1 << THRESHOLD_BITS

# A hundred digits: the error of a logarithm is then smaller, by eighty orders, than the last place of a float.
# The exponents are as wide as they go: a probability to the power of a million reports must not vanish.
_PRECISE: Final = Context(prec=100, Emin=MIN_EMIN, Emax=MAX_EMAX)
_SLACK: Final = Decimal("1e-90")


_NUMBER: Final = int | float | Fraction


def check_probability(name: str, value: float | Fraction) -> Fraction:
    """Return `value` as the exact fraction it is, or say that it is no probability."""
    if not isinstance(value, _NUMBER) or isinstance(value, bool) or not 0 <= value <= 1:
        raise ParameterError(f"{name} = {value!r} is not a probability: give a number from 0 to 1")
    return Fraction(value)


def log_ratio(numerator: Fraction | Decimal, denominator: Fraction | Decimal) -> Decimal:
    """ln(numerator / denominator) to a hundred digits; infinite when only the denominator is 0."""
    over, under = as_decimal(numerator), as_decimal(denominator)
    if over == under:
        return Decimal(0)
    if under == 0:
        return Decimal("Infinity")
    if over == 0:
        return Decimal("-Infinity")
    return _logarithm(_PRECISE.divide(over, under))


@lru_cache(maxsize=1024)
def _logarithm(ratio: Decimal) -> Decimal:
    """Return a natural logarithm; a registry's metrics have few different ones."""
    return _PRECISE.ln(ratio)


def power(base: Fraction | Decimal, exponent: int) -> Decimal:
    """base ** exponent to a hundred digits, so that n reports cost the same for every n."""
    return _PRECISE.power(as_decimal(base), exponent) if exponent else Decimal(1)


def mix(share: Fraction, first: Decimal, second: Decimal) -> Decimal:
    """share * first + (1 - share) * second, to a hundred digits."""
    left = _PRECISE.multiply(as_decimal(share), first)
    return _PRECISE.add(left, _PRECISE.multiply(as_decimal(1 - share), second))


def weighted_sum(terms: Iterable[tuple[int, Decimal]]) -> Decimal:
    """Sum of times * loss to a hundred digits (Python's operators keep 28); a loss taken 0 times may be infinite."""
    total = Decimal(0)
    for times, loss in terms:
        if times:
            total = _PRECISE.add(total, _PRECISE.multiply(Decimal(times), loss))
    return total


def round_up(exact: Decimal) -> float:
    """Return the smallest float that is not below `exact`: a stated epsilon is never too small."""
    if not exact.is_finite():
        return float(exact)
    bound = _PRECISE.add(exact, _PRECISE.multiply(_PRECISE.abs(exact), _SLACK))
    near = float(bound)
    return near if Decimal(near) >= bound else math.nextafter(near, math.inf)


def as_decimal(value: Fraction | Decimal) -> Decimal:
    """Return a number to a hundred digits."""
    if isinstance(value, Decimal):
        return value
    return _PRECISE.divide(Decimal(value.numerator), Decimal(value.denominator))


MAX_EPSILON: Final = 700  # of a symbol's channel: a float holds its exponential


@dataclass(frozen=True)
class BinaryChannel:
    """A 2 x 2 channel on one bit."""

    keep_one: Fraction
    raise_zero: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "keep_one", check_probability("keep_one", self.keep_one))
        object.__setattr__(self, "raise_zero", check_probability("raise_zero", self.raise_zero))

    @classmethod
    def of(cls, keep_one: float | Fraction, raise_zero: float | Fraction) -> BinaryChannel:
        """Build the channel on the 2**-32 grid, each probability rounded towards the other: towards privacy."""
        keep, raised = check_probability("keep_one", keep_one), check_probability("raise_zero", raise_zero)
        lower, upper = math.ceil(min(keep, raised) * ONE), math.floor(max(keep, raised) * ONE)
        upper = max(lower, upper)  # too close for the grid: nothing is left to learn
        grid = (upper, lower) if keep >= raised else (lower, upper)
        return cls(Fraction(grid[0], ONE), Fraction(grid[1], ONE))

    @classmethod
    def identity(cls) -> BinaryChannel:
        return cls(Fraction(1), Fraction(0))

    @property
    def is_identity(self) -> bool:
        return self.keep_one == 1 and self.raise_zero == 0

    @cached_property
    def thresholds(self) -> tuple[int, int]:
        """(keep_one, raise_zero) over 2**32, the integers a device compares with."""
        scaled = (self.keep_one * ONE, self.raise_zero * ONE)
        if any(x.denominator != 1 for x in scaled):
            raise ParameterError("this channel is not on the 2**-32 grid: sample the rounds it is composed of")
        return int(scaled[0]), int(scaled[1])

    def then(self, later: BinaryChannel) -> BinaryChannel:
        span = later.keep_one - later.raise_zero
        return BinaryChannel(later.raise_zero + span * self.keep_one, later.raise_zero + span * self.raise_zero)

    @property
    def span(self) -> Fraction:
        """P(1|1) - P(1|0): what is left of the signal, and the divisor when debiasing."""
        return self.keep_one - self.raise_zero

    @cached_property
    def epsilon(self) -> float:
        """Worst log ratio between two one-hot vectors (one bit lowered, one raised), rounded up."""
        return Rounds(self, BinaryChannel.identity()).epsilon(((1, 1),))


@dataclass(frozen=True)
class Rounds:
    """A permanent channel whose output is memoized, and an instantaneous one drawn afresh for every report.

    The permanent bit is drawn once, so n reports of a bit that was 1 follow ``keep_one Bin(n, P) + (1 - keep_one)
    Bin(n, Q)``. The likelihood ratio of two such mixtures is monotone in the number of ones, so its extremes are at
    all ones and all zeros. (The RAPPOR paper, section 3.2, says that this cannot be computed; the proof is in
    docs/explanation/privacy.md.)
    """

    permanent: BinaryChannel
    instantaneous: BinaryChannel

    @cached_property
    def combined(self) -> BinaryChannel:
        """The channel of one report: P(report bit | true bit)."""
        return self.permanent.then(self.instantaneous)

    def losses(self, reports: int = 1) -> tuple[Decimal, Decimal]:
        """Worst log ratio of `reports` reports of one bit: (was 1 against was 0, was 0 against was 1)."""
        if not isinstance(reports, int) or isinstance(reports, bool) or reports < 1:
            raise ParameterError(f"reports = {reports!r}: give a whole number, at least 1")
        return self._losses_of_one if reports == 1 else self._losses(reports)

    @cached_property
    def _losses_of_one(self) -> tuple[Decimal, Decimal]:
        return self._losses(1)

    def _losses(self, reports: int) -> tuple[Decimal, Decimal]:
        later = self.instantaneous
        ones = power(later.keep_one, reports), power(later.raise_zero, reports)
        zeros = power(1 - later.keep_one, reports), power(1 - later.raise_zero, reports)
        extremes = [
            (mix(self.permanent.keep_one, *seen), mix(self.permanent.raise_zero, *seen)) for seen in (ones, zeros)
        ]
        # Both ways round by a logarithm of their own: a minus sign would round to Python's 28 digits.
        return max(log_ratio(lit, unlit) for lit, unlit in extremes), max(log_ratio(b, a) for a, b in extremes)

    def epsilon(self, differences: Differences, *, reports: int = 1) -> float:
        return worst(tuple(differences), *self.losses(reports))

    def epsilon_permanent(self, differences: Differences) -> float:
        """Epsilon of any number of reports of one memoized value: of seeing the permanent response itself."""
        return worst(tuple(differences), *self._permanent_losses)

    @cached_property
    def _permanent_losses(self) -> tuple[Decimal, Decimal]:
        return Rounds(self.permanent, BinaryChannel.identity()).losses()


# How far two encodings can be apart: pairs (ones lowered, zeros raised).
Differences = tuple[tuple[int, int], ...] | list[tuple[int, int]]


@lru_cache(maxsize=256)
def worst(differences: tuple[tuple[int, int], ...], one_loss: Decimal, zero_loss: Decimal) -> float:
    """Return the largest total loss over `differences`, bits being independent; rounded up."""
    pairs = [((lowered, one_loss), (raised, zero_loss)) for lowered, raised in differences]
    return round_up(max(weighted_sum(pair) for pair in pairs))


@dataclass(frozen=True)
class SymbolChannel:
    """A k x k channel: the symbol with probability `alpha`, else any of the k; GRR(a) then GRR(b) is GRR(ab)."""

    domain_size: int
    # probability of keeping, apart from the uniform draw; a fraction over 2**32 where it is to be sampled
    alpha: Fraction

    def __post_init__(self) -> None:
        if not isinstance(self.domain_size, int) or isinstance(self.domain_size, bool) or self.domain_size < 2:
            raise ParameterError(f"domain_size = {self.domain_size!r}: give a whole number, at least 2")
        object.__setattr__(self, "alpha", check_probability("alpha", self.alpha))

    @classmethod
    def of(cls, domain_size: int, *, epsilon: float) -> SymbolChannel:
        """k-ary randomized response, never above `epsilon`: alpha = (E - 1) / (E + k - 1), E = exp(epsilon)."""
        if not isinstance(epsilon, int | float) or isinstance(epsilon, bool) or not 0 < epsilon < MAX_EPSILON:
            raise ParameterError(f"epsilon = {epsilon!r}: give a number above 0 and below {MAX_EPSILON}")
        odds = math.exp(epsilon)
        uninformed = cls(domain_size, Fraction(0))  # says so when the domain is none
        threshold = math.floor(ONE * ((odds - 1) / (odds + uninformed.domain_size - 1)))
        channel = cls(domain_size, Fraction(min(threshold, ONE - 1), ONE))
        while channel.epsilon > epsilon:
            channel = cls(domain_size, channel.alpha - Fraction(1, ONE))
        return channel

    @cached_property
    def keep(self) -> Fraction:
        """P(y = x)."""
        return self.alpha + self.other

    @cached_property
    def other(self) -> Fraction:
        """P(y = z) for one z other than x."""
        return (1 - self.alpha) / self.domain_size

    def then(self, later: SymbolChannel) -> SymbolChannel:
        if later.domain_size != self.domain_size:
            raise ParameterError(f"a channel on {self.domain_size} symbols cannot feed one on {later.domain_size}")
        return SymbolChannel(self.domain_size, self.alpha * later.alpha)

    @cached_property
    def epsilon(self) -> float:
        """ln(P(y = x) / P(y = z)), rounded up."""
        return round_up(log_ratio(self.keep, self.other))


@dataclass(frozen=True)
class SymbolRounds:
    """A permanent channel whose symbol is memoized, and an instantaneous one drawn afresh for every report."""

    permanent: SymbolChannel
    instantaneous: SymbolChannel

    @cached_property
    def combined(self) -> SymbolChannel:
        return self.permanent.then(self.instantaneous)

    def epsilon(self, *, reports: int = 1) -> float:
        """Exact epsilon of `reports` reports of one memoized symbol, rounded up.

        The permanent symbol z is drawn once, so n reports have probability sum_z P1(z|x) prod_i P2(y_i|z). Between x
        and x' it is largest when every report is x: the ratio rises with z = x's weight and falls with all others'.
        """
        if reports < 1:
            raise ParameterError(f"reports = {reports}: at least one report is needed to lose privacy")
        seen = power(self.instantaneous.keep, reports), power(self.instantaneous.other, reports)
        return round_up(log_ratio(mix(self.permanent.keep, *seen), mix(self.permanent.other, *seen)))

    @property
    def epsilon_permanent(self) -> float:
        return self.permanent.epsilon


def set_epsilon(outputs: int, own: int, inside: Fraction) -> float:
    """Return ln((inside / c_set) / ((1 - inside) / (K - c_set))), rounded up; either way round."""
    within, without = Fraction(inside, own), Fraction(1 - inside, outputs - own)
    return round_up(log_ratio(max(within, without), min(within, without)))


def check_channel(p_star: float, q_star: float) -> None:
    """Refuse what is no channel, or a channel with an output that does not depend on its input."""
    for name, value in (("p_star", p_star), ("q_star", q_star)):
        if not 0.0 <= value <= 1.0:
            raise ParameterError(f"{name} is a probability, 0 to 1, not {value}")
    if p_star == q_star:
        raise ParameterError(f"p_star = q_star = {p_star}: such reports say nothing about the values")


def check_reports_per_device(number: float) -> float:
    """Return the number, or raise ParameterError unless it is finite and at least 1."""
    if isinstance(number, bool) or not math.isfinite(number) or number < 1:
        raise ParameterError(
            f"reports_per_device = {number!r}: give a number of at least 1; for uneven numbers of reports their sum of "
            "squares over their sum"
        )
    return float(number)


class Influence(NamedTuple):
    """How many votes a crafted report is worth: how far it raises or lowers the count of a value that it aims at."""

    up: float
    down: float

    @property
    def one_percent(self) -> float:
        """By how much 1% of the reports, all of them crafted, raise a value's share."""
        return 0.01 * self.up

    def to_json(self) -> dict[str, float]:
        return {"up": self.up, "down": self.down, "one_percent": self.one_percent}
