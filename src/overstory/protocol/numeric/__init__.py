"""Numbers: randomizers for a distribution, a mean or ranges. The device's halves; the standard library alone."""

from overstory.protocol.domains.numbers import Interval
from overstory.protocol.numeric.mechanisms import Hybrid, NumericRandomizer, SquareWave
from overstory.protocol.numeric.ranges import RangeRandomizer

__all__ = [
    "Hybrid",
    "Interval",
    "NumericRandomizer",
    "RangeRandomizer",
    "SquareWave",
]
