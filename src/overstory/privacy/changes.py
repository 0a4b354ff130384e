"""The leak of a change: what n reports say about whether the value changed on the way.

The longitudinal promise, epsilon_permanent per value, is between histories that never change, or change at the same
times. A history that changes is another thing: its permanent response is drawn again, and reports before and after
cease to agree. How visible that is grows with the number of reports, and with the filter where there is one.

A device that cannot report its value reports *nothing*, by a permanent response of its own. To begin or to cease to
have a value that can be reported is a change as well, and is counted.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import lru_cache, reduce
from typing import Final

from overstory.privacy.histories import UNIFORM, bit_losses, symbol_ratios
from overstory.privacy.outcomes import PRECISE, Entry, check_reports, larger
from overstory.privacy.shapes import Shape, with_nothing
from overstory.protocol.channels import Rounds
from overstory.protocol.probability import log_ratio, round_up, weighted_sum
from overstory.protocol.symbol_rounds import SymbolRounds

MAX_REPORTS: Final = 1000


@lru_cache(maxsize=1024)
def bits_change(rounds: Rounds, shapes: tuple[Shape, ...], reports: int) -> float:
    """Exact epsilon between n reports of a and n of a that become b on the way: bits. Rounded up.

    One of a and b may be nothing. `shapes` are those of two values; what nothing adds follows from them.

    Raises
    ------
    ParameterError
        When there are fewer than two reports, or more than `MAX_REPORTS`.
    """
    check_reports(reports, 2, MAX_REPORTS)
    pairs = with_nothing(shapes)
    return round_up(max(_worst_of_bits(rounds, pairs, reports, before) for before in range(1, reports)))


@lru_cache(maxsize=1024)
def symbol_change(rounds: SymbolRounds, reports: int) -> float:
    """Exact epsilon between n reports of a and n of a that become b on the way: symbols. Rounded up.

    Of values with different symbols, or of a value and nothing, a uniform symbol; a change between values that share a
    symbol shows nothing.

    Raises
    ------
    ParameterError
        When there are fewer than two reports, or more than `MAX_REPORTS`.
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
