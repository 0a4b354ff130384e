"""Numbers as pictures: bars, a histogram, estimates with intervals over time and side by side, a table of two.

In a table, the colour of a cell says whether its share is above that of all rows together, or below; its strength, by
how much. A cell that may as well be as in all rows has no colour and is hatched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from overstory.presentation.charts.drawing import (
    F64,
    Chart,
    Scale,
    Sheet,
    cursor_series,
    on_both_sheets,
    percent_tick,
    plain_number,
    shortened,
)
from overstory.presentation.charts.series import mark
from overstory.presentation.formats import interval, percent, significant, thousands
from overstory.presentation.svg import BLUE, FAINT, INK, MUTED, PAPER, VERMILION, Picture


def counts_over_time(name: str, caption: str, labels: Sequence[str], counts: F64, *, xlabel: str = "") -> Picture:
    """Draw a bar for each column, such as the reports of each period."""
    ends = f", {labels[0]} to {labels[-1]}; the newest is {thousands(float(counts[-1]))}" if labels else ""
    most = thousands(float(counts.max())) if labels else "0"
    alt = f"{len(labels)} bar(s){ends}; the largest is {most}."
    return on_both_sheets(name, caption, alt, lambda sheet: _bars(sheet, labels, counts, xlabel))


def _bars(sheet: Sheet, labels: Sequence[str], counts: F64, xlabel: str) -> str:
    y = Scale(0, 1.05 * float(counts.max(initial=1)), 120, 10)
    chart = _plot_of(sheet, labels, y, xlabel=xlabel)
    width = max((chart.x.at(1) - chart.x.at(0)) * 0.8, 0.8)
    tops = chart.y.places(counts).tolist()
    bars = "".join(
        f"M{chart.x.at(place) - width / 2:.1f} {chart.y.start:.1f}V{top:.1f}h{width:.1f}V{chart.y.start:.1f}z"
        for place, top in enumerate(tops)
        if counts[place]
    )
    chart.add(f'<path fill="{MUTED}" fill-opacity="0.6" data-bars="1" d="{bars}"/>')
    chart.add_cursor("x", labels, [{"name": "", "count": counts}])
    return chart.svg()


def with_intervals(
    name: str, caption: str, names: Sequence[str], numbers: Sequence[F64], *, is_histogram: bool = False
) -> Picture:
    """Draw estimates as dots, on an axis that need not have a zero, or shares as bars, which are never below 0.

    The numbers are estimates, both ends of their intervals and, where it is known, the truth.
    """
    values, low, high = numbers[:3]
    place, ends = int(np.argmax(values)), np.concatenate(numbers[1:])
    if is_histogram:
        alt = f"{len(names)} bar(s); the largest is {names[place]} with {percent(float(values[place]))}."
        least, most = 1.05 * min(float(low.min()), 0.0), 1.05 * max(float(ends.max()), 0.01)
    else:
        newest = f"{significant(values[-1])} ({significant(low[-1])} to {significant(high[-1])})"
        alt = f"{len(names)} estimate(s), {names[0]} to {names[-1]}; the newest is {newest}."
        least, most = float(ends.min()), float(ends.max())
        margin = 0.05 * (most - least) or max(abs(most), 1.0) * 0.05
        least, most = least - margin, most + margin

    def draw(sheet: Sheet) -> str:
        how = (percent_tick, "range; a bar is the share of devices in it") if is_histogram else (plain_number,)
        chart = _plot_of(sheet, names, Scale(least, most, 240, 10), *how)
        base, half = chart.y.at(0), (chart.x.at(1) - chart.x.at(0)) * 0.45
        for place, value in enumerate(values.tolist()):
            x, y = chart.x.at(place), chart.y.at(max(value, 0.0) if is_histogram else value)
            bar = f'fill-opacity="0.35" d="M{x - half:.1f} {base:.1f}V{y:.1f}h{2 * half:.1f}V{base:.1f}z"/>'
            dot = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" stroke="{BLUE}" fill="{BLUE}"/>'
            chart.add(f'<path fill="{BLUE}" {bar}' if is_histogram else dot)
        _draw_intervals(chart, *numbers[1:])
        if is_histogram:
            line = f"M{chart.x.start:.1f} {base:.1f}H{chart.x.stop:.1f}"
            chart.add(f'<path d="{line}" stroke="{INK}" stroke-width="0.8"/>')
        return chart.svg()

    return on_both_sheets(name, caption, alt, draw)


def _plot_of(
    sheet: Sheet, names: Sequence[str], y: Scale, number: Callable[[float], str] = plain_number, xlabel: str = ""
) -> Chart:
    widest = max(sheet.text_width(number(tick)) for tick in y.ticks())
    x = Scale(-0.6, max(len(names), 2) - 0.4, 10 + widest, sheet.width - 14)
    chart = sheet.chart(y.start + 3.6 * sheet.font, x, y)
    chart.axes(xlabel, columns=names, number=number)
    return chart


def _draw_intervals(chart: Chart, low: F64, high: F64, truth: F64 | None = None) -> None:
    """Draw the intervals, and a stroke across each at the truth, if that is known."""
    for place in range(low.size):
        x, bottom, top = chart.x.at(place), chart.y.at(float(low[place])), chart.y.at(float(high[place]))
        ends = "".join(f"M{x - 3:.1f} {y:.1f}h6" for y in (bottom, top))
        chart.add(f'<path d="M{x:.1f} {bottom:.1f}V{top:.1f}{ends}" stroke="{BLUE}" fill="none" stroke-width="1.2"/>')
    half = (chart.x.at(1) - chart.x.at(0)) * 0.2
    for place, true in enumerate([] if truth is None else truth.tolist()):
        x, y = chart.x.at(place), chart.y.at(true)
        chart.add(f'<path d="M{x - half:.1f} {y:.1f}H{x + half:.1f}" stroke="{VERMILION}" stroke-width="2"/>')


ROW: Final = 20


@dataclass(frozen=True, eq=False, kw_only=True)
class Dots:
    """A row for each value: a dot, filled where that is sure, and an interval; NaN is unknown."""

    names: Sequence[str]
    shares: F64  # or differences, which are drawn to either side of a zero line in the middle
    low: F64
    high: F64
    sure: NDArray[np.bool_]
    of: str = "share of devices"
    words: tuple[str, str] = ("detected, 95% interval", "not detected")
    is_difference: bool = False
    truth: F64 | None = None  # a stroke in each row
    threshold: float | None = None

    def picture(self, name: str, caption: str) -> Picture:
        verb = "changed" if self.is_difference else "detected"
        alt = f"{int(self.sure.sum())} of {len(self.names)} value(s) {verb}. " + " ".join(
            f"{self.names[row]}: {percent(float(self.shares[row]))} "
            f"({interval(percent)(float(self.low[row]), float(self.high[row]))})."
            for row in np.flatnonzero(self.sure)[:10].tolist()
        )
        alt = alt if self.truth is None else f"Truth and estimate. {alt}"
        return on_both_sheets(name, caption, alt, self._drawing)

    def _drawing(self, sheet: Sheet) -> str:
        chart = self._plot(sheet)
        chart.axes(self.of, rows=sheet.names(self.names), number=percent_tick)
        zero = chart.x.at(0)
        upright = f"M{zero:.1f} {chart.y.start:.1f}V{chart.y.stop:.1f}"
        chart.add(f'<path d="{upright}" stroke="{INK}" data-zero="{zero:.1f}"/>')
        if self.threshold is not None:
            chart.add(_threshold(f"M{chart.x.at(self.threshold):.1f} {chart.y.start:.1f}V{chart.y.stop:.1f}"))
        for row in range(len(self.names)):
            self._draw_row(chart, row)
            if self.truth is not None:
                x, y = chart.x.at(float(self.truth[row])), chart.y.at(row)
                chart.add(f'<path d="M{x:.1f} {y - 5:.1f}v10" stroke="{VERMILION}" stroke-width="2"/>')
        self._draw_key(chart)
        ends = {"share": self.shares, "low": self.low, "high": self.high, "truth": self.truth}
        chart.add_cursor("y", self.names, [cursor_series("", self.sure, unsure=self.words[1], **ends)])
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
        return sheet.chart(height, x, y)

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


STRONGEST: Final = 0.5  # the opacity of the cell that differs most: text on it stays readable
HATCH: Final = 9.0  # pixels between the lines of a hatched cell
MOST_ROWS: Final = 30
MOST_COLUMNS: Final = 16
OVERALL: Final = "all rows"
ALIKE: Final = "may be as in all rows"


@dataclass(frozen=True, eq=False)
class Cells:
    """A table of two variables: a cell for each pair, of k_x rows and k_y columns."""

    names: tuple[str, str]  # the rows' variable and the columns'
    labels: tuple[Sequence[str], Sequence[str]]  # k_x and k_y values
    shares: F64  # (k_x, k_y): of the columns' values in each row; NaN where a row is too small
    reach: F64  # (k_x, k_y): how far the interval of each reaches to either side
    overall: F64  # (k_y,): the columns' shares in all rows together
    sure: NDArray[np.bool_]  # (k_x, k_y): which shares differ from the overall one

    @cached_property
    def ends(self) -> tuple[F64, F64]:
        """Both ends of the intervals; a share is not below 0."""
        low, high = np.clip([self.shares - self.reach, self.shares + self.reach], 0.0, 1.0)
        return low, high

    @cached_property
    def departures(self) -> F64:
        return np.asarray(self.shares - self.overall)

    @cached_property
    def largest(self) -> float:
        """The largest departure of those that are sure."""
        return float(np.abs(self.departures[self.sure & np.isfinite(self.shares)]).max(initial=0.0))

    def picture(self, name: str, caption: str) -> Picture:
        """Draw the shares of the columns' values in each row; at most 30 rows and 16 columns, the first ones."""
        rows, columns = self.shares.shape
        part = np.s_[:MOST_ROWS, :MOST_COLUMNS]
        labels = self.labels[0][:MOST_ROWS], self.labels[1][:MOST_COLUMNS]
        arrays = self.shares[part], self.reach[part], self.overall[:MOST_COLUMNS], self.sure[part]
        drawn = Cells(self.names, labels, *arrays)
        if drawn.shares.shape != self.shares.shape:
            left = f"The first {len(drawn.shares)} of {rows} rows, {drawn.shares.shape[1]} of {columns} columns."
            caption = f"{caption} {left}"
        places = [tuple(map(int, place)) for place in np.argwhere(self.sure)]
        surest = sorted(places, key=lambda place: -abs(float(self.departures[place])))[:10]
        named = " ".join(self._sentence(*place) for place in surest)
        alt = f"{len(places)} of {self.shares.size} shares differ from those of all rows together. {named}".rstrip()
        return on_both_sheets(name, caption, alt, drawn._drawing)

    def _sentence(self, row: int, column: int) -> str:
        share, low, high = (float(array[row, column]) for array in (self.shares, *self.ends))
        of = f"{self.labels[1][column]} in {self.labels[0][row]}"
        return (
            f"{of}: {percent(share)} ({interval(percent)(low, high)}), in all {percent(float(self.overall[column]))}."
        )

    def _drawing(self, sheet: Sheet) -> str:
        rows, columns = self.shares.shape
        row_names = sheet.names(self.labels[0])
        left = 14 + max(map(sheet.text_width, (*row_names, OVERALL)))
        height_of_row = 2.9 * sheet.font
        top = (6.0 if sheet.is_narrow else 3.6) * sheet.font + 8
        x = Scale(0, columns, left, sheet.width - 8)
        y = Scale(0, rows, top, top + rows * height_of_row)
        chart = sheet.chart(y.stop + 1.5 * height_of_row + 8, x, y)
        width, digit = x.at(1) - x.at(0), sheet.text_width("0")
        self._draw_key(chart, sheet)
        for place, label in enumerate(sheet.names(self.labels[1])):
            shown = shortened(label, max(int(width / digit) - 1, 1))
            chart.text(x.at(place + 0.5), y.start - 0.9 * sheet.font, shown, anchor="middle")
        below, has_text = y.stop + 0.9 * height_of_row, width >= 5.4 * digit
        for place, label in enumerate(row_names):
            chart.text(left - 6, y.at(place + 0.5), label, anchor="end")
            for column in range(columns):
                self._draw_cell(chart, place, column, has_text=has_text)
        chart.text(left - 6, below, OVERALL, MUTED, "end")
        for column in range(columns if has_text else 0):
            chart.text(x.at(column + 0.5), below, _short(float(self.overall[column])), MUTED, "middle")
        each = zip(self.labels[1], self.sure.T, *(array.T for array in (self.shares, *self.ends)), strict=True)
        series = [
            cursor_series(label, sure, unsure=ALIKE, share=share, low=low, high=high)
            for label, sure, share, low, high in each
        ]
        chart.add_cursor("y", self.labels[0], series, shift=0.5)
        return chart.svg()

    def _draw_cell(self, chart: Chart, row: int, column: int, *, has_text: bool) -> None:
        left, right = chart.x.at(column) + 1, chart.x.at(column + 1) - 1
        top, bottom = chart.y.at(row) + 1, chart.y.at(row + 1) - 1
        share, departure, is_sure = (
            float(self.shares[row, column]),
            self.departures[row, column],
            self.sure[row, column],
        )
        texts, ink, look = {0.0: "too few"}, MUTED, f'fill="none" stroke="{FAINT}"/>'
        if np.isfinite(share):
            reach = f"\N{PLUS-MINUS SIGN}{100 * float(self.reach[row, column]):.1f}"
            texts = {-0.55: _short(min(max(share, 0.0), 1.0)), 0.6: reach}
        if np.isfinite(share) and is_sure:
            ink, colour = INK, BLUE if departure > 0 else VERMILION
            opacity = max(STRONGEST * abs(departure) / max(self.largest, 1e-12), 0.08)
            look = f'fill="{colour}" fill-opacity="{opacity:.3f}" stroke="{colour}"/>'
        elif np.isfinite(share):
            look += f'<path d="{_hatching(left, right, top, bottom)}" stroke="{FAINT}"/>'
        box = f"M{left:.1f} {top:.1f}H{right:.1f}V{bottom:.1f}H{left:.1f}z"
        chart.add(f'<path data-cell="{row} {column}" d="{box}" {look}')
        for lines, text in texts.items() if has_text else ():
            chart.text((left + right) / 2, (top + bottom) / 2 + lines * chart.sheet.font, text, ink, "middle")

    def _draw_key(self, chart: Chart, sheet: Sheet) -> None:
        box = "M0-6h16v12h-16z"
        filled = f'<path d="{box}" fill="{{0}}" fill-opacity="{STRONGEST}" stroke="{{0}}"/>'
        lines = f'<path d="{_hatching(0, 16, -6, 6)}" stroke="{MUTED}"/>'
        entries = (
            ("more than in all rows", filled.format(BLUE)),
            ("less", filled.format(VERMILION)),
            ("may be alike", f'<path d="{box}" fill="none" stroke="{MUTED}"/>{lines}'),
        )
        chart.text(
            10, 12, f"{sheet.name(self.names[1])} in each {sheet.name(self.names[0])}", INK, extra='font-weight="bold"'
        )
        left = sheet.width - sum(34 + sheet.text_width(words) for words, _ in entries)
        x, y = (10, 12 + 1.7 * sheet.font) if sheet.is_narrow else (left, 12)
        chart.key(x, y, entries, 16)


def _hatching(left: float, right: float, top: float, bottom: float) -> str:
    height, parts = bottom - top, []
    start = left - height + HATCH / 2
    while start < right:
        low, high = max(start, left), min(start + height, right)
        if high > low:
            parts.append(f"M{low:.1f} {bottom - (low - start):.1f}L{high:.1f} {bottom - (high - start):.1f}")
        start += HATCH
    return "".join(parts)


def _short(share: float) -> str:
    return f"{100 * share:.1f}%".replace("-", "\N{MINUS SIGN}")
