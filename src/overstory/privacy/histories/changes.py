"""The leak of a change: what n reports say about whether the value changed on the way.

The longitudinal promise, epsilon_permanent per value, is between histories that never change, or change at the same
times. A history that changes is another thing: its permanent response is drawn again, and reports before and after
cease to agree. How visible that is grows with the number of reports, and with the filter where there is one.

A device that cannot report its value reports *nothing*, by a permanent response of its own. To begin or to cease to
have a value that can be reported is a change as well, and is counted.

A `Shape` says how the encodings of two different values, or of a value and of nothing, overlap: the leak of a change is
the worst over all shapes that the encoding allows (`Encoding.shapes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, localcontext
from functools import lru_cache, reduce
from typing import Final

from overstory.privacy.histories.pairs import PRECISE, UNIFORM, Entry, bit_losses, check_reports, larger, symbol_ratios
from overstory.protocol.channels import Rounds
from overstory.protocol.encodings.base import Shape
from overstory.protocol.errors import ParameterError
from overstory.protocol.probability import log_ratio, round_up, weighted_sum
from overstory.protocol.sampling import SymbolRounds


def with_nothing(shapes: Sequence[Shape]) -> tuple[Shape, ...]:
    """Return shapes of two values, and after them those of a value and of *nothing* to report, either way round.

    They follow from how many ones a value's encoding has. Nothing has none; where filters are crowded (all of h
    distinct positions, h > k/2), it is a filter as any, and may be a value's own: see `Encoding.nothing`.

    Examples
    --------
    >>> from overstory.protocol.encodings.bits import Bloom, OneHot
    >>> with_nothing(OneHot(64).shapes(equal_bits=True))[1:]
    (Shape(both=0, lowered=0, raised=1, neither=63), Shape(both=0, lowered=1, raised=0, neither=63))
    >>> with_nothing(Bloom(4, 3, 16).shapes(equal_bits=False))
    (Shape(both=2, lowered=1, raised=1, neither=0), Shape(both=3, lowered=0, raised=0, neither=1))
    """
    if not shapes:
        raise ParameterError("no shapes: give at least one of two values")
    num_bits = sum(shapes[0])
    ones = sorted({shape.both + own for shape in shapes for own in (shape.lowered, shape.raised)})
    if crowded(num_bits, ones[0], ones[-1]):
        return tuple(dict.fromkeys([*shapes, Shape(ones[0], 0, 0, num_bits - ones[0])]))
    pairs = [pair for own in ones for pair in ((0, own), (own, 0))]
    return tuple(dict.fromkeys([*shapes, *(Shape(0, *pair, num_bits - sum(pair)) for pair in pairs)]))


def crowded(num_bits: int, fewest: int, most: int) -> bool:
    """Whether nothing to report is a filter as any: all have as many ones, and these are more than half of the bits."""
    return fewest == most and 2 * most > num_bits


MAX_REPORTS: Final = 1000


@lru_cache(maxsize=1024)
def bits_change(rounds: Rounds, shapes: tuple[Shape, ...], reports: int) -> float:
    """Exact epsilon between n reports of a and n of a that become b on the way: bits. Rounded up.

    One of a and b may be nothing. `shapes` are those of two values; what nothing adds follows from them.
    """
    check_reports(reports, 2, MAX_REPORTS)
    pairs = with_nothing(shapes)
    return round_up(max(_worst_of_bits(rounds, pairs, reports, before) for before in range(1, reports)))


@lru_cache(maxsize=1024)
def symbol_change(rounds: SymbolRounds, reports: int) -> float:
    """Exact epsilon between n reports of a and n of a that become b on the way: symbols. Rounded up.

    Of values with different symbols, or of a value and nothing, a uniform symbol; a change between values that share a
    symbol shows nothing.
    """
    check_reports(reports, 2, MAX_REPORTS)
    pairs = (0, 1), (0, UNIFORM), (UNIFORM, 0)
    histories = (_histories(*pair, reports, before) for pair in pairs for before in range(1, reports))
    worst = Decimal(1), Decimal(1)
    with localcontext(PRECISE):
        for pair in histories:
            worst = reduce(larger, symbol_ratios(rounds, *pair), worst)
            if not worst[1]:
                break
    return round_up(log_ratio(*worst))


def _worst_of_bits(rounds: Rounds, shapes: tuple[Shape, ...], reports: int, before: int) -> Decimal:
    """Worst total loss, either way, when `before` of the reports are of a and the others of b instead of a."""
    # In the order of a shape's numbers: (bit of a, bit of b).
    losses = [
        bit_losses(rounds, *_histories(old, new, reports, before)) for old, new in ((1, 1), (1, 0), (0, 1), (0, 0))
    ]
    return max(_total(shape, losses, way) for shape in shapes for way in (0, 1))


def _histories(old: int, new: int, reports: int, before: int) -> tuple[list[Entry], list[Entry]]:
    kept: list[Entry] = [("a", old)] * before
    return kept + [("a", old)] * (reports - before), kept + [("b", new)] * (reports - before)


def _total(shape: Shape, losses: list[tuple[Decimal, Decimal]], way: int) -> Decimal:
    return weighted_sum((bits, loss[way]) for bits, loss in zip(shape, losses, strict=True))
