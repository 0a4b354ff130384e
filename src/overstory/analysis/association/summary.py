r"""All that is stated of one table, and how it is shown: as rows, JSON values, and blocks for a page or a terminal.

*The table to show* has shares that are not negative and add up to 1: the nearest ones to the unbiased cells, whose
errors are nearly alike. Intervals are never taken from it: they belong to the unbiased cells.

Where independence is not rejected, most of :math:`\Delta = P - a b'` is noise: before that it is shrunk by
:math:`1 - d / T`, d being the degrees of freedom of the test's statistic T.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.analysis.association.independence import (
    MOST_CELLS,
    SURE,
    Compared,
    Conditional,
    CramersV,
    Independence,
    compare_rows,
    conditional,
    cramers_v,
    depart,
    independence,
)
from overstory.analysis.postprocess import project_simplex
from overstory.analysis.selection import (
    Selected,
    adjusted_p_values,
    normal_reach,
    upper_p_values,
)
from overstory.presentation.charts.numbers import Cells
from overstory.presentation.document import Block, Column, Lines, Table
from overstory.presentation.formats import finite, interval, p_value, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from overstory.analysis.association.table import Marginal, TableEstimate
    from overstory.analysis.selection import F64, Correction
    from overstory.presentation.svg import Picture


@dataclass(frozen=True, eq=False)
class Reported:
    """A table to show, not negative and of sum 1, and how it came about."""

    shares: F64
    shrunk: float = 1.0  # what is left of the unbiased table's departure from independence: 1 where nothing was shrunk

    @property
    def note(self) -> str:
        made = "the shares shown are the nearest that are not negative and add up to 100%"
        if self.shrunk < 1.0:
            return (
                f"{made}; as independence is not rejected, they were first moved towards it "
                f"({self.shrunk:.0%} of the departure is left)"
            )
        return made


def reported(table: TableEstimate, tested: Independence | None) -> Reported:
    """Return the table to show."""
    if not table.num_reports:
        return Reported(np.full(table.shares.shape, 1.0 / table.shares.size))
    left, cells = 1.0, table.shares
    if tested is not None and not tested.rejected:
        left = max(1.0 - tested.degrees / tested.statistic, 0.0) if tested.statistic > 0 else 0.0
        product = np.outer(cells.sum(axis=1), cells.sum(axis=0))
        cells = product + left * (cells - product)
    return Reported(project_simplex(cells.ravel()).reshape(cells.shape), left)


WIDEST: Final = 8  # columns of a table that are shown side by side; a wider one is shown as a list of its largest cells
MOST_ROWS: Final = 40
ROW: Final = (
    *("row", "column", "share", "standard_error", "low", "high", "reported"),
    *("share_in_row", "share_in_row_low", "share_in_row_high"),
    *("plain_low", "plain_high", "q_value", "detected"),
)
"""What is known of a cell: its unbiased share with the interval, the share shown, and the share among its row.

`low` and `high` of a detected cell are wider for its selection; `plain_low` and `plain_high` are not.
"""


@dataclass(frozen=True, eq=False)
class TableSummary:
    """A table, the test of independence, the strength of the association, and the shares to show."""

    table: TableEstimate
    level: float = 0.95
    alpha: float = 0.05  # of the test of independence, and the false discovery rate of detected cells
    correction: Correction = "fdr"

    @cached_property
    def p_values(self) -> F64:
        """The chance that a cell that nobody is in looks at least this frequent, shape (k_x k_y,)."""
        return upper_p_values(self.table.shares.ravel(), self.table.standard_errors.ravel())

    @cached_property
    def selected(self) -> Selected:
        """Which cells are surely not empty, of all cells of the table, row by row."""
        chosen = np.asarray(adjusted_p_values(self.p_values, self.correction) <= self.alpha)
        return Selected(chosen, self.p_values, chosen.size)

    def interval(self) -> tuple[F64, F64]:
        shares, errors = self.table.shares.ravel(), self.table.standard_errors.ravel()
        low, high = self.selected.interval(errors, self.level, lambda reach: (shares - reach, shares + reach))
        return low.reshape(self.table.shares.shape), high.reshape(self.table.shares.shape)

    @cached_property
    def tested(self) -> Independence | None:
        return independence(self.table, self.alpha)

    @cached_property
    def v(self) -> CramersV | None:
        return cramers_v(self.table, self.tested, self.level)

    @cached_property
    def shown(self) -> Reported:
        return reported(self.table, self.tested)

    @cached_property
    def conditional(self) -> Conditional:
        return conditional(self.table)

    @cached_property
    def departing(self) -> NDArray[np.bool_]:
        return depart(self.table, self.alpha)

    @cached_property
    def compared(self) -> list[Compared]:
        """The differences of each row's shares from the largest row's, with intervals that all hold together."""
        largest, estimable = int(np.argmax(self.table.shares.sum(axis=1))), self.conditional.estimable
        if not estimable[largest]:
            return []
        columns = len(self.table.labels[1])
        number = (int(np.count_nonzero(estimable)) - 1) * (1 if columns == 2 else columns)
        return compare_rows(self.table, largest, 1 - self.alpha / max(number, 1))  # Bonferroni's

    @property
    def exceptions(self) -> list[str]:
        """The cells, and else the rows, that surely differ, by their values."""
        sure = np.argwhere(self.departing)
        (rows, columns), cells = self.table.labels, [(int(row), int(column)) for row, column in sure]
        found = [(rows[row], columns[column]) for row, column in cells]
        found = found or [(each.row, each.column) for each in self.compared if each.apart]
        return [f"{row} with {column}" for row, column in found]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a dictionary per cell, row by row, with the entries of `ROW`; None where nothing is estimable."""
        arrays = (
            *(self.table.shares, self.table.standard_errors, *self.interval(), self.shown.shares),
            *(self.conditional.shares, *self.conditional.interval(self.level), *self.table.interval(self.level)),
            adjusted_p_values(self.p_values, "fdr").reshape(self.table.shares.shape),
        )
        detected = self.selected.chosen.reshape(self.table.shares.shape)
        for (i, row), (j, column) in product(*(enumerate(labels) for labels in self.table.labels)):
            numbers = (finite(float(array[i, j])) for array in arrays)
            yield dict(zip(ROW, (row, column, *numbers, bool(detected[i, j])), strict=True))

    def to_json(self) -> dict[str, Any]:
        table = self.table
        return {
            "variables": list(table.names),
            "reports": table.num_reports,
            "interval": table.interval_kind,
            "level": self.level,
            "adjustment": "fcr",
            "independence": None if self.tested is None else self.tested.to_json(),
            "cramers_v": None if self.v is None else self.v.to_json(),
            "marginals": {
                name: self._marginal(labels, marginal)
                for name, labels, marginal in zip(table.names, table.labels, table.marginals, strict=True)
            },
            "cells": list(self.rows()),
            "notes": [*table.notes, self.shown.note],
        }

    def _marginal(self, labels: Sequence[str], marginal: Marginal) -> list[dict[str, Any]]:
        low, high = marginal.interval(self.level)
        columns = marginal.shares, marginal.standard_errors, low, high
        names = "share", "standard_error", "low", "high"
        numbers = [[finite(float(x)) for x in row] for row in zip(*columns, strict=True)]
        return [
            {"value": label, **dict(zip(names, row, strict=True))} for label, row in zip(labels, numbers, strict=True)
        ]

    def sentences(self) -> list[str]:
        first, second = self.table.names
        if not self.table.num_reports:
            return [f"there are no reports of {first} and {second}"]
        if self.tested is None:
            if self.table.shares.size <= MOST_CELLS:
                return ["there are too few reports for a test of independence"]
            return [f"{self.table.shares.size:,} cells are too many for a test of independence"]
        tested, lines = self.tested, []
        freedom = f"{tested.degrees} degree{'s' * (tested.degrees > 1)} of freedom"
        p = f"{tested.p_value:.3f}" if tested.p_value >= 0.001 else p_value(tested.p_value)
        how = f"chi-square {tested.statistic:,.1f} with {freedom}, p {p}"
        if tested.rejected:
            lines.append(f"{first} and {second} depend on each other: {how}")
        elif several := self.exceptions:
            named = ", ".join(several[:WIDEST]) + (", ..." if len(several) > WIDEST else "")
            lines.append(
                f"no sign that {first} and {second} depend on each other as a whole ({how}), but by themselves {named} "
                f"differ, which happens by chance in at most {2 * self.alpha:.0%} of tables without dependence"
            )
        else:
            lines.append(f"no sign that {first} and {second} depend on each other: {how}")
        seen = f"a Cramer's V of {tested.detectable:.2f} is detected 8 times in 10 with as many reports"
        lines.append(seen if tested.rejected else f"{seen}; a weaker association would mostly not have been seen")
        if tested.detectable >= 1:
            lines[-1] = "no association, however strong, is detected 8 times in 10 with so few reports"
        return [*lines, *self._strength(), *self._uncertain()]

    def _strength(self) -> Iterator[str]:
        if self.v is None:
            return
        if math.isnan(self.v.estimate):
            yield f"Cramer's V: at most {self.v.high:.2f} (0: independent, 1: one follows from the other)"
        else:
            ends = f"{self.v.low:.2f} to {self.v.high:.2f}"
            yield f"Cramer's V: {self.v.estimate:.2f} ({ends}; 0: independent, 1: one follows from the other)"
        for name, left_out in zip(self.table.names, self.v.left_out, strict=True):
            if left_out:
                yield f"Cramer's V leaves out {name} = {', '.join(left_out)}: too rare to tell"

    def _uncertain(self) -> Iterator[str]:
        unsure = [
            label for label, known in zip(self.table.labels[0], self.conditional.estimable, strict=True) if not known
        ]
        if unsure:
            several = ", ".join(unsure[:WIDEST]) + (", ..." if len(unsure) > WIDEST else "")
            yield (
                f"no shares of {self.table.names[1]} for {self.table.names[0]} = {several}: its own share is below "
                f"{SURE:g} standard errors"
            )

    def blocks(self, *, everything: bool = False) -> Iterator[Block]:
        """Return the shares, those in each row, and what they say; wide tables by their largest cells alone."""
        first, second = self.table.names
        if not self.table.num_reports:
            yield Lines(*self.sentences())
            return
        if len(self.table.labels[1]) <= WIDEST:
            yield self._cross(f"{second} in each {first}", self._shares_in_rows())
            yield self._cross(f"{first} and {second} together", self._shares_of_all(), "all")
        else:
            yield self._list(everything=everything)
        yield Lines(*self.sentences(), self.shown.note)

    def _cross(self, caption: str, cells: list[list[str]], *more: str) -> Table:
        first, _ = self.table.names
        headings = [first, *self.table.labels[1], *more]
        rows = [[label, *row] for label, row in zip(self.table.labels[0], cells, strict=True)]
        return Table.of_cells(caption, headings, rows, left=[first])

    def _shares_in_rows(self) -> list[list[str]]:
        low, high = self.conditional.interval(self.level)
        parts = np.clip(self.conditional.shares, 0.0, 1.0), low, high
        return [
            [
                "too few" if not known else f"{percent(share)} ({interval(percent)(a, b)})"
                for share, a, b in zip(*rows, strict=True)
            ]
            for known, *rows in zip(self.conditional.estimable, *parts, strict=True)
        ]

    def _shares_of_all(self) -> list[list[str]]:
        low, high = self.interval()
        cells = self.shown.shares, (high - low) / 2
        return [
            [*(f"{percent(share)} ± {percent(reach)}" for share, reach in zip(*row, strict=True)), total]
            for total, *row in zip(self._of_rows(), *cells, strict=True)
        ]

    def _of_rows(self) -> list[str]:
        """Return each row's share: the sum of what is shown, or what is known of it from other tables, too."""
        if self.table.own_shares is None:
            return [percent(share) for share in self.shown.shares.sum(axis=1)]
        own, level = self.table.own_shares[0], normal_reach(self.level)
        return [
            f"{percent(max(share, 0.0))} ± {percent(level * error)}"
            for share, error in zip(own.shares.tolist(), own.standard_errors.tolist(), strict=True)
        ]

    def _list(self, *, everything: bool) -> Table:
        rows = sorted(self.rows(), key=lambda row: -row["reported"])
        shown = rows if everything else rows[:MOST_ROWS]
        first, second = self.table.names
        caption = f"{first} and {second}" + (
            "" if len(shown) == len(rows) else f": {len(shown)} of {len(rows):,} cells"
        )
        return Table(
            caption,
            (
                Column("row", first, is_left=True),
                Column("column", second, is_left=True),
                Column("reported", "share", percent),
                Column("low", f"{self.level:.0%} interval", interval(percent), ("low", "high")),
                Column("share_in_row", f"share in its {first}", percent),
                Column(
                    "share_in_row_low", "its interval", interval(percent), ("share_in_row_low", "share_in_row_high")
                ),
            ),
            shown,
        )


def table_cells(summary: TableSummary) -> Cells:
    """Return the numbers of a table's picture."""
    table, given = summary.table, summary.conditional
    return Cells(
        table.names,
        table.labels,
        given.shares,
        normal_reach(summary.level) * given.standard_errors,
        table.marginals[1].shares,
        summary.departing & given.estimable[:, None],
    )


def table_picture(name: str, summary: TableSummary) -> Picture:
    """Return the picture of a table."""
    first, second = summary.table.names
    caption = (
        f"{second} in each {first}, in percent, with what {summary.level:.0%} intervals reach to either side. Coloured "
        f"shares differ from those of all rows together, at a false discovery rate of {100 * summary.alpha:.3g}%."
    )
    return table_cells(summary).picture(name, caption)
