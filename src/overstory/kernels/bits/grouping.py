"""Packed reports by cohort: NumPy's sort of few, of many two passes over the cohorts, one over the reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from overstory.kernels.columns import COMPILING, are_few

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    if are_few(reports.size // 8, "bits/popcount", at_once=COMPILING):  # words that NumPy moves in a block's time
        return reports[np.argsort(column, kind="stable")], offsets
    from overstory.kernels.bits.popcount import move_rows

    out = np.empty(n * words, np.uint64)
    move_rows(np.ascontiguousarray(reports).reshape(-1), column, words, offsets[:-1].copy(), out)
    return out.reshape(n, words), offsets
