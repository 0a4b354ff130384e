"""Figures 7 and 8, section 6: how often an attacker errs, and what the two bits of a string in one report reveal."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np

from overstory.protocol.kinds.bits import BitMechanism
from papers import figures
from papers.comparison import Comparison, Published, at_least, at_most, exact, stated
from papers.rappor.collections import collected
from papers.study import Context, Study, Table

SHARES_OF_NOISE = (0.0, 0.25, 0.5, 0.75, 0.9)
USUAL = 0.5
RARE = 0.1  # "rare strings (those with less than 10% frequency)"
FREQUENCIES = (0.0001, 0.001, 0.01, 0.1, 0.25, 0.5)
BITS = {2: "both set", 1: "one set", 0: "none set"}
NOTE = (
    "As in the paper, another value is taken to set none of the string's bits. With 128 bits and two hashes it sets "
    "each of them with probability 2/128, which makes an attacker's errors a little more frequent."
)


def posterior_of_bits(mechanism: BitMechanism, frequency: float, ones: int) -> float:
    """P(a client holds v | `ones` of v's own h bits are set in one report); other values set none of them, as there."""
    hashes = mechanism.encoding.ones[1]
    # Binomial likelihoods of the h bits under p* and q*; the binomial coefficient cancels.
    holder, other = (rate**ones * (1 - rate) ** (hashes - ones) for rate in (mechanism.p_star, mechanism.q_star))
    share = Fraction(frequency)
    return float(share * holder / (share * holder + (1 - share) * other))


def false_discovery_rate(mechanism: BitMechanism, frequency: float) -> float:
    """Return the share of strangers among the reports that have all of v's bits set."""
    return 1 - posterior_of_bits(mechanism, frequency, mechanism.encoding.ones[1])


def missed_share(mechanism: BitMechanism) -> float:
    """Return the share of v's holders whose report lacks one of v's bits."""
    return float(1 - mechanism.p_star ** mechanism.encoding.ones[1])


def nothing_to_learn(mechanism: BitMechanism) -> float:
    """P(the permanent response has 0 at all of the value's bits): (f/2)^h."""
    return float((1 - mechanism.rounds.permanent.keep_one) ** mechanism.encoding.ones[1])


def figure_7(_: Context) -> Study:
    """Compute the false discovery rate of an attacker who selects all reports with both bits set."""
    rates = {f"f = {f}": [false_discovery_rate(collected(f), x) for x in FREQUENCIES] for f in SHARES_OF_NOISE}
    return Study(
        inputs={"h": 2, "p": 0.5, "q": 0.75, "f": list(SHARES_OF_NOISE)},
        comparisons=_discoveries(),
        tables=[Table.of("False discovery rate", {"frequency of v": FREQUENCIES, **rates})],
        figures=[_draw_discoveries()],
        notes=NOTE,
        random=False,
    )


def figure_8(_: Context) -> Study:
    """Compute P(v | the two bits), for both, one and none set."""
    mechanism = collected(USUAL)
    rare = at_most(0.5, "section 6: much smaller than P(not v)")
    odds = float(mechanism.q_star / mechanism.p_star) ** 2
    by_bits = {name: [posterior_of_bits(mechanism, x, ones) for x in FREQUENCIES] for ones, name in BITS.items()}
    return Study(
        inputs={"h": 2, "p": 0.5, "q": 0.75, "f": USUAL},
        comparisons=[
            exact("P(v | both bits set), frequency 10%, f = 0.5", posterior_of_bits(mechanism, RARE, 2), rare),
            exact("P(v | both bits set), frequency 10%, f = 0", posterior_of_bits(collected(0.0), RARE, 2), rare),
            exact("frequency from which v is more likely than not, both bits set, f = 0.5", 1 / (1 + 1 / odds)),
        ],
        tables=[Table.of("P(v | bits)", {"frequency of v": FREQUENCIES, **by_bits})],
        figures=[_draw_posteriors()],
        notes=NOTE,
        random=False,
    )


def _discoveries() -> list[Comparison]:
    usual = collected(USUAL)
    grow = [false_discovery_rate(collected(f), RARE) for f in np.linspace(0, 0.99, 34).tolist()]
    trend = "rises" if all(later > earlier for earlier, later in pairwise(grow)) else "does not rise"
    most = at_least(0.5, "section 6: most clients in the target set have another value")
    nothing = Published((USUAL / 2) ** 2, "section 6: (f/2)^h")
    return [
        stated("false discovery rate against f", trend, Published("rises", "figure 7")),
        exact(
            "least false discovery rate of a string of 10% or rarer (f = 0)",
            false_discovery_rate(collected(0.0), RARE),
            most,
        ),
        exact("false discovery rate of a string of 1%, f = 0.5", false_discovery_rate(usual, 0.01)),
        exact("share of clients whose permanent response says nothing, f = 0.5", nothing_to_learn(usual), nothing),
        exact("share of v's holders whom the attacker misses, f = 0.5", missed_share(usual)),
    ]


def _draw_discoveries() -> figures.Picture:
    figure, axes = figures.panels(width=7.2, height=4.4)
    frequencies = np.linspace(0.0005, 1, 400)
    places = (0.28, 0.36, 0.44, 0.53, 0.64)  # of the labels, each on its own curve
    for colour, f, at in zip(figures.SERIES, SHARES_OF_NOISE, places, strict=False):
        mechanism = collected(f)
        rates = [false_discovery_rate(mechanism, x) for x in frequencies.tolist()]
        figures.line(axes, frequencies, rates, colour)
        figures.label(axes, at, false_discovery_rate(mechanism, at), f"f = {f:g}", colour, xytext=(0, 0), ha="center")
    figures.line(axes, [0, 1], [1, 0], figures.MUTED, linewidth=1, linestyle=figures.DASHED)
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


def _draw_posteriors() -> figures.Picture:
    figure, axes = figures.panels(width=7.8, height=3.8, columns=2, sharey=True)
    frequencies = np.linspace(0, 1, 201)
    for panel, f in zip(axes, (0.5, 0.0), strict=True):
        mechanism = collected(f)
        for colour, (ones, name) in zip((figures.GREEN, figures.ORANGE, figures.VERMILION), BITS.items(), strict=True):
            held = np.array([posterior_of_bits(mechanism, x, ones) for x in frequencies.tolist()])
            figures.line(panel, frequencies, held, colour, linewidth=1.9)
            figures.line(panel, frequencies, 1 - held, colour, linewidth=1.3, linestyle=(0, (4, 2)))
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
