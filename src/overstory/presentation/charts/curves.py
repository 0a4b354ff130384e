"""How estimates of a share scatter by a plan."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

from overstory.presentation.charts.drawing import Chart, Scale, Sheet, on_both_sheets, percent_tick
from overstory.presentation.formats import percent
from overstory.presentation.svg import BLUE, INK, MUTED, Picture

STEPS: Final = 120
REACH: Final = 3.6  # standard errors to each side that a curve is drawn for


@dataclass(frozen=True)
class Scatter:
    """Where estimates of a share lie: normal around it."""

    share: float
    standard_error: float

    @property
    def interval(self) -> tuple[float, float]:
        half = NormalDist().inv_cdf(0.975) * self.standard_error
        return self.share - half, self.share + half


def scatter_of_estimates(name: str, caption: str, absent: Scatter, held: Scatter, threshold: float) -> Picture:
    """Draw how estimates of two shares scatter, one that nobody holds and another, and the threshold of detection."""
    low, high = (percent(end) for end in held.interval)
    alt = (
        f"95 of 100 estimates of a share of {percent(held.share)} lie between {low} and {high}; those of a value that "
        f"nobody holds lie between {percent(absent.interval[0])} and {percent(absent.interval[1])}. "
        f"Detected is what passes {percent(threshold)}."
    )
    return on_both_sheets(name, caption, alt, lambda sheet: _detection_drawing(sheet, absent, held, threshold))


def _detection_drawing(sheet: Sheet, absent: Scatter, held: Scatter, threshold: float) -> str:
    low = min(absent.share - REACH * absent.standard_error, held.share - REACH * held.standard_error)
    high = max(held.share + REACH * held.standard_error, threshold + absent.standard_error)
    top = 3.4 * sheet.font
    height = top + 150 + 3.4 * sheet.font
    tallest = max(_density(each, each.share) for each in (absent, held))
    x, y = Scale(low, high, 12, sheet.width - 12), Scale(0, 1.05 * tallest, height - 3.4 * sheet.font, top)
    chart = sheet.chart(height, x, y)
    chart.axes("estimated share", rows=(), columns=[(tick, percent_tick(tick)) for tick in x.ticks()])
    _curve(chart, absent, MUTED, 'stroke-dasharray="6 4"')
    _curve(chart, held, BLUE, "")
    at = x.at(threshold)
    chart.add(f'<path d="M{at:.1f} {y.start:.1f}V{top:.1f}" stroke="{INK}" stroke-width="1.5" stroke-dasharray="2 3"/>')
    _keys(chart, sheet, held)
    is_left = at > sheet.width / 2
    words = f"detected from {percent(threshold)}"
    chart.text(at, top - 0.7 * sheet.font, words, anchor="end" if is_left else "start")
    return chart.svg()


def _keys(chart: Chart, sheet: Sheet, held: Scatter) -> None:
    entries = (("held by nobody", MUTED, 'stroke-dasharray="6 4"'), (f"held by {percent(held.share)}", BLUE, ""))
    left, height = 12.0, sheet.font
    for words, colour, dashes in entries:
        chart.add(f'<path d="M{left:.1f} {height:.1f}h24" stroke="{colour}" stroke-width="2" {dashes}/>')
        chart.text(left + 30, height, words)
        left += 50 + sheet.text_width(words)


def _density(scatter: Scatter, share: float) -> float:
    return NormalDist(scatter.share, scatter.standard_error).pdf(share)


def _curve(chart: Chart, scatter: Scatter, colour: str, dashes: str) -> None:
    steps = (REACH * (2 * step / STEPS - 1) for step in range(STEPS + 1))
    shares = [scatter.share + step * scatter.standard_error for step in steps]
    points = [(share, _density(scatter, share)) for share in shares]
    outline = "L".join(f"{chart.x.at(share):.1f} {chart.y.at(height):.1f}" for share, height in points)
    chart.add(f'<path d="M{outline}z" fill="{colour}" fill-opacity="0.15"/>')
    chart.line(points, colour, 2, dashes)
