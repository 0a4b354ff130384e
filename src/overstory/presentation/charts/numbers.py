"""Numbers with their uncertainty: a histogram whose bars have intervals, and estimates over time in their own unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from overstory.presentation.charts.drawing import Chart
from overstory.presentation.charts.scale import F64, Scale, plain_number
from overstory.presentation.charts.series import named_columns
from overstory.presentation.charts.sheet import NARROW, WIDE, Sheet, percent_tick
from overstory.presentation.formats import percent
from overstory.presentation.svg import BLUE, INK, Picture

HEIGHT: Final = 240


def histogram(name: str, caption: str, names: Sequence[str], *, values: F64, low: F64, high: F64) -> Picture:
    """Draw a bar for each group of values, under its name, and its interval.

    Parameters
    ----------
    values, low, high : ndarray of float64, shape (bars,)
        Shares, as fractions; a share below 0 has no bar, and its interval.
    """
    largest = int(np.argmax(values))
    alt = f"{len(names)} bar(s); the largest is {names[largest]} with {percent(float(values[largest]))}."
    wide, narrow = (_bars(sheet, names, values, low, high) for sheet in (WIDE, NARROW))
    return Picture(name, caption, alt, wide, narrow=narrow)


def _bars(sheet: Sheet, names: Sequence[str], shares: F64, low: F64, high: F64) -> str:
    least, most = min(float(low.min()), 0.0), max(float(high.max()), 0.01)
    chart = _empty(sheet, len(names), 1.05 * least, 1.05 * most, percent_tick(-0.0025))
    chart.axes("share of devices", columns=named_columns(chart, sheet, names), number=percent_tick)
    base, half = chart.y.at(0), (chart.x.at(1) - chart.x.at(0)) * 0.45
    for place, share in enumerate(shares.tolist()):
        middle, top = chart.x.at(place), chart.y.at(max(share, 0.0))
        outline = f"M{middle - half:.1f} {base:.1f}V{top:.1f}h{2 * half:.1f}V{base:.1f}z"
        chart.add(f'<path fill="{BLUE}" fill-opacity="0.35" d="{outline}"/>')
        _interval(chart, place, float(low[place]), float(high[place]))
    chart.add(f'<path d="M{chart.x.start:.1f} {base:.1f}H{chart.x.stop:.1f}" stroke="{INK}" stroke-width="0.8"/>')
    return chart.svg()


def estimates_over_time(
    name: str, caption: str, labels: Sequence[str], *, values: F64, low: F64, high: F64, xlabel: str = ""
) -> Picture:
    """Draw a number for each period, such as a mean, with its interval; the axis need not begin at zero.

    Parameters
    ----------
    values, low, high : ndarray of float64, shape (periods,)
    """
    newest = f"; the newest is {values[-1]:.4g} ({low[-1]:.4g} to {high[-1]:.4g})" if len(labels) else ""
    alt = f"{len(labels)} estimate(s), {labels[0]} to {labels[-1]}{newest}." if len(labels) else "No estimates."
    wide, narrow = (_dots(sheet, labels, values, low, high, xlabel) for sheet in (WIDE, NARROW))
    return Picture(name, caption, alt, wide, narrow=narrow)


def _dots(sheet: Sheet, labels: Sequence[str], values: F64, low: F64, high: F64, xlabel: str) -> str:
    least, most = float(low.min()), float(high.max())
    margin = 0.05 * (most - least) or max(abs(most), 1.0) * 0.05
    chart = _empty(sheet, len(labels), least - margin, most + margin, f"{most:,.4g}")
    chart.axes(xlabel, columns=named_columns(chart, sheet, labels), number=plain_number)
    for place in range(len(labels)):
        _interval(chart, place, float(low[place]), float(high[place]))
        chart.dot(place, float(values[place]), BLUE)
    return chart.svg()


def _empty(sheet: Sheet, places: int, least: float, most: float, widest: str) -> Chart:
    """Return a chart with a number of places on its level axis."""
    height = HEIGHT + 3.6 * sheet.font
    x = Scale(-0.6, max(places, 2) - 0.4, 10 + sheet.text_width(widest), sheet.width - 14)
    return sheet.chart(height, x, Scale(least, most, height - 3.6 * sheet.font, 10))


def _interval(chart: Chart, place: int, low: float, high: float) -> None:
    x, bottom, top = chart.x.at(place), chart.y.at(low), chart.y.at(high)
    ends = "".join(f"M{x - 3:.1f} {y:.1f}h6" for y in (bottom, top))
    chart.add(f'<path d="M{x:.1f} {bottom:.1f}V{top:.1f}{ends}" stroke="{BLUE}" fill="none" stroke-width="1.2"/>')
