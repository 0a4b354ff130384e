"""Tables over a range of periods: what a metric of several variables says of each two of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Final

from overstory.analysis.association.linked import linked_cells
from overstory.analysis.association.linked_filters import TooFewReportsError, linked_filters
from overstory.analysis.association.picture import plot_height, plot_table
from overstory.analysis.association.summary import TableSummary
from overstory.analysis.association.table import TableEstimate, divided_tables, pair_table
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.selection import interval_words
from overstory.presentation.document import Block, Column, Heading, Lines
from overstory.presentation.render_data import csv_lines
from overstory.protocol.domains import StringTable, Table
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import Mechanism
from overstory.protocol.mechanisms.divided import DividedMechanism
from overstory.protocol.mechanisms.joint import JointMechanism
from overstory.queries.estimates import EstimateOptions, check_repeats, not_counted, parts_of
from overstory.queries.facts import HOW, NO_REPORTS, RangePart, RangeReading, note_lines, range_facts, range_sentences
from overstory.queries.readings import Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from overstory.analysis.reports import SupportCounts
    from overstory.analysis.selection import IntervalKind
    from overstory.protocol.metrics import Metric
    from overstory.queries.counts import PeriodCounts
    from overstory.queries.estimates import Aggregation

Learn = Callable[["Metric", "SupportCounts", float, "EstimateOptions"], list[TableEstimate]]
"""From a metric, its counts, reports per device and the options, `interval_kind` filled in, to its tables."""

MOST_CELLS: Final = 1 << 12
"""Cells of a table of candidates: the equations of more take too long."""

WIDTH: Final = ("row_variable", "row", "column_variable", "column")
CSV: Final = (
    *map(Column, ("from", "to", *WIDTH)),
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
"""The columns of a file of tables: shares are unbiased, but `reported`, which has none below 0 and adds up to 1."""


@dataclass(frozen=True, eq=False)
class PeriodTables(RangePart):
    """The tables of the periods `first` to `last`."""

    tables: tuple[TableSummary, ...]


@dataclass(frozen=True, eq=False)
class TableSeries(RangeReading):
    """The tables of a metric over a range of periods; `parts` is empty when there are no reports."""

    name: ClassVar[str] = "tables"

    counted: PeriodCounts  # what the tables are of
    kind: Aggregation  # of `parts`
    options: EstimateOptions  # with `interval_kind` filled in
    parts: tuple[PeriodTables, ...] = field(repr=False)  # in the order of their periods
    notes: tuple[str, ...] = ()  # what a reader must know before trusting the numbers

    def summary(self) -> dict[str, Any]:
        return range_facts(self.counted, self.kind, self.options.interval_kind, self.notes)

    def to_json(self, *, everything: bool = True) -> dict[str, Any]:  # noqa: ARG002 - all of it is shown
        parts = [{**self.part_facts(part), "tables": [table.to_json() for table in part.tables]} for part in self.parts]
        return {**self.summary(), "readings": parts}

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a dictionary per cell: the range, the two variables, and what is known of the cell."""
        for part in self.parts:
            for table in part.tables:
                first, second = table.table.names
                for row in table.rows():
                    yield {**self.ends(part), "row_variable": first, "column_variable": second, **row}

    def csv_lines(self) -> Iterator[str]:
        return csv_lines(CSV, ([row[column.name] for column in CSV] for row in self.rows()))

    def blocks(self, *, everything: bool = False, written: str | None = None) -> Iterator[Block]:
        for part in self.parts:
            if len(self.parts) > 1:
                yield Heading(2, str(self.counted.label(part.last)))
            for table in part.tables:
                if len(part.tables) > 1:
                    yield Heading(3, " and ".join(table.table.names))
                yield from table.blocks(everything=everything)
        notes = (*self.notes, *(note for part in self.parts for table in part.tables for note in table.table.notes))
        kind: Any = self.options.interval_kind
        yield Lines(
            *range_sentences(self.counted, f"learned {HOW[self.kind]}", interval_words(kind, self.options.adjustment)),
            *note_lines(self.counted, notes),
            *([] if written is None else [f"every cell: {written}"]),
        )

    def panels(self) -> tuple[list[Panel], str]:
        """Return a picture of the shares in each row for each table of the last range."""
        if not self.parts:
            return [], ""
        left_out = "the last range is shown" if len(self.parts) > 1 else ""
        tables = self.parts[-1].tables
        return [Panel(plot_height(table), _heat_map(table)) for table in tables], left_out


def read_tables(
    counted: PeriodCounts, kind: Aggregation = "total", options: EstimateOptions | None = None
) -> TableSeries:
    """Return what counts say of each two variables; intervals are of all devices like these, unless given."""
    chosen = options or EstimateOptions()
    _check(counted.metric, chosen)
    check_repeats(counted, kind, chosen)
    intervals: IntervalKind = chosen.interval_kind or "population"
    chosen = replace(chosen, interval_kind=intervals)
    learn = learner(counted.metric)
    parts, notes = [], []
    for first, last, counts, per_device in parts_of(counted, kind, chosen):
        try:
            tables = learn(counted.metric, counts, per_device, chosen)
        except TooFewReportsError as error:
            notes.append(f"{counted.label(last)}: {error}")
            continue
        parts.append(PeriodTables(first, last, per_device, tuple(_summary(table, chosen) for table in tables)))
    if notes and not parts:
        raise ParameterError(f"{counted.metric.id}: {notes[-1]}")
    notes = [*(notes if parts else [NO_REPORTS]), *not_counted(counted)]
    return TableSeries(counted, kind, chosen, tuple(parts), tuple(notes))


def _summary(table: TableEstimate, options: EstimateOptions) -> TableSummary:
    return TableSummary(table, alpha=options.alpha, correction=options.correction, adjustment=options.adjustment)


def _check(metric: Metric, options: EstimateOptions) -> None:
    plain = EstimateOptions()
    strings = isinstance(metric.domain, StringTable)
    of_strings = () if strings else (("candidates", "--candidates"), ("complete", "--complete"))
    for name, option in (*of_strings, ("steps", "--steps"), ("method", "--method")):
        if getattr(options, name) != getattr(plain, name):
            raise ParameterError(f"{metric.id} is read as a table: {option} does not apply")


def learner(metric: Metric) -> Learn:
    """Return what learns a metric's tables: one report of the cell is an oracle's, others are in `DESIGNS`."""
    if isinstance(metric.mechanism, Mechanism):
        return cell_tables
    learn = DESIGNS.get(metric.mechanism.payload)
    if learn is None:
        raise ParameterError(f"{metric.id}: no tables are learned from reports of {metric.mechanism.name}")
    return learn


def cell_tables(
    metric: Metric, counts: SupportCounts, per_device: float, options: EstimateOptions
) -> list[TableEstimate]:
    """Return the table of each two variables that are reported as one cell."""
    domain, kind = metric.domain, _intervals(options)
    if not isinstance(domain, Table):
        raise ParameterError(f"{metric.id} is no metric of several variables")
    oracle = FrequencyOracle(metric.oracle)
    estimate = oracle.estimate(counts, domain.labels, reports_per_device=per_device, interval_kind=kind)
    labels = [part.labels for part in domain.of]
    return [
        pair_table(metric.oracle, estimate, domain.names, labels, of=of, interval_kind=kind, other=domain.other)
        for of in combinations(range(len(labels)), 2)
    ]


def tables_of_divided(
    metric: Metric, counts: SupportCounts, per_device: float, options: EstimateOptions
) -> list[TableEstimate]:
    """Return the tables that devices were divided over; those of a table are a sample of all devices."""
    domain, mechanism = metric.domain, metric.mechanism
    if options.interval_kind != "population":
        raise ParameterError(
            f"{metric.id}: a table is answered by a part of the devices: ask for --interval population"
        )
    if not isinstance(domain, Table) or not isinstance(mechanism, DividedMechanism):
        raise ParameterError(f"{metric.id} is no metric of several tables")
    labels = [part.labels for part in domain.of]
    return divided_tables(mechanism, counts, domain.names, labels, reports_per_device=per_device, other=domain.other)


def tables_of_linked(
    metric: Metric, counts: SupportCounts, per_device: float, options: EstimateOptions
) -> list[TableEstimate]:
    """Return the table of two variables whose reports are linked; of strings, the candidates are looked for."""
    domain, mechanism = metric.domain, metric.mechanism
    if not isinstance(domain, Table | StringTable) or not isinstance(mechanism, JointMechanism):
        raise ParameterError(f"{metric.id} is no metric of two variables whose reports are linked")
    choices: dict[str, Any] = {
        "reports_per_device": per_device,
        "interval_kind": _intervals(options),
        "other": domain.other,
    }
    if isinstance(domain, Table):
        labels: Any = [part.labels for part in domain.of]
        return [linked_cells(mechanism, counts, domain.names, labels, **choices)]
    labels = value_lists(metric, domain, options.candidates)
    return [linked_filters(mechanism, counts, domain.names, labels, complete=options.complete, **choices)]


def value_lists(
    metric: Metric, domain: StringTable, candidates: tuple[str, ...] | None = None
) -> list[tuple[str, ...]]:
    """Return the values of each variable that are looked for; `candidates` are those of the one that takes strings."""
    lists = dict(zip(domain.names, metric.candidate_lists, strict=False))
    strings = [name for name, part in zip(domain.names, domain.of, strict=True) if part.size is None]
    if candidates is not None:
        if len(strings) > 1:
            raise ParameterError(
                f"{metric.id}: --candidates is one list, and {' and '.join(strings)} each take strings: name a file "
                "for each in the registry; candidates change no report, so stored ones can be read with other files"
            )
        lists[strings[0]] = candidates
    without = [name for name in strings if not lists.get(name)]
    if without:
        raise ParameterError(
            f"{metric.id}: {without[0]} has no candidates: name a file in the registry, as in of = "
            '[{kind = "strings", candidates = "FILE"}, ...]' + (", or give --candidates" if len(strings) == 1 else "")
        )
    labels = [part.labels or lists[name] or () for name, part in zip(domain.names, domain.of, strict=True)]
    if (cells := math.prod(map(len, labels))) > MOST_CELLS:
        raise ParameterError(
            f"{metric.id}: {' x '.join(str(len(each)) for each in labels)} = {cells:,} cells are too many, at most "
            f"{MOST_CELLS:,} are estimated: give shorter lists of candidates"
        )
    return labels


def _intervals(options: EstimateOptions) -> IntervalKind:
    return options.interval_kind or "population"


DESIGNS: Final[Mapping[str, Learn]] = {"divided": tables_of_divided, "linked": tables_of_linked}
"""What learns the tables of a mechanism that is no frequency oracle, by its `payload`."""


def _heat_map(summary: TableSummary) -> Callable[[Axes], None]:
    def draw(ax: Axes) -> None:
        plot_table(summary, ax)

    return draw
