"""Figure 7, section 6: how often an attacker is wrong who selects all reports with both bits of a string set."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from overstory.experiments.comparison import Comparison, Published, at_least, exact, stated
from overstory.experiments.rappor.collections import collected
from overstory.experiments.registry import Context
from overstory.experiments.result import Result, Table
from overstory.presentation import figures
from overstory.presentation.svg import Picture
from overstory.privacy.attacks.posterior import false_discovery_rate, missed_share, nothing_to_learn

SHARES_OF_NOISE = (0.0, 0.25, 0.5, 0.75, 0.9)
USUAL = 0.5
RARE = 0.1  # "rare strings (those with less than 10% frequency)"
FREQUENCIES = (0.0001, 0.001, 0.01, 0.1, 0.25, 0.5)
NOTE = (
    "As in the paper, another value is taken to set none of the string's bits. With 128 bits and two hashes it sets "
    "each of them with probability 2/128, which makes an attacker's errors a little more frequent."
)


def run(context: Context) -> Result:
    """Compute the false discovery rate of whoever selects all reports with both bits set."""
    rates = {f: [false_discovery_rate(collected(f), x) for x in FREQUENCIES] for f in SHARES_OF_NOISE}
    columns = ("frequency of v", *(f"f = {f}" for f in SHARES_OF_NOISE))
    rows = tuple((x, *(rates[f][i] for f in SHARES_OF_NOISE)) for i, x in enumerate(FREQUENCIES))
    return context.result(
        _discoveries(),
        inputs={"h": 2, "p": 0.5, "q": 0.75, "f": list(SHARES_OF_NOISE)},
        random=False,
        tables=[Table("False discovery rate", columns, rows)],
        figures=[_draw()],
        notes=[NOTE],
    )


def _discoveries() -> list[Comparison]:
    grow = [false_discovery_rate(collected(f), RARE) for f in np.linspace(0, 0.99, 34).tolist()]
    rising = all(later > earlier for earlier, later in pairwise(grow))
    least = false_discovery_rate(collected(0.0), RARE)
    most = at_least(0.5, "section 6: most clients in the target set have another value")
    missed = missed_share(collected(USUAL))
    return [
        stated(
            "false discovery rate against f", "rises" if rising else "does not rise", Published("rises", "figure 7")
        ),
        exact("least false discovery rate of a string of 10% or rarer (f = 0)", least, most),
        exact("false discovery rate of a string of 1%, f = 0.5", false_discovery_rate(collected(USUAL), 0.01)),
        exact(
            "share of clients whose permanent response says nothing, f = 0.5",
            nothing_to_learn(collected(USUAL)),
            Published((USUAL / 2) ** 2, "section 6: (f/2)^h"),
        ),
        exact("share of v's holders whom the attacker misses, f = 0.5", missed),
    ]


def _draw() -> Picture:
    figure, axes = figures.panels(width=7.2, height=4.4)
    frequencies = np.linspace(0.0005, 1, 400)
    places = (0.28, 0.36, 0.44, 0.53, 0.64)  # of the labels, each on its own curve
    for colour, f, at in zip(figures.SERIES, SHARES_OF_NOISE, places, strict=False):
        mechanism = collected(f)
        axes.plot(
            frequencies, [false_discovery_rate(mechanism, x) for x in frequencies.tolist()], color=colour, linewidth=1.8
        )
        figures.label(axes, at, false_discovery_rate(mechanism, at), f"f = {f:g}", colour, xytext=(0, 0), ha="center")
    axes.plot([0, 1], [1, 0], color=figures.MUTED, linewidth=1, linestyle=(0, (4, 3)))
    figures.label(axes, 0.6, 0.4, "knowing nothing", figures.MUTED, xytext=(8, 8))
    axes.set(xlabel="frequency of the string v", ylabel="false discovery rate", xlim=(0, 1), ylim=(0, 1.02))
    return figures.picture(
        figure,
        "rappor-figure-7",
        "An attacker selects all reports in which both bits of v are set: the share of them whose client holds another "
        "value. Two hashes, p = 0.5, q = 0.75; exact.",
        "Curves fall from 1 for rare strings to 0 for a string that everybody holds; more noise lies higher, towards "
        "the straight line of an attacker who knows nothing but the frequency.",
    )
