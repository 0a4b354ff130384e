"""Google's cases for two variables: what their released code checks, decoded from counts of pairs of bits.

`analysis/R/association_test.R` draws one variable from a Poisson law and makes the other the same or one more, with low
noise, and asks nine questions of the joint distribution, with tolerances. `tests/assoc_sim.R` draws the same population
with any parameters. Both are decoded there by expectation and maximization over all reports.

With L_x and L_y the likelihoods of each report's parts, a row for each report and a column for each value, a step is
two matrix products, never an array of reports times cells: d = rows((L_x P) o L_y), and P becomes
P o ((L_x / d)' L_y) / n. It is extrapolated by squared iterative methods (Varadhan and Roland 2008).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from time import process_time
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.association.linked_filters import linked_filters, listed_values
from overstory.analysis.decoding import CandidateMap
from overstory.analysis.kinds.base import SimulatedDevices, count_reports, support_of
from overstory.analysis.kinds.linked import words_of_part
from overstory.analysis.reports import unpack_bits
from overstory.protocol.kinds.joint import JointMechanism, joint
from papers.comparison import at_least, proportion, simulated
from papers.study import Context, Study, Table, mean

F64 = NDArray[np.float64]

CHECKS: Final = (("1", "1", "1", "2", 0.1), ("2", "2", "2", "3", 0.1), ("3", "3", "3", "4", 0.06))
"""Cells that are equally likely: two cells, and how far apart their shares may be."""
EMPTY: Final = (("1", "3"), ("1", "4"), ("2", "1"), ("2", "4"), ("3", "1"), ("3", "2"))
"""Cells that nobody is in: at most `EMPTY_SHARE` is estimated of each."""
EMPTY_SHARE: Final = 0.02
TEST_6: Final = "association_test.R, test 6"


class Case(NamedTuple):
    """A population of Google's, with RAPPOR's letters."""

    name: str
    reports: int
    letters: dict[str, Any]


LOW: Final = Case("test 6", 1_000, {"num_bits": 16, "num_hashes": 2, "num_cohorts": 4, "f": 0.1, "p": 0.1, "q": 0.9})
PAPERS: Final = tuple(
    Case(
        f"k = {k}, m = {m}", 100_000, {"num_bits": k, "num_hashes": 2, "num_cohorts": m, "f": 0.5, "p": 0.5, "q": 0.75}
    )
    for k, m in ((16, 64), (128, 16))
)
NOTES: Final = """
The population of both files: the first variable is 1 + Poisson(1), the second is the same or one more, as a fair coin
says. Total variation is half the sum of the absolute errors of the table that is shown: shares that are not negative
and add up to 1. Seconds are of the process, counting and decoding together.
"""


def run(context: Context) -> Study:
    """Decode the low noise many times, and the paper's noise a few times, both ways."""
    runs, few = context.pick(quick=40, full=400), context.pick(quick=5, full=20)
    low = [_decoded(context, LOW, 0, index, likelihood=True) for index in context.steps(range(runs), "test 6")]
    loud = [
        (case, [_decoded(context, case, 1 + place, index, likelihood=False) for index in range(few)])
        for place, case in enumerate(context.steps(PAPERS, "the paper's noise"))
    ]
    passed = sum(each["counts"]["passed"] == len(CHECKS) + len(EMPTY) for each in low)
    rates = [proportion("test 6: runs in which all nine checks pass, from counts", passed, runs, at_least(0.9, TEST_6))]
    distances = [
        simulated(f"{case.name}: total variation, from counts", [each["counts"]["distance"] for each in drawn])
        for case, drawn in ((LOW, low), *loud)
    ]
    whole = [each["likelihood"]["distance"] for each in low]
    distances.insert(1, simulated(f"{LOW.name}: total variation, from whole reports", whole))
    return Study(
        comparisons=[*rates, *distances],
        inputs={"runs of test 6": runs, "runs at the paper's noise": few},
        tables=[_table([(LOW, low), *loud])],
        notes=NOTES,
    )


def _decoded(context: Context, case: Case, place: int, index: int, *, likelihood: bool) -> dict[str, dict[str, float]]:
    """Return for each way of decoding the checks that pass, the distance from the truth, and the time."""
    rng = context.rng(place, index)
    first = 1 + rng.poisson(1.0, case.reports)
    second = first + rng.integers(0, 2, case.reports)
    labels = tuple(tuple(str(value) for value in range(1, int(each.max()) + 1)) for each in (first, second))
    truth = np.zeros(tuple(map(len, labels)))
    np.add.at(truth, (first - 1, second - 1), 1 / case.reports)
    built = joint(of=[{"oracle": "rappor", **case.letters}] * 2, hash_key="association")
    held = (first - 1) * len(labels[1]) + second - 1
    batch = SimulatedDevices.holding(built, list(product(*labels)), held, rng).report()
    results = {"counts": _judged(_from_counts, built, batch, labels, truth)}
    if likelihood:
        results["likelihood"] = _judged(_likeliest, built, batch, labels, truth)
    return results


def _from_counts(built: JointMechanism, batch: Any, labels: Any) -> F64:
    from overstory.analysis.association.summary import TableSummary

    table = linked_filters(built, count_reports(built, batch), ("first", "second"), labels, complete=True)
    return TableSummary(table).shown.shares


def _likeliest(built: JointMechanism, batch: Any, labels: Any) -> F64:
    _, maps = listed_values(built, labels, complete=True)
    likely = []
    for place, (part, candidates) in enumerate(zip(built.components, maps, strict=True)):
        bits = unpack_bits(words_of_part(built, batch.bits, place))[:, : part.payload_bits].astype(np.float64)
        assert candidates is not None  # both parts are strings
        likely.append(filter_likelihoods(bits, batch.cohorts, candidates, support_of(part).rates, complete=True))
    return likeliest_table(*likely).shares


MOST_MAXIMIZATIONS: Final = 3_000
CONVERGED: Final = 1e-8
"""The largest change of a cell, in one step, at which a table has converged."""


@dataclass(frozen=True, eq=False)
class Likeliest:
    """The likeliest table, not negative and of sum 1."""

    shares: F64  # shape (k_x, k_y)
    steps: int  # of expectation and maximization
    converged: bool  # the last step changed no cell by more than `CONVERGED`


def likeliest_table(first: F64, second: F64) -> Likeliest:
    """Maximize the likelihood of the cells, from that of each report's parts, up to a factor: (n, k_x) and (n, k_y)."""
    cells = np.full((first.shape[1], second.shape[1]), 1.0 / (first.shape[1] * second.shape[1]))
    level = -np.inf
    for steps in range(0, MOST_MAXIMIZATIONS, 3):
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
    return Likeliest(cells, MOST_MAXIMIZATIONS, converged=False)


def _step(first: F64, second: F64, cells: F64) -> tuple[F64, float]:
    """Return the cells after one step, and the log likelihood before it."""
    chance = np.maximum(((first @ cells) * second).sum(axis=1), 1e-300)
    moved = cells * ((first / chance[:, None]).T @ second) / len(first)
    return moved, float(np.log(chance).sum())


def _inside(cells: F64) -> F64:
    kept = np.maximum(cells, 1e-12)
    return np.asarray(kept / kept.sum())


def filter_likelihoods(
    bits: F64,  # shape (n, k)
    cohorts: NDArray[np.integer[Any]],
    candidates: CandidateMap,
    rates: tuple[float, float],  # P(a reported bit is 1 | the true one is), P(1 | it is not)
    *,
    complete: bool,
) -> F64:
    """Return each filter's likelihood for every candidate, and unless `complete` for others, up to a factor."""
    p, q = rates
    lit, unlit = np.log(p / q), np.log((1 - p) / (1 - q))
    # Strings outside the list set each bit with the chance h/k.
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
    return np.asarray(np.exp(logarithms - logarithms.max(axis=1, keepdims=True)))


def _judged(decode: Any, built: JointMechanism, batch: Any, labels: Any, truth: F64) -> dict[str, float]:
    start = process_time()
    shares = decode(built, batch, labels)
    seconds = process_time() - start
    return {"passed": checks_passed(shares), "distance": float(np.abs(shares - truth).sum() / 2), "seconds": seconds}


def checks_passed(shares: F64) -> int:
    """Return how many of Google's nine checks a table passes; rows and columns begin with the value 1.

    Examples
    --------
    >>> exact = np.zeros((4, 5))
    >>> exact[[0, 0, 1, 1, 2, 2], [0, 1, 1, 2, 2, 3]] = [0.18, 0.18, 0.18, 0.18, 0.1, 0.1]
    >>> checks_passed(exact), checks_passed(np.full((4, 5), 0.05))
    (9, 3)
    """

    def cell(row: str, column: str) -> float:
        return float(shares[int(row) - 1, int(column) - 1])

    near = sum(abs(cell(a, b) - cell(c, d)) < within for a, b, c, d, within in CHECKS)
    return near + sum(cell(row, column) < EMPTY_SHARE for row, column in EMPTY)


def _table(cases: list[tuple[Case, list[dict[str, dict[str, float]]]]]) -> Table:
    rows: dict[str, list[Any]] = {"case": [], "reports": [], "from": [], "total variation": [], "seconds": []}
    for case, drawn in cases:
        for way in drawn[0]:
            each = [result[way] for result in drawn]
            rows["case"].append(case.name)
            rows["reports"].append(case.reports)
            rows["from"].append(way)
            rows["total variation"].append(round(mean([result["distance"] for result in each]), 4))
            rows["seconds"].append(round(mean([result["seconds"] for result in each]), 3))
    return Table.of("Google's association cases", rows)
