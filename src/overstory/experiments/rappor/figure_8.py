"""Figure 8, section 6: exact probabilities of the true value, given the two bits of a string in one report."""

from __future__ import annotations

import numpy as np

from overstory.experiments.comparison import at_most, exact
from overstory.experiments.rappor.collections import collected
from overstory.experiments.rappor.figure_7 import FREQUENCIES, NOTE, RARE, USUAL
from overstory.experiments.registry import Context
from overstory.experiments.result import Result, Table
from overstory.presentation import figures
from overstory.presentation.svg import Picture
from overstory.privacy.attacks.posterior import posterior_of_bits


def run(context: Context) -> Result:
    """Compute P(v | the two bits), for both, one and none set."""
    mechanism = collected(USUAL)
    rows = tuple((x, *(posterior_of_bits(mechanism, x, ones) for ones in (2, 1, 0))) for x in FREQUENCIES)
    rare = at_most(0.5, "section 6: much smaller than P(not v)")
    both = [posterior_of_bits(mechanism, RARE, 2), posterior_of_bits(collected(0.0), RARE, 2)]
    odds = float(mechanism.q_star / mechanism.p_star) ** 2
    return context.result(
        [
            exact("P(v | both bits set), frequency 10%, f = 0.5", both[0], rare),
            exact("P(v | both bits set), frequency 10%, f = 0", both[1], rare),
            exact("frequency from which v is more likely than not, both bits set, f = 0.5", 1 / (1 + 1 / odds)),
        ],
        inputs={"h": 2, "p": 0.5, "q": 0.75, "f": USUAL},
        random=False,
        tables=[Table("P(v | bits)", ("frequency of v", "both set", "one set", "none set"), rows)],
        figures=[_draw()],
        notes=[NOTE],
    )


def _draw() -> Picture:
    figure, axes = figures.panels(width=7.8, height=3.8, columns=2, sharey=True)
    frequencies = np.linspace(0, 1, 201)
    for panel, f in zip(axes, (0.5, 0.0), strict=True):
        mechanism = collected(f)
        for ones, colour, name in (
            (2, figures.GREEN, "both set"),
            (1, figures.ORANGE, "one set"),
            (0, figures.VERMILION, "none set"),
        ):
            held = np.array([posterior_of_bits(mechanism, x, ones) for x in frequencies.tolist()])
            panel.plot(frequencies, held, color=colour, linewidth=1.9)
            panel.plot(frequencies, 1 - held, color=colour, linewidth=1.3, linestyle=(0, (4, 2)))
            figures.label(panel, 0.25, held[50], name, colour, xytext=(0, 0), ha="center")
        panel.axvline(RARE, color=figures.MUTED, linewidth=0.8)
        figures.panel_title(panel, f"f = {f:g}")
        panel.set(xlabel="frequency of the string v", xlim=(0, 1), ylim=(0, 1.02))
    axes[0].set_ylabel("probability given the two bits")
    figures.label(axes[0], RARE, 1.0, "10%", figures.MUTED, xytext=(3, 3), fontsize=8)
    return figures.picture(
        figure,
        "rappor-figure-8",
        "Solid: P(the client holds v); dashed: P(it holds another value), given how many of v's two bits one report "
        "sets. p = 0.5, q = 0.75; exact. Left of the grey line v is rare.",
        "Even when both bits are set, the solid curve of a rare string stays far below the dashed one; they cross at a "
        "frequency of about 40 percent with f = 0.5.",
    )
