"""Collections at the level of counts: what a million devices' reports add up to, drawn without the reports.

Given who holds what, the bits of all reports are independent: in cohort j, where t_ij of N_j devices hold a string that
sets bit i, the count is ``Bin(t_ij, P(1|1)) + Bin(N_j - t_ij, P(1|0))``, and counts of different bits are independent.
So this has exactly the law of counting the devices' reports, as long as no two reports share a permanent response: one
report of each device. tests/experiments/test_counted.py holds it against `SimulatedDevices`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.candidates import CandidateMap
from overstory.analysis.counts import SupportCounts
from overstory.analysis.decoding import Decoded, decode
from overstory.analysis.oracle import FrequencyOracle
from overstory.experiments.accumulating import accumulated
from overstory.files.candidates import hash_candidates
from overstory.protocol.mechanisms.bits import BitMechanism

F64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Collection:
    """What was counted, and the truth that no collector sees.

    Attributes
    ----------
    counts
        The support counts.
    candidates
        The bits of every string, listed or not.
    held : ndarray of int, shape (strings,)
        How many reports hold each string.
    """

    counts: SupportCounts
    candidates: CandidateMap
    held: NDArray[np.int64]

    def decoded(self, mechanism: BitMechanism, listed: int | None = None, **choices: Any) -> Decoded:
        """Decode with the first `listed` strings as candidates (all, unless given); `choices` are `decode`'s."""
        known = self.candidates if listed is None else self.candidates.take(np.arange(listed))
        kept, raised = float(mechanism.p_star), float(mechanism.q_star)
        return decode(self.counts, known, p_star=kept, q_star=raised, **choices)


def count_reports(
    candidates: CandidateMap,
    shares: F64,
    num_reports: int,
    rng: np.random.Generator,
    *,
    p_star: float,
    q_star: float,
) -> Collection:
    """Draw one report of each of `num_reports` devices, as counts.

    Parameters
    ----------
    candidates
        The bits that each string sets in each cohort.
    shares : ndarray, shape (strings,)
        How frequent each string is in the population; they sum to one.
    num_reports
        N.
    rng
        Where all randomness comes from.
    p_star, q_star
        P(report bit 1 | Bloom bit 1) and P(1 | Bloom bit 0), over both rounds.
    """
    cohorts = candidates.num_cohorts
    sizes = rng.multinomial(num_reports, np.full(cohorts, 1 / cohorts))
    held = np.stack([rng.multinomial(size, shares) for size in sizes])
    truly = np.stack([_set_bits(candidates, cohort, held[cohort]) for cohort in range(cohorts)])
    ones = rng.binomial(truly, p_star) + rng.binomial(sizes[:, None] - truly, q_star)
    return Collection(SupportCounts(sizes, ones), candidates, held.sum(axis=0))


def _set_bits(candidates: CandidateMap, cohort: int, held: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many devices of a cohort have each Bloom bit set; a device's hashes fall on distinct bits."""
    positions = candidates.positions[cohort]
    each = np.repeat(held, candidates.num_hashes).astype(np.float64)
    return np.bincount(positions.ravel(), weights=each, minlength=candidates.num_bits).astype(np.int64)


def collect_counts(
    mechanism: BitMechanism, names: Sequence[str], shares: F64, num_reports: int, rng: np.random.Generator
) -> Collection:
    """Return a collection drawn at the level of counts, under the mechanism's own hashing."""
    candidates = hash_candidates(names, mechanism.encoding)
    kept, raised = float(mechanism.p_star), float(mechanism.q_star)
    return count_reports(candidates, shares, num_reports, rng, p_star=kept, q_star=raised)


def collect_reports(
    mechanism: BitMechanism, names: Sequence[str], shares: F64, num_reports: int, rng: np.random.Generator
) -> Collection:
    """Return a collection of the same law, from simulated devices and their reports, one by one."""
    oracle = FrequencyOracle(mechanism)
    symbols = rng.choice(len(names), size=num_reports, p=shares).astype(np.int32)
    devices = oracle.devices(symbols, rng, candidates=names)
    held = np.bincount(symbols, minlength=len(names)).astype(np.int64)
    return Collection(accumulated(oracle, devices), hash_candidates(names, mechanism.encoding), held)
