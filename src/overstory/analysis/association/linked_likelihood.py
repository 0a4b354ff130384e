r"""The likeliest table from linked reports that were kept, by expectation and maximization.

With L_x and L_y the likelihoods of each report's parts, a row for each report and a column for each value, a step is
two matrix products, never an array of reports times cells:

.. math:: d = \mathrm{rows}((L_x P) \circ L_y) , \qquad P \leftarrow P \circ ((L_x / d)' L_y) / n ,

and it is extrapolated by squared iterative methods (Varadhan and Roland 2008). Support counts lose next to nothing
against this except where the noise is low and a part has many bits: RAPPOR's files for tests, say. It takes as long as
a thousand decodings, and keeps every report in memory.

The standard errors are the observed information's; where a share is 0 they say little.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.analysis.association.independence import DenseCovariance, orthogonal
from overstory.analysis.association.linked_filters import listed_values
from overstory.analysis.association.table import TableEstimate
from overstory.analysis.reports import unpack_bits
from overstory.analysis.support.base import support_of
from overstory.analysis.support.linked import words_of_part
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from overstory.analysis.decoding import CandidateMap
    from overstory.analysis.reports import ReportBatch
    from overstory.analysis.selection import IntervalKind
    from overstory.protocol.mechanisms.joint import JointMechanism

    F64 = NDArray[np.float64]

MOST_STEPS: Final = 3_000
CONVERGED: Final = 1e-8
"""The largest change of a cell, in one step, at which a table has converged."""
MOST_CELLS: Final = 2_000
"""Cells up to which standard errors are computed."""


@dataclass(frozen=True, eq=False)
class Likeliest:
    """The likeliest table, not negative and of sum 1."""

    shares: F64  # shape (k_x, k_y)
    steps: int  # of expectation and maximization
    converged: bool  # the last step changed no cell by more than `CONVERGED`


def likeliest_table(first: F64, second: F64) -> Likeliest:
    """Maximize the likelihood of the cells' shares.

    `first` and `second` are the likelihoods of each report's parts, up to a factor for each report: shapes (n, k_x) and
    (n, k_y).
    """
    cells = np.full((first.shape[1], second.shape[1]), 1.0 / (first.shape[1] * second.shape[1]))
    level = -np.inf
    for steps in range(0, MOST_STEPS, 3):
        once, _ = _step(first, second, cells)
        twice, before = _step(first, second, once)
        change, curve = once - cells, twice - 2 * once + cells
        if np.abs(twice - once).max() < CONVERGED:
            return Likeliest(twice, steps + 2, converged=True)
        # SQUAREM, third scheme: the step is as long as the changes' ratio says, and shorter where a cell would be < 0.
        length = max(1.0, float(np.sqrt((change**2).sum() / max((curve**2).sum(), 1e-300))))
        jumped = _inside(cells + 2 * length * change + length**2 * curve)
        cells, reached = _step(first, second, jumped)
        if reached < max(level, before):  # a jump that lost likelihood is taken back
            cells, reached = twice, before
        level = reached
    return Likeliest(cells, MOST_STEPS, converged=False)


def _step(first: F64, second: F64, cells: F64) -> tuple[F64, float]:
    """Return the cells after one step, and the log likelihood before it."""
    chance = np.maximum(((first @ cells) * second).sum(axis=1), 1e-300)
    moved = cells * ((first / chance[:, None]).T @ second) / len(first)
    return moved, float(np.log(chance).sum())


def _inside(cells: F64) -> F64:
    kept = np.maximum(cells, 1e-12)
    return np.asarray(kept / kept.sum())


def likelihoods(
    mechanism: JointMechanism, batch: ReportBatch, place: int, candidates: CandidateMap | None, *, complete: bool
) -> F64:
    """Return the likelihood of each report's part for every value, up to a factor for each report, shape (n, K).

    Of a filter, by the `candidates`' bits; strings outside the list come last, unless `complete`.
    """
    part, words = mechanism.components[place], words_of_part(mechanism, batch.bits, place)
    half = support_of(part)
    p, q = half.rates
    if half.one_support:
        return np.where(words[:, :1].astype(np.int64) == np.arange(half.num_supports), p, q)
    bits = unpack_bits(words)[:, : part.payload_bits].astype(np.float64)
    if candidates is None:
        return _scaled(np.log((1 - p) / (1 - q)) + bits * np.log(p * (1 - q) / (q * (1 - p))))
    return filter_likelihoods(bits, batch.cohorts, candidates, (p, q), complete=complete)


def _scaled(logarithms: F64) -> F64:
    return np.asarray(np.exp(logarithms - logarithms.max(axis=1, keepdims=True)))


def filter_likelihoods(
    bits: F64,
    cohorts: NDArray[np.integer[Any]],
    candidates: CandidateMap,
    rates: tuple[float, float],
    *,
    complete: bool,
) -> F64:
    """Return the likelihood of each filter for every candidate, up to a factor for each report.

    `bits` has shape (n, k). `rates` are P(a reported bit is 1 | the true one is), and P(1 | it is not). Unless
    `complete`, the last column is for strings outside the list, which set each bit with the chance h/k.
    """
    p, q = rates
    lit, unlit = np.log(p / q), np.log((1 - p) / (1 - q))
    rate = q + (p - q) * candidates.fill
    outside = np.log(rate / q), np.log((1 - rate) / (1 - q))
    designs = candidates.dense().reshape(candidates.num_cohorts, candidates.num_bits, -1)
    logarithms = np.empty((len(bits), designs.shape[2] + (not complete)))
    for cohort, design in enumerate(designs):
        rows = cohorts == cohort
        logarithms[rows, : design.shape[1]] = bits[rows] @ design * (lit - unlit) + design.sum(axis=0) * unlit
        if not complete:
            ones = bits[rows].sum(axis=1)
            logarithms[rows, -1] = ones * outside[0] + (bits.shape[1] - ones) * outside[1]
    return _scaled(logarithms)


def linked_likelihood(
    mechanism: JointMechanism,
    batch: ReportBatch,
    names: Sequence[str],
    labels: Sequence[Sequence[str]],
    *,
    complete: bool = False,
    interval_kind: IntervalKind = "population",
) -> TableEstimate:
    """Return the likeliest table of the reports themselves; the parameters are those of `linked_filters`."""
    if not len(batch):
        raise ParameterError("there are no reports: nothing can be estimated")
    shown, maps, others = listed_values(mechanism, labels, (None, None), complete=complete)
    likely = [likelihoods(mechanism, batch, place, each, complete=complete) for place, each in enumerate(maps)]
    return table_of_likelihoods(
        (likely[0], likely[1]), (names[0], names[1]), shown, other=others, interval_kind=interval_kind
    )


def table_of_likelihoods(
    likely: tuple[F64, F64],
    names: tuple[str, str],
    labels: tuple[tuple[str, ...], tuple[str, ...]],
    *,
    other: tuple[int | None, int | None] = (None, None),
    interval_kind: IntervalKind = "population",
) -> TableEstimate:
    """Return the likeliest table of reports with these likelihoods, of shapes (n, k_x) and (n, k_y)."""
    reports = len(likely[0])
    best = likeliest_table(*likely)
    notes = [f"likelihood of {reports:,} reports, {best.steps:,} steps; errors say little where a share is 0"]
    if not best.converged:
        notes.append(f"it had not converged after {best.steps:,} steps")
    people = 1.0 / reports
    noise = np.full((best.shares.size, best.shares.size), np.nan)
    if best.shares.size <= MOST_CELLS:
        noise = _noise(*likely, best.shares, people)
    else:
        notes.append(f"{best.shares.size:,} cells: standard errors are computed up to {MOST_CELLS:,}")
    return TableEstimate(
        names=names,
        labels=labels,
        shares=best.shares,
        covariance=DenseCovariance(noise, best.shares, people * (interval_kind == "population")),
        num_reports=reports,
        design="linked",
        interval_kind=interval_kind,
        other=other,
        notes=tuple(notes),
    )


def _noise(first: F64, second: F64, cells: F64, people: float) -> F64:
    """Return the inverse of the observed information among shares of sum 1, less the sampling of people."""
    chance = ((first @ cells) * second).sum(axis=1)
    information = np.zeros((cells.size, cells.size))
    for start in range(0, len(first), 4096):
        rows = slice(start, start + 4096)
        scores = (first[rows, :, None] * second[rows, None, :]).reshape(len(chance[rows]), -1) / chance[rows, None]
        information += scores.T @ scores
    basis = orthogonal(np.ones(cells.size))
    total = basis @ np.linalg.pinv(basis.T @ information @ basis, hermitian=True) @ basis.T
    flat = cells.ravel()
    return np.asarray(total - people * (np.diag(flat) - np.outer(flat, flat)))
