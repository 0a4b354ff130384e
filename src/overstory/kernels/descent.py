"""Cyclic coordinate descent for the Lasso over a working set of 0/1 columns held as lists of their rows."""

from __future__ import annotations

from typing import Any

from numba import njit


@njit(cache=True, nogil=True)
def descend(
    rows: Any, residual: Any, coefficients: Any, penalty: Any, positive: Any, tolerance: Any, max_sweeps: Any
) -> Any:
    """Minimize ||y - X b||^2 / 2 + penalty sum |b| in place, sweeping the coordinates until none moves.

    ``rows`` is (columns, entries): the rows where a column is 1, or -1. ``residual`` (y - X b) and ``coefficients`` (b)
    are updated together. Between full sweeps only the non-zero coordinates are swept. Returns the sweeps made.
    """
    columns, entries = rows.shape
    everything = True
    for sweep in range(max_sweeps):
        largest = 0.0
        for s in range(columns):
            old = coefficients[s]
            if old == 0.0 and not everything:
                continue
            slope = 0.0
            length = 0.0
            for e in range(entries):
                if rows[s, e] >= 0:
                    slope += residual[rows[s, e]]
                    length += 1.0
            if length == 0.0:
                continue
            pull = slope + length * old
            new = 0.0
            if pull > penalty:
                new = (pull - penalty) / length
            elif pull < -penalty and not positive:
                new = (pull + penalty) / length
            step = new - old
            if step != 0.0:
                coefficients[s] = new
                for e in range(entries):
                    if rows[s, e] >= 0:
                        residual[rows[s, e]] -= step
                largest = max(largest, abs(step))
        if largest <= tolerance:
            if everything:
                return sweep + 1
            everything = True
        else:
            everything = False
    return max_sweeps
