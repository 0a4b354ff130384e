"""Any payload as a row of indicator bits whose rates are known: so one set of statistical tests serves all oracles.

Bits are themselves. A symbol is its one-hot row: each indicator passes through a 2 x 2 channel, though indicators are
not independent. An output of a set system is the row of the values whose sets hold it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations
from typing import Any

from overstory.protocol.channels import BinaryChannel, SymbolChannel
from overstory.protocol.encodings.sets import Subsets
from overstory.protocol.mechanisms.base import Mechanism
from overstory.protocol.mechanisms.payloads import BitMechanism, SymbolMechanism
from overstory.protocol.mechanisms.sets import SetMechanism


@dataclass(frozen=True)
class BitView:
    """The bits as they are."""

    mechanism: BitMechanism

    independent = True  # two indicators of a report, given the truth

    @property
    def size(self) -> int:
        return self.mechanism.encoding.num_bits

    @property
    def channels(self) -> tuple[BinaryChannel, BinaryChannel]:
        return self.mechanism.rounds.permanent, self.mechanism.rounds.instantaneous

    def true_payload(self, value: Any, cohort: int) -> int:
        return self.mechanism.encode(value, cohort)

    def truth(self, value: Any, cohort: int) -> int:
        return self.true_payload(value, cohort)

    def row(self, payload: int) -> int:
        return payload


@dataclass(frozen=True)
class SymbolView:
    """The one-hot row of the symbol."""

    mechanism: SymbolMechanism

    independent = False

    @property
    def size(self) -> int:
        return self.mechanism.encoding.num_symbols

    @property
    def channels(self) -> tuple[BinaryChannel, BinaryChannel]:
        return tuple(_indicator(c) for c in (self.mechanism.rounds.permanent, self.mechanism.rounds.instantaneous))

    def true_payload(self, value: Any, cohort: int) -> int:
        return self.mechanism.encoding.symbol(value, cohort)

    def truth(self, value: Any, cohort: int) -> int:
        return 1 << self.true_payload(value, cohort)

    def row(self, payload: int) -> int:
        return 1 << payload


@dataclass(frozen=True)
class SetView:
    """The row of the values whose sets hold the output."""

    mechanism: SetMechanism

    independent = False

    @property
    def size(self) -> int:
        return self.mechanism.encoding.domain_size

    @property
    def channels(self) -> tuple[BinaryChannel, BinaryChannel]:
        return BinaryChannel(self.mechanism.p_star, self.mechanism.q_star), BinaryChannel.identity()

    def true_payload(self, value: Any, cohort: int) -> int:
        return value

    def truth(self, value: Any, cohort: int) -> int:
        return 1 << value

    def row(self, payload: int) -> int:
        return _held_by(self.mechanism, payload)


View = BitView | SymbolView | SetView


def view_of(mechanism: Mechanism) -> View:
    """The view of a mechanism's payloads."""
    if isinstance(mechanism, BitMechanism):
        return BitView(mechanism)
    return SymbolView(mechanism) if isinstance(mechanism, SymbolMechanism) else SetView(mechanism)


def combined(view: View) -> BinaryChannel:
    """The channel of an indicator over both rounds, by the matrix product."""
    permanent, later = view.channels
    span = later.keep_one - later.raise_zero
    if not view.independent and isinstance(view, SymbolView):
        return _indicator(view.mechanism.channel)
    return BinaryChannel(later.raise_zero + span * permanent.keep_one, later.raise_zero + span * permanent.raise_zero)


def payloads(mechanism: Mechanism) -> Sequence[int]:
    """Every payload that the mechanism can send."""
    encoding = mechanism.encoding
    if isinstance(encoding, Subsets):
        members = combinations(range(encoding.domain_size), encoding.subset_size)
        return [sum(1 << member for member in subset) for subset in members]
    if isinstance(mechanism, SetMechanism):
        return range(encoding.sizes[0])
    return range(view_of(mechanism).size if isinstance(mechanism, SymbolMechanism) else 1 << encoding.num_bits)


def output_chances(mechanism: Mechanism) -> list[list[Fraction]]:
    """P(payload | what the channels see), a row for each symbol or value; from the counts of sets, not their formulas.

    For symbols and sets; the rows are in the order of `payloads`.
    """
    if isinstance(mechanism, SymbolMechanism):
        size, channel = mechanism.encoding.num_symbols, mechanism.channel
        return [[channel.keep if y == x else channel.other for y in range(size)] for x in range(size)]
    rows = []
    for value in range(mechanism.encoding.domain_size):
        held = [mechanism.encoding.contains(y, value) for y in payloads(mechanism)]
        inside, own = mechanism.inside, sum(held)
        rows.append([inside / own if h else (1 - inside) / (len(held) - own) for h in held])
    return rows


def _indicator(channel: SymbolChannel) -> BinaryChannel:
    return BinaryChannel(channel.keep, channel.other)


@cache
def _held_by(mechanism: SetMechanism, payload: int) -> int:
    values = range(mechanism.encoding.domain_size)
    return sum(1 << value for value in values if mechanism.encoding.contains(payload, value))
