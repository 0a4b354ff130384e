"""Tables over a range of periods: what a metric of several variables says of each two of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.association.summary import TableSummary, table_picture
from overstory.analysis.association.table import TableEstimate, divided_tables, pair_table
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.reports import SupportCounts
from overstory.presentation.document import Block, Column, Heading
from overstory.presentation.svg import Picture
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import Metric
from overstory.queries.comparison import Comparison, check_comparable, compared, less
from overstory.queries.counts import PeriodCounts
from overstory.queries.readings import (
    PLAIN,
    Aggregation,
    EstimateOptions,
    PeriodEstimate,
    RangeReading,
    estimate_parts,
    range_notes,
)

if TYPE_CHECKING:
    F64 = NDArray[np.float64]

COLUMNS: Final = (
    *map(Column, ("row_variable", "row", "column_variable", "column")),
    Column("share", csv="proportion"),
    Column("standard_error", csv="prop_std_error"),
    Column("low", csv="prop_low_95"),
    Column("high", csv="prop_high_95"),
    *map(Column, ("reported", "share_in_row")),
    Column("share_in_row_low", csv="share_in_row_low_95"),
    Column("share_in_row_high", csv="share_in_row_high_95"),
    Column("plain_low", csv="prop_plain_low_95"),
    Column("plain_high", csv="prop_plain_high_95"),
    *map(Column, ("q_value", "detected")),
)
"""Columns after those of the range: shares are unbiased, but `reported`, which has none below 0 and adds up to 1."""


class TableSeries(RangeReading):
    """The tables of a metric over a range of periods: each part's estimate is a tuple of `TableSummary`."""

    stem: ClassVar[str] = "tables"
    every: ClassVar[str] = "cell"
    how: ClassVar[str] = "learned"
    most_drawn: ClassVar[int] = 1

    def part_json(self, part: PeriodEstimate, *, everything: bool) -> dict[str, Any]:  # noqa: ARG002 - all of it is shown
        return {"tables": [table.to_json() for table in part.estimate]}

    def columns(self, level: float) -> Sequence[Column]:  # noqa: ARG002 - they have one level
        return COLUMNS

    def records(self, part: PeriodEstimate, level: float) -> Iterable[Sequence[Any]]:  # noqa: ARG002
        for table in part.estimate:
            variables = dict(zip(("row_variable", "column_variable"), table.table.names, strict=True))
            for row in table.rows():
                yield [(variables | row)[column.name] for column in COLUMNS]

    def tables(self, *, everything: bool) -> Iterator[Block]:
        for part in self.parts:
            if len(self.parts) > 1:
                yield Heading(2, str(self.counted.label(part.last)))
            for table in part.estimate:
                if len(part.estimate) > 1:
                    yield Heading(3, " and ".join(table.table.names))
                yield from table.blocks(everything=everything)

    def part_notes(self, part: PeriodEstimate) -> Iterable[str]:
        return (note for table in part.estimate for note in table.table.notes)

    def part_pictures(self, part: PeriodEstimate) -> Iterator[Picture]:
        for number, summary in enumerate(part.estimate, start=1):
            if summary.table.num_reports:
                picture = table_picture(f"{self.picture_name(part)}-{number}", summary)
                yield replace(picture, caption=self.caption(part, picture.caption))


def read_tables(counted: PeriodCounts, kind: Aggregation = "total", options: EstimateOptions = PLAIN) -> TableSeries:
    """Return what counts say of each two variables; intervals are of all devices like these, unless given."""
    metric = counted.metric
    chosen = replace(options, interval_kind=options.interval_kind or "population")

    def summarize(counts: SupportCounts, per_device: float) -> tuple[TableSummary, ...]:
        tables = tables_of(metric, counts, per_device, chosen)
        return tuple(TableSummary(table, alpha=chosen.alpha, correction=chosen.correction) for table in tables)

    parts = estimate_parts(counted, kind, chosen, summarize)
    return TableSeries(counted, kind, chosen, parts, range_notes(counted, ()))


def tables_of(
    metric: Metric, counts: SupportCounts, per_device: float, options: EstimateOptions
) -> list[TableEstimate]:
    """Return the table of each two variables: of one cell that is reported, or of a part of the devices for each."""
    domain: Any = metric.domain
    mechanism: Any = metric.mechanism
    kind, labels = options.interval_kind or "population", [part.labels for part in domain.of]
    if mechanism.payload == "divided":
        if kind != "population":
            raise ParameterError(
                f"{metric.id}: a table is answered by a part of the devices: ask for --interval population"
            )
        return divided_tables(mechanism, counts, domain.names, labels, reports_per_device=per_device)
    oracle = FrequencyOracle(metric.oracle)
    estimate = oracle.estimate(counts, domain.labels, reports_per_device=per_device, interval_kind=kind)
    return [
        pair_table(metric.oracle, estimate, domain.names, labels, of=of, interval_kind=kind)
        for of in combinations(range(len(labels)), 2)
    ]


def compare_tables(a: PeriodCounts, b: PeriodCounts, options: EstimateOptions = PLAIN) -> Comparison:
    """Return the differences of cells and of shares in rows; a row too small in one of the ranges has none."""
    check_comparable(a, b)
    series = [read_tables(counted, "total", options) for counted in (a, b)]
    summaries = [each.parts[0].estimate for each in series]
    labels, columns, left_out = [], [], []
    for first, second in zip(*summaries, strict=True):
        names, numbers, without = _table_shares(first, second)
        labels += names
        columns.append(numbers)
        left_out += without
    shares, errors = np.split(np.concatenate(columns, axis=1), 2)
    notes = [*series[0].notes, *series[1].notes, *(note for each in series for note in each.part_notes(each.parts[0]))]
    if left_out:
        notes.append(f"no shares in the rows {', '.join(left_out)}: too few reports in one of the ranges")
    both = less(labels, shares, errors, (a.num_reports, b.num_reports), options)
    return compared(a, b, both, notes)


def _table_shares(first: TableSummary, second: TableSummary) -> tuple[list[str], F64, list[str]]:
    (row, column), (rows, columns) = first.table.names, first.table.labels
    names = [f"{row}={x}, {column}={y}" for x, y in product(rows, columns)]
    cells = [each.table for each in (first, second)]
    known = first.conditional.estimable & second.conditional.estimable
    given = [each.conditional for each in (first, second)]
    names += [f"{column}={y} in {row}={x}" for x, y in product(np.array(rows, object)[known], columns)]
    numbers = [
        np.concatenate((getattr(cell, what).ravel(), getattr(part, what)[known].ravel()))
        for what in ("shares", "standard_errors")
        for cell, part in zip(cells, given, strict=True)
    ]
    return names, np.stack(numbers), [f"{row}={x}" for x, is_known in zip(rows, known, strict=True) if not is_known]
