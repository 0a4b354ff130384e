"""The blankets of mechanisms, from their exact thresholds: of one report, several, any number, of several values.

Whether a value is "nothing" or has fewer bits than another makes no blanket larger: its ratio r is a conditional
expectation of one that is counted here, which lies below it in convex order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from overstory.privacy.shuffle.blanket import Blanket, clones, two_levels
from overstory.protocol.channels import BinaryChannel, SymbolChannel
from overstory.protocol.encodings.seeds import SeededHash
from overstory.protocol.mechanisms.base import LocalRandomizer
from overstory.protocol.mechanisms.payloads import BitMechanism, SymbolMechanism
from overstory.protocol.mechanisms.sets import SetMechanism
from overstory.protocol.numeric.windows import SquareWave

MOST_PERIODS: Final = 16
"""Periods up to which their reports are counted together; past them, the permanent response is."""

Ratios = Mapping[float, float]
"""What one value's report is likelier by than the blanket, with its probability under omega."""


def blankets_of(mechanism: LocalRandomizer, periods: int | None = 1, values: int = 1) -> list[Blanket]:
    """Return blankets of a device's reports: the largest bound over them holds.

    Parameters
    ----------
    periods
        Reports of one unchanged value, each shuffled with the others' of its period; None for any number.
    values
        How many different values the reports are of, the same number of times in the same places.
    """
    family = FAMILIES.get(mechanism.payload)
    found = None if family is None else family(mechanism, periods)
    if not found:
        epsilon = mechanism.epsilon_permanent if periods is None else mechanism.epsilon_n(periods)
        return [clones(values * epsilon)]
    return [blanket.power(values) for blanket in found]


def has_own_blanket(mechanism: LocalRandomizer) -> bool:
    """Whether the bound is the mechanism's own, not that of any mechanism of its epsilon."""
    family = FAMILIES.get(mechanism.payload)
    return family is not None and bool(family(mechanism, 1))


# --- bits -----------------------------------------------------------------------------------------------------------


def _of_bits(mechanism: BitMechanism, periods: int | None) -> list[Blanket]:
    encoding = mechanism.encoding
    channels = _bit_ratios(mechanism, periods)
    if encoding.asked < 1:
        return list(_of_sampled_bits(channels, float(encoding.asked)))
    bits = encoding.ones[1]
    # A vector of the value's own bits: r is the product of the ratios of its bits.
    return [_sharing(channels, bits, shared) for shared in range(bits if encoding.domain_size is None else 1)]


def _bit_ratios(mechanism: BitMechanism, periods: int | None) -> Ratios:
    """Return P(what is seen of a bit | it is the value's) / P(the same | it is not), with the latter."""
    rounds = mechanism.rounds
    if periods is None or periods > MOST_PERIODS or rounds.instantaneous.is_identity:
        return _of_channel(rounds.permanent)
    if periods == 1:
        return _of_channel(rounds.combined)
    ratios: dict[float, float] = {}
    for ones in range(periods + 1):
        seen = [_times(rounds.instantaneous, rate, ones, periods) for rate in _rates(rounds.permanent)]
        ratio, chance = float(seen[0] / seen[1]), float(seen[1])
        ratios[ratio] = ratios.get(ratio, 0.0) + chance
    return ratios


def _rates(channel: BinaryChannel) -> tuple[Fraction, Fraction]:
    return channel.keep_one, channel.raise_zero


def _of_channel(channel: BinaryChannel) -> Ratios:
    high, low = _rates(channel)
    return {float(high / low): float(low), float((1 - high) / (1 - low)): float(1 - low)}


def _times(channel: BinaryChannel, permanent: Fraction, ones: int, periods: int) -> Fraction:
    """P(that number of ones in these periods), the permanent bit being 1 with that probability."""
    lit, unlit = (rate**ones * (1 - rate) ** (periods - ones) for rate in _rates(channel))
    return math.comb(periods, ones) * (permanent * lit + (1 - permanent) * unlit)


def _sharing(ratios: Ratios, bits: int, shared: int) -> Blanket:
    """Return the blanket of two values of `bits` bits each, some of which are the same ones."""
    least = min(ratios)
    own = _product(ratios, least, bits - shared)
    common = _product(ratios, least, shared)
    atoms = [
        (both * first * second, a * b, a * c)
        for a, both in common.items()
        for b, first in own.items()
        for c, second in own.items()
    ]
    return Blanket(least**bits, tuple(atoms))


def _product(ratios: Ratios, least: float, bits: int) -> Ratios:
    """Return the law of the product of `bits` independent ratios over the least; equal ones are merged."""
    law: dict[float, float] = {1.0: 1.0}
    for _ in range(bits):
        merged: dict[float, tuple[float, float]] = {}
        for before, chance in law.items():
            for ratio, more in ratios.items():
                value = before * (ratio / least)
                key = round(math.log(value), 10)
                merged[key] = (value, merged.get(key, (0.0, 0.0))[1] + chance * more)
        law = dict(merged.values())
    return law


def _of_sampled_bits(ratios: Ratios, asked: float) -> Iterator[Blanket]:
    """Yield the blankets where a device answers for some of the values: how often for both of two is not known."""
    least = min(ratios)
    told = {ratio / least: chance for ratio, chance in ratios.items()}
    silent = {1 / least: 1.0}
    for both in {max(0.0, 2 * asked - 1), asked}:
        kinds = ((both, told, told), (asked - both, told, silent), (asked - both, silent, told))
        neither = 1 - 2 * asked + both
        atoms = [
            (share * first * second, r, s)
            for share, law, other in (*kinds, (neither, silent, silent))
            for r, first in law.items()
            for s, second in other.items()
            if share > 0
        ]
        yield Blanket(least, tuple(atoms))


# --- symbols, sets, numbers -----------------------------------------------------------------------------------------


def _of_symbols(mechanism: SymbolMechanism, periods: int | None) -> list[Blanket]:
    channel: SymbolChannel = mechanism.rounds.combined if periods == 1 else mechanism.rounds.permanent
    encoding, size = mechanism.encoding, mechanism.encoding.num_symbols
    # Of a few pseudo-random seeds, no two values are known to collide in any: this bound is then larger than needed.
    collision = Fraction(0) if isinstance(encoding, SeededHash) else encoding.collision
    alone, both = (1 - collision) / size, collision / size
    gamma, odds = size * channel.other, channel.keep / channel.other
    if odds < 1:  # the value's own symbol is the unlikely one: what is left of all others is in the blanket
        return []
    return [two_levels(float(gamma), odds=float(odds), alone=float(alone), both=float(both))]


def _of_sets(mechanism: SetMechanism, periods: int | None) -> list[Blanket]:  # noqa: ARG001 - one memoized output
    outputs, own, shared = mechanism.encoding.sizes
    inside = mechanism.inside
    gamma = outputs * (1 - inside) / (outputs - own)
    odds = inside * (outputs - own) / (own * (1 - inside))
    alone, both = Fraction(own - shared, outputs), Fraction(shared, outputs)
    return [two_levels(float(gamma), odds=float(odds), alone=float(alone), both=float(both))]


def _of_numbers(mechanism: LocalRandomizer, periods: int | None) -> list[Blanket]:  # noqa: ARG001 - as of sets
    if not isinstance(mechanism, SquareWave):
        return []
    channel = mechanism.channel
    cells, window = channel.num_cells, channel.window
    both = max(0, window - (channel.num_positions - 1))  # of the two ends' windows
    shares = (Fraction(window - both, cells), Fraction(both, cells))
    gamma = channel.outside * cells
    return [two_levels(float(gamma), odds=float(channel.odds), alone=float(shares[0]), both=float(shares[1]))]


FAMILIES: Final[Mapping[str, Callable[[Any, int | None], list[Blanket]]]] = {
    "bits": _of_bits,
    "symbols": _of_symbols,
    "sets": _of_sets,
    "numbers": _of_numbers,
}
"""By `LocalRandomizer.payload`; of another, only its epsilon is used."""
