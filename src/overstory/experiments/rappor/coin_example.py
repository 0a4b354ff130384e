"""Sections 1 and 3: two coins, a hundred answers of one person, and what they say when each is noisy anew.

"If 75 out of 100 responses are Yes for a single client in the randomized-response scheme at the very start of this
paper, the true answer will have been No in a vanishingly unlikely 1.39e-24 fraction of cases" (section 3).
"""

from __future__ import annotations

import math

from overstory.experiments import drawing
from overstory.experiments.comparison import exact
from overstory.experiments.context import Context
from overstory.experiments.published import Published, printed
from overstory.experiments.result import Picture, Result, Table
from overstory.protocol.channels import BinaryChannel, Rounds

ANSWERS = 100
YES = 75
COINS = BinaryChannel.of(0.75, 0.25)


def run(context: Context) -> Result:
    """Compute the posterior of No for every number of Yes answers."""
    posteriors = [posterior_no(yes, ANSWERS) for yes in range(ANSWERS + 1)]
    kept = Rounds(COINS, BinaryChannel.identity())
    one_answer = kept.epsilon(((1, 0),))
    comparisons = [
        exact("epsilon of one answer", one_answer, Published(math.log(3), "section 1: ln(3)", within=1e-9)),
        exact("P(the truth is No | 75 of 100 answers are Yes)", posteriors[YES], printed("1.39e-24", "section 3")),
        exact("the same, when the first answer is kept for ever", float(1 - COINS.keep_one)),
    ]
    rows = tuple((yes, posteriors[yes]) for yes in (50, 51, 55, 60, 65, 70, 75, 100))
    return context.result(
        comparisons,
        inputs={"answers": ANSWERS, "P(Yes | Yes)": 0.75, "P(Yes | No)": 0.25, "prior": 0.5},
        random=False,
        tables=[Table("Posterior of No, by Yes answers of 100", ("Yes answers", "P(No)"), rows)],
        figures=[_draw(posteriors)],
        notes=[
            f"A memoized answer reveals epsilon {kept.epsilon_permanent(((1, 0),)):.4f}, however often it is asked for."
        ],
    )


def posterior_no(yes: int, answers: int) -> float:
    """P(No | that many Yes), with even odds before: exact.

    Examples
    --------
    >>> posterior_no(50, 100)
    0.5
    """
    no = (1 - COINS.raise_zero) ** (answers - yes) * COINS.raise_zero**yes
    true = (1 - COINS.keep_one) ** (answers - yes) * COINS.keep_one**yes
    return float(no / (no + true))


def _draw(posteriors: list[float]) -> Picture:
    figure, axes = drawing.panels(height=3.4)
    axes.semilogy(range(len(posteriors)), posteriors, color=drawing.OURS, linewidth=2)
    axes.axhline(0.25, color=drawing.VERMILION, linewidth=1.6)
    drawing.label(axes, 100, 0.25, "one answer, kept for ever", drawing.VERMILION, xytext=(0, -9), ha="right")
    drawing.label(axes, 25, 1e-14, "noise drawn afresh\nfor each answer", drawing.OURS, xytext=(12, 0))
    axes.plot([YES], [posteriors[YES]], "o", color=drawing.OURS)
    drawing.label(axes, YES, posteriors[YES], f"75 of 100: {posteriors[YES]:.3g}", xytext=(8, 4))
    axes.set(xlabel="Yes answers of 100", ylabel="P(the truth is No)")
    return drawing.picture(
        figure,
        "rappor-75-of-100",
        "Probability that the truth is No after 100 answers to one question, from even odds; exact.",
        "A curve falls from 1 at fifty Yes answers or fewer to 10 to the minus 48 at a hundred; a memoized "
        "answer stays at one quarter.",
    )
