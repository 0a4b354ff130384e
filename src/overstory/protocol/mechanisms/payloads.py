"""Mechanisms by their payload: an encoding into a vector of bits, or into one symbol, and two rounds of noise.

One symbol is the report of GRR, local hashing, Hadamard response, the lecture's matrix, and their chains.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Final

from overstory.protocol.channels import ONE, BinaryChannel, Rounds, SymbolChannel, SymbolRounds
from overstory.protocol.encodings.base import Encoding, bits_at, check_cohort, encode, whole_number
from overstory.protocol.encodings.symbols import SymbolEncoding
from overstory.protocol.mechanisms.base import LocalRandomizer, Mechanism, Report
from overstory.protocol.permanent_response import (
    GoogleClientPermanence,
    GooglePermanence,
    KeyedPermanence,
    Permanence,
    ResponseContext,
)
from overstory.protocol.sampling import (
    Draw,
    Entropy,
    KeyedEntropy,
    bit_sampler,
    check_secret,
    context,
    symbol_sampler,
    uniform_below,
)

_NOTHING: Final = b"nothing"  # after a digest's 16 bytes: no mechanism has this digest


@dataclass(frozen=True)
class BitMechanism(Mechanism):
    """Encode a value as bits, randomize them permanently, randomize that afresh for every report."""

    name: str
    parameters: Mapping[str, Any] = field(hash=False)
    encoding: Encoding
    rounds: Rounds  # either channel may be the identity
    permanence: Permanence = field(default_factory=KeyedPermanence, compare=False, repr=False)

    payload: ClassVar[str] = "bits"

    @property
    def payload_bits(self) -> int:
        return self.encoding.num_bits

    @property
    def p_star(self) -> Fraction:
        """P(a report's bit is 1 | the value sets it)."""
        return self.channel.keep_one

    @property
    def q_star(self) -> Fraction:
        """P(a report's bit is 1 | the value does not)."""
        return self.channel.raise_zero

    @property
    def channel(self) -> BinaryChannel:
        """P(report bit | true bit): RAPPOR's q* is its `keep_one`, RAPPOR's p* its `raise_zero`."""
        return self.rounds.combined

    @property
    def fresh(self) -> bool:
        return self.rounds.permanent.is_identity

    @cached_property
    def epsilon_permanent(self) -> float:
        return self.rounds.epsilon_permanent(self.encoding.differences)

    def epsilon_n(self, reports: int) -> float:
        return self.rounds.epsilon(self.encoding.differences, reports=whole_number(reports))

    @property
    def permanent_support(self) -> tuple[float, float, float]:
        """See `Mechanism.permanent_support`: of one of the value's own bits, and of any other."""
        first = self.rounds.permanent
        return float(first.keep_one), float(first.raise_zero), float(self.rounds.instantaneous.span)

    def encode(self, value: Any, cohort: int) -> int:
        return encode(self.encoding, value, cohort)

    def likelihood(self, report: Report, value: Any) -> Fraction:
        """P(these bits | value): each bit by itself."""
        true, every = self.encode(value, report.cohort), self.payload_limit - 1
        likelihood = Fraction(1)
        for rate, bits in ((self.channel.keep_one, true), (self.channel.raise_zero, every ^ true)):
            ones = (bits & report.bits).bit_count()
            likelihood *= rate**ones * (1 - rate) ** (bits.bit_count() - ones)
        return likelihood

    def supports(self, report: Report, value: Any) -> bool:
        """Whether all of the value's bits are set in the report."""
        bits = self.encode(value, report.cohort)
        return report.bits & bits == bits

    def responder(self, secret: bytes, metric: str, cohort: int) -> Callable[[Any], int]:
        check_cohort(cohort, self.encoding.num_cohorts)
        permanent, positions = self.rounds.permanent, self.encoding.positions
        if permanent.is_identity:
            return lambda value: bits_at(positions(value, cohort))
        context = ResponseContext(metric, self.digest, cohort)
        respond = self.permanence.responder(permanent, self.encoding.num_bits, secret, context)
        return lambda value: respond(_as_bytes(value), bits_at(positions(value, cohort)))

    def response_key(self, value: Any, cohort: int) -> Hashable:
        """Return the value, or its true bits, where the derivation takes nothing but these (`Permanence.by_bits`)."""
        key: Hashable = self.encode(value, cohort) if self.permanence.by_bits else value
        return key

    def nothing(self, secret: bytes, metric: str, cohort: int) -> int:
        """Return the permanent bits of the encoding of nothing; see `Mechanism.nothing`."""
        check_cohort(cohort, self.encoding.num_cohorts)
        permanent, bits = self.rounds.permanent, self.encoding.nothing
        if permanent.is_identity:
            return bits
        context = ResponseContext(metric, self.digest + _NOTHING, cohort)
        return self.permanence.responder(permanent, self.encoding.num_bits, secret, context)(_NOTHING, bits)

    @cached_property
    def instantaneous(self) -> Draw:
        """The function (permanent response, random_bits) -> the bits of a fresh report."""
        if self.rounds.instantaneous.is_identity:
            return lambda permanent, random_bits: permanent  # noqa: ARG005 - one round draws nothing afresh
        return bit_sampler(self.rounds.instantaneous, self.encoding.num_bits)

    def draw_permanent(self, value: Any, cohort: int, entropy: Entropy) -> int:
        bits = self.encode(value, cohort)
        if self.rounds.permanent.is_identity:
            return bits
        return bit_sampler(self.rounds.permanent, self.encoding.num_bits)(bits, entropy.bits)

    def canonical(self) -> dict[str, Any]:
        thresholds = [list(c.thresholds) for c in (self.rounds.permanent, self.rounds.instantaneous)]
        return {"name": self.name, "thresholds": thresholds, **self.encoding.canonical()}


def as_googles_client(mechanism: LocalRandomizer) -> LocalRandomizer:
    """Return the mechanism with the very permanent round of Google's client, where it has one like it.

    Files of Google's tools are written so. Never a device's metrics: they would share their noise.
    """
    if isinstance(mechanism, BitMechanism) and isinstance(mechanism.permanence, GooglePermanence):
        return replace(mechanism, permanence=GoogleClientPermanence())
    return mechanism


def _as_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    # An enumeration's member is its number: its own text changes with its class's name.
    return value if isinstance(value, bytes) else str(int(value) if isinstance(value, int) else value).encode()


@dataclass(frozen=True)
class SymbolMechanism(Mechanism):
    """Encode a value as a symbol, randomize it permanently, randomize that afresh for every report.

    The permanent response belongs to the *symbol*: values that share one on this device share the response (LOLOHA's
    idea), so a device has at most `num_symbols` of them.
    """

    name: str
    parameters: Mapping[str, Any] = field(hash=False)
    encoding: SymbolEncoding
    rounds: SymbolRounds  # alpha = 1 changes nothing

    payload: ClassVar[str] = "symbols"

    @property
    def payload_bits(self) -> int:
        return (self.encoding.num_symbols - 1).bit_length()

    @property
    def payload_limit(self) -> int:
        return self.encoding.num_symbols

    def encode(self, value: Any, cohort: int) -> int:
        return self.encoding.symbol(value, cohort)

    def likelihood(self, report: Report, value: Any) -> Fraction:
        """P(this symbol | value)."""
        return self.channel.keep if self.supports(report, value) else self.channel.other

    @property
    def channel(self) -> SymbolChannel:
        """P(reported symbol | true symbol), over both rounds."""
        return self.rounds.combined

    @cached_property
    def p_star(self) -> Fraction:
        """P(the reported symbol is the value's own)."""
        return self.channel.keep

    @cached_property
    def q_star(self) -> Fraction:
        """P(the reported symbol is another value's): they collide, or the channel moved there."""
        collision = self.encoding.collision
        return collision * self.channel.keep + (1 - collision) * self.channel.other

    def epsilon_n(self, reports: int) -> float:
        return self.rounds.epsilon(reports=whole_number(reports))

    @property
    def permanent_support(self) -> tuple[float, float, float]:
        """See `Mechanism.permanent_support`: another value's symbol may be the same one, over cohorts."""
        first, collision = self.rounds.permanent, float(self.encoding.collision)
        other = collision * float(first.keep) + (1 - collision) * float(first.other)
        return float(first.keep), other, float(self.rounds.instantaneous.alpha)

    @property
    def fresh(self) -> bool:
        return self.rounds.permanent.alpha == 1

    @property
    def epsilon_permanent(self) -> float:
        return self.rounds.epsilon_permanent

    def supports(self, report: Report, value: Any) -> bool:
        """Whether the reported symbol is the value's in the report's cohort."""
        return self.encoding.symbol(value, report.cohort) == report.bits

    def responder(self, secret: bytes, metric: str, cohort: int) -> Callable[[Any], int]:
        check_cohort(cohort, self.num_cohorts)
        key, about, draw = check_secret(secret), (metric, self.digest, cohort), self._permanent

        def respond(value: Any) -> int:
            symbol = self.encoding.symbol(value, cohort)
            return draw(symbol, KeyedEntropy(key, context(*about, symbol), purpose=b"permanent").bits)

        return respond

    def response_key(self, value: Any, cohort: int) -> Hashable:
        return self.encoding.symbol(value, cohort)

    def nothing(self, secret: bytes, metric: str, cohort: int) -> int:
        """Return a uniform symbol, the mixture of all values' responses; see `Mechanism.nothing`."""
        check_cohort(cohort, self.num_cohorts)
        about = context(metric, self.digest, cohort, b"nothing")  # a symbol there is a number
        return uniform_below(self.encoding.num_symbols, KeyedEntropy(check_secret(secret), about, purpose=b"permanent"))

    @cached_property
    def _permanent(self) -> Draw:
        return symbol_sampler(self.rounds.permanent)

    @cached_property
    def instantaneous(self) -> Draw:
        return symbol_sampler(self.rounds.instantaneous)

    def draw_permanent(self, value: Any, cohort: int, entropy: Entropy) -> int:
        check_cohort(cohort, self.num_cohorts)
        return self._permanent(self.encoding.symbol(value, cohort), entropy.bits)

    def canonical(self) -> dict[str, Any]:
        rounds = (self.rounds.permanent, self.rounds.instantaneous)
        return {
            "name": self.name,
            "thresholds": [int(c.alpha * ONE) for c in rounds],
            **self.encoding.canonical(),
        }
