"""Products with a design matrix X held as bit positions, one byte a hash, and coordinate descent on its columns.

Shared notation: ``positions`` has shape (num_cohorts, M, num_hashes); a ``table`` holds one number per row of the
design matrix, as (num_cohorts, num_bits). ``distinct`` says that no candidate names a bit twice in a cohort; otherwise
repeats are skipped, since a Bloom bit is set once. A call works on the candidates ``first .. stop``, so that threads
can share them, in blocks whose results and one cohort's row of the table stay in the first-level cache. X itself, even
as a sparse matrix, is never built.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from overstory.kernels.compiled import kernel

BLOCK = 2048
TILE = 128  # candidates whose directions are summed together


@kernel
def _repeated(positions: Any, cohort: Any, candidate: Any, index: Any) -> Any:
    """Whether an earlier hash of this candidate in this cohort fell on the same bit."""
    for earlier in range(index):  # noqa: SIM110 (a generator would not compile)
        if positions[cohort, candidate, earlier] == positions[cohort, candidate, index]:
            return True
    return False


@kernel
def correlate(positions: Any, table: Any, distinct: Any, first: Any, stop: Any, out: Any) -> None:
    """Write X' t into ``out``: for every candidate the sum of the table over the bits it sets."""
    cohorts, _, hashes = positions.shape
    for low in range(first, stop, BLOCK):
        high = min(low + BLOCK, stop)
        out[low:high] = 0.0
        for j in range(cohorts):
            row = table[j]
            # (X' t)_s = sum over cohorts j and set bits i of t_ji; two hashes, the common case, without an inner loop.
            if distinct and hashes == 2:
                for s in range(low, high):
                    out[s] += row[positions[j, s, 0]] + row[positions[j, s, 1]]
            elif distinct:
                for s in range(low, high):
                    for t in range(hashes):
                        out[s] += row[positions[j, s, t]]
            else:
                for s in range(low, high):
                    for t in range(hashes):
                        if not _repeated(positions, j, s, t):
                            out[s] += row[positions[j, s, t]]


@kernel
def squared_lengths(positions: Any, basis: Any, centre: Any, distinct: Any, first: Any, stop: Any, out: Any) -> None:
    """Write ||B' x_s - c||^2 into ``out`` for every column x_s; ``basis`` is (num_cohorts, num_bits, directions)."""
    cohorts, _, hashes = positions.shape
    directions = basis.shape[2]
    totals = np.empty((TILE, directions), basis.dtype)
    for low in range(first, stop, TILE):
        high = min(low + TILE, stop)
        # Start at -c and add the rows of B that the column sets: the total is B' x_s - c.
        totals[:] = -centre
        for j in range(cohorts):
            for s in range(low, high):
                total = totals[s - low]
                if distinct and hashes == 2:
                    first_row, second_row = basis[j, positions[j, s, 0]], basis[j, positions[j, s, 1]]
                    for d in range(directions):
                        total[d] += first_row[d] + second_row[d]
                    continue
                for t in range(hashes):
                    if distinct or not _repeated(positions, j, s, t):
                        line = basis[j, positions[j, s, t]]
                        for d in range(directions):
                            total[d] += line[d]
        # ||B' x_s - c||^2, the squares added in the order of the directions.
        for s in range(low, high):
            length = 0.0
            for d in range(directions):
                length += totals[s - low, d] * totals[s - low, d]
            out[s] = length


@kernel
def gram(positions: Any, table: Any, distinct: Any, out: Any) -> None:
    """Add X' diag(t) X to ``out``, bit by bit: only candidates that share a bit meet."""
    cohorts, candidates, hashes = positions.shape
    bits = table.shape[1]
    members = np.empty(candidates * hashes, np.int64)
    starts = np.empty(bits + 2, np.int64)
    for j in range(cohorts):
        # Counting sort of the candidates by bit: sizes, running starts, then each candidate into its place.
        starts[:] = 0
        for s in range(candidates):
            for t in range(hashes):
                if distinct or not _repeated(positions, j, s, t):
                    starts[positions[j, s, t] + 2] += 1
        for i in range(1, bits + 2):
            starts[i] += starts[i - 1]
        for s in range(candidates):
            for t in range(hashes):
                if distinct or not _repeated(positions, j, s, t):
                    bit = positions[j, s, t] + 1
                    members[starts[bit]] = s
                    starts[bit] += 1
        # (X' diag(t) X)_ab = sum of t_ji over the bits that a and b both set.
        for i in range(bits):
            weight = table[j, i]
            for a in range(starts[i], starts[i + 1]):
                for b in range(starts[i], starts[i + 1]):
                    out[members[a], members[b]] += weight


@kernel
def descend(rows: Any, residual: Any, coefficients: Any, penalty: Any, tolerance: Any, max_sweeps: Any) -> Any:
    """Minimize ||y - X b||^2 / 2 + penalty sum b over b >= 0, in place. Returns the sweeps."""
    # `rows` (columns, entries) has where a column is 1, and then -1; `residual` and `coefficients` are changed.
    columns, entries = rows.shape
    everything = True
    for sweep in range(max_sweeps):
        largest = 0.0
        for s in range(columns):
            old = coefficients[s]
            # Between full sweeps only the active set (b_s != 0) is swept.
            if old == 0.0 and not everything:
                continue
            # slope = x_s' (y - X b) and length = ||x_s||^2, the number of rows that the 0/1 column sets.
            slope = 0.0
            length = 0.0
            for e in range(entries):
                if rows[s, e] >= 0:
                    slope += residual[rows[s, e]]
                    length += 1.0
            if length == 0.0:
                continue
            # The minimum in b_s alone is soft thresholding: max(pull - penalty, 0) / length.
            new = max(slope + length * old - penalty, 0.0) / length
            # Keep residual = y - X b true after the step.
            step = new - old
            if step != 0.0:
                coefficients[s] = new
                for e in range(entries):
                    if rows[s, e] >= 0:
                        residual[rows[s, e]] -= step
                largest = max(largest, abs(step))
        # Converged when a full sweep moves no coordinate by more than the tolerance.
        if largest <= tolerance:
            if everything:
                return sweep + 1
            everything = True
        else:
            everything = False
    return max_sweeps
