"""The candidate map: which Bloom bits each candidate sets in each cohort, one byte a hash; products with it.

Products with the design matrix are NumPy's for small maps and for few of them (no compiler to load), the same bits as
Numba kernels' for large ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import shake_128
from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.kernels.columns import are_few
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Positions = NDArray[np.integer[Any]]
    F64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CandidateMap:
    """The design matrix: 1 in row (cohort, bit) where any of a candidate's hashes falls; a column is its positions."""

    candidates: Sequence[str]  # as given: a list, a tuple, or an Arrow string array
    positions: Positions  # shape (num_cohorts, M, num_hashes); a Bloom bit that is named twice in a cohort is set once
    num_bits: int

    def __post_init__(self) -> None:
        given = np.asarray(self.positions)
        if given.ndim != 3 or not given.shape[0] or not given.shape[2]:
            raise ParameterError(f"positions must have shape (cohorts, candidates, hashes), not {given.shape}")
        if not 1 <= self.num_bits <= 1 << 16:
            raise ParameterError(f"num_bits must be between 1 and 65536, not {self.num_bits}")
        if len(self.candidates) != given.shape[1]:
            raise ParameterError(f"{len(self.candidates)} candidates, but positions of {given.shape[1]}")
        if given.shape[1] == 0:
            raise ParameterError("the candidate list is empty")
        if given.dtype.kind not in "iu":
            raise ParameterError(f"positions must be whole numbers, not {given.dtype}")
        if int(given.min()) < 0 or int(given.max()) >= self.num_bits:
            place = tuple(int(x) for x in np.argwhere((given < 0) | (given >= self.num_bits))[0])
            where = "cohort {}, candidate {}, hash {}".format(*place)
            raise ParameterError(f"positions must lie in 0 .. {self.num_bits - 1}, found {given[place]} ({where})")
        kind = np.uint8 if self.num_bits <= 256 else np.uint16
        compact = np.ascontiguousarray(given, dtype=kind).view()
        compact.flags.writeable = False
        object.__setattr__(self, "positions", compact)

    @property
    def num_cohorts(self) -> int:
        return int(self.positions.shape[0])

    @property
    def num_candidates(self) -> int:
        return int(self.positions.shape[1])

    @property
    def num_hashes(self) -> int:
        return int(self.positions.shape[2])

    @property
    def num_rows(self) -> int:
        return self.num_cohorts * self.num_bits

    @cached_property
    def distinct(self) -> bool:
        """Whether no candidate names a bit twice in one cohort."""
        hashes = range(self.num_hashes)
        return not any(
            bool((self.positions[:, :, a] == self.positions[:, :, b]).any()) for a in hashes for b in hashes if a < b
        )

    @cached_property
    def fill(self) -> float:
        """Mean share of a report's bits that one candidate sets, about ``num_hashes / num_bits``."""
        if self.distinct:
            return self.num_hashes / self.num_bits
        ordered = np.sort(self.positions, axis=2)
        repeats = np.count_nonzero(ordered[:, :, 1:] == ordered[:, :, :-1])
        return (ordered.size - repeats) / (self.num_cohorts * self.num_candidates * self.num_bits)

    def take(self, columns: NDArray[np.intp]) -> CandidateMap:
        """Return the map of some candidates, by index."""
        names = [str(self.candidates[int(index)]) for index in columns]
        return CandidateMap(names, self.positions[:, columns, :], self.num_bits)

    def dense(self, columns: NDArray[np.intp] | None = None) -> NDArray[np.float64]:
        """Return columns of the design matrix, shape (num_rows, number of columns); all of them by default."""
        chosen = self.positions if columns is None else self.positions[:, columns, :]
        matrix = np.zeros((self.num_cohorts, self.num_bits, chosen.shape[1]))
        cohorts = np.arange(self.num_cohorts)[:, None, None]
        matrix[cohorts, chosen, np.arange(chosen.shape[1])[None, :, None]] = 1.0
        return matrix.reshape(self.num_rows, chosen.shape[1])


DENSE_CELLS = 1 << 20
"""Up to this many cells a design matrix is written out (8 MB); past it, it stays a list of positions."""

PART = 1 << 15  # candidates worth a thread of their own
BLOCK = 1 << 14  # candidates whose sums stay in the cache


TOGETHER = 1 << 7  # numbers that NumPy sums in the time of a block of `overstory.kernels.columns`


def is_small(candidates: CandidateMap, columns: NDArray[np.intp] | None = None) -> bool:
    """Whether the design matrix, or these columns of it, may be written out."""
    return candidates.num_rows * (candidates.num_candidates if columns is None else columns.size) <= DENSE_CELLS


def add_slowly(candidates: CandidateMap, table: NDArray[Any], out: NDArray[Any]) -> bool:
    """Add each candidate's rows of ``table[cohort, bit]`` to ``out``, as the kernels do, by NumPy; False: too many."""
    directions = out.size // candidates.num_candidates
    if not are_few(candidates.positions.size * directions // TOGETHER, "design_matrix"):
        return False
    add_rows(candidates, table, out, slice(None))
    return True


def add_rows(candidates: CandidateMap, table: NDArray[Any], out: NDArray[Any], some: slice) -> None:
    """Add the rows of some candidates, whatever their number."""
    sums = out[some]
    for positions, rows in zip(candidates.positions[:, some], table, strict=True):
        if candidates.distinct and candidates.num_hashes == 2:
            sums += rows[positions[:, 0]] + rows[positions[:, 1]]
            continue
        for t in range(candidates.num_hashes):
            # A bit that an earlier hash named is not added again.
            new = slice(None) if candidates.distinct else ~(positions[:, :t] == positions[:, t : t + 1]).any(axis=1)
            sums[new] += rows[positions[new, t]]


def correlate(candidates: CandidateMap, rows: F64) -> F64:
    """Return X' r, shape (M,), for a number per row of the design matrix, shape (num_rows,)."""
    if is_small(candidates):
        return rows @ candidates.dense()
    out = np.zeros(candidates.num_candidates)
    table = np.ascontiguousarray(rows).reshape(candidates.num_cohorts, candidates.num_bits)
    if add_slowly(candidates, table, out):
        return out
    from overstory.kernels import design_matrix

    return _in_parts(design_matrix.correlate, candidates.positions, table, candidates.distinct, out=out)


def _in_parts(kernel: Callable[..., object], *given: Any, out: F64, smallest: int = PART) -> F64:
    """Let a kernel fill what it returns, the candidates divided among threads."""
    from overstory.kernels.threads import in_parts

    in_parts(lambda first, stop: kernel(*given, first, stop, out), out.size, smallest=smallest)
    return out


def gram(candidates: CandidateMap, weights: F64, columns: NDArray[np.intp] | None = None) -> F64:
    """Return X' diag(w) X over all columns, or over some, shape (columns, columns)."""
    if is_small(candidates, columns):
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
    out = np.zeros(candidates.num_candidates)
    table = np.ascontiguousarray(basis).reshape(candidates.num_cohorts, candidates.num_bits, -1)
    totals = np.tile(-centre.astype(basis.dtype, copy=False), (out.size, 1))
    if add_slowly(candidates, table, totals):
        for total in totals.T:
            out += total * total
        return out
    from overstory.kernels import design_matrix

    given = candidates.positions, table, centre, candidates.distinct
    return _in_parts(design_matrix.squared_lengths, *given, out=out, smallest=PART // 8)


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
    from overstory.kernels.threads import in_parts

    out = np.zeros(candidates.num_candidates, np.uint64)
    words = shake_128(b"a word for each row").digest(8 * candidates.num_rows)
    table = np.frombuffer(words, np.uint64).reshape(candidates.num_cohorts, candidates.num_bits)

    def part(first: int, stop: int) -> None:
        for start in range(first, stop, BLOCK):
            add_rows(candidates, table, out, slice(start, min(start + BLOCK, stop)))

    in_parts(part, out.size, smallest=PART)
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
    """Return the groups of candidates (by index) that set the same bits in every cohort, in the candidates' order."""
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


@dataclass(frozen=True, eq=False)
class CandidateGroups:
    """Candidates with equal columns decoded once: ``map`` has one of each, ``member[s]`` says which one s is."""

    map: CandidateMap
    member: NDArray[np.intp] | None
    colliding: list[list[int]]

    @classmethod
    def of(cls, candidates: CandidateMap) -> CandidateGroups:
        groups = colliding(candidates)
        if not groups:
            return cls(candidates, None, [])
        first = np.arange(candidates.num_candidates)
        for group in groups:
            first[group] = group[0]
        firsts, member = np.unique(first, return_inverse=True)
        return cls(candidates.take(firsts), member, groups)

    def spread(self, numbers: NDArray[np.float64], *, divide: bool = False) -> NDArray[np.float64]:
        """Give every candidate its group's number, or an equal part of it."""
        if self.member is None:
            return numbers
        parts = np.bincount(self.member) if divide else 1.0
        return np.asarray((numbers / parts)[self.member])
