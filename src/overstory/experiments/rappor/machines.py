"""Who sends which process names, in section 5.3: three kinds of machine, and what their reports add up to.

The paper does not say how often a name came twice from one machine. Its permanent response is then the same, so what
the reports of each kind share differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.counts import SupportCounts
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.positions import positions_of
from overstory.analysis.repeated import reports_per_device
from overstory.analysis.simulation import SimulatedDevices
from overstory.experiments.rappor.counted import Collection
from overstory.experiments.rappor.populations import F64
from overstory.files.candidates import hash_candidates
from overstory.protocol.mechanisms.bits import BitMechanism

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
    """Who sent what: a row for every machine and name that it sent.

    Attributes
    ----------
    machines, names : ndarray of int, shape (pairs,)
        Whose, and which name.
    times : ndarray of int, shape (pairs,)
        How many reports.
    """

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
    >>> found = shares()
    >>> round(float(found.sum()), 12), round(float(found[MALICIOUS]), 4), bool(found[10:].max() < 0.01)
    (1.0, 0.026, True)
    """
    common = np.array(list(PRINTED.values())) / REPORTS
    rare = np.exp(-np.arange(RARER) / 80)
    return np.concatenate((common, rare * ((1 - common.sum()) / rare.sum())))


def names_once(rng: np.random.Generator) -> Sent:
    """Every machine sends each name that it runs once: about 18 different ones."""
    machines, names = np.nonzero(rng.random((MACHINES, len(NAMES))) < PER_MACHINE * shares())
    return Sent(machines, names, np.ones(machines.size, np.int64))


def names_sampled(rng: np.random.Generator) -> Sent:
    """Every report draws one of the names that run on its machine; some come twice."""
    runs = rng.random((MACHINES, len(NAMES))) < RUNNING * shares()
    whose, running = np.nonzero(runs)
    many = runs.sum(axis=1)
    machines = rng.integers(0, MACHINES, REPORTS)
    pick = (rng.random(REPORTS) * many[machines]).astype(np.int64)
    first = np.searchsorted(whose, np.arange(MACHINES))
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
    """Return what the machines' reports add up to: a permanent response of its own for each (machine, name)."""
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
