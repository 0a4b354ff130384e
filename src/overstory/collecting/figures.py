"""The page's pictures, in the house's style."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from overstory.experiments import drawing
from overstory.experiments.against_truth import against_truth
from overstory.experiments.plain_svg import Chart, Scale, apart, text_width
from overstory.experiments.result import Picture
from overstory.planning.people import smallest_share
from overstory.protocol.mechanisms.registry import mechanism

if TYPE_CHECKING:
    from overstory.collecting.summary import Summary

MOST_ROWS: Final = 40
LONGEST: Final = 32


def shares(summary: Summary) -> Picture:
    """Draw truth against estimate with its 95% interval, a row per value."""
    rows = summary.rows()
    shown = rows if summary.is_numeric else rows[:MOST_ROWS]
    keys = ("true_frequency", "frequency", "frequency_low", "frequency_high")
    truth, learned, low, high = (100 * np.array([row[key] for row in shown]) for key in keys)
    svg = against_truth(
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
    return Picture("collect-shares", caption, "Truth and estimate with its interval for every value.", svg)


def people_for_shares(summary: Summary) -> Picture:
    """Draw the smallest share that so many people show, by the oracle that was used and by the best."""
    learned, advice = summary.learned, summary.advice
    values, each = len(learned.people.labels), learned.reports_per_device
    numbers = np.logspace(2, 8, 7).round().astype(int).tolist()
    best = mechanism(advice.best.name, **advice.best.parameters)
    built = [(learned.mechanism, drawing.OURS), (best, drawing.SERIES[2])]
    series = []
    for one, colour in built[: 1 if best.name == learned.mechanism.name else 2]:
        found = [smallest_share(one, number, values, reports_per_device=each) for number in numbers]
        there = [(number, 100 * share) for number, share in zip(numbers, found, strict=True) if share is not None]
        series += [(one.name, colour, there)] if there else []
    return Picture(
        "collect-people",
        "The smallest share that is detected nine times in ten, with a chance of 5% of any false detection, by the "
        "number of people; the dashed line is your file.",
        "Falling lines: a hundred times as many people show a share a tenth as large.",
        _falling(series, learned.people.num_devices),
    )


def _falling(series: list[tuple[str, str, list[tuple[int, float]]]], here: int) -> str:
    """Draw lines that fall with the number of people, as SVG; their names stand at their ends."""
    width, height = 518.0, 259.0
    least = min((share for *_, points in series for _, share in points), default=1.0)
    right = width - 14 - max((text_width(name) for name, *_ in series), default=0.0)
    x, y = Scale(100, 1e8, 60, right, logarithmic=True), Scale(least, 100, height - 34, 12, logarithmic=True)
    chart = Chart(width, height, x, y)
    chart.axes("people", "smallest share detected (%)")
    for _, colour, points in series:
        chart.line(points, colour)
    ends = apart([y.at(points[-1][1]) for *_, points in series], 11)
    for (name, colour, points), end in zip(series, ends, strict=True):
        chart.text(x.at(points[-1][0]) + 5, end, name, colour)
    chart.line([(here, 100), (here, least)], drawing.THEIRS, 1.2, 'stroke-dasharray="4 2"')
    is_left = x.at(here) < right - 80
    chart.text(x.at(here) + (5 if is_left else -5), 26, "you are here", drawing.THEIRS, "start" if is_left else "end")
    return chart.svg()


def short(text: str) -> str:
    """Return a label that fits beside a picture.

    Examples
    --------
    >>> short("x" * 40)[-4:], short("$5")
    ('xxx…', '$5')
    """
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"
