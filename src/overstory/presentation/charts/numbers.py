"""Numbers over time and side by side: bars, a histogram, and estimates with intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from overstory.presentation.charts.drawing import (
    F64,
    Chart,
    Scale,
    Sheet,
    cursor_numbers,
    on_both_sheets,
    percent_tick,
    percentages,
    plain_number,
)
from overstory.presentation.charts.series import mark, named_columns
from overstory.presentation.formats import interval, percent, significant, thousands
from overstory.presentation.svg import BLUE, INK, MUTED, PAPER, VERMILION, Picture


def counts_over_time(name: str, caption: str, labels: Sequence[str], counts: F64, *, xlabel: str = "") -> Picture:
    """Draw a bar for each column, such as the reports of each period."""
    ends = f", {labels[0]} to {labels[-1]}; the newest is {thousands(float(counts[-1]))}" if labels else ""
    most = thousands(float(counts.max())) if labels else "0"
    alt = f"{len(labels)} bar(s){ends}; the largest is {most}."
    return on_both_sheets(name, caption, alt, lambda sheet: _bars(sheet, labels, counts, xlabel))


def _bars(sheet: Sheet, labels: Sequence[str], counts: F64, xlabel: str) -> str:
    height = 120 + 3.6 * sheet.font
    most = float(max(counts.max(initial=0), 1))
    x = Scale(-0.5, max(len(labels), 2) - 0.5, 8 + sheet.text_width(f"{most:,.0f}"), sheet.width - 14)
    chart = sheet.chart(height, x, Scale(0, 1.05 * most, height - 3.6 * sheet.font, 10))
    chart.numbers["cursor"] = f"x {x.at(0):.1f} {x.at(max(len(labels) - 1, 0)):.1f}"
    chart.axes(xlabel, columns=named_columns(chart, sheet, labels))
    width = max((x.at(1) - x.at(0)) * 0.8, 0.8)
    tops = chart.y.places(counts).tolist()
    bars = "".join(
        f"M{x.at(place) - width / 2:.1f} {chart.y.start:.1f}V{top:.1f}h{width:.1f}V{chart.y.start:.1f}z"
        for place, top in enumerate(tops)
        if counts[place]
    )
    chart.add(f'<path fill="{MUTED}" fill-opacity="0.6" data-bars="1" d="{bars}"/>')
    if not sheet.is_narrow:
        chart.add(cursor_numbers(labels, [{"name": "", "count": counts}]))
    return chart.svg()


HEIGHT: Final = 240


def histogram(
    name: str, caption: str, names: Sequence[str], *, values: F64, low: F64, high: F64, truth: F64 | None = None
) -> Picture:
    """Draw a bar for each group of values, and its interval; a share below 0 has only an interval."""
    largest = int(np.argmax(values))
    alt = f"{len(names)} bar(s); the largest is {names[largest]} with {percent(float(values[largest]))}."
    true = low[:0] if truth is None else truth

    def draw(sheet: Sheet) -> str:
        least, most = min(float(low.min()), 0.0), max(float(high.max()), 0.01, *true.tolist())
        words = "range; a bar is the share of devices in it"
        chart = _plot_of(sheet, names, 1.05 * least, 1.05 * most, percent_tick, words)
        base, half = chart.y.at(0), (chart.x.at(1) - chart.x.at(0)) * 0.45
        for place, share in enumerate(values.tolist()):
            outline = f"M{chart.x.at(place) - half:.1f} {base:.1f}V{chart.y.at(max(share, 0.0)):.1f}h{2 * half:.1f}"
            chart.add(f'<path fill="{BLUE}" fill-opacity="0.35" d="{outline}V{base:.1f}z"/>')
        _draw_intervals(chart, low, high, true)
        chart.add(f'<path d="M{chart.x.start:.1f} {base:.1f}H{chart.x.stop:.1f}" stroke="{INK}" stroke-width="0.8"/>')
        return chart.svg()

    return on_both_sheets(name, caption, alt, draw)


def estimates_over_time(
    name: str, caption: str, labels: Sequence[str], *, values: F64, low: F64, high: F64, truth: F64 | None = None
) -> Picture:
    """Draw a number for each period, such as a mean, with its interval; the axis need not begin at zero."""
    alt = "No estimates."
    if len(labels):
        newest = f"{significant(values[-1])} ({significant(low[-1])} to {significant(high[-1])})"
        alt = f"{len(labels)} estimate(s), {labels[0]} to {labels[-1]}; the newest is {newest}."
    true = low[:0] if truth is None else truth

    def draw(sheet: Sheet) -> str:
        ends = np.concatenate([low, high, true])
        least, most = float(ends.min()), float(ends.max())
        margin = 0.05 * (most - least) or max(abs(most), 1.0) * 0.05
        chart = _plot_of(sheet, labels, least - margin, most + margin, plain_number)
        for place, value in enumerate(values.tolist()):
            chart.dot(place, value, BLUE)
        _draw_intervals(chart, low, high, true)
        return chart.svg()

    return on_both_sheets(name, caption, alt, draw)


def _plot_of(
    sheet: Sheet, names: Sequence[str], least: float, most: float, number: Callable[[float], str], xlabel: str = ""
) -> Chart:
    height = HEIGHT + 3.6 * sheet.font
    y = Scale(least, most, height - 3.6 * sheet.font, 10)
    widest = max(sheet.text_width(number(tick)) for tick in y.ticks())
    x = Scale(-0.6, max(len(names), 2) - 0.4, 10 + widest, sheet.width - 14)
    chart = sheet.chart(height, x, y)
    chart.axes(xlabel, columns=named_columns(chart, sheet, names), number=number)
    return chart


def _draw_intervals(chart: Chart, low: F64, high: F64, truth: F64) -> None:
    """Draw the intervals, and a stroke across each at the truth, if that is known."""
    for place in range(low.size):
        x, bottom, top = chart.x.at(place), chart.y.at(float(low[place])), chart.y.at(float(high[place]))
        ends = "".join(f"M{x - 3:.1f} {y:.1f}h6" for y in (bottom, top))
        chart.add(f'<path d="M{x:.1f} {bottom:.1f}V{top:.1f}{ends}" stroke="{BLUE}" fill="none" stroke-width="1.2"/>')
    half = (chart.x.at(1) - chart.x.at(0)) * 0.2
    for place, true in enumerate(truth.tolist()):
        x, y = chart.x.at(place), chart.y.at(true)
        chart.add(f'<path d="M{x - half:.1f} {y:.1f}H{x + half:.1f}" stroke="{VERMILION}" stroke-width="2"/>')


ROW: Final = 20


def dots(
    name: str,
    caption: str,
    names: Sequence[str],
    *,
    shares: F64,
    low: F64,
    high: F64,
    detected: NDArray[np.bool_],
    truth: F64 | None = None,
    threshold: float | None = None,
    words: tuple[str, str] = ("detected, 95% interval", "not detected"),
    of: str = "share of devices",
) -> Picture:
    """Draw a row for each value: a dot, filled where detected, and an interval; NaN is unknown, `truth` a stroke."""
    alt = f"{int(detected.sum())} of {len(names)} value(s) detected. " + " ".join(
        f"{names[row]}: {percent(float(shares[row]))} ({interval(percent)(float(low[row]), float(high[row]))})."
        for row in np.flatnonzero(detected)[:10].tolist()
    )
    alt = alt if truth is None else f"Truth and estimate. {alt}"
    look = _Rows(names, shares, low, high, detected, words, truth=truth, threshold=threshold)
    return on_both_sheets(name, caption, alt, lambda sheet: look.drawing(sheet, of))


def differences(
    name: str,
    caption: str,
    names: Sequence[str],
    *,
    difference: F64,
    low: F64,
    high: F64,
    changed: NDArray[np.bool_],
) -> Picture:
    """Draw a row for each value: its difference around a zero line, filled where it changed; NaN is unknown."""
    alt = f"{int(changed.sum())} of {len(names)} value(s) changed. " + " ".join(
        f"{names[row]}: {percent(float(difference[row]))}." for row in np.flatnonzero(changed)[:10].tolist()
    )
    words = ("changed, 95% interval", "no change shown")
    look = _Rows(names, difference, low, high, changed, words, is_difference=True)
    return on_both_sheets(name, caption, alt, lambda sheet: look.drawing(sheet, "change of the share, in points"))


@dataclass(frozen=True, eq=False)
class _Rows:
    names: Sequence[str]
    shares: F64
    low: F64
    high: F64
    sure: NDArray[np.bool_]
    words: tuple[str, str]
    is_difference: bool = False
    truth: F64 | None = None
    threshold: float | None = None

    def drawing(self, sheet: Sheet, xlabel: str) -> str:
        chart = self._plot(sheet)
        chart.axes(xlabel, rows=sheet.names(self.names), number=percent_tick)
        zero = chart.x.at(0)
        upright = f"M{zero:.1f} {chart.y.start:.1f}V{chart.y.stop:.1f}"
        chart.add(f'<path d="{upright}" stroke="{INK}" data-zero="{zero:.1f}"/>')
        if self.threshold is not None:
            chart.add(_threshold(f"M{chart.x.at(self.threshold):.1f} {chart.y.start:.1f}V{chart.y.stop:.1f}"))
        for row in range(len(self.names)):
            self._draw_row(chart, row)
            if self.truth is not None:
                chart.upright(chart.x.at(float(self.truth[row])), chart.y.at(row), VERMILION)
        self._draw_key(chart)
        if not sheet.is_narrow:
            ends = {"share": self.shares, "low": self.low, "high": self.high}
            ends |= {} if self.truth is None else {"truth": self.truth}
            columns = {key: percentages(column) for key, column in ends.items()}
            chart.add(
                cursor_numbers(self.names, [{"name": "", **columns, "detected": self.sure, "unsure": self.words[1]}])
            )
        return chart.svg()

    def _plot(self, sheet: Sheet) -> Chart:
        true = np.empty(0) if self.truth is None else self.truth
        ends = np.concatenate([[0.0, self.threshold or 0.0], self.shares, self.low, self.high, true])
        ends = ends[np.isfinite(ends)]
        least, most = float(ends.min()), float(ends.max())
        if self.is_difference:
            least, most = -max(-least, most), max(-least, most)
        margin = 0.04 * (most - least) or 0.01
        count = len(self.names)
        left = 14 + max(map(sheet.text_width, sheet.names(self.names)), default=0)
        height = 34 + ROW * max(count, 2) + 3.6 * sheet.font
        x = Scale(least - margin * (least < 0), most + margin, left, sheet.width - 20)
        y = Scale(max(count, 2) - 0.5, -0.5, height - 3.6 * sheet.font, 34)
        chart = sheet.chart(height, x, y)
        chart.numbers["cursor"] = f"y {y.at(0):.1f} {y.at(max(count - 1, 0)):.1f}"
        return chart

    def _draw_row(self, chart: Chart, row: int) -> None:
        share, low, high = float(self.shares[row]), float(self.low[row]), float(self.high[row])
        y = chart.y.at(row)
        if not np.isfinite([share, low, high]).all():
            chart.text(chart.x.at(0) + 6, y, "unknown", MUTED)
            return
        colour = VERMILION if self.is_difference and share < 0 else BLUE
        look = 'stroke-width="2.4"' if self.sure[row] else 'stroke-width="1.4" stroke-dasharray="4 3"'
        inside = colour if self.sure[row] else PAPER
        chart.add(
            f'<g data-row="{row}" stroke="{colour}"><path {look} d="M{chart.x.at(low):.1f} {y:.1f}'
            f'H{chart.x.at(high):.1f}"/><path fill="{inside}" d="{mark(0, chart.x.at(share), y)}"/></g>'
        )

    def _draw_key(self, chart: Chart) -> None:
        sure = f'<path stroke="{INK}" stroke-width="2.4" d="M0 0h24"/>{_dot(INK)}'
        unsure = f'<path stroke="{INK}" stroke-width="1.4" stroke-dasharray="4 3" d="M0 0h24"/>{_dot(PAPER)}'
        entries = [(self.words[0], sure), (self.words[1], unsure)]
        if self.truth is not None:
            entries.append(("truth", f'<path d="M12-5v10" stroke="{VERMILION}" stroke-width="2"/>'))
        if self.threshold is not None:
            entries.append(("threshold", _threshold("M12-7v14")))
        chart.key(10, 14, entries)


def _threshold(upright: str) -> str:
    return f'<path d="{upright}" stroke="{INK}" stroke-width="1.4" stroke-dasharray="2 2" data-threshold="1"/>'


def _dot(inside: str) -> str:
    return f'<path fill="{inside}" stroke="{INK}" d="{mark(0, 12, 0)}"/>'
