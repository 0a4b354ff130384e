"""The page's pictures, in the house's style."""

from __future__ import annotations

import numpy as np

from overstory.demo.collection import Collection
from overstory.experiments import drawing
from overstory.experiments.against_truth import against_truth
from overstory.experiments.rappor import bit_rows
from overstory.experiments.result import Picture


def shares(collection: Collection) -> Picture:
    """Draw truth against estimate with its 95% interval, a row per state."""
    decoded, n = collection.decoded, len(collection.population)
    order = np.argsort(-collection.truth, kind="stable")
    low, high = (100 * bound[order] / n for bound in decoded.interval(0.95))
    svg = against_truth(
        [decoded.values[i] for i in order],
        truth=100 * collection.truth[order] / n,
        learned=100 * decoded.frequencies[order],
        low=low,
        high=high,
        detected=decoded.detected()[order],
        xlabel="share of respondents (%)",
    )
    caption = "What was true, and what was learned; bars are 95% intervals of these reports."
    return Picture("demo-shares", caption, "Truth and estimate with its interval for every state.", svg)


def life_of_a_report(collection: Collection) -> Picture:
    """Draw one respondent's bits: the true filter, its permanent response, and what is sent (RAPPOR, figure 1)."""
    value = collection.population.states[int(collection.population.symbols[0])]
    return bit_rows.draw(collection.mechanism, bit_rows.live(collection.mechanism, value, collection.seed))


def privacy_spent(collection: Collection, most: int = 30) -> Picture:
    """Draw the exact epsilon of n reports of one value, and the ceiling it never passes."""
    mechanism, numbers = collection.mechanism, list(range(1, most + 1))
    figure, axes = drawing.panels(7.2, 2.6)
    axes.plot(numbers, [mechanism.epsilon_n(n) for n in numbers], "o-", color=drawing.OURS, markersize=4, linewidth=1.2)
    ever = mechanism.epsilon_permanent
    if np.isfinite(ever):
        axes.axhline(ever, color=drawing.THEIRS, linestyle="--", linewidth=1.2)
        ceiling = "ceiling: all reports of one value, for ever"
        drawing.label(axes, most, ever, ceiling, xytext=(0, -13), ha="right")
    axes.set(ylim=(0, None), xlabel="reports that one device sent of one value", ylabel="epsilon (nats)")
    caption = "Exact epsilon of n reports of one value."
    return drawing.picture(figure, "demo-spent", caption, "Epsilon rises with the number of reports to its ceiling.")
