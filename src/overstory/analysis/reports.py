"""Batches of reports as arrays, packed bits and a cohort column; support counts, by NumPy if few, else by kernels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from overstory.kernels import columns
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import MAX_COHORTS, Kind, Report
from overstory.protocol.wire.upload import Batch, cohort_width, decode_batch, encode_columns, encode_reports

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    I64 = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class SupportCounts:
    """What a collection is reduced to before decoding: a commutative monoid under ``+``.

    Parameters
    ----------
    totals : array_like of int, shape (num_cohorts,)
        Reports received from each cohort.
    ones : array_like of int, shape (num_cohorts, num_bits)
        How often bit ``i`` was set in the reports of cohort ``j``; between 0 and ``totals[j]``.

    Attributes
    ----------
    num_reports : int
        Reports received from all cohorts together, the sum of ``totals``.
    num_cohorts : int
        Number of cohorts, empty ones included.
    num_bits : int
        Bits that one report has, or values that are counted: the columns of ``ones``.

    Raises
    ------
    ParameterError
        If the shapes disagree, or a count is negative or larger than its cohort.

    Examples
    --------
    >>> monday = SupportCounts([2], [[1, 0, 2]])
    >>> tuesday = SupportCounts([1], [[1, 1, 0]])
    >>> (monday + tuesday).ones.tolist()
    [[2, 1, 2]]
    >>> monday + SupportCounts.empty(1, 3) == monday
    True
    """

    totals: NDArray[np.int64]
    ones: NDArray[np.int64]
    num_reports: int = field(init=False)
    num_cohorts: int = field(init=False)
    num_bits: int = field(init=False)

    def __init__(self, totals: ArrayLike, ones: ArrayLike) -> None:
        object.__setattr__(self, "totals", _integers(totals, "totals", ndim=1))
        object.__setattr__(self, "ones", _integers(ones, "ones", ndim=2))
        self._check()
        object.__setattr__(self, "num_reports", int(self.totals.sum()))
        object.__setattr__(self, "num_cohorts", int(self.ones.shape[0]))
        object.__setattr__(self, "num_bits", int(self.ones.shape[1]))

    @classmethod
    def empty(cls, num_cohorts: int, num_bits: int) -> SupportCounts:
        """Return the counts of no reports, the neutral element of ``+``."""
        if num_cohorts < 1 or num_bits < 1:
            raise ParameterError(f"counts need a cohort and a bit, not {num_cohorts} x {num_bits}")
        return cls(np.zeros(num_cohorts, np.int64), np.zeros((num_cohorts, num_bits), np.int64))

    def __add__(self, other: SupportCounts) -> SupportCounts:
        """Merge with counts of other reports of the same collection."""
        if not isinstance(other, SupportCounts):
            return NotImplemented
        if self.ones.shape != other.ones.shape:
            raise ParameterError(
                f"cannot merge counts of {_shape(self)} with counts of {_shape(other)}: "
                "they come from different collections",
            )
        return SupportCounts(self.totals + other.totals, self.ones + other.ones)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SupportCounts):
            return NotImplemented
        return np.array_equal(self.totals, other.totals) and np.array_equal(self.ones, other.ones)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"SupportCounts({self.num_reports:,} reports, num_cohorts={self.num_cohorts}, num_bits={self.num_bits})"

    def _check(self) -> None:
        if self.totals.shape[0] != self.ones.shape[0]:
            raise ParameterError(f"{self.totals.shape[0]} totals, but {self.ones.shape[0]} rows of bit counts")
        if not self.ones.size:
            raise ParameterError(f"counts need a cohort and a bit, not {_shape(self)}")
        wrong = (self.ones < 0) | (self.ones > self.totals[:, None])
        if wrong.any():
            cohort, bit = (int(x) for x in np.argwhere(wrong)[0])
            raise ParameterError(
                f"cohort {cohort}, bit {bit}: {self.ones[cohort, bit]} ones in {self.totals[cohort]} reports; "
                "a bit is set between 0 times and once a report",
            )


def _integers(values: ArrayLike, name: str, *, ndim: int) -> NDArray[np.int64]:
    """Return a read-only int64 copy, refusing fractions and other shapes."""
    given = np.asarray(values)
    if given.ndim != ndim:
        raise ParameterError(f"{name} must have {ndim} dimension(s), not {given.ndim}")
    if given.dtype.kind not in "iu" and given.size:
        raise ParameterError(f"{name} must be whole numbers, not {given.dtype}")
    if given.size and int(given.max()) > np.iinfo(np.int64).max:
        raise ParameterError(f"{name} must be below 2**63")
    copied = given.astype(np.int64, order="C", copy=True)
    copied.flags.writeable = False
    return copied


def _shape(counts: SupportCounts) -> str:
    return f"{counts.ones.shape[0]} cohorts x {counts.ones.shape[1]} bits"


TOGETHER: Final = 8  # words of 64 bits that NumPy counts in the time of a block of `overstory.kernels.columns`
ROWS: Final = 1 << 12  # reports that are unpacked at a time
KERNELS: Final = "popcount"


def count_bits(reports: NDArray[np.uint64], cohorts: NDArray[np.uint16], num_cohorts: int) -> tuple[I64, I64]:
    """Return the reports of each cohort, shape (m,), and how many of them have each bit, shape (m, 64 * words)."""
    if are_few(reports):
        return count_slowly(reports, cohorts, num_cohorts)
    from overstory.kernels.popcount import count_bits_by_cohort, count_bits_grouped

    parts = (cohorts[:64], cohorts)  # where they come in any order, the first few show it
    if len(cohorts) >= num_cohorts and all(bool((part[1:] >= part[:-1]).all()) for part in parts):
        starts = np.searchsorted(cohorts, np.arange(num_cohorts, dtype=cohorts.dtype))
        offsets = np.append(starts, len(cohorts)).astype(np.int64)
        return count_bits_grouped(reports, offsets)
    return count_bits_by_cohort(reports, cohorts, num_cohorts)


def are_few(reports: NDArray[np.uint64]) -> bool:
    """Whether NumPy counts these, part by part, before the kernels are loaded."""
    return columns.are_few(reports.size // TOGETHER, KERNELS, at_once=columns.COMPILING)


def load_kernels(*, compiling: bool = False) -> None:
    """Load the kernels now, for a process that counts all day; where none are compiled, see that they can be."""
    from numba import njit

    from overstory.kernels.popcount import count_bits_by_cohort

    if compiling or columns.is_compiled(KERNELS):
        count_bits_by_cohort(np.zeros((0, 1), np.uint64), np.zeros(0, np.uint16), 1)
    else:
        njit(lambda: 0)()  # raises what the compiler will; no code is kept


def count_slowly(reports: NDArray[np.uint64], cohorts: NDArray[np.uint16], num_cohorts: int) -> tuple[I64, I64]:
    """Return the same by NumPy alone."""
    ones = np.zeros((num_cohorts, 64 * reports.shape[1]), np.int64)
    order = np.argsort(cohorts, kind="stable")
    for start in range(0, len(reports), ROWS):
        rows = order[start : start + ROWS]
        there, first = np.unique(cohorts[rows], return_index=True)
        ones[there] += np.add.reduceat(unpack_bits(reports[rows]), first, axis=0, dtype=np.int64)
    return np.bincount(cohorts, minlength=num_cohorts).astype(np.int64), ones


def unpack_bits(words: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Return packed bits one by one, shape (n, 64 * words)."""
    octets = np.ascontiguousarray(words.astype("<u8", copy=False)).view(np.uint8)
    return np.unpackbits(octets.reshape(len(words), -1), axis=1, bitorder="little")


def group_by_cohort(
    reports: NDArray[np.uint64], cohorts: NDArray[np.uint16], num_cohorts: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Put reports in order of cohort, then of arrival; rows ``offsets[c] .. offsets[c + 1]`` are cohort c's."""
    n, words = reports.shape
    column = np.ascontiguousarray(cohorts, np.uint16)
    if column.shape != (n,) or (n and int(column.max()) >= num_cohorts):
        raise ValueError(f"{n} reports of {num_cohorts} cohorts need a cohort each, below {num_cohorts}")
    offsets = np.zeros(num_cohorts + 1, np.int64)
    np.cumsum(np.bincount(column, minlength=num_cohorts), out=offsets[1:])
    if are_few(reports):
        return reports[np.argsort(column, kind="stable")], offsets
    from overstory.kernels.popcount import move_rows

    out = np.empty(n * words, np.uint64)
    move_rows(np.ascontiguousarray(reports).reshape(-1), column, words, offsets[:-1].copy(), out)
    return out.reshape(n, words), offsets


def packed_words(octets: NDArray[np.uint8], num_bits: int) -> NDArray[np.uint64]:
    """Return reports as they travel, shape (n, ceil(num_bits / 8)), as words of 64 bits; a view if none is padded."""
    width, padded = -(-num_bits // 8), 8 * -(-num_bits // 64)
    if octets.ndim != 2 or octets.shape[1] != width:
        raise ParameterError(f"reports of {num_bits} bits have {width} bytes each, not shape {octets.shape}")
    if width != padded:
        octets = np.pad(octets, ((0, 0), (0, padded - width)))
    return np.ascontiguousarray(octets).view("<u8").astype(np.uint64, copy=False)


@dataclass(frozen=True, eq=False, repr=False)
class ReportBatch:
    """n reports of one mechanism.

    Parameters
    ----------
    cohorts : ndarray of uint16 (uint32 where there are more than 2**16), shape (n,)
        The cohort of each report, from 0 to ``num_cohorts - 1``.
    bits : ndarray of uint64, shape (n, ceil(num_bits / 64))
        Bit i of a report is bit ``i % 64`` of word ``i // 64``; bits past `num_bits` are zero.
    num_bits, num_cohorts : int
        The payload bits of a report, and the number of cohorts.

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
        totals, ones = self.count_bits()
        return SupportCounts(totals, ones[:, : self.num_bits])

    def count_bits(self) -> tuple[I64, I64]:
        """Return what the function `count_bits` does."""
        return count_bits(self.bits, self.cohorts.astype(np.uint16, copy=False), self.num_cohorts)

    def octets(self) -> NDArray[np.uint8]:
        """Return the bits as they travel: shape (n, ceil(num_bits / 8)), a view where no word is padded."""
        little = self.bits.astype("<u8", copy=False)
        return little.view(np.uint8).reshape(len(self), 8 * self.bits.shape[1])[:, : -(-self.num_bits // 8)]

    def to_wire(self, digest: bytes) -> bytes:
        """Write the batch as it travels, labelled with the mechanism's digest."""
        cohorts = self.cohorts.astype(f"<u{cohort_width(self.num_cohorts)}", copy=False).tobytes()
        return encode_columns(digest, self.num_bits, self.num_cohorts, cohorts, self.octets().tobytes())

    @classmethod
    def from_wire(cls, batch: Batch) -> ReportBatch:
        """View a decoded batch as arrays."""
        octets = np.frombuffer(batch.bits, np.uint8).reshape(batch.num_reports, -(-batch.num_bits // 8))
        width = cohort_width(batch.num_cohorts)
        cohorts = np.frombuffer(batch.cohorts, f"<u{width}").astype(f"u{width}", copy=False)
        return cls(cohorts, packed_words(octets, batch.num_bits), batch.num_bits, batch.num_cohorts)

    @classmethod
    def of(cls, mechanism: Kind, reports: Iterable[Report]) -> ReportBatch:
        """Gather reports of one mechanism.

        Raises
        ------
        ParameterError
            When a report cannot be one of this mechanism.
        """
        return cls.from_wire(decode_batch(encode_reports(mechanism, reports)))
