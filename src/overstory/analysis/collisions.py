"""Candidates that no decoder can tell apart: they set the same bits in every cohort."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from overstory.analysis.design import fingerprints

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.analysis.candidates import CandidateMap


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
