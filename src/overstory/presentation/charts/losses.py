"""Epsilon against the number of reports of one device: what holds of an unchanged value, and what does not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from overstory.presentation.charts.drawing import Chart
from overstory.presentation.charts.scale import Scale
from overstory.presentation.charts.sheet import NARROW, WIDE, Sheet
from overstory.presentation.svg import SERIES, Picture


@dataclass(frozen=True)
class Loss:
    """What some number of reports tells, by that number; an infinite epsilon is no point of the line."""

    name: str
    epsilons: Sequence[float]  # one for each number of reports


def loss_over_reports(
    name: str, caption: str, numbers: Sequence[int], losses: Sequence[Loss], *, most: float = 1000.0
) -> Picture:
    """Draw epsilons against the number of reports, both on axes with equal ratios.

    Parameters
    ----------
    numbers
        Of reports, rising, from 1.
    most
        The end of the upright axis: past it an epsilon says nothing more.
    """
    finite = [x for loss in losses for x in loss.epsilons if math.isfinite(x) and x > 0] or [1.0]
    low = 10.0 ** math.floor(math.log10(min(finite)) + 1e-6)
    high = min(most, 10.0 ** (math.floor(math.log10(max(finite)) + 1e-6) + 1))
    wide, narrow = (_drawing(sheet, numbers, losses, low, high) for sheet in (WIDE, NARROW))
    return Picture(name, caption, " ".join(_sentence(loss, numbers) for loss in losses), wide, narrow=narrow)


def _sentence(loss: Loss, numbers: Sequence[int]) -> str:
    ends = (
        f"{epsilon:.4g} from {number:,}" if math.isfinite(epsilon) else f"no bound from {number:,}"
        for number, epsilon in ((numbers[0], loss.epsilons[0]), (numbers[-1], loss.epsilons[-1]))
    )
    return f"{loss.name}: epsilon {', '.join(ends)} report(s)."


def _drawing(sheet: Sheet, numbers: Sequence[int], losses: Sequence[Loss], low: float, high: float) -> str:
    top = (1.7 * len(losses) + 0.6) * sheet.font
    height = top + 200 + 3.4 * sheet.font
    left = 14 + sheet.text_width(f"{high:,g}")
    x = Scale(numbers[0], max(numbers[-1], numbers[0] + 1), left, sheet.width - 16, logarithmic=True)
    y = Scale(low, high, height - 3.4 * sheet.font, top, logarithmic=True)
    chart = sheet.chart(height, x, y)
    chart.axes("reports of one device")
    for place, loss in enumerate(losses):
        _key(chart, sheet, place, loss)
        _line(chart, numbers, loss, SERIES[place], _dashes(place))
    return chart.svg()


def _dashes(place: int) -> str:
    """Return how a line is dashed, so that lines differ without their colours."""
    return f'stroke-dasharray="{("", "7 4", "2 3")[place % 3]}"' if place % 3 else ""


def _key(chart: Chart, sheet: Sheet, place: int, loss: Loss) -> None:
    """Write the name of a line above the plot, and that it has no end where it leaves the paper."""
    unbounded = any(math.isinf(epsilon) for epsilon in loss.epsilons)
    height, left = (1.7 * place + 0.9) * sheet.font, 8.0
    words = f"{loss.name}{': no bound' if unbounded else ''}"
    stroke = f'stroke="{SERIES[place]}" stroke-width="2" {_dashes(place)}'
    chart.add(f'<path d="M{left:.1f} {height:.1f}h24" {stroke}/>')
    chart.text(left + 30, height, words)


def _line(chart: Chart, numbers: Sequence[int], loss: Loss, colour: str, dashes: str) -> None:
    """Draw where there is a bound; where there is none, the line goes up to the edge and ends in an arrow."""
    points = list(zip(numbers, loss.epsilons, strict=True))
    for is_bounded, group in groupby(points, key=lambda point: math.isfinite(point[1]) and point[1] > 0):
        some = list(group)
        if is_bounded:
            chart.line(list(_within(some, chart.y.high)), colour, 2, dashes)
        elif math.isinf(some[0][1]):
            across, top = chart.x.at(some[0][0]), chart.y.stop
            chart.add(
                f'<path d="M{across:.1f} {chart.y.start:.1f}V{top:.1f}m-5 8l5 -8l5 8" fill="none" '
                f'stroke="{colour}" stroke-width="2" {dashes}/>'
            )


def _within(points: Sequence[tuple[int, float]], top: float) -> Iterator[tuple[float, float]]:
    """Return the points up to an edge, and where the line crosses it: between two points it is straight on paper."""
    before: tuple[int, float] | None = None
    for number, epsilon in points:
        if epsilon > top:
            if before is not None:
                part = math.log(top / before[1]) / math.log(epsilon / before[1])
                yield before[0] * (number / before[0]) ** part, top
            return
        before = number, epsilon
        yield before
