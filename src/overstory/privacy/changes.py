"""The leak of a change: what n reports say about whether the value changed on the way.

The longitudinal promise, epsilon_permanent per value, is between histories that never change, or change at the same
times. A history that changes is another thing: its permanent response is drawn again, in all of its bits, and
reports before and after cease to agree. How visible that is grows with the filter and with the number of reports.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from overstory.privacy.histories import BitHistory, bit_losses, redraws_for_equal_bits
from overstory.privacy.shapes import Shape, extreme_shapes
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.bits import BitMechanism
from overstory.protocol.probability import round_up, weighted_sum

MAX_REPORTS = 50


def change_leak(mechanism: BitMechanism, reports: int = 2) -> float:
    """Exact epsilon between `reports` reports of a and reports of a that become b on the way, rounded up.

    The worst over the time of the change and over the values. It is infinite when every report is the permanent
    response itself (the one-time modes): two different reports then prove a change.

    Raises
    ------
    ParameterError
        When there are fewer than two reports, or too many for exact enumeration.

    Examples
    --------
    RAPPOR's own parameters, whose epsilon_permanent is 4.39:

    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> rappor = mechanism("rappor", num_bits=128, num_hashes=2, num_cohorts=16, f=0.5, p=0.5, q=0.75)
    >>> [round(change_leak(rappor, n), 2) for n in (2, 3, 4)]
    [8.61, 15.83, 25.18]
    """
    if not 2 <= reports <= MAX_REPORTS:
        raise ParameterError(f"reports = {reports}: a change is seen in 2 to {MAX_REPORTS} reports")
    shapes = extreme_shapes(mechanism.encoding, equal_bits=redraws_for_equal_bits(mechanism))
    times = range(1, reports)
    return round_up(max(_worst(mechanism, shapes, before, reports - before) for before in times))


def _worst(mechanism: BitMechanism, shapes: tuple[Shape, ...], before: int, after: int) -> Decimal:
    """Worst total loss, either way, when `before` reports are of a and `after` of b instead of a."""
    # In the order of a shape's numbers: (bit of a, bit of b).
    losses = [
        bit_losses(mechanism.rounds, *_histories(old, new, before, after))
        for old, new in ((1, 1), (1, 0), (0, 1), (0, 0))
    ]
    return max(_total(shape, losses, way) for shape in shapes for way in (0, 1))


def _histories(old: int, new: int, before: int, after: int) -> Iterator[BitHistory]:
    yield [("a", old)] * (before + after)
    yield [("a", old)] * before + [("b", new)] * after


def _total(shape: Shape, losses: list[tuple[Decimal, Decimal]], way: int) -> Decimal:
    return weighted_sum((bits, loss[way]) for bits, loss in zip(shape, losses, strict=True))
