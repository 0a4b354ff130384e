"""The page's pictures, in the house's style."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from overstory.experiments import drawing
from overstory.experiments.against_truth import against_truth
from overstory.planning.people import smallest_share
from overstory.protocol.mechanisms.registry import mechanism

if TYPE_CHECKING:
    from overstory.collecting.summary import Summary
    from overstory.experiments.result import Picture

MOST_ROWS: Final = 40
LONGEST: Final = 32


def shares(summary: Summary) -> Picture:
    """Draw truth against estimate with its 95% interval, a row per value."""
    rows = summary.rows()
    shown = rows if summary.is_numeric else rows[:MOST_ROWS]
    keys = ("true_frequency", "frequency", "frequency_low", "frequency_high")
    truth, learned, low, high = (100 * np.array([row[key] for row in shown]) for key in keys)
    figure = against_truth(
        [short(row["value"]) for row in shown],
        truth=truth,
        learned=learned,
        low=low,
        high=high,
        detected=np.array([row["detected"] for row in shown]),
        xlabel="share of the rows with a value (%)",
    )
    left = len(rows) - len(shown)
    more = f" The {MOST_ROWS} most frequent; {left:,} more are in the table." if left else ""
    caption = f"What was true, and what was learned; bars are 95% intervals of these reports.{more}"
    return drawing.picture(figure, "collect-shares", caption, "Truth and estimate with its interval for every value.")


def people_for_shares(summary: Summary) -> Picture:
    """Draw the smallest share that so many people show, by the oracle that was used and by the best."""
    learned, advice = summary.learned, summary.advice
    values, each = len(learned.people.labels), learned.reports_per_device
    numbers = np.logspace(2, 8, 13).round().astype(int).tolist()
    best = mechanism(advice.best.name, **advice.best.parameters)
    built = [(learned.mechanism, drawing.OURS), (best, drawing.SERIES[2])]
    figure, axes = drawing.panels(7.2, 3.6)
    ends = []
    for one, colour in built[: 1 if best.name == learned.mechanism.name else 2]:
        found = [smallest_share(one, number, values, reports_per_device=each) for number in numbers]
        there = [(number, 100 * share) for number, share in zip(numbers, found, strict=True) if share is not None]
        if there:
            axes.loglog(*zip(*there, strict=True), color=colour)
            ends.append((there[-1][1], one.name, colour))
    drawing.labels(axes, numbers[-1], ends)
    axes.axvline(learned.people.num_devices, color=drawing.THEIRS, linewidth=1.2, linestyle="--")
    drawing.label(axes, learned.people.num_devices, 60.0, "you are here", drawing.THEIRS)
    axes.set(xlabel="people", ylabel="smallest share detected (%)", ylim=(None, 100))
    axes.minorticks_off()
    return drawing.picture(
        figure,
        "collect-people",
        "The smallest share that is detected nine times in ten, by the number of people; the dashed line is your file.",
        "Falling lines: a hundred times as many people show a share a tenth as large.",
    )


def short(text: str) -> str:
    """Return a label that fits beside a picture.

    Examples
    --------
    >>> short("x" * 40)[-4:], short("$5")
    ('xxx…', '$5')
    """
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"
