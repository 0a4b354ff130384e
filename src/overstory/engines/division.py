"""Units of a job that compares every report with every value: divided over reports and over values.

A file of ten million hashes has few row groups, and each takes minutes where there are a hundred thousand values. So a
unit counts a range of the values, the same ranges for all row groups; the counts of the ranges are put side by side
once all are complete.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from overstory.analysis.reports import SupportCounts
from overstory.protocol.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from overstory.engines.units import Job, Unit, Values

LEAST_VALUES: Final = 1 << 10
"""Values of a range: reading the reports again for it is then a few hundredths of the work."""
LEAST_SECONDS: Final = 1.0
"""That a unit should take: a shorter one costs more to hand out than it saves."""
EACH: Final = 8
"""Units for each worker: the last ones end together."""


def divide_values(job: Job, units: Sequence[Unit], workers: int) -> list[Unit]:
    """Return the units, each divided over ranges of values where that balances better."""
    many = job.num_values()
    if not units or many is None:
        return list(units)
    seconds = [job.counting_seconds(unit.num_reports) for unit in units]
    share = max(sum(seconds) / (EACH * workers), LEAST_SECONDS)
    pieces = max(1, min(math.ceil(max(seconds) / share), many // LEAST_VALUES))
    if pieces == 1:
        return list(units)
    cuts = [many * piece // pieces for piece in range(pieces + 1)]
    divided = [replace(unit, values=values) for unit in units for values in itertools.pairwise(cuts)]
    return [replace(unit, number=number) for number, unit in enumerate(divided)]


def put_together(parts: Mapping[Values | None, SupportCounts]) -> SupportCounts:
    """Return the counts of all values from those of their ranges.

    Raises
    ------
    FormatError
        When ranges are missing, or were counted in other reports than the first.

    Examples
    --------
    >>> put_together({(1, 3): SupportCounts([2], [[0, 2]]), (0, 1): SupportCounts([2], [[1]])}).ones.tolist()
    [[1, 0, 2]]
    """
    if None in parts:
        (counts,) = parts.values()
        return counts
    ordered = sorted((values, counts) for values, counts in parts.items() if values is not None)
    totals, stop = ordered[0][1].totals, 0
    for (first, end), counts in ordered:
        if first != stop or counts.num_bits != end - first:
            raise FormatError(f"the values from {stop} to {first} were not counted")
        if not np.array_equal(counts.totals, totals):
            raise FormatError(f"the values from {first} to {end} were counted in other reports than those before")
        stop = end
    return SupportCounts(totals, np.hstack([counts.ones for _, counts in ordered]))
