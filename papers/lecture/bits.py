"""The lecture's Theorem 2: a public hash into buckets, and of every bucket the likelier value of every bit.

Literally, every user answers for every bit, each at epsilon / bits; partitioned, for one bit at the whole epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from overstory.analysis.kinds.base import SimulatedDevices, support_of
from overstory.analysis.reports import ReportBatch
from overstory.analysis.selection import adjusted_p_values, null_error
from overstory.discovery.heavy_hitters import counts_of
from overstory.discovery.simulation import Rows, byte_strings, integer_rows
from overstory.protocol.kinds.symbols import SymbolMechanism, hadamard
from overstory.protocol.search import hashed_by, thresholds


@dataclass(frozen=True)
class BitPlan:
    """A question for every bit of values of `width` bits, whole bytes: of every device, or of a group each.

    It is about the value's bucket and one bit of its code: the lecture's pair (h(x), x[l]), as the number 2 h(x) + x[l]
    (after Bassily and Smith, STOC 2015).

    Examples
    --------
    >>> plan = BitPlan(epsilon=4.0, width=16, buckets=64, partitioned=False)
    >>> plan.epsilon_in_all <= 4.0
    True
    """

    epsilon: float
    width: int
    buckets: int
    partitioned: bool

    @cached_property
    def mechanism(self) -> SymbolMechanism:
        """What a bit is answered through."""
        return hadamard(
            epsilon=self.epsilon if self.partitioned else self.epsilon / self.width, domain_size=2 * self.buckets
        )

    @property
    def epsilon_in_all(self) -> float:
        """Of all that one device sends, rounded up."""
        one = self.mechanism.epsilon_permanent
        return one if self.partitioned else math.nextafter(math.fsum([one] * self.width), math.inf)


@dataclass(frozen=True, eq=False)
class Recovered:
    """Values with their counts, and which of them were detected."""

    values: NDArray[np.int64]
    counts: NDArray[np.float64]
    detected: NDArray[np.bool_]


def buckets_of(rows: Rows, buckets: int) -> NDArray[np.int64]:
    """Return the bucket of each code."""
    return np.array([hashed_by("").digest(raw) * buckets >> 64 for raw in byte_strings(rows)], np.int64)


def answers(plan: BitPlan, values: NDArray[np.uint64], rng: np.random.Generator) -> list[ReportBatch]:
    """Return what a device for each value answers about each bit."""
    different, index = np.unique(values, return_inverse=True)
    hashed = buckets_of(integer_rows(different, plan.width), plan.buckets)
    bounds = np.array(thresholds([1.0] * plan.width if plan.partitioned else [1.0]), np.uint64)
    groups = np.searchsorted(bounds, rng.integers(0, 1 << 32, len(index), dtype=np.uint64), side="right")
    support = support_of(plan.mechanism)
    table, batches = support.table(range(2 * plan.buckets)), []
    for bit in range(plan.width):
        pairs = 2 * hashed + (different >> np.uint64(plan.width - 1 - bit) & np.uint64(1)).astype(np.int64)
        held, key = pairs[index[groups == (bit if plan.partitioned else 0)]], rng.bytes(32)
        cohorts = support.assign_cohorts(key, len(held))
        batches.append(SimulatedDevices(plan.mechanism, table, held.astype(np.int32), cohorts, key).report())
    return batches


def recover(plan: BitPlan, batches: Sequence[ReportBatch]) -> Recovered:
    """Return the values recovered from the buckets: only those that hash back to theirs, as noise does once in T.

    The bucket's count is the mean over the bits (or the sum over the groups) of the estimates of (t, 0) and (t, 1): it
    does not depend on which bit won, so it is unbiased.
    """
    weight = 1 if plan.partitioned else 1 / plan.width
    values = np.zeros(plan.buckets, np.int64)
    total, nobody = np.zeros(plan.buckets), 0.0
    for batch in batches:
        supports = support_of(plan.mechanism).count(batch, None).ones.sum(axis=0).reshape(-1, 2)
        values = 2 * values + (supports[:, 1] > supports[:, 0])
        counts, _ = counts_of(plan.mechanism, supports, len(batch), len(batch))
        total += weight * counts.sum(axis=1)
        nobody += 2 * (weight * len(batch) * null_error(plan.mechanism, len(batch))) ** 2
    hashed = buckets_of(integer_rows(values, plan.width), plan.buckets)
    chosen = np.flatnonzero((hashed == np.arange(plan.buckets)) & (total > 0))
    p_values = ndtr(-total[chosen] / math.sqrt(nobody))  # of an empty bucket
    return Recovered(values[chosen], total[chosen], adjusted_p_values(p_values, "fdr", tested=plan.buckets) <= 0.05)
