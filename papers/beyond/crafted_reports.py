"""What 1% liars do to the shipped oracles, against the published formulas; which attacks raise an alarm; what is left.

With a share beta of liars among all reports and r targets of true share f_T, a report that votes for v of the targets
moves their sum by ``beta ((v - r q*) / (p* - q*) - f_T)`` [1]_.

References
----------
.. [1] Cao, Jia, Gong, "Data poisoning attacks to local differential privacy protocols", USENIX Security 2021.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from overstory.analysis.alarms.crafted import Check, check_collection
from overstory.analysis.alarms.sums import Watch
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.postprocess import postprocess
from overstory.protocol.kinds.base import Mechanism
from overstory.protocol.kinds.registry import mechanism
from papers.beyond.attacks import Attack, lie
from papers.comparison import Comparison, Published, at_most, proportion
from papers.study import Context, Study, Table, mean

VALUES: Final = 100
EPSILON: Final = 1.0
LIARS: Final = 0.01
FIRST_TARGET: Final = 70
"""Targets are rare values: people's shares fall as those of Zipf's law, with exponent 1.1."""
ORACLES: Final = ("grr", "oue", "olh")
ATTACKS: Final[tuple[tuple[Attack, int], ...]] = (
    ("random reports", 10),
    ("random values", 1),
    ("crafted reports", 1),
    ("crafted reports", 10),
)
FORMULA: Final = "Cao, Jia, Gong 2021"
NOTES: Final = f"""
{LIARS:.0%} of the reports are liars', {VALUES} values at epsilon {EPSILON:g}. A gain is what the targets' shares rise
by, in all. The liars of OLH share its best public seed.

Norm-Sub moves all shares until they add up to 1: it takes much of what random reports and many targets gain, and next
to nothing where there is one target. A true report of a false value gains one vote and raises no alarm: nothing can
tell it from a device that holds the value. So no option of a decoder promises to be robust.
"""


@dataclass(frozen=True)
class Case:
    """An attack on an oracle."""

    name: str
    attack: Attack
    targets: int

    @property
    def oracle(self) -> FrequencyOracle:
        """The oracle under attack."""
        return FrequencyOracle(mechanism(self.name, domain_size=VALUES, epsilon=EPSILON))

    @property
    def title(self) -> str:
        """What is attacked, and how."""
        return f"{self.name}, {self.attack}, {self.targets} target{'s' if self.targets > 1 else ''}"

    def gain(self, beta: float) -> float:
        """Return what the targets' shares rise by, at most for crafted reports of a hashing oracle."""
        built, held = self.oracle.mechanism, float(shares()[self._places].sum())
        p, q, r = float(built.p_star), float(built.q_star), self.targets
        if self.attack == "random values":
            return beta * (1 - held)
        return beta * ((self._votes(built) - r * q) / (p - q) - held)

    def _votes(self, built: Mechanism) -> float:
        """Return for how many targets a report votes, in the mean."""
        if self.attack == "random reports":
            each = {"grr": 1 / VALUES, "oue": 0.5, "olh": float(built.q_star)}[self.name]
            return self.targets * each
        return 1.0 if self.name == "grr" else float(self.targets)

    @property
    def _places(self) -> slice:
        return slice(FIRST_TARGET, FIRST_TARGET + self.targets)


CASES: Final = tuple(Case(name, *attack) for name in ORACLES for attack in ATTACKS)


@dataclass(frozen=True)
class Tried:
    """What an attack gained in each run, before and after Norm-Sub, its standard error, and the alarms of each run."""

    case: Case
    gains: list[float]
    errors: list[float]
    left: list[float]
    alarms: list[tuple[str, ...]]


def shares() -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the people's shares."""
    weights = 1 / np.arange(1, VALUES + 1) ** 1.1
    return np.asarray(weights / weights.sum(), np.float64)


def collect(
    oracle: FrequencyOracle, people: int, liars: int, attack: Attack, targets: Sequence[int], rng: np.random.Generator
) -> tuple[Any, tuple[Check, ...]]:
    """Return the estimate of a collection with liars, and its checks; `people` are honest."""
    held = rng.choice(VALUES, people, p=shares())
    batches = [oracle.simulate(held, rng), *([lie(oracle, attack, liars, targets, rng)] if liars else [])]
    watch = Watch.of(oracle.mechanism)
    counts, sums = oracle.accumulate(batches[0]), None if watch is None else watch.sum(batches[0])
    for batch in batches[1:]:
        counts = counts + oracle.accumulate(batch)
        sums = None if watch is None or sums is None else sums + watch.sum(batch)
    estimate = oracle.estimate(counts)
    return estimate, check_collection(oracle.mechanism, counts, estimate, sums=sums)


def run(context: Context) -> Study:
    """Attack each oracle, several times over."""
    runs, people = context.pick(quick=10, full=100), context.pick(quick=50_000, full=100_000)
    tried = [_tried(context, index, case, runs, people) for index, case in enumerate(context.steps(CASES, "attacking"))]
    inputs = {"values": VALUES, "epsilon": EPSILON, "liars": LIARS, "reports": people, "runs": runs}
    return Study(comparisons=[*_gains(tried), *_alarms(tried)], inputs=inputs, tables=[_table(tried)], notes=NOTES)


def _tried(context: Context, index: int, case: Case, runs: int, reports: int) -> Tried:
    liars, held = round(LIARS * reports), shares()[FIRST_TARGET : FIRST_TARGET + case.targets].sum()
    targets = list(range(FIRST_TARGET, FIRST_TARGET + case.targets))

    def once(number: int) -> tuple[float, float, float, tuple[str, ...]]:
        rng = context.rng(index, number)
        estimate, checks = collect(case.oracle, reports - liars, liars, case.attack, targets, rng)
        raised = tuple(check.name for check in checks if check.raised)
        after = postprocess(estimate, "norm-sub").frequencies
        gain, left = (float(all_shares[targets].sum() - held) for all_shares in (estimate.raw_frequencies, after))
        error = float(np.sqrt(estimate.covariance("population", targets).sum())) / reports
        return gain, error, left, raised

    gains, errors, left, alarms = zip(*context.parallel(once, range(runs), case.title), strict=True)
    return Tried(case, list(gains), list(errors), list(left), list(alarms))


def _gains(tried: Sequence[Tried]) -> list[Comparison]:
    """Compare the mean gains with the formulas, within three of the standard errors that the estimates state."""
    comparisons = []
    for one in tried:
        gain, measured = one.case.gain(LIARS), mean(one.gains)
        far = 3 * math.sqrt(sum(error**2 for error in one.errors)) / len(one.errors)
        searched = one.case.name == "olh" and one.case.targets > 1 and one.case.attack == "crafted reports"
        published = at_most(gain, f"{FORMULA}, with a seed for all targets") if searched else Published(gain, FORMULA)
        name = f"{one.case.title}: gain"
        because = "of four hundred intervals of three standard errors one misses the formula"
        comparisons.append(
            Comparison(name, measured, measured - far, measured + far, published=published, because=because)
        )
    return comparisons


def _alarms(tried: Sequence[Tried]) -> list[Comparison]:
    """Count the runs with an alarm; true reports of a false value must raise none."""
    comparisons = []
    for one in tried:
        runs = len(one.alarms)
        silent = at_most(0.001, "docs/explanation/crafted-reports.md") if one.case.attack == "random values" else None
        name = f"{one.case.title}: runs with an alarm"
        comparisons.append(proportion(name, sum(map(bool, one.alarms)), runs, silent))
    return comparisons


def _table(tried: Sequence[Tried]) -> Table:
    columns: dict[str, list[Any]] = {
        "attack": [one.case.title for one in tried],
        "formula": [round(one.case.gain(LIARS), 4) for one in tried],
        "gain": [round(mean(one.gains), 4) for one in tried],
        "after Norm-Sub": [round(mean(one.left), 4) for one in tried],
        "alarms": [", ".join(sorted({name for names in one.alarms for name in names})) or "none" for one in tried],
    }
    return Table.of(f"What {LIARS:.0%} liars gain", columns)
