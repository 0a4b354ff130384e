"""Figure 3, section 4.2 and the appendix: how many strings can be learned from N reports at most."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

from overstory.analysis.oracle import FrequencyOracle
from overstory.experiments.comparison import Comparison, Published, about, exact, simulated
from overstory.experiments.registry import Context
from overstory.experiments.result import Cell, Result, Table
from overstory.planning.detection import critical_value, learning_limit, reports_needed
from overstory.presentation import figures
from overstory.presentation.svg import Picture
from overstory.protocol.mechanisms.payloads import BitMechanism
from overstory.protocol.mechanisms.rappor import basic_rappor_one_time

ALPHA = 0.05
Q, P = 0.75, 0.5
CARDINALITIES = (10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)
BROAD = (10_000, 100_000, 1_000_000)  # section 4.2 does not say which M its examples take
TRIED: Final = (100_000, 100)  # N and M of the simulated check

_NOTES: Final = (
    (
        f"Intervals in section 4.2's examples span candidate lists of {BROAD[0]:,} to {BROAD[-1]:,} strings, for the "
        f"paper does not say which it takes; the number before them is that of {BROAD[1]:,}."
    ),
    (
        "The limit is where a string's expected count equals the critical value: about half of such strings are then "
        "found, not all (the last line tries it). Nine in ten are found from 1.28 standard errors further."
    ),
)
Computed: TypeAlias = Callable[[int], float]
"""From a number of candidates to a quantity."""


def run(context: Context) -> Result:
    """Compute the limits, and try one of them."""
    runs = context.pick(quick=20, full=400)
    basic = _basic(TRIED[1])
    found = [_share_found(basic, context.rng(run)) for run in context.steps(range(runs), "collections at the limit")]
    return context.result(
        [*_examples(basic), *_appendix(basic), _tried(found)],
        inputs={"p": P, "q": Q, "f": 0, "alpha": ALPHA, "M": list(CARDINALITIES), "N": "10^4 to 10^11", "runs": runs},
        random=True,
        tables=[_table(basic)],
        figures=[_draw(basic)],
        notes=_NOTES,
    )


def _basic(domain_size: int) -> BitMechanism:
    return basic_rappor_one_time(domain_size=domain_size, p=P, q=Q)


def limit(mechanism: BitMechanism, num_reports: float, cardinality: int) -> float:
    """Return the most strings that can be found: never more than there are."""
    return min(float(cardinality), learning_limit(mechanism, num_reports, cardinality, alpha=ALPHA))


def _examples(basic: BitMechanism) -> list[Comparison]:
    """Section 4.2's sentences."""
    where = "section 4.2"

    def strings(power: int) -> Computed:
        return lambda m: limit(basic, 10.0**power, m)

    def reports(share: float) -> Computed:
        return lambda m: reports_needed(basic, m, share, critical_value(ALPHA, m))

    rule = about(0.1, f"{where}: rule of thumb sqrt(N) / 10")
    return [
        _over("strings that can be detected in 10^10 reports", strings(10), about(10_000, where)),
        _over("strings that can be detected in 10^8 reports", strings(8), about(1_000, where)),
        _over("detectable strings over sqrt(N), N = 10^8", lambda m: strings(8)(m) / 1e4, rule),
        _over("reports that a frequency of 1% needs", reports(0.01), about(1e6, where)),
        _over("reports that a frequency of 0.1% needs", reports(0.001), about(1e8, where)),
        _over("reports that a frequency of 0.01% needs", reports(0.0001), about(1e10, where)),
    ]


def _over(name: str, computed: Computed, published: Published) -> Comparison:
    values = [computed(cardinality) for cardinality in BROAD]
    return Comparison(name, values[1], min(values), max(values), "", published)


def _appendix(basic: BitMechanism) -> list[Comparison]:
    """The appendix's formulas, against the oracle's own variance and the planner's own limit."""
    n, m = 10**6, 100
    deviation = n * math.sqrt(FrequencyOracle(basic).variance(n, 0.0))
    bound = (2 * Q - 1) * math.sqrt(n) / critical_value(ALPHA, m)
    where = "appendix"
    return [
        exact(
            "standard deviation of an absent string's count, N = 10^6",
            deviation,
            Published(math.sqrt(P * (1 - P) * n) / (Q - P), f"{where}: sqrt(p (1 - p) N) / (q - p)", within=0.01),
            unit="reports",
        ),
        exact(
            "the same at p = 1/2",
            deviation,
            Published(math.sqrt(n) / (2 * Q - 1), f"{where}: sqrt(N) / (2q - 1)", within=0.01),
            unit="reports",
        ),
        exact(
            "most strings, N = 10^6, M = 100",
            learning_limit(basic, n, m, alpha=ALPHA),
            Published(bound, f"{where}: (2q - 1) sqrt(N) / Q", within=1e-4),
            unit="strings",
        ),
        exact("epsilon of one report", basic.epsilon_report, Published(math.log(3), "section 4.2: ln(3)")),
    ]


def _share_found(basic: BitMechanism, rng: np.random.Generator) -> float:
    """Collect from a population at its limit: x strings, all equally frequent; return the share of them found."""
    reports, cardinality = TRIED
    held = int(learning_limit(basic, reports, cardinality, alpha=ALPHA))
    symbols = np.arange(reports) % held
    oracle = FrequencyOracle(basic)
    estimate = oracle.estimate(oracle.accumulate(oracle.simulate(symbols, rng)))
    return float(np.mean(estimate.detected(ALPHA, "bonferroni")[:held]))


def _tried(found: list[float]) -> Comparison:
    return simulated("share found of strings at the limit, N = 10^5, M = 100", found)


def _table(basic: BitMechanism) -> Table:
    powers = range(4, 12)
    rows: list[tuple[Cell, ...]] = [
        (f"{m:,}", *(math.floor(limit(basic, 10.0**power, m)) for power in powers)) for m in CARDINALITIES
    ]
    return Table(
        "Most strings that can be detected", ("candidates M", *(f"N = 10^{power}" for power in powers)), tuple(rows)
    )


def _draw(basic: BitMechanism) -> Picture:
    figure, axes = figures.panels(width=7.2, height=4.6)
    reports = np.logspace(4, 11, 141)
    for colour, cardinality in zip(figures.SERIES, CARDINALITIES, strict=True):
        limits = [limit(basic, n, cardinality) for n in reports]
        axes.loglog(reports, limits, color=colour, linewidth=1.8)
        power = round(math.log10(cardinality))
        offset = {5: (5, 6), 6: (5, -1), 7: (5, -9)}.get(power, (5, 0))
        figures.label(axes, reports[-1], limits[-1], f"M = $10^{{{power}}}$", colour, xytext=offset)
    axes.loglog(reports, np.sqrt(reports) / 10, color=figures.MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=3)
    figures.label(axes, 2e7, math.sqrt(2e7) / 10, r"dashed: $\sqrt{N}/10$", figures.MUTED, xytext=(20, -14))
    axes.set(xlabel="reports N", ylabel="most strings that can be detected", xlim=(1e4, 1e11), ylim=(5, 1e5))
    return figures.picture(
        figure,
        "rappor-figure-3",
        "Basic One-time RAPPOR, p = 0.5, q = 0.75, f = 0: strings of equal frequency that pass a Bonferroni test at "
        "0.05 among M candidates. Exact; a list of M strings gives no more than M.",
        "Seven lines rise with the square root of the number of reports; each stops at its number of candidates. At "
        "ten billion reports about ten thousand strings can be detected.",
    )
