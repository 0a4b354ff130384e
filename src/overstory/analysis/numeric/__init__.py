"""Numbers, the server's halves: distributions from Square Wave, means, and range queries."""

from overstory.analysis.numeric.distribution import Distribution, SquareWaveOracle
from overstory.analysis.numeric.means import MeanEstimate, MeanOracle, ReportSums
from overstory.analysis.numeric.ranges import RangeEstimate, RangeOracle, RangeSum

__all__ = [
    "Distribution",
    "MeanEstimate",
    "MeanOracle",
    "RangeEstimate",
    "RangeOracle",
    "RangeSum",
    "ReportSums",
    "SquareWaveOracle",
]
