"""Shares over time: a line with a band for each value, gaps where nobody reported, releases and incidents.

What was not detected is dashed and hollow, on any printer and for any eye. Series differ in colour and in the shape of
their marks, and have their name at their end. Shares below zero are drawn below the zero line: they are estimates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from overstory.presentation.charts.drawing import (
    F64,
    NARROW,
    Chart,
    Scale,
    Sheet,
    apart,
    cursor_series,
    drawable,
    on_both_sheets,
    percent_tick,
    plain_number,
    shortened,
)
from overstory.presentation.formats import interval, percent
from overstory.presentation.svg import FAINT, INK, MUTED, PAPER, SERIES, VERMILION, Picture

MOST_COLUMNS: Final = 400  # A page has no room for more; who has more periods adds their counts up
MOST_MARKS: Final = 60  # with more columns, only some have marks
EVENT_ROWS: Final = 3


@dataclass(frozen=True, eq=False)
class Line:
    """The shares of a value over time: arrays with a place for each column."""

    name: str
    shares: F64  # between about 0 and 1; NaN where there are no reports
    low: F64  # ends of the intervals, as `high`
    high: F64
    detected: NDArray[np.bool_]

    def at(self, place: int) -> tuple[float, float, float, bool]:
        return float(self.shares[place]), float(self.low[place]), float(self.high[place]), bool(self.detected[place])


@dataclass(frozen=True)
class Event:
    """A release or an incident: a line from top to bottom, at a column."""

    column: float
    text: str
    kind: Literal["release", "incident"] = "release"


def over_time(
    name: str,
    caption: str,
    labels: Sequence[str],
    lines: Sequence[Line],
    *,
    events: Sequence[Event] = (),
    xlabel: str = "",
) -> Picture:
    """Draw the shares of at most seven values over at most `MOST_COLUMNS` columns; `xlabel` says what a column is."""
    if len(labels) > MOST_COLUMNS or len(lines) > len(SERIES):
        raise ValueError(f"{len(labels)} columns of {len(lines)} lines: at most {MOST_COLUMNS} and {len(SERIES)}")
    alt = "".join(_described(labels, lines, events))
    return on_both_sheets(name, caption, alt, lambda sheet: _drawing(sheet, labels, lines, events, xlabel))


SMALL: Final = Sheet(380, 12, 14)


def small_multiple(
    name: str,
    caption: str,
    ends: Sequence[str],  # what the first and the last column are called
    lines: Sequence[Line],
    *,
    events: Sequence[Event] = (),
    is_share: bool = True,  # the numbers read as percentages
    has_zero: bool = True,  # on its upright axis
) -> Picture:
    """Draw a few lines with their bands for a row of a table, wide and narrow alike."""
    number = percent_tick if is_share else plain_number
    places = np.concatenate(
        [[0.0][not has_zero :], *(end[np.isfinite(end)] for line in lines for end in (line.low, line.high))]
    )
    low, high = float(places.min()), float(places.max())
    left, right = (max(map(SMALL.text_width, texts)) for texts in ((number(low), number(high)), _names(SMALL, lines)))
    x = Scale(0, max(lines[0].shares.size - 1, 1), 8 + left, SMALL.width - 30 - right)
    chart = SMALL.chart(104, x, Scale(low, high if high > low else low + 1, 84, 18))
    chart.numbers["small"] = ""
    ticks = chart.y.ticks()
    for tick in dict.fromkeys((ticks[0], ticks[-1])):
        chart.text(x.start - 5, chart.y.at(tick), number(tick), MUTED, "end")
        chart.add(f'<path d="M{x.start:.1f} {chart.y.at(tick):.1f}H{x.stop:.1f}" stroke="{FAINT}"/>')
    fits = ends[0] != ends[1] and sum(map(SMALL.text_width, ends)) < x.stop - x.start
    for place, text, anchor in ((x.start, ends[0], "start"), (x.stop, ends[1], "end"))[not fits :]:
        chart.text(place, 96, text, MUTED, anchor)
    _draw_events(chart, SMALL, events)
    for place, line in enumerate(lines):
        chart.add("".join(_line(chart, place, line, has_marks=False)))
    _draw_names(chart, SMALL, lines)
    newest = f"{caption}; the newest is {number(float(lines[0].shares[-1]))}."
    alt = "".join(_described(ends, lines, events)) if is_share else newest
    return Picture(name, caption, alt, chart.svg())


def _described(labels: Sequence[str], lines: Sequence[Line], events: Sequence[Event]) -> Iterator[str]:
    yield f"{len(lines)} line(s) over {len(labels)} column(s)"
    yield f", {labels[0]} to {labels[-1]}. " if labels else ". "
    for line in lines:
        last = np.flatnonzero(np.isfinite(line.shares))
        if last.size:
            share, low, high, detected = line.at(int(last[-1]))
            missing, when = "" if detected else ", not detected", labels[min(last[-1], len(labels) - 1)]
            yield f"{line.name}, {when}: {percent(share)} ({interval(percent)(low, high)}){missing}. "
    for event in events:
        yield f"{event.kind.capitalize()}: {event.text}. "


def _drawing(sheet: Sheet, labels: Sequence[str], lines: Sequence[Line], events: Sequence[Event], xlabel: str) -> str:
    chart = _plot(sheet, len(labels), lines, events)
    chart.axes(xlabel, columns=labels, number=percent_tick)
    zero = chart.y.at(0)
    chart.add(f'<path d="M{chart.x.start:.1f} {zero:.1f}H{chart.x.stop:.1f}" stroke="{INK}" data-zero="{zero:.1f}"/>')
    _draw_events(chart, sheet, events)
    for number, line in enumerate(lines):
        chart.add("".join(_line(chart, number, line)))
    _draw_names(chart, sheet, lines)
    _draw_key(chart, sheet)
    series = [cursor_series(one.name, one.detected, share=one.shares, low=one.low, high=one.high) for one in lines]
    chart.add_cursor("x", labels, series)
    return chart.svg()


def _plot(sheet: Sheet, columns: int, lines: Sequence[Line], events: Sequence[Event]) -> Chart:
    """Return the empty plot: zero is always on its upright axis."""
    ends = np.concatenate([np.zeros(1), *(end for line in lines for end in (line.low, line.high, line.shares))])
    ends = ends[np.isfinite(ends)]
    least, most = float(ends.min()), float(ends.max())
    margin = 0.04 * (most - least) or 0.01
    rows = min(len(events), EVENT_ROWS)
    above = 34 + 16 * rows + ((len(lines) + 1) // 2 * 18 + 22 if sheet.is_narrow else 0)
    height = above + (260 if sheet.is_narrow else 290) + 3.6 * sheet.font
    names = 0 if sheet.is_narrow else max(map(sheet.text_width, _names(sheet, lines)), default=0) + 22
    first, last = (0, columns - 1) if columns > 1 else (-1, 1)
    x = Scale(first, last, 5 + sheet.text_width("-0.25%"), sheet.width - 14 - names)
    y = Scale(least - margin * (least < 0), most + margin, height - 3.6 * sheet.font, above)
    return sheet.chart(height, x, y)


def _draw_events(chart: Chart, sheet: Sheet, events: Sequence[Event]) -> None:
    """Draw events; a text that has no room in three rows stays in the line's own title, and in the description."""
    taken = [-np.inf] * EVENT_ROWS
    for event in sorted(events, key=lambda event: event.column):
        x, colour = chart.x.at(event.column), VERMILION if event.kind == "incident" else MUTED
        dashes = "6 2 1 2" if event.kind == "incident" else "2 3"
        words = shortened(drawable(event.text), 30)
        width = sheet.text_width(words)
        start = min(x - 3, chart.sheet.width - width - 2)
        row = next((row for row in range(EVENT_ROWS) if taken[row] < start - 8), None)
        top = chart.y.stop - (2 if row is None else 4 + 16 * row)
        chart.add(
            f'<path d="M{x:.1f} {chart.y.start:.1f}V{top:.1f}" stroke="{colour}" stroke-dasharray="{dashes}">'
            f"<title>{escape(drawable(f'{event.kind}: {event.text}'))}</title></path>"
        )
        if row is not None:
            taken[row] = start + width
            chart.text(start, top - 7, words, colour)


def _line(chart: Chart, number: int, line: Line, *, has_marks: bool = True) -> Iterator[str]:
    colour = SERIES[number]
    x = chart.x.places(np.arange(line.shares.size, dtype=np.float64))
    y, low, high = (chart.y.places(column) for column in (line.shares, line.low, line.high))
    yield f'<g data-series="{number}" fill="{colour}" stroke="{colour}">'
    for start, stop, detected in pieces(line.shares, line.detected):
        here = slice(start, stop)
        yield _band(x[here], low[here], high[here], detected=detected)
        if stop - start > 1:
            look = 'stroke-width="1.8"' if detected else 'stroke-width="1.4" stroke-dasharray="4 3"'
            yield f'<path data-line="{start}" fill="none" {look} d="{path(x[here], y[here])}"/>'
    yield from _marks(number, x, y, line) if has_marks else ()
    yield "</g>"


def pieces(shares: F64, detected: NDArray[np.bool_]) -> Iterator[tuple[int, int, bool]]:
    """Yield pieces of a line (first column, one past the last, whether detected); neighbours share a column."""
    here = np.isfinite(shares)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], here, [False]]).astype(np.int8)))
    for first, behind in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if behind - first == 1:
            yield first, behind, bool(detected[first])
            continue
        both = detected[first : behind - 1] & detected[first + 1 : behind]
        turns = [0, *(np.flatnonzero(np.diff(both.astype(np.int8))) + 1).tolist(), both.size]
        for start, stop in pairwise(turns):
            yield first + start, first + stop + 1, bool(both[start])


def _band(x: F64, low: F64, high: F64, *, detected: bool) -> str:
    if x.size == 1:
        return f'<path stroke-opacity="0.6" d="M{x[0]:.1f} {low[0]:.1f}V{high[0]:.1f}"/>'
    look = 'stroke="none" fill-opacity="0.16"' if detected else 'fill-opacity="0.04" stroke-opacity="0.3"'
    around = path(np.concatenate([x, x[::-1]]), np.concatenate([high, low[::-1]]))
    return f'<path data-band="1" {look} d="{around}z"/>'


def path(x: F64, y: F64) -> str:
    """Return a path through places, to a tenth of a pixel: the first place, then the steps to each next one."""
    places = np.rint(10 * np.stack([x, y], axis=1)).astype(np.int64)
    steps = np.diff(places, axis=0).tolist()
    first, last = places[0].tolist()
    return f"M{_tenths(first)}{_next(last)}l{''.join([_next(a) + _next(b) for a, b in steps]).lstrip()}"


def _tenths(number: int) -> str:
    tens, tenth = divmod(abs(number), 10)
    return f"{'-' if number < 0 else ''}{tens or ('' if tenth else 0)}{f'.{tenth}' if tenth else ''}"


def _next(number: int) -> str:
    return _tenths(number) if number < 0 else f" {_tenths(number)}"


def _marks(number: int, x: F64, y: F64, line: Line) -> Iterator[str]:
    """Yield the marks: filled or hollow; where columns are many, the series take turns."""
    step = -(-x.size // MOST_MARKS)
    chosen = np.isfinite(y) & ((np.arange(x.size) + number) % step == 0)
    chosen |= np.isfinite(y) & (np.arange(x.size) == x.size - 1)
    for detected in (True, False):
        places = np.flatnonzero(chosen & (line.detected == detected)).tolist()
        marks = "".join(mark(number, float(x[place]), float(y[place])) for place in places)
        if marks:
            inside = "" if detected else f' fill="{PAPER}"'
            yield f'<path data-detected="{int(detected)}"{inside} d="{marks}"/>'


SHAPES: Final = (
    "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0z",  # circle
    "m-2.7-2.7h5.4v5.4h-5.4z",  # square
    "m0-3.8l3.8 3.8l-3.8 3.8l-3.8-3.8z",  # diamond
    "m0-3.5l3.5 6h-7z",  # triangle
    "m0 3.5l3.5-6h-7z",  # triangle on its tip
    "m-3.4 0h6.8v1h-6.8z",  # dash
    "m-.8-3.4h1.6v6.8h-1.6z",  # bar
)


def mark(number: int, x: float, y: float) -> str:
    """Return the path of a series' mark at a place."""
    return f"M{x:.1f} {y:.1f}{SHAPES[number % len(SHAPES)]}"


def _draw_names(chart: Chart, sheet: Sheet, lines: Sequence[Line]) -> None:
    """Write each name at the end of its line; on a narrow page, all in two columns above."""
    ends = [line.shares[np.isfinite(line.shares)] for line in lines]
    wanted = [chart.y.at(float(end[-1])) if end.size else chart.y.start for end in ends]
    places = [(chart.x.stop + 12, place) for place in apart(wanted, 1.25 * sheet.font)]
    if sheet == NARROW:
        places = [(12 + (number % 2) * sheet.width / 2, 44.0 + 18 * (number // 2)) for number in range(len(lines))]
    for number, (line, name, (x, y)) in enumerate(zip(lines, _names(sheet, lines), places, strict=True)):
        chart.add(f'<path fill="{SERIES[number]}" stroke="{SERIES[number]}" d="{mark(number, x, y)}"/>')
        chart.text(x + 8, y, name, extra=f'data-name="{escape(drawable(line.name))}"')


def _names(sheet: Sheet, lines: Sequence[Line]) -> list[str]:
    return sheet.names([line.name for line in lines])


def _draw_key(chart: Chart, sheet: Sheet) -> None:
    band = f'<path fill="{MUTED}" fill-opacity="0.3" d="M0-5h24v10h-24z"/>'
    line = f'<path stroke="{MUTED}" stroke-width="1.8" d="M0 0h24"/>'
    dashes = f'<path stroke="{MUTED}" stroke-width="1.4" stroke-dasharray="4 3" d="M0 0h24"/>'
    hollow = f'<path fill="{PAPER}" stroke="{MUTED}" d="{mark(0, 12, 0)}"/>'
    x, y = (4, 14) if sheet.is_narrow else (chart.x.start, 12)
    chart.key(x, y, (("estimate, 95% interval", band + line), ("not detected", dashes + hollow)))
