"""Two ranges of periods of one metric, compared: what changed, by how much, and what could have been missed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.difference import Difference, difference
from overstory.presentation.document import Block, Column, Table
from overstory.presentation.formats import plural
from overstory.presentation.result import Result
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import Metric
from overstory.queries.counts import PeriodCounts, parse_range
from overstory.queries.estimates import EstimateSeries, read_estimates
from overstory.queries.readings import PLAIN, EstimateOptions, reading_function

if TYPE_CHECKING:
    from overstory.presentation.svg import Picture

    F64 = NDArray[np.float64]

SHARED_NOISE: Final = (
    "devices that report in both ranges and keep their values share noise: the intervals are then too long, never too "
    "short"
)

FRESH: Final = (
    "devices may have answered in both ranges, each time with noise of its own: as far as they keep their values, the "
    "intervals are too long; only where devices avoid the value that they had are they too short"
)

MOVED: Final = (
    "in one period, a device is in one group; one that moves from one to the other shares noise with itself, and the "
    "intervals are then too long, never too short"
)

CSV: Final = tuple(
    map(
        Column,
        (
            *("value", "a", "b", "difference", "standard_error"),
            *("low", "high", "p_value", "q_value", "changed", "interval"),
            *("adjustment", "plain_low", "plain_high"),
        ),
    )
)
"""The columns of a file of differences: shares, and the interval and error of their difference."""


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """What is learned of a metric in one range of periods less that in another: shares of values, or numbers."""

    stem: ClassVar[str] = "comparison"

    a: PeriodCounts
    b: PeriodCounts
    difference: Any  # a `Difference`, or of numbers a `NumberDifferences`
    notes: tuple[str, ...] = ()

    @property
    def metric(self) -> Metric:
        return self.a.metric

    def to_json(self, *, everything: bool = True) -> dict[str, Any]:
        """Return JSON values: both ranges, the overall test, and a difference for each value, or each that changed."""
        built = self.metric.mechanism
        return {
            "metric": self.metric.id,
            "title": self.metric.title,
            "oracle": built.name,
            "digest": built.digest.hex(),
            "a": _span_json(self.a),
            "b": _span_json(self.b),
            **self.difference.to_json(everything=everything),
            "notes": list(self.notes),
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return a dictionary per value, the surest difference first; unknown numbers are None."""
        rows: list[dict[str, Any]] = self.difference.rows()
        return rows

    def as_table(self) -> Table:
        table = super().as_table()
        columns = CSV if isinstance(self.difference, Difference) else table.columns
        return replace(table, caption="Every difference", columns=columns)

    def tables(self, *, everything: bool, **more: Any) -> Iterator[Block]:
        """Yield the table, what changed, and what to read it by; see `Difference.blocks`."""
        yield from replace(self.difference, notes=self.notes).blocks(everything=everything, **more)

    def all_notes(self) -> tuple[str, ...]:
        return ()  # what is shown has them

    def pictures(self) -> list[Picture]:
        pictures: list[Picture] = self.difference.pictures()
        return pictures

    def sentences(self) -> Iterator[str]:
        for name, counted in (("a", self.a), ("b", self.b)):
            group = "" if counted.group is None else f"group {counted.group}, "
            ends = f"from {counted.label(counted.first)} to {counted.label(counted.last)}"
            yield f"{name}: {group}{plural(counted.num_reports, 'report')} {ends}"


def _span_json(counted: PeriodCounts) -> dict[str, Any]:
    return {
        **({} if counted.group is None else {"group": counted.group}),
        "from": counted.label(counted.first),
        "to": counted.label(counted.last),
        "reports": counted.num_reports,
        "periods_with_reports": len(counted.periods),
        **counted.devices_json(),
    }


def parse_span(metric: Metric, text: str) -> tuple[int, int]:
    """Return the numbers of the first and last period of a range such as ``2026-W40..2026-W43``, or of one label."""
    first, dots, last = text.partition("..")
    if not first or (dots and not last):
        number = metric.period.number(1_790_000_000)
        example = f"{metric.period.label(number - 3)}..{metric.period.label(number)}"
        raise ParameterError(f"{text!r} is no range of periods: give FIRST..LAST, such as {example}")
    start, end = parse_range(metric, first, last or first)
    assert start is not None
    assert end is not None
    return start, end


def check_apart(metric: Metric, a: tuple[int, int], b: tuple[int, int]) -> None:
    """Refuse two ranges that have a period in common: its reports would be compared with themselves."""
    if a[0] <= b[1] and b[0] <= a[1]:
        label = metric.period.label(max(a[0], b[0]))
        raise ParameterError(f"both ranges hold {label}: its reports would be compared with themselves")


def compare(a: PeriodCounts, b: PeriodCounts, options: EstimateOptions = PLAIN) -> Comparison:
    """Return what changed between two ranges of periods of a metric of any kind; see `compare_ranges`."""
    both: Comparison = reading_function(a.metric, 1, options)(a, b, options)
    return both


def compare_ranges(a: PeriodCounts, b: PeriodCounts, options: EstimateOptions = PLAIN) -> Comparison:
    """Return the shares of one range less those of another."""
    if options.steps:
        raise ParameterError("differences are of unbiased shares: post-processing steps have no effect on them")
    check_comparable(a, b)
    chosen = replace(options, interval_kind=options.interval_kind or "population")
    return compare_series(*(read_estimates(counted, "total", chosen) for counted in (a, b)))


def check_comparable(a: PeriodCounts, b: PeriodCounts) -> None:
    """Refuse ranges with a common period, without reports, or with reports of other parameters."""
    for counted in (a, b):
        for other in counted.others:
            raise ParameterError(
                f"{counted.metric.id} has {other.reports:,} reports from {counted.label(other.first)} to "
                f"{counted.label(other.last)} that were made with the parameters {other.digest.hex()}, and this "
                f"registry has {counted.metric.mechanism.digest.hex()}: such reports mean something else, and cannot "
                "be compared"
            )
        if not counted.num_reports:
            raise ParameterError(
                f"{_words(counted)} has no reports of {counted.metric.id}: there is nothing to compare"
            )
    if not _two_groups(a, b):
        spans = [(counted.periods[0], counted.periods[-1]) for counted in (a, b)]
        check_apart(a.metric, *spans)


def _two_groups(a: PeriodCounts, b: PeriodCounts) -> bool:
    return a.group is not None and b.group is not None and a.group != b.group


def compared(a: PeriodCounts, b: PeriodCounts, both: Any, notes: Iterable[str]) -> Comparison:
    """Return a comparison with its notes, each once, and what devices that are in both ranges do to the errors."""
    if a.metric.panel is None:
        of_both = [MOVED if _two_groups(a, b) else SHARED_NOISE]
    else:
        of_both = [FRESH] if a.most_reports([*{*a.periods, *b.periods}]) > 1 else []
    return Comparison(a, b, both, tuple(dict.fromkeys((*notes, *of_both))))


def compare_series(a: EstimateSeries, b: EstimateSeries) -> Comparison:
    """Return the total of one range less that of another, whose counts `check_comparable` has seen."""
    first, second = (series.parts[0].estimate for series in (a, b))
    kind, alpha = a.interval_kind, a.options.alpha
    both = difference(first, second, interval_kind=kind, alpha=alpha)
    notes = (*a.notes, *b.notes, *first.notes, *second.notes, *both.notes)
    return compared(a.counted, b.counted, both, notes)


def less(values: list[str], shares: F64, errors: F64, reports: tuple[int, int], options: EstimateOptions) -> Difference:
    """Return the shares of one range less those of another, from different devices."""
    return Difference(
        values=values,
        differences=shares[0] - shares[1],
        standard_errors=np.hypot(errors[0], errors[1]),
        num_reports=reports,
        interval_kind=options.interval_kind or "population",
        alpha=options.alpha,
        first=shares[0],
        second=shares[1],
    )


def _words(counted: PeriodCounts) -> str:
    first, last = counted.label(counted.first), counted.label(counted.last)
    of = "" if counted.group is None else f"the group {counted.group} in "
    return f"{of}{first}" if first == last else f"{of}the range from {first} to {last}"
