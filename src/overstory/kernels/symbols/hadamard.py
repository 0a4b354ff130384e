"""Hadamard response: each device's sign, and all values' support by one fast Walsh-Hadamard transform.

Entry (row, value) of Sylvester's matrix H is (-1)^popcount(row & value).  Let s(row) be the reports of the row that
are +1 less those that are -1.  The reports that agree with a value less those that do not are sum_row s(row) H(row,
value), so with n reports the support of all values is ``(n + H s) / 2``, exact in whole numbers.  H s takes K log2 K
additions for K rows, since H is the Kronecker product of (1 1; 1 -1) with itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.kernels.columns import column
from overstory.kernels.compiled import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_DOMAIN = 1 << 31


@kernel
def add_signs(rows: Any, reported: Any, sums: Any) -> None:
    """Add each report's sign to its row."""
    for i in range(rows.size):
        sums[rows[i]] += 1 - 2 * np.int64(reported[i])


@kernel
def transform(sums: Any, step: Any) -> None:
    """Multiply by H, in place, ``step`` vectors of a power of two entries that lie side by side (1, for one vector)."""
    while step < sums.size:
        # One factor (1 1; 1 -1) of the Kronecker product: butterflies of entries `step` apart.
        for start in range(0, sums.size, 2 * step):
            left, right = sums[start : start + step], sums[start + step : start + 2 * step]
            for i in range(step):
                left[i], right[i] = left[i] + right[i], left[i] - right[i]
        step *= 2


def order_of(domain_size: int) -> int:
    """Return the matrix's order: the least power of two that has a column for every value."""
    if not 2 <= domain_size <= MAX_DOMAIN:
        raise ValueError(f"domain_size must be in 2 .. 2 ** 31, not {domain_size}")
    return 1 << (domain_size - 1).bit_length()


def count_hadamard_support(rows: NDArray[Any], reported: NDArray[Any], domain_size: int) -> NDArray[np.int64]:
    """How many reports are each value's sign in the report's row.

    Parameters
    ----------
    rows, reported : uint32[n]
        The reports; the rows are below the matrix's order, the next power of two.
    domain_size : int
        d, at least 2.

    Returns
    -------
    int64[d]

    Examples
    --------
    >>> import numpy as np
    >>> count_hadamard_support(np.array([0, 1, 2, 3]), np.array([0, 1, 0, 1]), 3)
    array([2, 4, 2])
    """
    order = order_of(domain_size)
    rows = column("rows", rows, order)
    reported = column("reported", reported, 2, rows.size)
    sums = np.zeros(order, np.int64)
    add_signs(rows, reported, sums)
    transform(sums, 1)
    # agreeing + disagreeing = n and agreeing - disagreeing = H s, so agreeing = (n + H s) / 2.
    support: NDArray[np.int64] = (rows.size + sums[:domain_size]) // 2
    return support
