"""The papers' problems by every registered oracle, at the epsilons of RAPPOR's section 5.2."""

from __future__ import annotations

import math
from statistics import fmean
from typing import Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.comparison import report_bits
from overstory.analysis.oracle import FrequencyOracle
from overstory.experiments.beyond.contenders import PERMANENT, REPORT, Contender, contenders
from overstory.experiments.comparison import LEVEL, Comparison, Published, stated
from overstory.experiments.epidemic.respondents import CASES
from overstory.experiments.rappor.collections import PRESENT, exponential
from overstory.experiments.registry import Context
from overstory.experiments.result import Cell, Result, Table
from overstory.experiments.smart_homes.homes import BINS, binned, frequencies, made_up
from overstory.presentation import figures
from overstory.presentation.svg import Picture
from overstory.protocol.encodings.bits import Bloom

F64 = NDArray[np.float64]

STRINGS, METERS, REGIONS = "strings", "meters", "states"
PROBLEMS: Final = {
    STRINGS: "100 strings, exponential shares (RAPPOR, section 5.2)",
    METERS: "100 bins of made-up meter readings (ProTECting, chapter 5)",
    REGIONS: "26 states, 18 April 2021 (the epidemic paper)",
}

KEPT: Final = (
    "Every oracle is within the epsilon of one report of section 5.2's RAPPOR. Those that keep one answer send it "
    "again when asked again; those with fresh reports stay under the permanent epsilon of section 5.2 as well; the "
    "window oracles promise nothing beyond the window, here of one report."
)
BITS: Final = "What a report costs in bits is its payload and its public part: a seed, a row, a cohort."


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


def run(context: Context) -> Result:
    """Ask the same people by every oracle."""
    size, runs = context.pick(quick=10_000, full=500_000), context.pick(quick=5, full=20)
    shares = {problem: shares_of(problem, context.rng(0, at)) for at, problem in enumerate(PROBLEMS)}
    asked = {problem: contenders(len(shares[problem])) for problem in PROBLEMS}
    cases = [(at, problem, one) for at, problem in enumerate(PROBLEMS) for one in range(len(asked[problem]))]
    measured = context.parallel(
        lambda case: [
            squared_error(asked[case[1]][case[2]], shares[case[1]], size, context.rng(1, case[0], case[2], i))
            for i in range(runs)
        ],
        cases,
        "oracles",
    )
    errors = {
        (problem, asked[problem][one].name): found for (_, problem, one), found in zip(cases, measured, strict=True)
    }
    theory = {
        (problem, one.name): one.error(shares[problem].tolist(), size) for problem in PROBLEMS for one in asked[problem]
    }
    order = sorted(asked[STRINGS], key=lambda one: theory[STRINGS, one.name])
    return context.result(
        [*_against_theory(order, errors, theory), *_best(order, theory)],
        inputs={"N": size, "replicates": runs, "epsilon_report": REPORT, "epsilon_permanent": PERMANENT} | PROBLEMS,
        random=True,
        tables=[_table(order, errors, theory)],
        figures=[_draw(order, errors, theory, size, runs)],
        notes=[KEPT, BITS],
    )


def squared_error(one: Contender, shares: F64, size: int, rng: np.random.Generator) -> float:
    """Return the mean squared error of the unbiased shares in one collection from `size` people."""
    held = rng.choice(len(shares), size=size, p=shares).astype(np.int32)
    names = [f"V{i}" for i in range(len(shares))] if isinstance(one.mechanism.encoding, Bloom) else None
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
        one.name: np.mean([np.divide(errors[p, one.name], theory[p, one.name] ** 2) for p in PROBLEMS], axis=0)
        for one in order
    }
    runs = len(next(iter(ratios.values())))
    spread = math.sqrt(fmean(float(np.var(found, ddof=1)) for found in ratios.values()))
    reach = float(t.ppf(1 - (1 - LEVEL) / (2 * len(order)), len(order) * (runs - 1))) * spread / math.sqrt(runs)
    known = Published(1.0, "theory: docs/reference/oracles.md, docs/explanation/planning.md")
    means = {name: float(found.mean()) for name, found in ratios.items()}
    return [
        Comparison(f"{name}: mean squared error over theory's", mean, mean - reach, mean + reach, "", known)
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
    head = ["oracle", "second report", "bits"]
    for problem in PROBLEMS:
        head += [f"{problem}: points", f"{problem}: theory"]
    rows: list[tuple[Cell, ...]] = []
    for one in order:
        found: list[float] = []
        for problem in PROBLEMS:
            found += [round(_points(errors, problem, one.name), 4), round(100 * theory[problem, one.name], 4)]
        rows.append((one.name, one.kind, report_bits(one.mechanism), *found))
    return Table(
        "Root mean square error of a share, in percentage points, measured and by theory", tuple(head), tuple(rows)
    )


def _draw(order: list[Contender], errors: Errors, theory: Theory, size: int, runs: int) -> Picture:
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
