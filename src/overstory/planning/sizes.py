"""Report size against collisions: how many bits and cohorts a collection needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

SIZES: Final = (32, 64, 128, 256)  # bits of a report; a multiple of 8 wastes nothing on the wire
MAX_COHORTS: Final = 32  # the paper's largest: a cohort is sent in the clear, and 32 of them tell 5 bits of a device
COHORT_REPORTS: Final = 1000  # fewer in a cohort, and a count of a rare bit is no longer near normal
TOLERANCE: Final = 1.05  # of the standard error without collisions
CONFUSION: Final = 1e-3  # expected pairs of candidates that no cohort tells apart

# (bits, cohorts) -> standard error.
Errors = Callable[[int, int], float]


def choose_sizes(
    error: Errors,
    *,
    ideal: float,
    num_reports: int,
    num_candidates: int,
    num_hashes: int,
    sizes: Sequence[int] = SIZES,
    num_cohorts: int | None = None,
) -> tuple[int, int]:
    """Return the fewest bits, then the fewest cohorts, with which collisions cost at most five percent.

    The yardstick `ideal` is the standard error when nothing collides. Where no choice comes within five percent of
    it, the largest is taken. `sizes` are the bits to choose from; `num_cohorts` stays fixed where it is given.
    """
    cohorts = [num_cohorts] if num_cohorts is not None else _cohort_choices(num_reports)
    for bits in sizes:
        for groups in cohorts:
            apart = _confused(num_candidates, bits, num_hashes, groups) <= CONFUSION
            if apart and error(bits, groups) <= TOLERANCE * ideal:
                return bits, groups
    return sizes[-1], cohorts[-1]


def _cohort_choices(num_reports: int) -> list[int]:
    most = max(1, min(MAX_COHORTS, num_reports // COHORT_REPORTS))
    return [1 << power for power in range(most.bit_length())]


def _confused(num_candidates: int, num_bits: int, num_hashes: int, num_cohorts: int) -> float:
    """Return the expected number of pairs of candidates with the same bits in every cohort."""
    pairs = num_candidates * (num_candidates - 1) / 2
    filters = math.comb(num_bits, num_hashes)
    return math.exp(math.log(pairs) - num_cohorts * math.log(filters)) if pairs else 0.0
