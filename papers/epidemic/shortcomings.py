"""The paper's three shortcomings of RAPPOR, answered by numbers: the budget, the cost of decoding, the static map."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from overstory.analysis.oracle import FrequencyOracle
from overstory.planning.needs import plan_from_needs
from papers import figures
from papers.comparison import Comparison, exact, simulated
from papers.epidemic.fit import CASES, STATES, asked, mechanism
from papers.study import Context, Study, Table

SMALLEST: Final = float(CASES.min() / CASES.sum())
SAMPLES: Final = (10**5, 10**6, int(CASES.sum()))
EPSILONS: Final = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
PERMANENT: Final = 4.0
"""The permanent budget as a multiple of the report's, as in RAPPOR's own collections."""
PERCENT: Final = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
KNOWN: Final = 20
"""States on the first list; the other six are added after the survey."""

NOTES: Final = """
The budget (shortcoming 1) follows from what has to be seen: the planner gives, for each budget, the least share that
will be found, with the best parameters within it. `overstory plan` answers for any collection.

Decoding (shortcoming 2) never sees the reports: they are counted once, and the cost of what follows depends on cohorts,
bits and candidates alone. docs/explanation/decoding.md gives seconds, up to a million candidates.

The map (shortcoming 3) need not be static: the counts hold what the candidates of tomorrow need. Before they are
listed, the reports that hold them are seen as held by none of the list (roughly: six strings do not spread quite evenly
over the bits); `overstory discover` finds strings that nobody thought of.
"""


def run(context: Context) -> Study:
    """Plan budgets; count what is decoded; add candidates after the survey."""
    runs = context.pick(quick=4, full=40)
    surveys = [_later(context.rng(number)) for number in context.steps(range(runs), "surveys")]
    shares = {reports: [_least_share(epsilon, reports) for epsilon in EPSILONS] for reports in SAMPLES}
    return Study(
        inputs={"states": list(STATES), "known at first": KNOWN, "respondents": SAMPLES[1], "epsilons": list(EPSILONS)}
        | {"epsilon_permanent": f"{PERMANENT:g} epsilon_report", "runs": runs},
        comparisons=[*_budget(), *_cost(), *_growing(surveys)],
        tables=[_table(shares)],
        figures=[_draw(shares)],
        notes=NOTES,
    )


def _least_share(epsilon: float, reports: int) -> float:
    """Return the least share that a survey at that epsilon finds half of the time, at a false discovery rate of 5%."""
    return plan_from_needs(epsilon, PERMANENT * epsilon, reports, len(STATES)).detectable_frequency_fdr


def least_epsilon(share: float, reports: int) -> float:
    """Return the least epsilon of a report at which that share is found, by bisection over plans.

    Examples
    --------
    >>> epsilon = least_epsilon(0.01, 10**6)
    >>> abs(_least_share(epsilon, 10**6) - 0.01) < 3e-4
    True
    """
    low, high = 0.01, 8.0
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _least_share(middle, reports) > share else (low, middle)
    return high


def _budget() -> list[Comparison]:
    return [
        exact("smallest state's share of the infected", SMALLEST),
        *(
            exact(f"epsilon that finds it, {reports:,} respondents", least_epsilon(SMALLEST, reports))
            for reports in SAMPLES
        ),
    ]


def _cost() -> list[Comparison]:
    used = mechanism()
    return [
        exact("reports of the whole survey", SAMPLES[-1]),
        exact("numbers that are decoded, however many reports", used.num_cohorts * used.payload_bits),
    ]


def _later(rng: np.random.Generator) -> dict[str, float]:
    """Survey once; decode with the first list, then, from the same counts, with the longer one."""
    everyone = asked()
    symbols = everyone[rng.integers(0, len(everyone), SAMPLES[1])]
    oracle = FrequencyOracle(mechanism())
    counts = oracle.accumulate(oracle.simulate(symbols, rng, candidates=STATES))
    first: Any = oracle.estimate(counts, STATES[:KNOWN])
    longer = oracle.estimate(counts, STATES)
    missing = np.bincount(symbols, minlength=len(STATES))[KNOWN:]
    misses = (longer.raw_counts[KNOWN:] - missing) / longer.standard_errors[KNOWN:]
    return {
        "truth": float(missing.sum() / SAMPLES[1]),
        "unallocated": float(first.unallocated / SAMPLES[1]),
        "misses": float(np.sqrt(np.mean(misses**2))),
    }


def _growing(surveys: list[dict[str, float]]) -> list[Comparison]:
    names = {
        "share of the six states not yet listed, true": "truth",
        "the same as seen from the short list": "unallocated",
        "error of states added later, in standard errors": "misses",
    }
    return [simulated(name, [survey[key] for survey in surveys], averaged=len(surveys)) for name, key in names.items()]


def _table(shares: dict[int, list[float]]) -> Table:
    columns = {f"{reports:,} respondents": least for reports, least in shares.items()}
    return Table.of("Least share found", {"epsilon of a report": EPSILONS, **columns})


def _draw(shares: dict[int, list[float]]) -> figures.Picture:
    figure, axes = figures.panels(width=7.2, height=4.0)
    axes.set(xscale="log", yscale="log")
    for colour, (reports, least) in zip(figures.SERIES, shares.items(), strict=False):
        name = f"{reports:,}\nrespondents"
        figures.line(axes, EPSILONS, 100 * np.array(least), colour, name, marker="o", linewidth=1.7, markersize=4)
    name = f"the smallest state: {STATES[int(CASES.argmin())]}"
    place = {"xytext": (2, -8)}
    figures.level(axes, 100 * SMALLEST, figures.MUTED, name, EPSILONS[0], linewidth=1.1, place=place)
    axes.minorticks_off()
    axes.set_yticks(PERCENT, [f"{share:g}" for share in PERCENT])
    axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    axes.set(xlabel="epsilon of one report", ylabel="least share found (%)")
    return figures.picture(
        figure,
        "epidemic-shortcomings",
        "The least share of the infected that a survey finds half of the time (26 candidates, false discovery rate "
        "5%), with the best RAPPOR whose permanent epsilon is four times the report's. Exact.",
        "Three falling lines: with more respondents or a larger epsilon, smaller states are found.",
    )
