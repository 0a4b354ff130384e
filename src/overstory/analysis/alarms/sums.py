"""What is summed of reports, besides their support, so that crafted ones can be noticed when the reports are gone.

Of each report: how many values it votes for (its ones), and its public seed, by one of 4,096 buckets. Of the first
131,072 reports of a collection: how often each pair of values is voted for by one report. Sums of different reports add
up, in any order. They are computed from reports alone, so they cost no privacy.

Which values a report votes for depends on its encoding:

- bits (one-hot): those whose bits it sets; Bloom filters and sampled bits have ones, but no pairs of values;
- subsets: its members, always equally many, so that only pairs mean something;
- a hash, a sign or a row under a public seed: those that have its symbol.

Encodings of which a report is one value, or a few public seeds that are counted apart, leave nothing to sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.analysis.kinds.base import Support, server_half
from overstory.analysis.reports import ReportBatch, unpack_bits
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import MAX_COHORTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.analysis.reports import I64
    from overstory.protocol.kinds.base import Kind


WATCHED: Final = 256
"""Values whose pairs are counted, the first of the domain: 32,896 sums, 132 kB, however large the domain is."""
PAIR_REPORTS: Final = 1 << 17  # reports of a collection whose pairs are counted
ROWS: Final = 1 << 12  # reports whose bits are unpacked at a time
BUCKETS: Final = 4096  # seeds are counted by their remainder
CELLS: Final = 256
"""Of the histogram of ones: two for what is too low or too high, the others within `REACH` standard deviations."""
REACH: Final = 12.0


@dataclass(frozen=True, eq=False)
class ReportSums:
    """Sums over reports of one collection, a commutative monoid under ``+``."""

    num_reports: int
    ones: I64  # shape (cells,): reports by their number of ones; where votes must be computed, of `pair_reports`
    pair_reports: int  # reports whose pairs were counted
    upper: I64  # the upper triangle, by row, of `pairs`
    seeds: I64  # shape (buckets,): reports by their seed's remainder

    def __post_init__(self) -> None:
        if self.upper.shape != (self._values * (self._values + 1) // 2,):
            raise ValueError(f"{len(self.upper)} numbers are no triangle")

    @property
    def _values(self) -> int:
        return math.isqrt(2 * len(self.upper))

    @property
    def pairs(self) -> I64:
        """How many reports vote for both of two values, shape (w, w); the diagonal: for one."""
        pairs = np.zeros((self._values, self._values), np.int64)
        pairs[np.triu_indices(self._values)] = self.upper
        return np.triu(pairs, 1).T + pairs

    def __add__(self, other: ReportSums) -> ReportSums:
        if not isinstance(other, ReportSums):
            return NotImplemented
        mine, others = self._arrays, other._arrays
        if [array.shape for array in mine] != [array.shape for array in others]:
            raise ParameterError("these sums are of different collections: they cannot be merged")
        ones, upper, seeds = (a + b for a, b in zip(mine, others, strict=True))
        return ReportSums(
            self.num_reports + other.num_reports, ones, self.pair_reports + other.pair_reports, upper, seeds
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ReportSums):
            return NotImplemented
        numbers = (self.num_reports, self.pair_reports) == (other.num_reports, other.pair_reports)
        return numbers and all(map(np.array_equal, self._arrays, other._arrays))

    __hash__ = None  # type: ignore[assignment]

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; `from_json` is the inverse."""
        return {
            "reports": self.num_reports,
            "ones": self.ones.tolist(),
            "pair_reports": self.pair_reports,
            "pairs": self.upper.tolist(),
            "seeds": self.seeds.tolist(),
        }

    @classmethod
    def from_json(cls, parsed: dict[str, Any]) -> ReportSums:
        ones, upper, seeds = (np.array(parsed[name], np.int64) for name in ("ones", "pairs", "seeds"))
        return cls(int(parsed["reports"]), ones, int(parsed["pair_reports"]), upper, seeds)

    @property
    def _arrays(self) -> tuple[I64, I64, I64]:
        return self.ones, self.upper, self.seeds


@dataclass(frozen=True)
class Watch:
    """What is summed of the reports of one mechanism."""

    half: Support[Any]
    values: Sequence[int]  # the symbols whose pairs are counted; at most `WATCHED`

    @classmethod
    def of(cls, mechanism: Kind) -> Watch | None:
        """Return what is summed; None where nothing is, as of a symbol."""
        half: Any = server_half(mechanism)
        if not half.is_oracle or not half.watched:
            return None
        size = half.domain_size if "pairs" in half.watched else 0
        return cls(half, range(min(size, WATCHED)))

    @property
    def num_bits(self) -> int:
        return int(self.half.mechanism.payload_bits)

    @cached_property
    def _cells(self) -> tuple[int, int, int]:
        """The lowest number of ones of the first inner cell, the cells' width, and how many there are."""
        if self.half.own_bits is None:  # hashes of one value may meet in a bit: how often depends on the value
            return 0, 1, 0
        q = self.half.rates[1]
        reach = REACH * (math.sqrt(self.num_bits * q * (1 - q)) + 1.0)
        lowest, highest = max(math.floor(self.num_bits * q - reach), 0), math.ceil(self.num_bits * q + reach)
        width = -(-(min(highest, self.num_bits) + 1 - lowest) // (CELLS - 2))
        return lowest, width, 2 + -(-(min(highest, self.num_bits) + 1 - lowest) // width)

    def cells(self, ones: I64) -> I64:
        """Return the cell of each number of ones: 0 below the lowest, the last one above the highest."""
        lowest, width, many = self._cells
        return np.clip((ones - lowest) // width + 1, 0, many - 1)

    @property
    def num_cells(self) -> int:
        """Cells of the histogram of ones; 0 where ones are not counted."""
        return self._cells[2]

    @property
    def num_buckets(self) -> int:
        """Buckets of seeds; 0 where counts are by cohort, and their sizes known without."""
        return min(self.half.mechanism.num_cohorts, BUCKETS) if "seeds" in self.half.watched else 0

    @property
    def num_sums(self) -> int:
        return self.num_cells + self.num_buckets + len(self.values) * (len(self.values) + 1) // 2

    def sum(self, batch: ReportBatch, pair_reports: int = PAIR_REPORTS) -> ReportSums:
        """Return the sums of a batch; pairs of its first `pair_reports` alone."""
        many = len(self.values)
        upper, ones = np.zeros(0, np.int64), np.zeros(self.num_cells, np.int64)
        first = slice(pair_reports)
        some = ReportBatch(batch.cohorts[first], batch.bits[first], batch.num_bits, batch.num_cohorts)
        if many:
            upper = count_vote_pairs(self.half.votes(some, many), many)[np.triu_indices(many)]
        if self.num_cells:
            counts = np.bitwise_count(batch.bits).sum(axis=1, dtype=np.int64)
            ones = np.bincount(self.cells(counts), minlength=self.num_cells).astype(np.int64)
        buckets = self.num_buckets
        seeds = np.zeros(0, np.int64)
        if buckets:
            seeds = np.bincount(batch.cohorts % np.uint32(buckets), minlength=buckets).astype(np.int64)
        return ReportSums(len(batch), ones, len(some) if many else 0, upper, seeds)


def count_vote_pairs(votes: NDArray[np.uint64], num_bits: int) -> I64:
    """Return in how many rows two bits are both set, shape (num_bits, num_bits); bits past these may be anything."""
    pairs, words = np.zeros((num_bits, num_bits), np.int64), -(-num_bits // 64)
    for start in range(0, len(votes), ROWS):
        bits = unpack_bits(votes[start : start + ROWS, :words])[:, :num_bits].astype(np.float32)
        pairs += (bits.T @ bits).astype(np.int64)  # sums below 2**24 are exact
    return pairs


def expected_buckets(num_cohorts: int, buckets: int) -> NDArray[np.float64]:
    """Return the share of the seeds ``0 .. num_cohorts - 1`` that has each remainder, float64 of shape (buckets,)."""
    assert buckets <= MAX_COHORTS
    each, more = divmod(num_cohorts, buckets)
    return (each + (np.arange(buckets) < more)) / num_cohorts
