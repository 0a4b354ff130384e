"""The papers' problems by every registered oracle, within one budget: the epsilons of RAPPOR's section 5.2."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.comparison import report_bits
from overstory.analysis.oracle import FrequencyOracle
from overstory.planning.detection import variance_per_person
from overstory.planning.needs import design
from overstory.protocol.kinds.base import Mechanism
from overstory.protocol.kinds.rappor import rappor
from overstory.protocol.kinds.registry import mechanism
from papers import figures
from papers.comparison import LEVEL, Comparison, Published, stated
from papers.epidemic.fit import CASES
from papers.rappor.collections import PRESENT, exponential
from papers.smart_homes.homes import BINS, binned, frequencies, made_up
from papers.study import Context, Study, Table

F64 = NDArray[np.float64]

PAPER: Final = rappor()
"""k = 128, h = 2, m = 16, f = 1/2, p = 1/2, q = 3/4."""
REPORT, PERMANENT = PAPER.epsilon_report, PAPER.epsilon_permanent

ONE: Final = "one answer, kept"
FRESH: Final = "fresh reports under a ceiling"
WINDOW: Final = "fresh reports, no ceiling"

_KEPT: Final = ("grr", "sue", "oue", "blh", "olh", "hadamard", "subset", "projective", "random-matrix", "dbitflip")
_CHAINS: Final = ("l-grr", "l-sue", "l-osue", "l-soue", "loloha")


@dataclass(frozen=True)
class Contender:
    """An oracle within the budget."""

    name: str
    kind: str  # what its second report is
    mechanism: Mechanism

    def error(self, shares: list[float], num_reports: int) -> float:
        """Return the root mean square error that theory states, of shares."""
        each = [variance_per_person(self.mechanism, share, len(shares)) for share in shares]
        return math.sqrt(math.fsum(each) / len(each) / num_reports)


def contenders(domain_size: int) -> list[Contender]:
    """Return every registered oracle, one report of which has the epsilon of the paper's, or as much of it as it can.

    Except `linear-hash`, which is OLH with a hash function that a large domain is counted by faster.

    Examples
    --------
    >>> from overstory.protocol.kinds.registry import REGISTRY
    >>> chosen = contenders(26)
    >>> {one.mechanism.name for one in chosen} == set(REGISTRY) - {"linear-hash"}
    True
    >>> all(one.mechanism.epsilon_report <= REPORT + 1e-6 for one in chosen)
    True
    """
    return [*_one_answer(domain_size), *_fresh(domain_size), *_window(domain_size)]


def _one_answer(d: int) -> Iterator[Contender]:
    for name in _KEPT:
        yield Contender(name, ONE, mechanism(name, domain_size=d, epsilon=REPORT))
    noise = math.ceil(2e9 / (1 + math.exp(REPORT / 2))) / 1e9
    yield Contender("basic-rappor-one-time", ONE, mechanism("basic-rappor-one-time", domain_size=d, f=noise))
    yield Contender("rappor-one-time", ONE, mechanism("rappor-one-time", num_hashes=1, f=noise))


def _fresh(d: int) -> Iterator[Contender]:
    for name in _CHAINS:
        given = {"domain_size": d, "epsilon_permanent": PERMANENT, "epsilon_report": REPORT}
        yield Contender(name, FRESH, mechanism(name, **given))
    best = design(REPORT, PERMANENT, num_bits=128, num_hashes=1, num_cohorts=16)
    letters = {letter: best.parameters[letter] for letter in "fpq"}
    yield Contender("basic-rappor", FRESH, mechanism("basic-rappor", domain_size=d, **letters))
    yield Contender("rappor, redesigned", FRESH, best)
    yield Contender("rappor, as published", FRESH, PAPER)
    yield Contender("opt-dr", FRESH, _opt_dr(d))


def _opt_dr(d: int) -> Mechanism:
    """Return OPT-DR with the largest permanent epsilon that keeps both."""
    low, high = 0.01, PERMANENT
    for _ in range(50):
        middle = (low + high) / 2
        within = mechanism("opt-dr", domain_size=d, epsilon_permanent=middle).epsilon_report <= REPORT
        low, high = (middle, high) if within else (low, middle)
    return mechanism("opt-dr", domain_size=d, epsilon_permanent=low)


def _window(d: int) -> Iterator[Contender]:
    for name in ("wb", "opt-wb"):
        yield Contender(name, WINDOW, mechanism(name, domain_size=d, epsilon=REPORT, window=1))


STRINGS, METERS, REGIONS = "strings", "meters", "states"
PROBLEMS: Final = {
    STRINGS: "100 strings, exponential shares (RAPPOR, section 5.2)",
    METERS: "100 bins of made-up meter readings (ProTECting, chapter 5)",
    REGIONS: "26 states, 18 April 2021 (the epidemic paper)",
}

NOTES: Final = """
Every oracle is within the epsilon of one report of section 5.2's RAPPOR. Those that keep one answer send it again when
asked again; those with fresh reports stay under the permanent epsilon of section 5.2 as well; the window oracles
promise nothing beyond the window, here of one report.

What a report costs in bits is its payload and its public part: a seed, a row, a cohort.
"""


def shares_of(problem: str, rng: np.random.Generator) -> F64:
    """Return the shares that people are drawn by.

    Examples
    --------
    >>> [len(shares_of(problem, np.random.default_rng(0))) for problem in PROBLEMS]
    [100, 100, 26]
    """
    if problem == STRINGS:
        return exponential()[:PRESENT]
    if problem == METERS:
        return frequencies(binned(made_up(200_000, rng)[0], BINS), BINS)
    return np.asarray(CASES / CASES.sum())


def run(context: Context) -> Study:
    """Ask the same people by every oracle."""
    size, runs = context.pick(quick=10_000, full=500_000), context.pick(quick=5, full=20)
    shares = {problem: shares_of(problem, context.rng(0, at)) for at, problem in enumerate(PROBLEMS)}
    asked = {problem: contenders(len(shares[problem])) for problem in PROBLEMS}
    cases = [(at, problem, i) for at, problem in enumerate(PROBLEMS) for i in range(len(asked[problem]))]

    def measure(case: tuple[int, str, int]) -> list[float]:
        at, problem, i = case
        rngs = [context.rng(1, at, i, run) for run in range(runs)]
        return [squared_error(asked[problem][i], shares[problem], size, rng) for rng in rngs]

    measured = context.parallel(measure, cases, "oracles")
    errors = {(problem, asked[problem][i].name): e for (_, problem, i), e in zip(cases, measured, strict=True)}
    theory = {(p, one.name): one.error(shares[p].tolist(), size) for p in PROBLEMS for one in asked[p]}
    order = sorted(asked[STRINGS], key=lambda one: theory[STRINGS, one.name])
    return Study(
        inputs={"N": size, "replicates": runs, "epsilon_report": REPORT, "epsilon_permanent": PERMANENT} | PROBLEMS,
        comparisons=[*_against_theory(order, errors, theory), *_best(order, theory)],
        tables=[_table(order, errors, theory)],
        figures=[_draw(order, errors, theory, size, runs)],
        notes=NOTES,
    )


def squared_error(one: Contender, shares: F64, size: int, rng: np.random.Generator) -> float:
    """Return the mean squared error of the unbiased shares in one collection from `size` people."""
    held = rng.choice(len(shares), size=size, p=shares).astype(np.int32)
    names = [f"V{i}" for i in range(len(shares))] if one.mechanism.encoding.decoded else None
    oracle = FrequencyOracle(one.mechanism)
    estimate = oracle.estimate(oracle.accumulate(oracle.simulate(held, rng, candidates=names)), names)
    truth = np.bincount(held, minlength=len(shares)) / size
    return float(np.mean((estimate.raw_frequencies - truth) ** 2))


Errors = dict[tuple[str, str], list[float]]
Theory = dict[tuple[str, str], float]


def _against_theory(order: list[Contender], errors: Errors, theory: Theory) -> list[Comparison]:
    """Compare measured with stated squared errors, averaged over the problems; all intervals together hold at LEVEL.

    The spread of such a ratio hangs little on the oracle, so it is pooled: a few runs of each then make narrow bounds.
    """
    from scipy.stats import t

    ratios = {
        name: np.mean([np.divide(errors[p, name], theory[p, name] ** 2) for p in PROBLEMS], axis=0)
        for name in (contender.name for contender in order)
    }
    runs = len(next(iter(ratios.values())))
    spread = math.sqrt(fmean(float(np.var(of_runs, ddof=1)) for of_runs in ratios.values()))
    reach = float(t.ppf(1 - (1 - LEVEL) / (2 * len(order)), len(order) * (runs - 1))) * spread / math.sqrt(runs)
    one = Published(1.0, "theory: docs/reference/oracles.md, docs/explanation/planning.md")
    means = {name: float(of_runs.mean()) for name, of_runs in ratios.items()}
    return [
        Comparison(f"{name}: mean squared error over theory's", mean, mean - reach, mean + reach, "", one)
        for name, mean in means.items()
    ]


def _best(order: list[Contender], theory: Theory) -> list[Comparison]:
    """Name the most accurate oracle of each problem and kind, by theory."""
    kinds = dict.fromkeys(one.kind for one in order)
    return [
        stated(
            f"most accurate for the {problem}, {kind}",
            min((one for one in order if one.kind == kind), key=lambda one: theory[problem, one.name]).name,
        )
        for problem in PROBLEMS
        for kind in kinds
    ]


def _points(errors: Errors, problem: str, name: str) -> float:
    """Return the measured root mean square error in percentage points."""
    return 100 * math.sqrt(fmean(errors[problem, name]))


def _table(order: list[Contender], errors: Errors, theory: Theory) -> Table:
    columns: dict[str, list[Any]] = {
        "oracle": [one.name for one in order],
        "second report": [one.kind for one in order],
        "bits": [report_bits(one.mechanism) for one in order],
    }
    for problem in PROBLEMS:
        columns[f"{problem}: points"] = [round(_points(errors, problem, one.name), 4) for one in order]
        columns[f"{problem}: theory"] = [round(100 * theory[problem, one.name], 4) for one in order]
    return Table.of("Root mean square error of a share, in percentage points, measured and by theory", columns)


def _draw(order: list[Contender], errors: Errors, theory: Theory, size: int, runs: int) -> figures.Picture:
    figure, (left, right) = figures.panels(width=8.6, height=6.6, columns=2, sharey=True, width_ratios=(2.2, 1))
    at = np.arange(len(order))
    for colour, marker, problem in zip(figures.SERIES, "os^", PROBLEMS, strict=False):
        measured = [_points(errors, problem, one.name) for one in order]
        stated_errors = [100 * theory[problem, one.name] for one in order]
        left.plot(measured, at, marker, color=colour, markersize=5, label=problem)
        left.plot(stated_errors, at, "|", color=colour, markersize=12, markeredgewidth=1.2)
    left.set_yticks(at, [one.name for one in order])
    left.set_ylim(len(order) - 0.5, -0.5)
    left.set(xlim=(0, None), xlabel="root mean square error of a share (points)")
    left.legend(frameon=False, fontsize=9, labelcolor=figures.INK, loc="upper right")
    bits = [report_bits(one.mechanism) for one in order]
    right.hlines(at, 1, bits, color=figures.MUTED, linewidth=1)
    right.plot(bits, at, "o", color=figures.INK, markersize=4)
    for y, count in enumerate(bits):
        figures.label(right, count, y, f"{count:,}")
    right.set(xscale="log", xlabel="bits of a report", xlim=(1, 600))
    for axes in (left, right):
        axes.minorticks_off()
    return figures.picture(
        figure,
        "beyond-oracles",
        f"Every registered oracle at epsilon {REPORT:.4f} of one report (and {PERMANENT:.4f} for ever, where reports "
        f"are fresh), {size:,} people, {runs} runs; dots are measured, ticks theory.",
        "Dots lie near their ticks; subset selection is best, then optimized unary encoding and its kin; direct "
        "answers are worst for a hundred values.",
    )
