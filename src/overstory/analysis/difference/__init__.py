"""Several shares at once: differences, sums and ratios, each with its interval."""

from __future__ import annotations

from overstory.analysis.difference.combination import Combined, ratio, total
from overstory.analysis.difference.result import Difference, difference

__all__ = ["Combined", "Difference", "difference", "ratio", "total"]
