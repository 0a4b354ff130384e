"""Figure 3, section 4.2 and the appendix: how many strings can be learned from N reports at most."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from overstory.analysis.oracle import FrequencyOracle
from overstory.planning.detection import critical_value, detectable_frequency, reports_needed
from overstory.protocol.kinds.bits import BitMechanism, basic_rappor_one_time
from papers import figures
from papers.comparison import Comparison, Published, about, exact, simulated
from papers.study import Context, Study, Table

ALPHA = 0.05
Q, P = 0.75, 0.5
CARDINALITIES = (10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)
BROAD = (10_000, 100_000, 1_000_000)  # section 4.2 does not say which M its examples take
TRIED: Final = (100_000, 100)  # N and M of the simulated check
NOTES: Final = f"""
Intervals in section 4.2's examples span candidate lists of {BROAD[0]:,} to {BROAD[-1]:,} strings, for the paper does
not say which it takes; the number before them is that of {BROAD[1]:,}.

The limit is where a string's expected count equals the critical value: about half of such strings are then found, not
all (the last line tries it). Nine in ten are found from 1.28 standard errors further.
"""


def run(context: Context) -> Study:
    """Compute the limits, and try one of them."""
    runs = context.pick(quick=20, full=400)
    basic = _basic(TRIED[1])
    shares = [_share_detected(basic, context.rng(i)) for i in context.steps(range(runs), "collections at the limit")]
    tried = simulated("share found of strings at the limit, N = 10^5, M = 100", shares)
    return Study(
        inputs={"p": P, "q": Q, "f": 0, "alpha": ALPHA, "M": list(CARDINALITIES), "N": "10^4 to 10^11", "runs": runs},
        comparisons=[*_examples(basic), *_appendix(basic), tried],
        tables=[_table(basic)],
        figures=[_draw(basic)],
        notes=NOTES,
    )


def _basic(domain_size: int) -> BitMechanism:
    return basic_rappor_one_time(domain_size=domain_size, p=P, q=Q)


def learning_limit(mechanism: BitMechanism, num_reports: float, cardinality: int) -> float:
    """Return how many strings can be learned: the x with N / x = Q sd (the appendix)."""
    return 1 / detectable_frequency(mechanism, num_reports, cardinality, critical_value(ALPHA, cardinality))


def limit(mechanism: BitMechanism, num_reports: float, cardinality: int) -> float:
    """Return the most strings that can be detected: never more than there are."""
    return min(float(cardinality), learning_limit(mechanism, num_reports, cardinality))


def _examples(basic: BitMechanism) -> list[Comparison]:
    """Section 4.2's sentences, over the numbers of candidates that they may mean."""
    where = "section 4.2"

    def over(name: str, computed: Callable[[int], float], published: Published) -> Comparison:
        values = [computed(cardinality) for cardinality in BROAD]
        return Comparison(name, values[1], min(values), max(values), "", published)

    def needed(share: float, name: str, reports: float) -> Comparison:
        computed = lambda m: reports_needed(basic, m, share, critical_value(ALPHA, m))  # noqa: E731 - of m alone
        return over(f"reports that a frequency of {name} needs", computed, about(reports, where))

    rule = about(0.1, f"{where}: rule of thumb sqrt(N) / 10")
    return [
        over("strings that can be detected in 10^10 reports", lambda m: limit(basic, 1e10, m), about(10_000, where)),
        over("strings that can be detected in 10^8 reports", lambda m: limit(basic, 1e8, m), about(1_000, where)),
        over("detectable strings over sqrt(N), N = 10^8", lambda m: limit(basic, 1e8, m) / 1e4, rule),
        needed(0.01, "1%", 1e6),
        needed(0.001, "0.1%", 1e8),
        needed(0.0001, "0.01%", 1e10),
    ]


def _appendix(basic: BitMechanism) -> list[Comparison]:
    """The appendix's formulas, against the oracle's own variance and the planner's own limit."""
    n, m = 10**6, 100
    deviation = n * math.sqrt(FrequencyOracle(basic).variance(n, 0.0))
    any_p = Published(math.sqrt(P * (1 - P) * n) / (Q - P), "appendix: sqrt(p (1 - p) N) / (q - p)", within=0.01)
    half = Published(math.sqrt(n) / (2 * Q - 1), "appendix: sqrt(N) / (2q - 1)", within=0.01)
    bound = (2 * Q - 1) * math.sqrt(n) / critical_value(ALPHA, m)
    most = Published(bound, "appendix: (2q - 1) sqrt(N) / Q", within=1e-4)
    learned = learning_limit(basic, n, m)
    return [
        exact("standard deviation of an absent string's count, N = 10^6", deviation, any_p, unit="reports"),
        exact("the same at p = 1/2", deviation, half, unit="reports"),
        exact("most strings, N = 10^6, M = 100", learned, most, unit="strings"),
        exact("epsilon of one report", basic.epsilon_report, Published(math.log(3), "section 4.2: ln(3)")),
    ]


def _share_detected(basic: BitMechanism, rng: np.random.Generator) -> float:
    """Collect from a population at its limit: x strings, all equally frequent; return the share of them detected."""
    reports, cardinality = TRIED
    held = int(learning_limit(basic, reports, cardinality))
    symbols = np.arange(reports) % held
    oracle = FrequencyOracle(basic)
    estimate = oracle.estimate(oracle.accumulate(oracle.simulate(symbols, rng)))
    return float(np.mean(estimate.detected(ALPHA, "bonferroni")[:held]))


def _table(basic: BitMechanism) -> Table:
    by_reports = {
        f"N = 10^{power}": [math.floor(limit(basic, 10.0**power, m)) for m in CARDINALITIES] for power in range(4, 12)
    }
    return Table.of(
        "Most strings that can be detected", {"candidates M": [f"{m:,}" for m in CARDINALITIES], **by_reports}
    )


def _draw(basic: BitMechanism) -> figures.Picture:
    figure, axes = figures.panels(width=7.2, height=4.6)
    axes.set(xscale="log", yscale="log")
    reports = np.logspace(4, 11, 141)
    for colour, cardinality in zip(figures.SERIES, CARDINALITIES, strict=True):
        limits = [limit(basic, n, cardinality) for n in reports]
        power = round(math.log10(cardinality))
        place = {"xytext": {5: (5, 6), 6: (5, -1), 7: (5, -9)}.get(power, (5, 0))}
        figures.line(axes, reports, limits, colour, f"M = $10^{{{power}}}$", place=place)
    rule = np.sqrt(reports) / 10
    figures.line(axes, reports, rule, figures.MUTED, linewidth=1, linestyle=figures.DASHED, zorder=3)
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
