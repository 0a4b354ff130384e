"""What counting and estimating takes, in seconds of one core: known to a plan, which loads no arrays for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PER_BIT: Final = 2e-11  # of a report's bit, added to its count
PER_VALUE: Final = 1e-7  # of a value's estimate, once its support is known


@dataclass(frozen=True)
class Work:
    """What counting and estimating takes, at rates of a core of a server of 2025 (`bench/core_seconds.py` compares)."""

    words: str  # what it takes, in the letters n (reports), d (values), s (seeds), g (symbols)
    report: float = 3e-9  # seconds for each report
    cell: float = 0.0  # for each report and counted value
    value: float = PER_VALUE  # for each value
    seed: float = 0.0  # for each value and seed
    always: float = 0.0  # in any case

    def core_seconds(self, num_reports: float, width: int, num_values: int, num_seeds: int) -> float:
        counting = num_reports * (self.report + self.cell * width)
        return counting + num_values * (self.value + self.seed * num_seeds) + self.always


# A regression takes a second or a few, up to some thousand candidates; then it is closed.
REGRESSION: Final = Work("n k bits added, then a regression", cell=PER_BIT, value=1e-6, always=2.0)
"""That of Bloom filters."""
