"""The page's pictures: matplotlib's SVG, its colours left to the page so that it can be dark or light."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.client import Randomizer
from overstory.demo.collection import Collection
from overstory.experiments.inline_svg import inline, svg_text
from overstory.protocol.entropy import KeyedEntropy, SeededEntropy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colours that stand for the page's own: a figure is drawn in these and the SVG's are replaced by CSS variables.
INK: Final = "#010101"
MUTED: Final = "#020202"
TRUTH: Final = "#030303"
LEARNED: Final = "#040404"
PAPER: Final = "#050505"
_VARIABLES: Final = {INK: "ink", MUTED: "muted", TRUTH: "truth", LEARNED: "learned", PAPER: "paper"}


def svg(figure: Figure, title: str, description: str) -> str:
    """Return the figure as an SVG element that a screen reader can name and a style sheet can colour."""
    return inline(svg_text(figure, title, transparent=True), title, description, _VARIABLES)


def _axes(width: float, height: float) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure as NewFigure

    figure = NewFigure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.set_facecolor("none")
    axes.tick_params(colors=INK, length=3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(MUTED)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)
    return figure, axes


def shares(collection: Collection) -> str:
    """Draw truth against estimate with its 95% interval, a row per state."""
    decoded, n = collection.decoded, len(collection.population)
    order = np.argsort(-collection.truth, kind="stable")
    low, high = (100 * bound[order] / n for bound in decoded.confidence_interval(0.95))
    detected, at = decoded.detected()[order], np.arange(len(order))
    figure, axes = _axes(7.2, 0.8 + 0.22 * len(order))
    axes.hlines(at, low, high, color=LEARNED, linewidth=2, alpha=0.55)
    middle = 100 * decoded.raw_frequencies[order]
    axes.plot(middle[detected], at[detected], "o", color=LEARNED, markersize=5, label="estimate, 95% interval")
    axes.plot(
        middle[~detected], at[~detected], "o", color=LEARNED, markersize=5, markerfacecolor=PAPER, label="not detected"
    )
    axes.plot(100 * collection.truth[order] / n, at, "|", color=TRUTH, markersize=11, markeredgewidth=2, label="truth")
    axes.set_yticks(at, [decoded.values[i] for i in order])
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.set_xlabel("share of respondents (%)")
    axes.legend(frameon=False, labelcolor=INK, loc="lower right")
    return svg(figure, "Shares by state", "Truth and estimate with its 95% interval for every state.")


def life_of_a_report(collection: Collection, reports: int = 3) -> str:
    """Draw one respondent's bits: the true filter, its permanent response, and what is sent (RAPPOR, figure 1)."""
    mechanism = collection.mechanism
    value = collection.population.states[int(collection.population.symbols[0])]
    secret = KeyedEntropy(b"one respondent of the demonstration", repr(collection.seed).encode()).bits(256)
    device = Randomizer(
        mechanism, secret=secret.to_bytes(32, "big"), metric="demo", entropy=SeededEntropy(collection.seed)
    )
    sent = [device.report(value).bits for _ in range(reports)]
    lines = [mechanism.encode(value, device.cohort), device.permanent(value), *sent]
    names = [
        "true bits: stay on the device",
        "permanent response: stays too",
        *(f"report {i + 1}" for i in range(reports)),
    ]
    figure, axes = _axes(7.2, 0.34 * len(lines) + 0.5)
    for row, bits in enumerate(lines):
        lit = [i for i in range(mechanism.encoding.num_bits) if bits >> i & 1]
        axes.vlines(lit, row - 0.36, row + 0.36, color=TRUTH if row == 0 else LEARNED, linewidth=2 if row == 0 else 1.3)
    axes.set_yticks(range(len(lines)), names)
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set_xlim(-1, mechanism.encoding.num_bits)
    axes.set_xlabel(f"bit of the filter (cohort {device.cohort})")
    return svg(
        figure, "Life of a report", f"The bits of one respondent in {value}: true, permanent, and three reports."
    )


def privacy_spent(collection: Collection, most: int = 30) -> str:
    """Draw the exact epsilon of n reports of one value, and the ceiling it never reaches."""
    mechanism = collection.mechanism
    numbers = list(range(1, most + 1))
    figure, axes = _axes(7.2, 2.6)
    axes.plot(numbers, [mechanism.epsilon_n(n) for n in numbers], "o-", color=LEARNED, markersize=4, linewidth=1.2)
    if np.isfinite(mechanism.epsilon_permanent):
        axes.axhline(mechanism.epsilon_permanent, color=TRUTH, linestyle="--", linewidth=1.2)
        axes.annotate(
            "ceiling: all reports of one value, for ever",
            (most, mechanism.epsilon_permanent),
            xytext=(0, 4),
            textcoords="offset points",
            ha="right",
            color=INK,
        )
    axes.set_ylim(0, None)
    axes.set_xlabel("reports that one device sent of one value")
    axes.set_ylabel("epsilon (nats)")
    return svg(figure, "Privacy spent", "Exact epsilon of n reports of one value, rising to its ceiling.")
