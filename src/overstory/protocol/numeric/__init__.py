"""Numbers: randomizers for a distribution, a mean or ranges. The device's halves; the standard library alone."""

from overstory.protocol.domains.domains import Interval
from overstory.protocol.numeric.means import Duchi, Hybrid, Piecewise
from overstory.protocol.numeric.randomizer import NumericRandomizer
from overstory.protocol.numeric.ranges import LevelTree, RangeRandomizer
from overstory.protocol.numeric.windows import SquareWave

__all__ = [
    "Duchi",
    "Hybrid",
    "Interval",
    "LevelTree",
    "NumericRandomizer",
    "Piecewise",
    "RangeRandomizer",
    "SquareWave",
]
