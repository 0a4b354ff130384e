"""Counts over time: bars, and a small line without axes for a row of a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from overstory.presentation.charts.scale import F64, Scale
from overstory.presentation.charts.series import named_columns
from overstory.presentation.charts.sheet import NARROW, WIDE, Sheet, cursor_numbers
from overstory.presentation.formats import thousands
from overstory.presentation.svg import BLUE, MUTED, Picture


def counts_over_time(name: str, caption: str, labels: Sequence[str], counts: F64, *, xlabel: str = "") -> Picture:
    """Draw a bar for each column, such as the reports of each period.

    Parameters
    ----------
    counts : ndarray of float64, shape (columns,)
    """
    wide, narrow = (_bars(sheet, labels, counts, xlabel) for sheet in (WIDE, NARROW))
    ends = f", {labels[0]} to {labels[-1]}; the newest is {thousands(float(counts[-1]))}" if labels else ""
    most = thousands(float(counts.max())) if labels else "0"
    alt = f"{len(labels)} bar(s){ends}; the largest is {most}."
    return Picture(name, caption, alt, wide, narrow=narrow)


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


def sparkline(name: str, caption: str, numbers: F64) -> Picture:
    """Draw a small line from zero up, without axes; NaN is a gap, and the newest number has a dot.

    Parameters
    ----------
    numbers : ndarray of float64, shape (columns,)
    """
    width, height = 120.0, 28.0
    is_number = np.isfinite(numbers)
    finite = numbers[is_number]
    low, high = min(0.0, float(finite.min(initial=0))), max(float(finite.max(initial=0)), 1e-12)
    x, y = Scale(0, max(numbers.size - 1, 1), 4, width - 6), Scale(low, high, height - 4, 4)
    across, up = x.places(np.arange(numbers.size, dtype=np.float64)), y.places(numbers)
    path = "".join(
        f"{'L' if place and is_number[place - 1] else 'M'}{across[place]:.1f} {up[place]:.1f}"
        for place in np.flatnonzero(is_number).tolist()
    )
    parts = (
        [f'<path fill="none" stroke="{BLUE}" stroke-width="1.4" stroke-linecap="round" d="{path}"/>'] if path else []
    )
    if finite.size and is_number[-1]:
        parts.append(f'<circle cx="{across[-1]:.1f}" cy="{up[-1]:.1f}" r="2.4" fill="{BLUE}"/>')
    alt = f"{finite.size} number(s); the newest is {float(finite[-1]):,.6g}." if finite.size else "No numbers."
    box = f'width="{width:g}px" height="{height:g}px" viewBox="0 0 {width:g} {height:g}" data-x="{x}" data-y="{y}"'
    return Picture(
        name, caption, alt, f'<svg class="spark" xmlns="http://www.w3.org/2000/svg" {box}>{"".join(parts)}</svg>\n'
    )
