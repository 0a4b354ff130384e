"""Sections 1 and 3: two coins, a hundred answers of one person, and what they reveal when each is drawn afresh.

"If 75 out of 100 responses are Yes for a single client in the randomized-response scheme at the very start of this
paper, the true answer will have been No in a vanishingly unlikely 1.39e-24 fraction of cases" (section 3).
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from overstory.privacy.attacks import posterior
from overstory.protocol.channels import SymbolChannel, SymbolRounds
from overstory.protocol.kinds.base import Report
from overstory.protocol.kinds.symbols import SymbolMechanism, grr
from papers import figures
from papers.comparison import Published, exact, printed
from papers.study import Context, Study, Table

ANSWERS = 100
YES = 75
SHOWN = (50, 51, 55, 60, 65, 70, 75, 100)
NO_ANSWER, YES_ANSWER = Report(0, 0), Report(0, 1)


def run(_: Context) -> Study:
    """Compute the posterior of No for every number of Yes answers."""
    posteriors = [posterior_no(yes, ANSWERS) for yes in range(ANSWERS + 1)]
    coins = two_coins(memoized=True)
    memoized = posterior(coins, [YES_ANSWER] * ANSWERS, {0: 1, 1: 1})[0]
    return Study(
        inputs={"answers": ANSWERS, "P(Yes | Yes)": 0.75, "P(Yes | No)": 0.25, "P(No) before": 0.5},
        comparisons=[
            exact(
                "epsilon of one answer", coins.epsilon_report, Published(math.log(3), "section 1: ln(3)", within=1e-9)
            ),
            exact("P(the answer is true)", float(coins.p_star), printed("0.75", "section 1")),
            exact("P(the truth is No | 75 of 100 answers are Yes)", posteriors[YES], printed("1.39e-24", "section 3")),
            exact("the same when the first answer, Yes, is kept for ever", memoized),
        ],
        tables=[
            Table.of(
                "P(No), by how many of 100 answers are Yes",
                {"Yes answers": SHOWN, "P(No)": [posteriors[yes] for yes in SHOWN]},
            )
        ],
        figures=[_draw(posteriors, memoized)],
        notes=f"A memoized answer reveals epsilon {coins.epsilon_permanent:.4f}, however often it is asked for.",
        random=False,
    )


def two_coins(*, memoized: bool) -> SymbolMechanism:
    """Return the survey of section 1: a first coin decides whether the answer is true, or a second coin's."""
    coin, nothing = SymbolChannel(2, Fraction(1, 2)), SymbolChannel(2, Fraction(1))
    rounds = SymbolRounds(coin, nothing) if memoized else SymbolRounds(nothing, coin)
    return replace(grr(domain_size=2, epsilon=math.log(3)), rounds=rounds)


def posterior_no(yes: int, answers: int) -> float:
    """P(No | that many Yes), each answer drawn afresh, with even odds before: exact.

    Examples
    --------
    >>> posterior_no(50, 100)
    0.5
    """
    seen = [YES_ANSWER] * yes + [NO_ANSWER] * (answers - yes)
    return posterior(two_coins(memoized=False), seen, {0: 1, 1: 1})[0]


def _draw(posteriors: list[float], memoized: float) -> figures.Picture:
    figure, axes = figures.panels(height=3.4)
    axes.set(yscale="log")
    figures.line(axes, range(len(posteriors)), posteriors, figures.OURS, linewidth=2)
    place = {"xytext": (0, -9), "ha": "right"}
    name = "one answer, kept for ever"
    figures.level(axes, memoized, figures.VERMILION, name, 100, place=place, linewidth=1.6, linestyle="-")
    figures.label(axes, 25, 1e-14, "noise drawn afresh\nfor each answer", figures.OURS, xytext=(12, 0))
    axes.plot([YES], [posteriors[YES]], "o", color=figures.OURS)
    figures.label(axes, YES, posteriors[YES], f"75 of 100: {posteriors[YES]:.3g}", xytext=(8, 4))
    axes.set(xlabel="Yes answers of 100", ylabel="P(the truth is No)")
    return figures.picture(
        figure,
        "rappor-75-of-100",
        "Probability that the truth is No after 100 answers to one question, from even odds; exact.",
        "A curve falls from 1 at fifty Yes answers or fewer to 10 to the minus 24 at 75 and to 10 to the minus 48 at a "
        "hundred; a memoized answer stays at one quarter.",
    )
