"""Products with the design matrix: NumPy for small maps (no compiler to load), Numba kernels for large ones.

`colliding` finds the candidates that no decoder can distinguish: they set the same bits in every cohort.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.analysis.candidates import CandidateMap

    F64 = NDArray[np.float64]

DENSE_CELLS = 1 << 20
"""Up to this many cells a design matrix is written out (8 MB); past it, it is only ever a list of positions."""

PART = 1 << 15
"""Candidates worth a thread of their own."""


def is_small(candidates: CandidateMap) -> bool:
    """Whether the whole design matrix may be written out."""
    return candidates.num_rows * candidates.num_candidates <= DENSE_CELLS


def correlate(candidates: CandidateMap, rows: F64) -> F64:
    """Return X' r, shape (M,), for a number per row of the design matrix, shape (num_rows,).

    Examples
    --------
    >>> from overstory.analysis.candidates import CandidateMap
    >>> shelf = CandidateMap(["ash", "elm"], np.array([[[0, 1], [2, 2]]]), num_bits=3)
    >>> correlate(shelf, np.array([1.0, 10.0, 100.0])).tolist()
    [11.0, 100.0]
    """
    if is_small(candidates):
        return rows @ candidates.dense()
    from overstory.kernels import design_matrix
    from overstory.kernels.compiled import in_parts

    out = np.empty(candidates.num_candidates)
    table = np.ascontiguousarray(rows).reshape(candidates.num_cohorts, candidates.num_bits)
    positions, distinct = candidates.positions, candidates.distinct

    def part(first: int, stop: int) -> None:
        design_matrix.correlate(positions, table, distinct, first, stop, out)

    in_parts(part, out.size, None, smallest=PART)
    return out


def gram(candidates: CandidateMap, weights: F64, columns: NDArray[np.intp] | None = None) -> F64:
    """Return X' diag(w) X over all columns, or over some, shape (columns, columns)."""
    if is_small(candidates):
        matrix = candidates.dense(columns)
        return np.asarray(matrix.T @ (weights[:, None] * matrix))
    from overstory.kernels import design_matrix

    positions = candidates.positions if columns is None else candidates.positions[:, columns, :]
    out = np.zeros((positions.shape[1], positions.shape[1]))
    table = np.ascontiguousarray(weights).reshape(candidates.num_cohorts, candidates.num_bits)
    design_matrix.gram(positions, table, candidates.distinct, out)
    return out


def squared_lengths(candidates: CandidateMap, basis: F64, centre: F64) -> F64:
    """Return ||B' x_s - c||^2 for every column x_s, shape (M,), for directions B of shape (num_rows, directions)."""
    if is_small(candidates):
        return np.asarray(((basis.T @ candidates.dense() - centre[:, None]) ** 2).sum(axis=0))
    from overstory.kernels import design_matrix
    from overstory.kernels.compiled import in_parts

    out = np.empty(candidates.num_candidates)
    table = np.ascontiguousarray(basis).reshape(candidates.num_cohorts, candidates.num_bits, -1)
    positions, distinct = candidates.positions, candidates.distinct

    def part(first: int, stop: int) -> None:
        design_matrix.squared_lengths(positions, table, centre, distinct, first, stop, out)

    in_parts(part, out.size, None, smallest=PART // 8)
    return out


def predict(candidates: CandidateMap, coefficients: F64) -> F64:
    """Return X b, shape (num_rows,): what each row would hold if candidate s had weight ``coefficients[s]``."""
    # X b as a scatter: only candidates with weight, each adding it to the rows that it sets.
    held = np.flatnonzero(coefficients)
    rows = column_rows(candidates, held)
    weights = np.repeat(coefficients[held], rows.shape[1])
    seen = rows.ravel() >= 0
    sums = np.bincount(rows.ravel()[seen], weights[seen], minlength=candidates.num_rows)
    return np.asarray(sums, np.float64)


def fingerprints(candidates: CandidateMap) -> NDArray[np.uint64]:
    """Return 64 bits per candidate that agree whenever two columns are equal, shape (M,)."""
    if is_small(candidates):
        from overstory.kernels.small_hashes import split_mix

        # A pseudo-random number per row; equal columns have equal sums, modulo 2**64.
        rows = split_mix(np.arange(candidates.num_rows, dtype=np.uint64))
        return np.asarray(rows @ candidates.dense().astype(np.uint64))
    from overstory.kernels import design_matrix
    from overstory.kernels.compiled import in_parts

    out = np.empty(candidates.num_candidates, np.uint64)
    positions, distinct = candidates.positions, candidates.distinct

    def part(first: int, stop: int) -> None:
        design_matrix.fingerprints(positions, distinct, first, stop, out)

    in_parts(part, out.size, None, smallest=PART)
    return out


def column_rows(candidates: CandidateMap, columns: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return the rows that some columns set, shape (len(columns), num_cohorts * num_hashes); repeats are -1."""
    positions = candidates.positions[:, columns, :].astype(np.int64)
    if not candidates.distinct:
        # A Bloom bit is set once: after sorting, a repeat equals the one before it.
        positions = np.sort(positions, axis=2)
        positions[:, :, 1:][positions[:, :, 1:] == positions[:, :, :-1]] = -1
    offset = (np.arange(candidates.num_cohorts) * candidates.num_bits)[:, None, None]
    rows = np.where(positions < 0, -1, positions + offset)
    entries = candidates.num_cohorts * candidates.num_hashes
    return np.ascontiguousarray(rows.transpose(1, 0, 2).reshape(len(columns), entries))


def colliding(candidates: CandidateMap) -> list[list[int]]:
    """Return the groups of candidates (by index) that set the same bits in every cohort, in the candidates' order.

    Only their sum can be estimated.

    Examples
    --------
    >>> from overstory.analysis.candidates import CandidateMap
    >>> colliding(CandidateMap(["ash", "elm", "oak"], np.array([[[0, 1], [2, 2], [1, 0]]]), num_bits=4))
    [[0, 2]]
    """
    return sorted(group for suspects in _suspects(candidates) for group in _confirmed(candidates, suspects))


def _suspects(candidates: CandidateMap) -> list[NDArray[np.intp]]:
    """Candidates whose columns' fingerprints agree."""
    prints = fingerprints(candidates)
    ordered = np.sort(prints)
    if not (ordered[1:] == ordered[:-1]).any():
        return []
    # Runs of equal fingerprints; the stable sort keeps the candidates' order in each.
    order = np.argsort(prints, kind="stable")
    edges = np.flatnonzero(np.diff(prints[order])) + 1
    starts = np.concatenate(([0], edges))
    sizes = np.diff(np.concatenate((starts, [order.size])))
    shared = np.flatnonzero(sizes > 1)
    return [order[starts[group] : starts[group] + sizes[group]] for group in shared]


def _confirmed(candidates: CandidateMap, suspects: NDArray[np.intp]) -> list[list[int]]:
    """Split candidates with one fingerprint by the columns themselves."""
    groups: dict[tuple[frozenset[int], ...], list[int]] = {}
    for index in suspects:
        column = tuple(frozenset(cohort) for cohort in candidates.positions[:, index, :].tolist())
        groups.setdefault(column, []).append(int(index))
    return [sorted(group) for group in groups.values() if len(group) > 1]
