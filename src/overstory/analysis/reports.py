"""Batches of reports as arrays: packed bits and a cohort column."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.bit_counts import count_bits
from overstory.analysis.counts import SupportCounts
from overstory.protocol.encodings import MAX_COHORTS
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.mechanism import Report
from overstory.protocol.wire import Batch, Sender, cohort_width, decode_batch, encode_columns, encode_reports


@dataclass(frozen=True, eq=False, repr=False)
class ReportBatch:
    """n reports of one mechanism.

    Parameters
    ----------
    cohorts : ndarray of uint16 (uint32 where there are more than 2**16), shape (n,)
        Each report's cohort.
    bits : ndarray of uint64, shape (n, ceil(num_bits / 64))
        Bit i of a report is bit ``i % 64`` of word ``i // 64``; bits past `num_bits` are zero.
    num_bits, num_cohorts : int
        The mechanism's dimensions.

    Raises
    ------
    ParameterError
        When the shapes disagree or a cohort does not exist.

    Examples
    --------
    >>> batch = ReportBatch(np.array([0, 1], np.uint16), np.array([[5], [2]], np.uint64), num_bits=3, num_cohorts=2)
    >>> batch.accumulate().ones.tolist()
    [[1, 0, 1], [0, 1, 0]]
    """

    cohorts: NDArray[np.uint16] | NDArray[np.uint32]
    bits: NDArray[np.uint64]
    num_bits: int
    num_cohorts: int

    def __post_init__(self) -> None:
        words = -(-self.num_bits // 64)
        if self.bits.shape != (len(self.cohorts), words):
            raise ParameterError(
                f"{len(self.cohorts)} reports of {self.num_bits} bits need shape ({len(self.cohorts)}, {words}), "
                f"not {self.bits.shape}"
            )
        if self.cohorts.size and int(self.cohorts.max()) >= self.num_cohorts:
            raise ParameterError(f"cohort {self.cohorts.max()} does not exist: cohorts are 0 .. {self.num_cohorts - 1}")

    def __len__(self) -> int:
        return len(self.cohorts)

    def __repr__(self) -> str:
        return f"ReportBatch({len(self):,} reports, num_bits={self.num_bits}, num_cohorts={self.num_cohorts})"

    def accumulate(self) -> SupportCounts:
        """Count reports per cohort and set bits per (cohort, bit).

        Raises
        ------
        ParameterError
            When the cohorts are public seeds, too many to be counted apart: `FrequencyOracle.accumulate` reads those.
        """
        if self.num_cohorts > MAX_COHORTS:
            raise ParameterError(f"{self.num_cohorts} cohorts cannot be counted apart: name the values to count")
        cohorts = self.cohorts.astype(np.uint16, copy=False)
        totals, ones = count_bits(self.bits, cohorts, self.num_cohorts)
        return SupportCounts(totals, ones[:, : self.num_bits])

    def octets(self) -> NDArray[np.uint8]:
        """Return the bits as they travel: shape (n, ceil(num_bits / 8)), a view where no word is padded."""
        little = self.bits.astype("<u8", copy=False)
        return little.view(np.uint8).reshape(len(self), 8 * self.bits.shape[1])[:, : -(-self.num_bits // 8)]

    @classmethod
    def from_octets(
        cls, cohorts: NDArray[Any], octets: NDArray[np.uint8], *, num_bits: int, num_cohorts: int
    ) -> ReportBatch:
        """Build a batch from bits as they travel, shape (n, ceil(num_bits / 8)).

        Raises
        ------
        ParameterError
            When the shapes disagree or a cohort does not exist.
        """
        width, padded = -(-num_bits // 8), 8 * -(-num_bits // 64)
        if octets.ndim != 2 or octets.shape[1] != width:
            raise ParameterError(f"reports of {num_bits} bits have {width} bytes each, not shape {octets.shape}")
        if width != padded:
            octets = np.pad(octets, ((0, 0), (0, padded - width)))
        bits = np.ascontiguousarray(octets).view("<u8").astype(np.uint64, copy=False)
        return cls(cohorts.astype(f"u{cohort_width(num_cohorts)}", copy=False), bits, num_bits, num_cohorts)

    def to_wire(self, digest: bytes) -> bytes:
        """Write the batch as it travels, labelled with the mechanism's digest."""
        cohorts = self.cohorts.astype(f"<u{cohort_width(self.num_cohorts)}", copy=False).tobytes()
        return encode_columns(digest, self.num_bits, self.num_cohorts, cohorts, self.octets().tobytes())

    @classmethod
    def from_wire(cls, batch: Batch) -> ReportBatch:
        """View a decoded batch as arrays."""
        octets = np.frombuffer(batch.bits, np.uint8).reshape(batch.num_reports, -(-batch.num_bits // 8))
        cohorts = np.frombuffer(batch.cohorts, f"<u{cohort_width(batch.num_cohorts)}")
        return cls.from_octets(cohorts, octets, num_bits=batch.num_bits, num_cohorts=batch.num_cohorts)

    @classmethod
    def of(cls, mechanism: Sender, reports: Iterable[Report]) -> ReportBatch:
        """Gather reports of one mechanism.

        Raises
        ------
        ParameterError
            When a report cannot be one of this mechanism.
        """
        return cls.from_wire(decode_batch(encode_reports(mechanism, reports)))
