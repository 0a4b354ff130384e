"""Support counts: how many reports each cohort sent, and how often each bit was set in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, eq=False, repr=False)
class SupportCounts:
    """What a collection is reduced to before decoding: a commutative monoid under ``+``.

    Parameters
    ----------
    totals : array_like of int, shape (num_cohorts,)
        Reports received from each cohort.
    ones : array_like of int, shape (num_cohorts, num_bits)
        How often bit ``i`` was set in the reports of cohort ``j``; between 0 and ``totals[j]``.

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

    def __init__(self, totals: ArrayLike, ones: ArrayLike) -> None:
        object.__setattr__(self, "totals", _integers(totals, "totals", ndim=1))
        object.__setattr__(self, "ones", _integers(ones, "ones", ndim=2))
        self._check()

    @classmethod
    def empty(cls, num_cohorts: int, num_bits: int) -> SupportCounts:
        """Return the counts of no reports, the neutral element of ``+``."""
        if num_cohorts < 1 or num_bits < 1:
            raise ParameterError(f"counts need a cohort and a bit, not {num_cohorts} x {num_bits}")
        return cls(np.zeros(num_cohorts, np.int64), np.zeros((num_cohorts, num_bits), np.int64))

    @property
    def num_reports(self) -> int:
        """Reports over all cohorts."""
        return int(self.totals.sum())

    @property
    def num_cohorts(self) -> int:
        """Number of cohorts, empty ones included."""
        return int(self.ones.shape[0])

    @property
    def num_bits(self) -> int:
        """Bits of one report."""
        return int(self.ones.shape[1])

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
        """Equal when every count is."""
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
