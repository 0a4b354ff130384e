"""Oracles that report one of several outputs: a symbol, kept or replaced by any other, in one or two rounds.

A symbol is the value itself, or its sign in a row of a public matrix; `hashes` has those that report its hash, `sets`
those whose values own sets of outputs. The cohort is public randomness: privacy does not depend on how it is chosen.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from overstory.protocol.channels import MAX_EPSILON, ONE, SymbolChannel, SymbolRounds
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import (
    MAX_SYMBOLS,
    Mechanism,
    OutputEncoding,
    Report,
    SymbolEncoding,
    check_count,
    check_epsilon,
    check_symbol,
    whole_number,
)
from overstory.protocol.kinds.calibration import check_two
from overstory.protocol.sampling import Draw, Entropy, symbol_sampler, uniform_below


@dataclass(frozen=True)
class Direct(SymbolEncoding):
    """The value is the symbol (direct encoding, GRR)."""

    domain_size: int

    form: ClassVar[tuple[str, str]] = ("encoding", "direct")
    server: ClassVar[str] = "analysis.kinds.symbols:DirectSupport"
    num_cohorts: ClassVar[int] = 1
    direct: ClassVar[bool] = True
    guessed_exactly: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count("domain_size", self.domain_size, 2, MAX_SYMBOLS)

    @property
    def num_symbols(self) -> int:
        return self.domain_size

    @property
    def holders(self) -> tuple[int, int]:
        return self.domain_size, 1

    @property
    def collision(self) -> Fraction:
        return Fraction(0)

    def symbol(self, value: Any, cohort: int) -> int:  # noqa: ARG002 - nothing is public
        return check_symbol(value, self.domain_size)


@dataclass(frozen=True)
class HadamardRow(SymbolEncoding):
    """The value's sign in a row of the Hadamard matrix: symbol 0 is +1, symbol 1 is -1."""

    domain_size: int

    form: ClassVar[tuple[str, str]] = ("encoding", "hadamard")
    server: ClassVar[str] = "analysis.kinds.symbols:HadamardSupport"

    def __post_init__(self) -> None:
        check_count("domain_size", self.domain_size, 2, MAX_SYMBOLS)

    @property
    def num_symbols(self) -> int:
        return 2

    @property
    def num_cohorts(self) -> int:
        """The matrix's order: the next power of two."""
        return 1 << (self.domain_size - 1).bit_length()

    def symbol(self, value: Any, cohort: int) -> int:
        """Return the parity of ``value & cohort`` (Sylvester's construction)."""
        return (check_symbol(value, self.domain_size) & cohort).bit_count() & 1


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
    """Encode a value as a symbol, randomize it permanently (one response a symbol), and afresh for each report."""

    encoding: SymbolEncoding
    rounds: SymbolRounds  # alpha = 1 changes nothing

    payload: ClassVar[str] = "symbols"
    terms_place: ClassVar[str] = "privacy.payloads.symbols:SymbolTerms"

    def encode(self, value: Any, cohort: int) -> int:
        return self.encoding.symbol(value, cohort)

    held = encode

    def chances(self, *, permanent: bool = False) -> tuple[Fraction, Fraction]:
        channel = self.rounds.permanent if permanent else self.channel
        return channel.keep, channel.other

    @property
    def channel(self) -> SymbolChannel:
        return self.rounds.combined

    def epsilon_n(self, reports: int) -> float:
        return self.rounds.epsilon(reports=whole_number(reports))

    @property
    def epsilon_permanent(self) -> float:
        return self.rounds.epsilon_permanent

    @property
    def permanent_support(self) -> tuple[float, float, float]:
        own, other = self._supporting(permanent=True)
        return float(own), float(other), float(self.rounds.instantaneous.alpha)

    @property
    def fresh(self) -> bool:
        return self.rounds.permanent.alpha == 1

    @property
    def repeats(self) -> bool:
        return self.rounds.instantaneous.alpha == 1

    def supports(self, report: Report, value: Any) -> bool:
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


def grr(*, domain_size: int, epsilon: float) -> SymbolMechanism:
    """Generalized randomized response: the value with e^eps / (e^eps + d - 1), else any other.

    Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency estimation", USENIX Security 2017.
    """
    return build_once("grr", dict(locals()), Direct(domain_size), epsilon)


def hadamard(*, domain_size: int, epsilon: float) -> SymbolMechanism:
    """One randomized sign of the value's Hadamard row.

    Acharya, Sun, Zhang, "Hadamard response: estimating distributions privately, efficiently, and with little
    communication", AISTATS 2019.
    """
    return build_once("hadamard", dict(locals()), HadamardRow(domain_size), epsilon)


def l_grr(*, domain_size: int, epsilon_permanent: float, epsilon_report: float) -> SymbolMechanism:
    """Longitudinal GRR: GRR memoized, then GRR afresh.

    Arcolezi, Couchot, Al Bouna, Xiao, "Improving the utility of locally differentially private protocols for
    longitudinal and multidimensional frequency estimates", Digital Communications and Networks 2022.
    """
    return build_twice("l-grr", dict(locals()), Direct(domain_size))


def build_once(name: str, parameters: dict[str, Any], encoding: SymbolEncoding, epsilon: float) -> SymbolMechanism:
    """Return one memoized round on the symbols of an encoding."""
    channel = SymbolChannel.of(encoding.num_symbols, epsilon=check_epsilon("epsilon", epsilon))
    unchanged = SymbolChannel(encoding.num_symbols, Fraction(1))
    return SymbolMechanism(name, parameters, encoding, SymbolRounds(channel, unchanged))


def check_rounds(epsilon_permanent: float, epsilon_report: float) -> tuple[float, float]:
    """Return the epsilons of two rounds, which a symbol's channels can have; or raise ParameterError."""
    permanent, report = check_two(epsilon_permanent, epsilon_report)
    if permanent >= MAX_EPSILON:
        raise ParameterError(f"epsilon_permanent = {permanent}: give a number below {MAX_EPSILON}")
    return permanent, report


def build_twice(name: str, parameters: dict[str, Any], encoding: SymbolEncoding) -> SymbolMechanism:
    """Return a memoized round and a fresh one, by `epsilon_permanent` and `epsilon_report` of the parameters."""
    permanent, report = check_rounds(parameters["epsilon_permanent"], parameters["epsilon_report"])
    size = encoding.num_symbols
    memoized = SymbolChannel.of(size, epsilon=permanent)
    second = SymbolChannel(size, _exact_alpha(memoized, report))
    return SymbolMechanism(name, parameters, encoding, SymbolRounds(memoized, second))


def _exact_alpha(memoized: SymbolChannel, epsilon_report: float) -> Fraction:
    """alpha(epsilon_report) / alpha(epsilon_permanent), rounded down to the grid."""
    if not memoized.alpha:
        raise ParameterError("no channel on the 2**-32 grid reaches epsilon_permanent: it is too small")
    wished = SymbolChannel.of(memoized.domain_size, epsilon=epsilon_report).alpha
    return Fraction(math.floor(ONE * wished / memoized.alpha), ONE)
