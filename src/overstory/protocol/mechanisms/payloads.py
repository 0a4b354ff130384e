"""Mechanisms by their payload: an encoding into a vector of bits, or into one symbol, and two rounds of noise.

One symbol is the report of GRR, local hashing, Hadamard response, the lecture's matrix, and their chains.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from overstory.protocol.channels import ONE, BinaryChannel, Rounds, SymbolChannel, SymbolRounds
from overstory.protocol.encodings.base import Encoding, bits_at, check_cohort, encode, whole_number
from overstory.protocol.mechanisms.base import LocalRandomizer, Mechanism, Report
from overstory.protocol.permanent_response import (
    GoogleClientPermanence,
    GooglePermanence,
    Permanence,
)
from overstory.protocol.sampling import Draw, Entropy, bit_sampler, context, symbol_sampler, uniform_below

if TYPE_CHECKING:
    from overstory.protocol.encodings.base import OutputEncoding, SymbolEncoding

_NOTHING: Final = b"nothing"  # after a digest's 16 bytes: no mechanism has this digest


@dataclass(frozen=True)
class BitMechanism(Mechanism):
    """Encode a value as bits, randomize them permanently, randomize that afresh for every report."""

    name: str
    parameters: Mapping[str, Any] = field(hash=False)
    encoding: Encoding
    rounds: Rounds  # either channel may be the identity
    permanence: Permanence = field(default_factory=Permanence, compare=False, repr=False)

    payload: ClassVar[str] = "bits"
    terms_place: ClassVar[str] = "privacy.payloads.bits:BitTerms"

    @property
    def payload_bits(self) -> int:
        return self.encoding.num_bits

    @property
    def payload_limit(self) -> int:
        return 1 << self.encoding.num_bits

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

    @property
    def repeats(self) -> bool:
        return self.rounds.instantaneous.is_identity

    @cached_property
    def epsilon_permanent(self) -> float:
        return self.rounds.epsilon_permanent(self.encoding.differences)

    def epsilon_n(self, reports: int) -> float:
        return self.rounds.epsilon(self.encoding.differences, reports=whole_number(reports))

    @property
    def odds(self) -> Fraction:
        keep, low = self.channel.keep_one, self.channel.raise_zero
        one, zero = keep / low, (1 - low) / (1 - keep)
        return max(one**lowered * zero**raised for lowered, raised in self.encoding.differences)

    @property
    def permanent_support(self) -> tuple[float, float, float]:
        """See `Mechanism.permanent_support`: of one of the value's own bits, and of any other."""
        first = self.rounds.permanent
        return float(first.keep_one), float(first.raise_zero), float(self.rounds.instantaneous.span)

    def encode(self, value: Any, cohort: int) -> int:
        return encode(self.encoding, value, cohort)

    def held(self, value: Any, cohort: int) -> int:
        return self.encode(value, cohort)

    def likelihood(self, report: Report, value: Any) -> Fraction:
        """P(these bits | value): each bit by itself."""
        true, every = self.encode(value, report.cohort), self.payload_limit - 1
        likelihood = Fraction(1)
        for rate, bits in ((self.channel.keep_one, true), (self.channel.raise_zero, every ^ true)):
            ones = (bits & report.bits).bit_count()
            likelihood *= rate**ones * (1 - rate) ** (bits.bit_count() - ones)
        return likelihood

    def supports(self, report: Report, value: Any) -> bool:
        """Whether the report was asked for the value, and all of the value's bits are set in it."""
        bits = self.encode(value, report.cohort)
        return bits != 0 and report.bits & bits == bits

    def responder(self, secret: bytes, metric: str, cohort: int) -> Callable[[Any], int]:
        check_cohort(cohort, self.encoding.num_cohorts)
        permanent, positions = self.rounds.permanent, self.encoding.positions
        if permanent.is_identity:
            return lambda value: bits_at(positions(value, cohort))
        about = context(metric, self.digest, cohort)
        respond = self.permanence.responder(permanent, self.encoding.num_bits, secret, about)
        return lambda value: respond(_as_bytes(value), bits_at(positions(value, cohort)))

    def response_key(self, value: Any, cohort: int) -> Hashable:
        """Return the value, or its true bits, where the derivation takes nothing but these (`Permanence.by_bits`)."""
        key: Hashable = self.encode(value, cohort) if self.permanence.by_bits else value
        return key

    def nothing(self, secret: bytes, metric: str, cohort: int) -> int:
        """Return the permanent bits of the encoding of nothing; see `LocalRandomizer.nothing`."""
        check_cohort(cohort, self.num_cohorts)
        permanent, bits = self.rounds.permanent, self.encoding.nothing
        if permanent.is_identity:
            return bits
        about = context(metric, self.digest + _NOTHING, cohort)
        return self.permanence.responder(permanent, self.encoding.num_bits, secret, about)(_NOTHING, bits)

    def draw(self, held: int, cohort: int, entropy: Entropy) -> int:  # noqa: ARG002 - bits are alike in all
        if self.rounds.permanent.is_identity:
            return held
        return bit_sampler(self.rounds.permanent, self.encoding.num_bits)(held, entropy.bits)

    @cached_property
    def instantaneous(self) -> Draw:
        """The function (permanent response, random_bits) -> the bits of a fresh report."""
        if self.rounds.instantaneous.is_identity:
            return lambda permanent, random_bits: permanent  # noqa: ARG005 - one round draws nothing afresh
        return bit_sampler(self.rounds.instantaneous, self.encoding.num_bits)

    def payload_words(self, payload: int, labels: Sequence[str] = ()) -> str:  # noqa: ARG002 - several bits may be 1
        ones, size = payload.bit_count(), self.payload_bits
        return f"{ones} of {size:,} bit{'s' * (size != 1)} {'is' if ones == 1 else 'are'} 1"

    def compared_words(self, before: int, after: int) -> str:
        changed = (before ^ after).bit_count()
        return f"{changed} of them {'differs' if changed == 1 else 'differ'} from"

    def canonical(self) -> dict[str, Any]:
        thresholds = [list(c.thresholds) for c in (self.rounds.permanent, self.rounds.instantaneous)]
        return {"name": self.name, "thresholds": thresholds, **self.encoding.canonical()}


def as_googles_client(mechanism: LocalRandomizer) -> LocalRandomizer:
    """Return the mechanism with the very permanent round of Google's client, where it has one like it.

    Files of Google's tools are written so. Never a device's metrics: they would share their noise.
    """
    if not isinstance(getattr(mechanism, "permanence", None), GooglePermanence):
        return mechanism
    return replace(cast("BitMechanism", mechanism), permanence=GoogleClientPermanence())


def _as_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    # An enumeration's member is its number: its own text changes with its class's name.
    return value if isinstance(value, bytes) else str(int(value) if isinstance(value, int) else value).encode()


class OutputMechanism(Mechanism):
    """One of K outputs: a value owns some, each of which is sent with one probability, and any other with another."""

    encoding: OutputEncoding

    @abstractmethod
    def chances(self, *, permanent: bool = False) -> tuple[Fraction, Fraction]:
        """P(one output | the value owns it, it does not), of a report or of the permanent response."""

    @property
    def payload_limit(self) -> int:
        return self.encoding.sizes[0]

    @property
    def odds(self) -> Fraction:
        keep, other = self.chances()
        return max(keep, other) / min(keep, other)

    def likelihood(self, report: Report, value: Any) -> Fraction:
        """P(this output | value): all of a value's own are alike, and all others."""
        return self.chances()[not self.supports(report, value)]

    @cached_property
    def p_star(self) -> Fraction:
        """P(the value owns the output)."""
        return self._supporting()[0]

    @cached_property
    def q_star(self) -> Fraction:
        """P(another value owns it): both do, or the noise moved there."""
        return self._supporting()[1]

    def _supporting(self, *, permanent: bool = False) -> tuple[Fraction, Fraction]:
        (keep, other), own, common = self.chances(permanent=permanent), self.encoding.sizes[1], self.encoding.collision
        return own * keep, own * (common * keep + (1 - common) * other)


@dataclass(frozen=True)
class SymbolMechanism(OutputMechanism):
    """Encode a value as a symbol, randomize it permanently, randomize that afresh for every report.

    The permanent response belongs to the *symbol*: values that share one on this device share the response (LOLOHA's
    idea), so a device has at most `num_symbols` of them.
    """

    name: str
    parameters: Mapping[str, Any] = field(hash=False)
    encoding: SymbolEncoding
    rounds: SymbolRounds  # alpha = 1 changes nothing

    payload: ClassVar[str] = "symbols"
    terms_place: ClassVar[str] = "privacy.payloads.symbols:SymbolTerms"

    def encode(self, value: Any, cohort: int) -> int:
        return self.encoding.symbol(value, cohort)

    def held(self, value: Any, cohort: int) -> int:
        return self.encoding.symbol(value, cohort)

    def chances(self, *, permanent: bool = False) -> tuple[Fraction, Fraction]:
        channel = self.rounds.permanent if permanent else self.channel
        return channel.keep, channel.other

    @property
    def channel(self) -> SymbolChannel:
        """P(reported symbol | true symbol), over both rounds."""
        return self.rounds.combined

    def epsilon_n(self, reports: int) -> float:
        return self.rounds.epsilon(reports=whole_number(reports))

    @property
    def epsilon_permanent(self) -> float:
        return self.rounds.epsilon_permanent

    @property
    def permanent_support(self) -> tuple[float, float, float]:
        """See `Mechanism.permanent_support`: another value's symbol may be the same one, over cohorts."""
        own, other = self._supporting(permanent=True)
        return float(own), float(other), float(self.rounds.instantaneous.alpha)

    @property
    def fresh(self) -> bool:
        return self.rounds.permanent.alpha == 1

    @property
    def repeats(self) -> bool:
        return self.rounds.instantaneous.alpha == 1

    def supports(self, report: Report, value: Any) -> bool:
        """Whether the reported symbol is the value's in the report's cohort."""
        return self.encoding.symbol(value, report.cohort) == report.bits

    def draw(self, held: int, cohort: int, entropy: Entropy) -> int:  # noqa: ARG002 - symbols are alike in all
        return self._permanent(held, entropy.bits)

    def draw_nothing(self, cohort: int, entropy: Entropy) -> int:  # noqa: ARG002 - the same in all
        """Return a uniform symbol: the mixture of all values' responses."""
        return uniform_below(self.encoding.num_symbols, entropy)

    @cached_property
    def _permanent(self) -> Draw:
        return symbol_sampler(self.rounds.permanent)

    @cached_property
    def instantaneous(self) -> Draw:
        return symbol_sampler(self.rounds.instantaneous)

    def payload_words(self, payload: int, labels: Sequence[str] = ()) -> str:
        if self.encoding.direct and payload < len(labels):
            return f'says "{labels[payload]}" (by chance, not necessarily yours)'
        return f"symbol {payload} of 0 .. {self.payload_limit - 1}"

    def canonical(self) -> dict[str, Any]:
        thresholds = [int(channel.alpha * ONE) for channel in (self.rounds.permanent, self.rounds.instantaneous)]
        return {"name": self.name, "thresholds": thresholds, **self.encoding.canonical()}
