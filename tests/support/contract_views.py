"""Any payload as a row of indicator bits whose rates are known: so one set of statistical tests serves all oracles.

Bits are themselves. A symbol is its one-hot row: each indicator passes through a 2 x 2 channel, though indicators are
not independent. An output of a set system is the row of the values whose sets hold it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from itertools import combinations
from typing import Any

from overstory.protocol.channels import BinaryChannel, SymbolChannel
from overstory.protocol.kinds.base import Mechanism
from overstory.protocol.kinds.bits import BitMechanism
from overstory.protocol.kinds.sets import SetMechanism, Subsets
from overstory.protocol.kinds.symbols import SymbolMechanism


@dataclass(frozen=True)
class View:  # a mechanism's payloads as rows of indicator bits
    size: int
    channels: tuple[BinaryChannel, BinaryChannel]  # of an indicator in the permanent and in the instantaneous round
    combined: BinaryChannel  # over both rounds
    true_payload: Callable[[Any, int], int]  # what a value is in a cohort before any noise
    truth: Callable[[Any, int], int]  # the true row of a value in a cohort
    row: Callable[[int], int]  # the row of a payload
    independent: bool = False  # whether two indicators of a report are, given the truth


def view_of(mechanism: Mechanism) -> View:
    """Return the bits as they are, the one-hot row of a symbol, or the row of the values whose sets hold the output."""
    encoding = mechanism.encoding
    if isinstance(mechanism, BitMechanism):
        rounds = mechanism.rounds.permanent, mechanism.rounds.instantaneous
        encode = mechanism.encode
        return View(encoding.num_bits, rounds, _product(*rounds), encode, encode, int, independent=True)
    if isinstance(mechanism, SymbolMechanism):
        rounds = _indicator(mechanism.rounds.permanent), _indicator(mechanism.rounds.instantaneous)
        combined, symbol = _indicator(mechanism.channel), encoding.symbol
        return View(
            encoding.num_symbols, rounds, combined, symbol, lambda value, cohort: _one(symbol(value, cohort)), _one
        )
    assert isinstance(mechanism, SetMechanism)
    held = BinaryChannel(mechanism.p_star, mechanism.q_star)
    return View(
        encoding.domain_size,
        (held, BinaryChannel.identity()),
        held,
        lambda value, _: value,
        lambda value, _: _one(value),
        partial(_held_by, mechanism),
    )


def _product(permanent: BinaryChannel, later: BinaryChannel) -> BinaryChannel:
    span = later.keep_one - later.raise_zero
    return BinaryChannel(later.raise_zero + span * permanent.keep_one, later.raise_zero + span * permanent.raise_zero)


def _one(place: int) -> int:
    return 1 << place


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
