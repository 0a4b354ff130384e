"""Mechanisms whose report is one symbol: GRR, local hashing, Hadamard, the lecture's matrix, and their chains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from overstory.protocol.channels import SymbolChannel
from overstory.protocol.derivation import context
from overstory.protocol.encodings import check_cohort, whole_number
from overstory.protocol.entropy import Entropy, KeyedEntropy, uniform_below
from overstory.protocol.mechanisms.mechanism import Mechanism, Report
from overstory.protocol.permanence import check_secret
from overstory.protocol.probability import ONE
from overstory.protocol.sampling import Draw
from overstory.protocol.symbol_encodings import SymbolEncoding
from overstory.protocol.symbol_rounds import SymbolRounds, symbol_drawer


@dataclass(frozen=True)
class SymbolMechanism(Mechanism):
    """Encode a value as a symbol, randomize it permanently, randomize that afresh for every report.

    The permanent response belongs to the *symbol*: values that share one on this device share the response (LOLOHA's
    idea), so a device has at most `num_symbols` of them.

    Parameters
    ----------
    name, parameters
        The registry's name, and the parameters completed by the defaults.
    encoding
        From a value to a symbol.
    rounds
        The permanent and the instantaneous channel; alpha = 1 changes nothing.
    """

    name: str
    parameters: Mapping[str, Any] = field(hash=False)
    encoding: SymbolEncoding
    rounds: SymbolRounds

    @property
    def payload_bits(self) -> int:
        """A symbol's width."""
        return (self.encoding.num_symbols - 1).bit_length()

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
        """Exact epsilon of `reports` reports of one value, rounded up."""
        return self.rounds.epsilon(reports=whole_number(reports))

    @property
    def epsilon_permanent(self) -> float:
        """Epsilon of any number of reports of one symbol, rounded up."""
        return self.rounds.epsilon_permanent

    def supports(self, report: Report, value: Any) -> bool:
        """Whether the reported symbol is the value's in the report's cohort."""
        return self.encoding.symbol(value, report.cohort) == report.bits

    def responder(self, secret: bytes, metric: str, cohort: int) -> Callable[[Any], int]:
        """Return the function from a value to its permanent symbol; see `Mechanism.responder`."""
        check_cohort(cohort, self.num_cohorts)
        key, about, draw = check_secret(secret), (metric, self.digest, cohort), self._permanent

        def respond(value: Any) -> int:
            symbol = self.encoding.symbol(value, cohort)
            return draw(symbol, KeyedEntropy(key, context(*about, symbol), purpose=b"permanent").bits)

        return respond

    def nothing(self, secret: bytes, metric: str, cohort: int) -> int:
        """Return a uniform symbol, the mixture of all values' responses; see `Mechanism.nothing`."""
        check_cohort(cohort, self.num_cohorts)
        about = context(metric, self.digest, cohort, b"nothing")  # a symbol there is a number
        return uniform_below(self.encoding.num_symbols, KeyedEntropy(check_secret(secret), about, purpose=b"permanent"))

    @cached_property
    def _permanent(self) -> Draw:
        return symbol_drawer(self.rounds.permanent)

    @cached_property
    def instantaneous(self) -> Draw:
        """The function (permanent symbol, random_bits) -> a fresh report's symbol."""
        return symbol_drawer(self.rounds.instantaneous)

    def draw_permanent(self, value: Any, cohort: int, entropy: Entropy) -> int:
        """Return a permanent symbol drawn from `entropy`."""
        check_cohort(cohort, self.num_cohorts)
        return self._permanent(self.encoding.symbol(value, cohort), entropy.bits)

    def canonical(self) -> dict[str, Any]:
        """Return all that a report's meaning and privacy depend on, as JSON values."""
        rounds = (self.rounds.permanent, self.rounds.instantaneous)
        return {
            "name": self.name,
            "thresholds": [int(c.alpha * ONE) for c in rounds],
            **self.encoding.canonical(),
        }
