"""The registry of what takes numbers, next to that of frequency oracles: a name, a randomizer.

These are no oracles over a finite domain: a mean has no candidates, and a range no single support count. What they
share with one another, and with mechanisms, is what travels and what it costs: name, parameters, canonical form and
digest, payload and public part, epsilons, `responder`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

from overstory.protocol.domains.intervals import Interval
from overstory.protocol.mechanisms.registry import build_from
from overstory.protocol.numeric.means import Duchi, Hybrid, MeanRandomizer, Piecewise
from overstory.protocol.numeric.randomizer import NumericRandomizer
from overstory.protocol.numeric.ranges import RangeRandomizer
from overstory.protocol.numeric.windows import SquareWave

NumericMechanism = NumericRandomizer | RangeRandomizer


def square_wave(
    *,
    epsilon: float,
    minimum: float = 0.0,
    maximum: float = 1.0,
    outside: Literal["clamp", "reject"] = "clamp",
    resolution: int = SquareWave.resolution,
) -> SquareWave:
    """Square Wave (Li et al. 2020): a nearby number, for the whole distribution."""
    return SquareWave(epsilon, Interval(minimum, maximum, outside), resolution)


def _mean(kind: type[MeanRandomizer]) -> Callable[..., MeanRandomizer]:
    def build(
        *,
        epsilon: float,
        minimum: float = -1.0,
        maximum: float = 1.0,
        outside: Literal["clamp", "reject"] = "clamp",
        resolution: int = MeanRandomizer.resolution,
    ) -> MeanRandomizer:
        return kind(epsilon, Interval(minimum, maximum, outside), resolution)

    build.__doc__ = kind.__doc__
    return build


def ranges(*, domain_size: int, epsilon: float, branching: int = 4) -> RangeRandomizer:
    """Range queries over a tree (Cormode et al. 2019): OUE at one level of it."""
    return RangeRandomizer(domain_size, epsilon, branching)


NUMERIC: Final[dict[str, Callable[..., NumericMechanism]]] = {
    "square-wave": square_wave,
    "duchi": _mean(Duchi),
    "piecewise": _mean(Piecewise),
    "hybrid": _mean(Hybrid),
    "ranges": ranges,
}


def numeric(name: str, **parameters: Any) -> NumericMechanism:
    """Build the randomizer of that name.

    Examples
    --------
    >>> 1 - 1e-8 < numeric("duchi", epsilon=1.0).epsilon_report <= 1
    True
    """
    return build_from(NUMERIC, name, parameters)
