"""Curves of a design: epsilon against reports of one device, how estimates scatter, and the bits of a report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import NormalDist
from typing import Final

from overstory.presentation.charts.drawing import Chart, Scale, Sheet, on_both_sheets, percent_tick
from overstory.presentation.formats import percent, significant
from overstory.presentation.svg import BLUE, FAINT, INK, MUTED, SERIES, VERMILION, Picture


@dataclass(frozen=True)
class Loss:
    """What some number of reports tells, by that number; an infinite epsilon is no point of the line."""

    name: str
    epsilons: Sequence[float]  # one for each number of reports


MOST_EPSILON: Final = 1000.0  # the highest top of the upright axis


def loss_over_reports(name: str, caption: str, numbers: Sequence[int], losses: Sequence[Loss]) -> Picture:
    """Draw epsilons against the number of reports, rising from 1, both on axes with equal ratios."""
    finite = [x for loss in losses for x in loss.epsilons if math.isfinite(x) and x > 0] or [1.0]
    low = 10.0 ** math.floor(math.log10(min(finite)) + 1e-6)
    high = min(MOST_EPSILON, 10.0 ** (math.floor(math.log10(max(finite)) + 1e-6) + 1))
    alt = " ".join(_sentence(loss, numbers) for loss in losses)
    return on_both_sheets(name, caption, alt, lambda sheet: _losses_drawing(sheet, numbers, losses, low, high))


def _sentence(loss: Loss, numbers: Sequence[int]) -> str:
    ends = (
        f"{significant(epsilon)} from {reports:,}" if math.isfinite(epsilon) else f"no bound from {reports:,}"
        for reports, epsilon in ((numbers[0], loss.epsilons[0]), (numbers[-1], loss.epsilons[-1]))
    )
    return f"{loss.name}: epsilon {', '.join(ends)} report(s)."


def _losses_drawing(sheet: Sheet, numbers: Sequence[int], losses: Sequence[Loss], low: float, high: float) -> str:
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


STEPS: Final = 120
REACH: Final = 3.6  # standard errors to each side that a curve is drawn for


@dataclass(frozen=True)
class Scatter:
    """Where estimates of a share lie: normal around it."""

    share: float
    standard_error: float

    @property
    def interval(self) -> tuple[float, float]:
        """Where 95 of 100 estimates lie."""
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


MOST_BITS: Final = 256
GAP: Final = 2.0


@dataclass(frozen=True)
class Step:
    """The bits at one step, bit 0 first; those that noise changed since the value have another colour and a dot."""

    name: str
    bits: Sequence[bool]


def bits_of_a_report(name: str, caption: str, steps: Sequence[Step]) -> Picture:
    """Draw the bits of each step, the first without noise, in lines of 64, or of 32 on a narrow page; at most 256."""
    shown = [Step(step.name, step.bits[:MOST_BITS]) for step in steps]
    alt = " ".join(_bits_sentence(step, shown[0]) for step in shown)
    return on_both_sheets(name, caption, alt, lambda sheet: _bits_drawing(sheet, shown))


def _bits_sentence(step: Step, first: Step) -> str:
    changed = sum(now != before for now, before in zip(step.bits, first.bits, strict=True))
    other = "" if step is first else f", {changed} of them other than the value's"
    return f"{step.name}: {len(step.bits)} bits, {sum(step.bits)} of them 1{other}."


def _bits_drawing(sheet: Sheet, steps: Sequence[Step]) -> str:
    columns = 32 if sheet.is_narrow else 64
    size = (sheet.width - 16) / columns
    lines = -(-len(steps[0].bits) // columns)
    block = 2.1 * sheet.font + lines * size + 10
    chart = sheet.chart(len(steps) * block + 1.8 * sheet.font, Scale(0, columns, 8, sheet.width - 8), Scale(0, 1, 1, 0))
    for number, step in enumerate(steps):
        top = number * block + 2.1 * sheet.font
        chart.text(8, top - 0.9 * sheet.font, step.name)
        _squares(chart, step, steps[0], top, columns, size)
    _draw_bits_key(chart, sheet, len(steps) * block + 0.9 * sheet.font)
    return chart.svg()


def _squares(chart: Chart, step: Step, first: Step, top: float, columns: int, size: float) -> None:
    """Draw a step's bits in one path for each kind: 0, 1, 1 by noise, 0 by noise."""
    paths: dict[tuple[bool, bool], list[str]] = {}
    side = size - GAP
    for place, (bit, before) in enumerate(zip(step.bits, first.bits, strict=True)):
        line, column = divmod(place, columns)
        paths.setdefault((bit, bit != before), []).append(
            f"M{8 + column * size:.1f} {top + line * size:.1f}h{side:.1f}v{side:.1f}h-{side:.1f}z"
        )
    for (bit, is_noise), squares in sorted(paths.items()):
        colour = VERMILION if is_noise else BLUE
        outline = colour if bit or is_noise else FAINT
        inside = f'fill="{colour}"' if bit else 'fill="none"'
        chart.add(f'<path {inside} stroke="{outline}" stroke-width="1.2" d="{"".join(squares)}"/>')


def _draw_bits_key(chart: Chart, sheet: Sheet, height: float) -> None:
    left = 8.0
    for words, colour, is_one in (
        ("the value's 1", BLUE, True),
        ("1 by noise", VERMILION, True),
        ("0 by noise", VERMILION, False),
    ):
        inside = f'fill="{colour}"' if is_one else 'fill="none"'
        chart.add(f'<path {inside} stroke="{colour}" stroke-width="1.2" d="M{left:.1f} {height - 5:.1f}h10v10h-10z"/>')
        chart.text(left + 16, height, words, MUTED)
        left += 34 + sheet.text_width(words)
