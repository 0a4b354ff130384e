"""How often each bit is set in each cohort: by NumPy for few reports, by compiled kernels once there are many.

Loading the compiler takes most of a second, in which NumPy counts hundreds of thousands of reports. Reports come in
batches, so what counts is how much this process has counted so far.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]

PATIENCE: Final = 1 << 19
"""Words of 64 bits that a process counts by NumPy (about a quarter of a second) before it loads the kernels."""
ROWS: Final = 1 << 12
"""Reports that are unpacked at a time."""
KERNELS: Final = "overstory.kernels.popcount"

_counted_slowly = 0


def count_bits(reports: NDArray[np.uint64], cohorts: NDArray[np.uint16], num_cohorts: int) -> tuple[I64, I64]:
    """Return the reports of each cohort, shape (m,), and how many of them have each bit, shape (m, 64 * words).

    Parameters
    ----------
    reports : ndarray of uint64, shape (n, words)
        Packed reports.
    cohorts : ndarray of uint16, shape (n,)
        Below `num_cohorts`, which is at least 1.
    num_cohorts
        m.
    """
    global _counted_slowly  # noqa: PLW0603 - a tally of the process
    if KERNELS not in sys.modules and _counted_slowly + reports.size <= PATIENCE:
        _counted_slowly += reports.size
        return count_slowly(reports, cohorts, num_cohorts)
    from overstory.kernels.popcount import count_bits_by_cohort

    return count_bits_by_cohort(reports, cohorts, num_cohorts)


def load_kernels() -> None:
    """Load the compiled kernels now: a process that counts all day does not wait for them later."""
    from overstory.kernels.popcount import count_bits_by_cohort

    count_bits_by_cohort(np.zeros((0, 1), np.uint64), np.zeros(0, np.uint16), 1)


def count_slowly(reports: NDArray[np.uint64], cohorts: NDArray[np.uint16], num_cohorts: int) -> tuple[I64, I64]:
    """Return the same by NumPy alone.

    Examples
    --------
    >>> totals, ones = count_slowly(np.array([[5], [4], [2]], np.uint64), np.array([1, 1, 0], np.uint16), 2)
    >>> totals.tolist(), ones[:, :3].tolist()
    ([1, 2], [[0, 1, 0], [1, 0, 2]])
    """
    ones = np.zeros((num_cohorts, 64 * reports.shape[1]), np.int64)
    order = np.argsort(cohorts, kind="stable")
    for start in range(0, len(reports), ROWS):
        rows = order[start : start + ROWS]
        there, first = np.unique(cohorts[rows], return_index=True)
        octets = np.ascontiguousarray(reports[rows].astype("<u8", copy=False)).view(np.uint8)
        bits = np.unpackbits(octets.reshape(len(rows), -1), axis=1, bitorder="little")
        ones[there] += np.add.reduceat(bits, first, axis=0, dtype=np.int64)
    return np.bincount(cohorts, minlength=num_cohorts).astype(np.int64), ones
