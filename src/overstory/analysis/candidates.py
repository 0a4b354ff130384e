"""The candidate map: which Bloom bits each candidate sets in each cohort, one byte a hash."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Positions = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class CandidateMap:
    """The design matrix in its compact form.

    The design matrix of [1]_, section 4, has a row for each (cohort, bit) and a column for each candidate; its entry
    is 1 when any of the candidate's hashes falls on that bit. Here a column is its bit positions: at a
    million candidates, 32 cohorts and two hashes that is 64 MB, where a sparse matrix takes 800 MB.

    Parameters
    ----------
    candidates : sequence of str, length M
        The strings, kept as given (a list, a tuple, or an Arrow string array).
    positions : ndarray of int, shape (num_cohorts, M, num_hashes)
        Bit positions ``0 .. num_bits - 1``. A position named twice in one cohort counts once: a Bloom bit is set once.
    num_bits : int
        The payload bits of one report: the Bloom filter's size.

    Raises
    ------
    ParameterError
        If the shapes disagree or a position lies outside the report.

    References
    ----------
    .. [1] Erlingsson, Pihur, Korolova, "RAPPOR", CCS 2014.

    Examples
    --------
    >>> shelf = CandidateMap(["ash", "elm", "oak"], np.array([[[0, 1], [2, 2], [1, 0]]]), num_bits=4)
    >>> shelf.num_candidates, shelf.num_cohorts, shelf.num_hashes
    (3, 1, 2)
    """

    candidates: Sequence[str]
    positions: Positions
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
            found = _outside(given, self.num_bits)
            raise ParameterError(f"positions must lie in 0 .. {self.num_bits - 1}, found {found}")
        kind = np.uint8 if self.num_bits <= 256 else np.uint16
        compact = np.ascontiguousarray(given, dtype=kind).view()
        compact.flags.writeable = False
        object.__setattr__(self, "positions", compact)

    @property
    def num_cohorts(self) -> int:
        """Number of cohorts, each with its own hash functions."""
        return int(self.positions.shape[0])

    @property
    def num_candidates(self) -> int:
        """Number of candidates, M."""
        return int(self.positions.shape[1])

    @property
    def num_hashes(self) -> int:
        """Hash functions per cohort."""
        return int(self.positions.shape[2])

    @property
    def num_rows(self) -> int:
        """Rows of the design matrix: cohorts times bits."""
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


def _outside(positions: NDArray[Any], num_bits: int) -> str:
    cohort, candidate, hash_index = (int(x) for x in np.argwhere((positions < 0) | (positions >= num_bits))[0])
    value = int(positions[cohort, candidate, hash_index])
    return f"{value} (cohort {cohort}, candidate {candidate}, hash {hash_index})"
