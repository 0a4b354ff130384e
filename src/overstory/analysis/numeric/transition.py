"""The table that Square Wave's decoder inverts: P(bucket of cells | bin of values), by exact integration.

A bin is a piece of the range, its people taken as spread evenly over it; a bucket is a run of cells. With
``r(x) = max(x, 0)``, a window of W cells at position s covers ``r(b-s) - r(a-s) - r(b-s-W) + r(a-s-W)`` of the bucket
[a, b). The sum of r over consecutive positions is a triangular number, so the table needs no quadrature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from overstory.protocol.numeric.windows import WindowChannel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    F64 = NDArray[np.float64]


def bucket_edges(num_cells: int, num_buckets: int) -> NDArray[np.int64]:
    """Return the cells at which buckets begin, and the number of cells: as even as whole numbers are.

    Examples
    --------
    >>> bucket_edges(10, 4).tolist()
    [0, 2, 5, 7, 10]
    """
    return np.array([num_cells * i // num_buckets for i in range(num_buckets + 1)], np.int64)


def transition_table(channel: WindowChannel, cells: NDArray[np.int64], num_bins: int) -> F64:
    """Return P(bucket | bin), shape (len(cells) - 1, num_bins).

    Parameters
    ----------
    channel
        P(cell | position).
    cells
        The buckets' first cells, and the number of cells (`bucket_edges`).
    num_bins
        Equal pieces of the range. They need not divide the positions: a position on an edge is shared.

    Examples
    --------
    >>> from fractions import Fraction
    >>> transition_table(WindowChannel(2, 1, Fraction(1, 2)), np.array([0, 1, 2]), 2).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    positions = np.arange(num_bins + 1) * (channel.num_positions / num_bins)
    starts: F64 = cells[:, None].astype(np.float64)
    ends: F64 = positions[None, :].astype(np.float64)
    covered: F64 = _ramp_integral(starts, ends) - _ramp_integral(starts - channel.window, ends)
    overlap = np.diff(np.diff(covered, axis=0), axis=1) / np.diff(positions)[None, :]
    alpha = float(channel.alpha)
    return np.asarray(overlap * (alpha / channel.window) + np.diff(cells)[:, None] * float(channel.outside))


def _ramp_integral(corner: F64, end: F64) -> F64:
    """Integrate ``r(corner - floor(u))`` over u from 0 to `end`: whole positions, and the share of the last one."""
    whole = np.floor(end)
    rest = (end - whole) * np.maximum(corner - whole, 0.0)
    return np.asarray(_triangular(corner) - _triangular(corner - whole) + rest)


def _triangular(count: F64) -> F64:
    held = np.maximum(count, 0.0)
    return np.asarray(held * (held + 1) / 2)
