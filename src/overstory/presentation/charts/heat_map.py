"""A table of two variables as a picture: a cell for each pair, with its share and how sure that is.

The colour of a cell says whether its share is above that of all rows together, or below; its strength, by how much.
A cell that may as well be as in all rows has no colour and is hatched.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    cursor_numbers,
    on_both_sheets,
    percentages,
    shortened,
)
from overstory.presentation.formats import interval, percent
from overstory.presentation.svg import BLUE, FAINT, INK, MUTED, VERMILION, Picture

STRONGEST: Final = 0.5  # the opacity of the cell that differs most: text on it stays readable
HATCH: Final = 9.0  # pixels between the lines of a hatched cell
MOST_ROWS: Final = 30
MOST_COLUMNS: Final = 16
OVERALL: Final = "all rows"
ALIKE: Final = "may be as in all rows"


@dataclass(frozen=True, eq=False)
class Cells:
    """The numbers of a picture: of k_x rows and k_y columns."""

    names: tuple[str, str]  # the rows' variable and the columns'
    labels: tuple[Sequence[str], Sequence[str]]  # k_x and k_y values
    shares: F64  # (k_x, k_y): of the columns' values in each row; NaN where a row is too small
    reach: F64  # (k_x, k_y): how far the interval of each reaches to either side
    overall: F64  # (k_y,): the columns' shares in all rows together
    sure: NDArray[np.bool_]  # (k_x, k_y): which shares differ from the overall one

    def most(self, rows: int, columns: int) -> Cells:
        part = np.s_[:rows, :columns]
        return Cells(
            self.names,
            (self.labels[0][:rows], self.labels[1][:columns]),
            self.shares[part],
            self.reach[part],
            self.overall[:columns],
            self.sure[part],
        )

    @property
    def low(self) -> F64:
        """The lower ends of the intervals; a share is not below 0."""
        return np.clip(self.shares - self.reach, 0.0, 1.0)

    @property
    def high(self) -> F64:
        return np.clip(self.shares + self.reach, 0.0, 1.0)

    @property
    def departures(self) -> F64:
        return np.asarray(self.shares - self.overall)

    @cached_property
    def strengths(self) -> F64:
        """The opacity of each cell; 0 where it is not sure."""
        size = np.where(self.sure & np.isfinite(self.shares), np.abs(self.departures), 0.0)
        return np.asarray(STRONGEST * size / max(float(size.max(initial=0.0)), 1e-12))


def heat_map(name: str, caption: str, cells: Cells) -> Picture:
    """Draw the shares of the columns' values in each row; at most 30 rows and 16 columns, the first ones."""
    rows, columns = cells.shares.shape
    drawn = cells.most(MOST_ROWS, MOST_COLUMNS)
    if drawn.shares.shape != cells.shares.shape:
        caption = (
            f"{caption} The first {len(drawn.shares)} of {rows} rows, {drawn.shares.shape[1]} of {columns} columns."
        )
    places = [tuple(map(int, place)) for place in np.argwhere(cells.sure)]
    surest = sorted(places, key=lambda place: -abs(float(cells.departures[place])))[:10]
    named = " ".join(_sentence(cells, *place) for place in surest)
    alt = f"{len(places)} of {cells.shares.size} shares differ from those of all rows together. {named}".rstrip()
    return on_both_sheets(name, caption, alt, lambda sheet: _drawing(sheet, drawn))


def _sentence(cells: Cells, row: int, column: int) -> str:
    share, low, high = (float(array[row, column]) for array in (cells.shares, cells.low, cells.high))
    of = f"{cells.labels[1][column]} in {cells.labels[0][row]}"
    return f"{of}: {percent(share)} ({interval(percent)(low, high)}), in all {percent(float(cells.overall[column]))}."


def _drawing(sheet: Sheet, cells: Cells) -> str:
    rows, columns = cells.shares.shape
    row_names = sheet.names(cells.labels[0])
    left = 14 + max(map(sheet.text_width, (*row_names, OVERALL)))
    height_of_row = 2.9 * sheet.font
    top = (6.0 if sheet.is_narrow else 3.6) * sheet.font + 8
    x = Scale(0, columns, left, sheet.width - 8)
    y = Scale(0, rows, top, top + rows * height_of_row)
    chart = sheet.chart(y.stop + 1.5 * height_of_row + 8, x, y)
    chart.numbers["cursor"] = f"y {y.at(0.5):.1f} {y.at(rows - 0.5):.1f}"
    width = x.at(1) - x.at(0)
    _draw_key(chart, sheet, cells.names)
    room = max(int(width / (sheet.text_width("0"))) - 1, 1)
    for place, label in enumerate(sheet.names(cells.labels[1])):
        chart.text(x.at(place + 0.5), y.start - 0.9 * sheet.font, shortened(label, room), anchor="middle")
    for place, label in enumerate(row_names):
        chart.text(left - 6, y.at(place + 0.5), label, anchor="end")
        for column in range(columns):
            _draw_cell(chart, cells, place, column, has_text=width >= 5.4 * sheet.text_width("0"))
    below = y.stop + 0.9 * height_of_row
    chart.text(left - 6, below, OVERALL, MUTED, "end")
    if width >= 5.4 * sheet.text_width("0"):
        for column in range(columns):
            chart.text(x.at(column + 0.5), below, _short(float(cells.overall[column])), MUTED, "middle")
    if not sheet.is_narrow:
        chart.add(cursor_numbers(cells.labels[0], list(_series(cells))))
    return chart.svg()


def _series(cells: Cells) -> list[dict[str, object]]:
    columns = (percentages(array).T for array in (cells.shares, cells.low, cells.high))
    return [
        {"name": label, "share": share, "low": low, "high": high, "detected": sure, "unsure": ALIKE}
        for label, share, low, high, sure in zip(cells.labels[1], *columns, cells.sure.T, strict=True)
    ]


def _draw_cell(chart: Chart, cells: Cells, row: int, column: int, *, has_text: bool) -> None:
    left, right = chart.x.at(column) + 1, chart.x.at(column + 1) - 1
    top, bottom = chart.y.at(row) + 1, chart.y.at(row + 1) - 1
    box = f"M{left:.1f} {top:.1f}H{right:.1f}V{bottom:.1f}H{left:.1f}z"
    share = float(cells.shares[row, column])
    where = f'data-cell="{row} {column}"'
    middle, centre = (left + right) / 2, (top + bottom) / 2
    if not np.isfinite(share):
        chart.add(f'<path {where} d="{box}" fill="none" stroke="{FAINT}"/>')
        if has_text:
            chart.text(middle, centre, "too few", MUTED, "middle")
        return
    if cells.sure[row, column]:
        colour = BLUE if cells.departures[row, column] > 0 else VERMILION
        opacity = max(float(cells.strengths[row, column]), 0.08)
        chart.add(f'<path {where} d="{box}" fill="{colour}" fill-opacity="{opacity:.3f}" stroke="{colour}"/>')
    else:
        lines = _hatching(left, right, top, bottom)
        chart.add(f'<path {where} d="{box}" fill="none" stroke="{FAINT}"/><path d="{lines}" stroke="{FAINT}"/>')
    if has_text:
        ink = INK if cells.sure[row, column] else MUTED
        chart.text(middle, centre - 0.55 * chart.sheet.font, _short(min(max(share, 0.0), 1.0)), ink, "middle")
        chart.text(
            middle,
            centre + 0.6 * chart.sheet.font,
            f"\N{PLUS-MINUS SIGN}{100 * float(cells.reach[row, column]):.1f}",
            ink,
            "middle",
        )


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


def _draw_key(chart: Chart, sheet: Sheet, names: tuple[str, str]) -> None:
    box = "M0-6h16v12h-16z"
    filled = f'<path d="{box}" fill="{{0}}" fill-opacity="{STRONGEST}" stroke="{{0}}"/>'
    hatched = f'<path d="{box}" fill="none" stroke="{MUTED}"/><path d="{_hatching(0, 16, -6, 6)}" stroke="{MUTED}"/>'
    entries = (
        ("more than in all rows", filled.format(BLUE)),
        ("less", filled.format(VERMILION)),
        ("may be alike", hatched),
    )
    chart.text(10, 12, sheet.name(names[1]) + " in each " + sheet.name(names[0]), INK, extra='font-weight="bold"')
    left = chart.sheet.width - sum(34 + sheet.text_width(words) for words, _ in entries)
    x, y = (10, 12 + 1.7 * sheet.font) if sheet.is_narrow else (left, 12)
    chart.key(x, y, entries, 16)
