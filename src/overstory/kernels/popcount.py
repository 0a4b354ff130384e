"""Sum packed reports: how many of them have each bit, for each cohort (see `overstory.kernels.carry_save`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from overstory.kernels.carry_save import MOST_TREES, add_by_cohort, add_each, add_grouped, row_width
from overstory.kernels.threads import in_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

SMALLEST = 1 << 15  # words worth a thread


def _flat(reports: NDArray[np.uint64]) -> NDArray[np.uint64]:
    if reports.ndim != 2 or reports.dtype != np.uint64 or reports.shape[1] == 0:
        raise ValueError(f"reports must be uint64 of shape (n, words), not {reports.dtype} {reports.shape}")
    return np.require(reports, np.uint64, ["C", "A"]).reshape(-1)


def count_bits(reports: NDArray[np.uint64], *, threads: int | None = None) -> NDArray[np.int64]:
    """How many reports have each bit.

    Parameters
    ----------
    reports : uint64[n, words]
        Packed reports (see docs/explanation/architecture.md).
    threads : int, optional
        The most threads; as many as there are cores unless given.

    Returns
    -------
    int64[words * 64]

    Examples
    --------
    >>> import numpy as np
    >>> count_bits(np.array([[5], [4]], dtype=np.uint64))[:4]
    array([1, 0, 2, 0])
    """
    offsets = np.array([0, len(reports)], dtype=np.int64)
    ones: NDArray[np.int64] = count_bits_grouped(reports, offsets, threads=threads)[1][0]
    return ones


def count_bits_grouped(
    reports: NDArray[np.uint64], offsets: NDArray[np.int64], *, threads: int | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many reports of each cohort there are and have each bit, when the rows lie in order of cohort.

    Parameters
    ----------
    reports : uint64[n, words]
        Packed reports.
    offsets : int64[m + 1]
        Rows ``offsets[c] .. offsets[c + 1]`` are cohort ``c``'s.
    threads : int, optional
        The most threads; as many as there are cores unless given.

    Returns
    -------
    totals : int64[m]
    ones : int64[m, words * 64]
    """
    flat, (n, words) = _flat(reports), reports.shape
    offsets = np.require(offsets, np.int64, ["C", "A"])
    if offsets.ndim != 1 or offsets.size < 1 or offsets[0] < 0 or offsets[-1] > n or (np.diff(offsets) < 0).any():
        raise ValueError(f"offsets must rise from 0 or more to at most {n}")

    def part(start: int, stop: int) -> NDArray[np.int64]:
        ones = np.zeros((offsets.size - 1, words * 64), dtype=np.int64)
        add_grouped(flat, offsets, start, stop, words, ones)
        return ones

    parts = in_parts(part, n, threads, smallest=max(1, SMALLEST // words))
    return np.diff(offsets), np.sum(parts, axis=0)


def count_bits_by_cohort(
    reports: NDArray[np.uint64], cohorts: NDArray[np.uint16], num_cohorts: int, *, threads: int | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many reports of each cohort there are and have each bit, when the rows lie in order of arrival.

    Parameters
    ----------
    reports : uint64[n, words]
        Packed reports.
    cohorts : uint16[n]
        Each report's cohort, below ``num_cohorts``.
    num_cohorts : int
        m, at least 1.
    threads : int, optional
        The most threads; as many as there are cores unless given.

    Returns
    -------
    totals : int64[m]
    ones : int64[m, words * 64]
    """
    flat, (n, words) = _flat(reports), reports.shape
    if cohorts.shape != (n,) or cohorts.dtype != np.uint16:
        raise ValueError(f"cohorts must be uint16 of shape ({n},), not {cohorts.dtype} {cohorts.shape}")
    if n and int(cohorts.max()) >= num_cohorts:
        row = int(np.argmax(cohorts >= num_cohorts))
        raise ValueError(f"cohorts[{row}] is {cohorts[row]}; there are {num_cohorts} cohorts")
    column = np.require(cohorts, np.uint16, ["C", "A"])
    add = add_by_cohort if num_cohorts * row_width(words) <= MOST_TREES else add_each

    def part(start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        totals, ones = np.zeros(num_cohorts, dtype=np.int64), np.zeros((num_cohorts, words * 64), dtype=np.int64)
        add(flat, column, start, stop, words, totals, ones)
        return totals, ones

    parts = in_parts(part, n, threads, smallest=max(1, SMALLEST // words))
    return np.sum([part[0] for part in parts], axis=0), np.sum([part[1] for part in parts], axis=0)
