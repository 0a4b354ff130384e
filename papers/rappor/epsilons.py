"""Sections 3 and 5: every epsilon that the paper states, and those of n reports, which it leaves open."""

from __future__ import annotations

import math

from overstory.privacy.statements import statement
from overstory.protocol.kinds.bits import BitMechanism, basic_rappor_one_time
from papers import figures
from papers.comparison import Comparison, Published, exact, printed
from papers.rappor.collections import collected
from papers.study import Context, Study, Table

NOISE = (0.25, 0.5, 0.75)
REPORTS = (1, 2, 3, 5, 10, 30, 100)
MOST = 30
NOTES = """
Section 3.2 says that epsilon of n reports cannot be computed without further assumptions. It can: the n reports of a
memoized bit are a mixture of two binomial laws, whose likelihood ratio is extreme at all ones and at all zeros
(docs/explanation/privacy.md proves it).

Epsilon_infinity compares histories with the same pattern of equal and different permanent responses. A change of
value is visible beyond it, as section 6.1 cautions.
"""


def run(_: Context) -> Study:
    """Compute them from the thresholds that devices compare with."""
    half, more = collected(0.5, num_cohorts=8), collected(0.75, num_cohorts=32)
    one_time = basic_rappor_one_time(domain_size=100, p=0.5, q=0.75)
    return Study(
        inputs={"h": 2, "k": 128, "p": 0.5, "q": 0.75, "f": list(NOISE)},
        comparisons=[
            exact("epsilon of one report, f = 0.5", half.epsilon_report, printed("1.0743", "sections 5.2 and 5.3")),
            exact("epsilon of one report, f = 0.75", more.epsilon_report, printed("0.5343", "section 5.4")),
            exact("epsilon, f = 0, h = 1", one_time.epsilon_report, Published(math.log(3), "section 5.1: ln(3)")),
            *_formulas(half, 0.5),
            *_formulas(more, 0.75),
            *(exact(f"epsilon of {n} reports of one value, f = 0.5", half.epsilon_n(n)) for n in (2, 3, 5, 10)),
            exact("any two reports, changing or not, f = 0.5", statement(half).epsilon_any[2]),
        ],
        tables=[_table()],
        figures=[_draw()],
        notes=NOTES,
        random=False,
    )


def _formulas(mechanism: BitMechanism, f: float) -> list[Comparison]:
    """Theorem 1 and lemma 3.3, evaluated in floating point, against what the thresholds give."""
    p, q = 0.5, 0.75
    q_star, p_star = f * (p + q) / 2 + (1 - f) * q, f * (p + q) / 2 + (1 - f) * p
    ceiling = 2 * 2 * math.log((1 - f / 2) / (f / 2))
    return [
        exact(f"q*, f = {f}", float(mechanism.p_star), Published(q_star, "lemma 3.3", within=1e-9)),
        exact(f"p*, f = {f}", float(mechanism.q_star), Published(p_star, "lemma 3.3", within=1e-9)),
        exact(
            f"epsilon of all reports of one value, f = {f}",
            mechanism.epsilon_permanent,
            Published(ceiling, "theorem 1: 2h ln((1 - f/2) / (f/2))", within=1e-8),
        ),
    ]


def _table() -> Table:
    mechanisms = [collected(f) for f in NOISE]
    by_number = {f"n = {n}": [mechanism.epsilon_n(n) for mechanism in mechanisms] for n in REPORTS}
    ceilings = [mechanism.epsilon_permanent for mechanism in mechanisms]
    return Table.of("Epsilon of n reports of one value", {"f": NOISE, **by_number, "all": ceilings})


def _draw() -> figures.Picture:
    figure, axes = figures.panels(width=7.2, height=4.2)
    numbers = list(range(1, MOST + 1))
    for colour, f in zip((figures.GREEN, figures.BLUE, figures.VERMILION), NOISE, strict=True):
        mechanism = collected(f)
        figures.line(axes, numbers, [mechanism.epsilon_n(n) for n in numbers], colour, linewidth=1.9)
        figures.level(axes, mechanism.epsilon_permanent, colour, f"f = {f:g}", MOST)
    fresh = collected(0.5).epsilon_report
    figures.line(axes, [1, 9], [fresh, 9 * fresh], figures.MUTED, linewidth=1.2)
    name = "without a permanent round:\nn times epsilon (f = 0.5)"
    figures.label(axes, 5.5, 5.5 * fresh, name, figures.MUTED, xytext=(12, 0))
    axes.set(xlabel="reports n of one value", ylabel="epsilon (nats)", xlim=(1, MOST), ylim=(0, 8.6))
    return figures.picture(
        figure,
        "rappor-epsilons",
        "Exact epsilon of n reports of one value (solid) and its ceiling, epsilon_infinity (dashed). k = 128, h = 2, "
        "p = 0.5, q = 0.75.",
        "Each curve starts at the epsilon of one report and flattens below its dashed ceiling; without a permanent "
        "round epsilon would grow in a straight line.",
    )
