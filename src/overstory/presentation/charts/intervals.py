"""Numbers with their intervals, a row for each value: shares, what was not detected being hollow, and differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from overstory.presentation.charts.drawing import Chart
from overstory.presentation.charts.scale import F64, Scale
from overstory.presentation.charts.series import mark
from overstory.presentation.charts.sheet import NARROW, WIDE, Sheet, cursor_numbers, percent_tick, percentages
from overstory.presentation.formats import interval, percent
from overstory.presentation.svg import BLUE, INK, MUTED, PAPER, VERMILION, Picture

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
    tags: Sequence[str] = (),
) -> Picture:
    """Draw a row for each value: its share as a dot, filled where the value was detected, and its interval.

    Parameters
    ----------
    shares, low, high : ndarray of float64, shape (values,)
        Between about 0 and 1; NaN where a share is unknown.
    tags
        A word for each value, such as ``new``, or nothing.
    """
    alt = f"{int(detected.sum())} of {len(names)} value(s) detected. " + " ".join(
        f"{names[row]}: {percent(float(shares[row]))} ({interval(percent)(float(low[row]), float(high[row]))})."
        for row in np.flatnonzero(detected)[:10].tolist()
    )
    words = ("detected", "not detected")
    look = _Rows(names, shares, low, high, detected, tuple(tags) or ("",) * len(names), words)
    wide, narrow = (look.drawing(sheet, "share of devices") for sheet in (WIDE, NARROW))
    return Picture(name, caption, alt, wide, narrow=narrow)


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
    """Draw a row for each value: the difference of its shares around a zero line; what changed is filled.

    Parameters
    ----------
    difference, low, high : ndarray of float64, shape (values,)
        Between about -1 and 1; NaN where a difference is unknown.
    """
    alt = f"{int(changed.sum())} of {len(names)} value(s) changed. " + " ".join(
        f"{names[row]}: {percent(float(difference[row]))}." for row in np.flatnonzero(changed)[:10].tolist()
    )
    words = ("changed", "no change shown")
    look = _Rows(names, difference, low, high, changed, ("",) * len(names), words, is_difference=True)
    wide, narrow = (look.drawing(sheet, "change of the share, in points") for sheet in (WIDE, NARROW))
    return Picture(name, caption, alt, wide, narrow=narrow)


class _Rows:
    """What both pictures draw."""

    def __init__(
        self,
        names: Sequence[str],
        shares: F64,
        low: F64,
        high: F64,
        sure: NDArray[np.bool_],
        tags: Sequence[str],
        words: tuple[str, str],
        *,
        is_difference: bool = False,
    ) -> None:
        self.names, self.sure, self.tags, self.words, self.is_difference = names, sure, tags, words, is_difference
        self.shares, self.low, self.high = (np.asarray(column, np.float64) for column in (shares, low, high))

    def drawing(self, sheet: Sheet, xlabel: str) -> str:
        chart = self._plot(sheet)
        chart.axes(xlabel, rows=sheet.names(self.names), number=percent_tick)
        zero = chart.x.at(0)
        upright = f"M{zero:.1f} {chart.y.start:.1f}V{chart.y.stop:.1f}"
        chart.add(f'<path d="{upright}" stroke="{INK}" data-zero="{zero:.1f}"/>')
        for row in range(len(self.names)):
            self._draw_row(chart, row)
        self._draw_key(chart, sheet)
        if not sheet.is_narrow:
            ends = {"share": self.shares, "low": self.low, "high": self.high}
            columns = {key: percentages(column) for key, column in ends.items()}
            chart.add(cursor_numbers(self.names, [{"name": "", **columns, "detected": self.sure}]))
        return chart.svg()

    def _plot(self, sheet: Sheet) -> Chart:
        ends = np.concatenate([np.zeros(1), self.shares, self.low, self.high])
        ends = ends[np.isfinite(ends)]
        least, most = float(ends.min()), float(ends.max())
        if self.is_difference:
            least, most = -max(-least, most), max(-least, most)
        margin = 0.04 * (most - least) or 0.01
        count = len(self.names)
        tags = max((sheet.text_width(tag) for tag in self.tags), default=0)
        left = 14 + max(map(sheet.text_width, sheet.names(self.names)), default=0)
        height = 34 + ROW * max(count, 2) + 3.6 * sheet.font
        x = Scale(least - margin * (least < 0), most + margin, left, sheet.width - 20 - (tags + 6 if tags else 0))
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
        if self.tags[row]:
            chart.text(chart.width - 8, y, self.tags[row], BLUE, "end", 'font-weight="bold"')

    def _draw_key(self, chart: Chart, sheet: Sheet) -> None:
        """Explain full and hollow."""
        x, y = 10.0, 14.0
        for words, inside, look in (
            (f"{self.words[0]}, 95% interval", INK, 'stroke-width="2.4"'),
            (self.words[1], PAPER, 'stroke-width="1.4" stroke-dasharray="4 3"'),
        ):
            dot = f'<path fill="{inside}" d="{mark(0, x + 12, y)}"/>'
            chart.add(f'<g stroke="{INK}"><path {look} d="M{x:.1f} {y:.1f}h24"/>{dot}</g>')
            chart.text(x + 30, y, words)
            x += 48 + sheet.text_width(words)
