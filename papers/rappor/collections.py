"""The populations of RAPPOR's sections 5.2 to 5.4, and their collections, drawn as counts or as single reports.

Given who holds what, the bits of all reports are independent: in cohort j, where t_ij of N_j devices hold a string that
sets bit i, the count is ``Bin(t_ij, P(1|1)) + Bin(N_j - t_ij, P(1|0))``, and counts of different bits are independent.
So this has exactly the law of counting the devices' reports, as long as no two reports share a permanent response: one
report of each device. tests/papers/test_counted.py compares it with `SimulatedDevices`.

Section 5.3 does not say how often a name came twice from one machine. Its permanent response is then the same, so what
the reports share differs: three kinds of machine are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.decoding import Decoded, decode
from overstory.analysis.decoding.candidates import CandidateMap
from overstory.analysis.kinds.base import SimulatedDevices, positions_of
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.reports import SupportCounts
from overstory.analysis.variance import reports_per_device
from overstory.files.rappor import hash_candidates
from overstory.protocol.kinds.bits import BitMechanism, rappor
from papers.study import accumulate

F64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Collection:
    """What was counted, and the truth that no collector sees."""

    counts: SupportCounts
    candidates: CandidateMap  # the bits of every string, listed or not
    held: NDArray[np.int64]  # how many reports hold each string, shape (strings,)

    def decoded(self, mechanism: BitMechanism, listed: int | None = None, **choices: Any) -> Decoded:
        """Decode with the first `listed` strings as candidates (all, unless given); `choices` are `decode`'s."""
        listing = self.candidates if listed is None else self.candidates.take(np.arange(listed))
        return decode(self.counts, listing, **rates(mechanism), **choices)


def rates(mechanism: BitMechanism) -> dict[str, Any]:
    """Return P(report bit 1 | Bloom bit 1) and P(1 | Bloom bit 0), over both rounds, as `decode` takes them."""
    return {"p_star": float(mechanism.p_star), "q_star": float(mechanism.q_star)}


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

    `shares`, shape (strings,), says how frequent each string is in the population; they sum to one. `p_star` and
    `q_star` are `rates`.
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
    return count_reports(hash_candidates(names, mechanism.encoding), shares, num_reports, rng, **rates(mechanism))


def collect_reports(
    mechanism: BitMechanism, names: Sequence[str], shares: F64, num_reports: int, rng: np.random.Generator
) -> Collection:
    """Return a collection of the same law, from simulated devices and their reports, one by one."""
    oracle = FrequencyOracle(mechanism)
    symbols = rng.choice(len(names), size=num_reports, p=shares).astype(np.int32)
    devices = oracle.devices(symbols, rng, candidates=names)
    held = np.bincount(symbols, minlength=len(names)).astype(np.int64)
    return Collection(accumulate(oracle, devices), hash_candidates(names, mechanism.encoding), held)


PRESENT: Final = 100
"""Strings that somebody has, in section 5.2 and figure 2; nobody has the other 100."""
HEAVY_HOMEPAGES: Final = 43
HOMEPAGES: Final = 8616


def exponential() -> F64:
    """Shares of section 5.2's 200 strings: ``exp(-5 (i - 1) / 99)`` for i = 1 .. 100, and 100 that nobody has.

    The paper draws the curve and prints twenty true counts; this law fits them (chi-square 21 on 20).

    Examples
    --------
    >>> shares = exponential()
    >>> [round(float(share), 4) for share in shares[[0, 32, 99, 100]]]
    [0.0496, 0.0098, 0.0003, 0.0]
    """
    shares = np.concatenate((np.exp(-5.0 * np.arange(PRESENT) / (PRESENT - 1)), np.zeros(PRESENT)))
    return np.asarray(shares / shares.sum())


def heavy_homepages() -> F64:
    """Shares of section 5.4's 43 frequent homepages: 85% together, geometric, the largest eight times the smallest.

    The paper says that less than 0.5% of 8,616 candidates were detected and hold about 85%; the spread is our choice.

    Examples
    --------
    >>> shares = heavy_homepages()
    >>> round(float(shares.sum()), 9), round(float(shares[0]), 4), round(float(shares[-1]), 4)
    (0.85, 0.0466, 0.0058)
    """
    shares = 8.0 ** (-np.arange(HEAVY_HOMEPAGES) / (HEAVY_HOMEPAGES - 1))
    return np.asarray(shares * (0.85 / shares.sum()))


def homepages() -> F64:
    """Shares of the 8,616 candidates, and of as many unlisted strings as there are rare candidates: these hold 15%."""
    rest = HOMEPAGES - HEAVY_HOMEPAGES
    return np.concatenate((heavy_homepages(), np.zeros(rest), np.full(rest, 0.15 / rest)))


PAPERS: Final = "paper's procedure"
DEFAULT: Final = "our default"
PROCEDURES: Final[dict[str, dict[str, Any]]] = {PAPERS: {"method": "lasso"}, DEFAULT: {}}
"""The options of `decode`: both hold the false discovery rate at 5%, unless an option changes it."""


def collected(f: float, *, num_cohorts: int = 16, **other: Any) -> BitMechanism:
    """RAPPOR as in sections 5.2 to 5.4: 128 bits, two hashes, p = 0.5, q = 0.75; f and the cohorts vary."""
    return rappor(
        **({"num_bits": 128, "num_hashes": 2, "num_cohorts": num_cohorts, "f": f, "p": 0.5, "q": 0.75} | other)
    )


REPORTS, MACHINES = 186_792, 10_133
PER_MACHINE: Final = REPORTS / MACHINES
PRINTED: Final = {
    "RASERVER.EXE": 8054,
    "RUNDLL32.EXE": 7488,
    "CONHOST.EXE": 7451,
    "SPPSVC.EXE": 6363,
    "AITAGENT.EXE": 5579,
    "MSIEXEC.EXE": 5147,
    "SILVERLIGHT.EXE": 4915,
    "BADAPPLE.COM": 4860,
    "LPREMOVE.EXE": 4787,
    "DEFRAG.EXE": 4760,
}
"""Table 2: estimated counts."""
MALICIOUS: Final = list(PRINTED).index("BADAPPLE.COM")
RARER: Final = 190
NAMES: Final = (*PRINTED, *(f"PROCESS{i + 1:03}.EXE" for i in range(RARER)))
RUNNING: Final = 22.0
"""Names that run on a machine at a time, on average, where they are sampled."""

ONCE, SAMPLED, ONE = "each name once", "names sampled from what runs", "one name per machine"


@dataclass(frozen=True, eq=False)
class Sent:
    """Which machine sent which name how often: arrays of shape (pairs,)."""

    machines: NDArray[np.int64]
    names: NDArray[np.int64]
    times: NDArray[np.int64]

    @property
    def per_response(self) -> float:
        """R: the mean number of reports that share a report's permanent response."""
        return reports_per_device(float(self.times.sum()), float((self.times**2).sum()))


def shares() -> F64:
    """Return each name's share of all reports.

    Examples
    --------
    >>> of_names = shares()
    >>> round(float(of_names.sum()), 12), round(float(of_names[MALICIOUS]), 4), bool(of_names[10:].max() < 0.01)
    (1.0, 0.026, True)
    """
    common = np.array(list(PRINTED.values())) / REPORTS
    rare = np.exp(-np.arange(RARER) / 80)
    return np.concatenate((common, rare * ((1 - common.sum()) / rare.sum())))


def names_once(rng: np.random.Generator) -> Sent:
    """Every machine sends each name that it runs once: about 18 names."""
    machines, names = np.nonzero(rng.random((MACHINES, len(NAMES))) < PER_MACHINE * shares())
    return Sent(machines, names, np.ones(machines.size, np.int64))


def names_sampled(rng: np.random.Generator) -> Sent:
    """Every report draws one of the names that run on its machine; some come twice."""
    runs = rng.random((MACHINES, len(NAMES))) < RUNNING * shares()
    owners, running = np.nonzero(runs)
    many = runs.sum(axis=1)
    machines = rng.integers(0, MACHINES, REPORTS)
    pick = (rng.random(REPORTS) * many[machines]).astype(np.int64)
    first = np.searchsorted(owners, np.arange(MACHINES))
    return _paired(machines, running[np.minimum(first[machines] + pick, running.size - 1)])


def one_name(rng: np.random.Generator) -> Sent:
    """Every machine sends one name all the time."""
    held = rng.choice(len(NAMES), MACHINES, p=shares())
    machines = rng.integers(0, MACHINES, REPORTS)
    return _paired(machines, held[machines])


KINDS: Final = {ONCE: names_once, SAMPLED: names_sampled, ONE: one_name}


def _paired(machines: NDArray[np.int64], names: NDArray[np.int64]) -> Sent:
    pairs, times = np.unique(machines * len(NAMES) + names, return_counts=True)
    return Sent(pairs // len(NAMES), pairs % len(NAMES), times)


def collect(mechanism: BitMechanism, sent: Sent, rng: np.random.Generator) -> Collection:
    """Count the machines' reports, with one permanent response for each (machine, name)."""
    order = np.argsort(-sent.times, kind="stable")
    cohorts = rng.integers(0, mechanism.num_cohorts, MACHINES).astype(np.uint16)[sent.machines[order]]
    table, symbols = positions_of(mechanism.encoding, NAMES), sent.names[order].astype(np.int32)
    devices = SimulatedDevices(mechanism, table, symbols, cohorts, rng.bytes(32))
    oracle = FrequencyOracle(mechanism)
    counts = SupportCounts.empty(mechanism.num_cohorts, mechanism.payload_bits)
    for index in range(int(sent.times.max())):
        stop = int(np.count_nonzero(sent.times > index))
        counts = counts + oracle.accumulate(devices.report(index, stop=stop))
    held = np.bincount(sent.names, weights=sent.times, minlength=len(NAMES)).astype(np.int64)
    return Collection(counts, hash_candidates(NAMES, mechanism.encoding), held)
