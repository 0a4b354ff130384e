"""Answers about a range of periods as text, a piece at a time: a long one is never in memory as one.

The pieces of estimates are computed one by one, where the caller runs them: another process, for example.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from overstory.analysis.alarms.sums import Watch
from overstory.analysis.support.registry import server_half
from overstory.analysis.tables.output import Row, file_columns, records
from overstory.presentation.document import Column
from overstory.presentation.render_data import csv_lines, csv_records, for_spreadsheet
from overstory.protocol.errors import ParameterError
from overstory.queries.estimates import estimate_counts, read_estimates
from overstory.queries.readings import EstimateOptions, read

if TYPE_CHECKING:
    from overstory.analysis.estimate import Estimate
    from overstory.analysis.reports import SupportCounts
    from overstory.protocol.metrics import Metric
    from overstory.queries.counts import PeriodCounts
    from overstory.queries.readings import Aggregation

Form = Literal["json", "csv", "spreadsheet"]

MOST_CELLS: Final = 1_400_000
"""Numbers in one answer of estimates: rows times columns. As JSON that is about 40 MB."""
MOST_COUNTS: Final = 10_000_000
"""Counts in one answer, or behind one: periods times cohorts times bits. As JSON that is about 60 MB."""


class TooLargeError(ParameterError):
    """An answer would have too many numbers; the message says what to ask instead."""


def check_counts(metric: Metric, periods: int) -> None:
    """Refuse to read the counts of so many periods where these are too many numbers."""
    watch = Watch.of(metric.mechanism)
    each = server_half(metric.mechanism).num_counts(metric.labels) + (0 if watch is None else watch.num_sums)
    if periods * each > MOST_COUNTS:
        raise TooLargeError(
            f"{periods:,} periods of {each:,} counts of {metric.id} are {periods * each:,} numbers, and an answer "
            f"rests on at most {MOST_COUNTS:,}: ask for at most {MOST_COUNTS // each:,} periods (from=, to=), or run "
            "overstory decode --store"
        )


def check_cells(values: int, ranges: int, limit: int | None) -> None:
    """Refuse an answer of so many values for so many ranges of periods where it would be too large."""
    columns = len(Row._fields)
    rows = ranges * min(values, limit or values)
    if rows * columns > MOST_CELLS:
        each = MOST_CELLS // columns // ranges
        fewer = f", for the {each:,} most frequent values of each (limit={each})" if each else ""
        total = ", or for one estimate of all of them (reading=total)" if ranges > 1 else ""
        raise TooLargeError(
            f"{rows // ranges:,} values in {ranges:,} ranges make an answer of {rows * columns:,} cells, and the most "
            f"is {MOST_CELLS:,}: ask for fewer periods at once (from=, to=){fewer}{total}"
        )


@dataclass(frozen=True, eq=False)
class Deferred:
    """An estimate that is yet to be computed: the arguments of `estimate_counts`."""

    metric: Metric
    counts: SupportCounts
    per_device: float
    options: EstimateOptions
    names: Sequence[str]

    def compute(self) -> Estimate:
        """Return the estimate."""
        return estimate_counts(self.metric, self.counts, self.per_device, self.options, self.names)


@dataclass(frozen=True)
class Shape:
    """How estimates are written: the form, at most so many values of each range, the level of the intervals."""

    form: Form = "json"
    limit: int | None = None
    level: float = 0.95


@dataclass(frozen=True, eq=False)
class Piece:
    """One range of an answer; `text` computes it."""

    ends: dict[str, Any]
    deferred: Deferred
    shape: Shape

    def text(self) -> str:
        """Return the range as JSON, or as lines of CSV."""
        estimate, shape = self.deferred.compute(), self.shape
        if shape.form == "json":
            about = {**self.ends, "reports_per_device": self.deferred.per_device}
            return _json({**about, **estimate.to_json(shape.limit, shape.level)})
        ends = self.ends.values()
        lines = csv_records((*ends, *record) for record in records(estimate, shape.limit, shape.level))
        return "".join(lines if shape.form == "csv" else for_spreadsheet(lines))


@dataclass(frozen=True, eq=False)
class Answer:
    """What is written before the pieces, the pieces, what is written between two of them, and after the last."""

    head: str
    pieces: Sequence[Piece]
    between: str
    tail: str

    @property
    def num_values(self) -> int:
        """Values of all pieces together: how long computing them takes."""
        return sum(len(piece.deferred.names) for piece in self.pieces)


def estimates_answer(counted: PeriodCounts, reading: Aggregation, options: EstimateOptions, shape: Shape) -> Answer:
    """Return an answer whose pieces are not computed yet; TooLargeError when it would have too many cells."""
    if counted.metric.reading == "table":
        # As `decode` gives it: level and limit are the reading's own.
        tables = read(counted, reading, options)
        lines = [_json(tables.to_json())] if shape.form == "json" else tables.csv_lines()
        return Answer("".join(for_spreadsheet(lines) if shape.form == "spreadsheet" else lines), (), "", "")
    chosen = options.candidates if options.candidates is not None else counted.metric.labels
    ranges = min(1, len(counted.periods)) if reading == "total" else len(counted.periods)
    check_cells(len(chosen), ranges, shape.limit)

    def later(*arguments: Any) -> Any:
        return Deferred(*arguments)

    series = read_estimates(counted, reading, options, estimator=later)
    pieces = [Piece(series.ends(part), part.estimate, shape) for part in series.parts]
    if shape.form == "json":
        about = {**series.summary(), "checks": [check.to_json() for check in series.checks], "level": shape.level}
        return Answer(f'{_json(about)[:-1]},"readings":[', pieces, ",", "]}")
    columns = (Column("from"), Column("to"), *file_columns(shape.level, options.adjustment))
    return Answer("".join(csv_lines(columns, ())), pieces, "", "")


def counts_text(counted: PeriodCounts, form: Form) -> Iterator[str]:
    """Yield the counts as text, a period at a time."""
    if form != "json":
        yield from counted.csv_lines() if form == "csv" else for_spreadsheet(counted.csv_lines())
        return
    yield f'{_json(counted.summary_json())[:-1]},"periods":['
    for number, period in enumerate(counted.periods):
        yield ("," if number else "") + _json(counted.period_json(period))
    yield f'],"other_parameters":{_json(counted.others_json())}}}'


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
