"""Readings: what is estimated of a metric, and how it is shown. Each kind of metric has one.

A reading of a new kind is a class with these methods, and a line in `READINGS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from overstory.presentation.document import Block
    from overstory.protocol.metrics import Metric
    from overstory.queries.counts import PeriodCounts
    from overstory.queries.estimates import Aggregation, EstimateOptions


@dataclass(frozen=True)
class Panel:
    """A part of a picture."""

    height: float  # in inches
    draw: Callable[[Axes], None]


class Reading(Protocol):
    """Estimates of one metric over a range of periods."""

    name: ClassVar[str]
    """What a file with it is called."""

    @property
    def metric(self) -> Metric:
        """The metric."""
        ...

    def to_json(self, *, everything: bool = True) -> dict[str, Any]:
        """Return the estimates, unless `everything` of detected values alone, and the facts to read them by."""
        ...

    def csv_lines(self) -> Iterable[str]:
        """Return a header and a line per estimate."""
        ...

    def blocks(self, *, everything: bool = False, written: str | None = None) -> Iterable[Block]:
        """Return what a person reads; `everything`: not only what was detected; `written`: a file that has it all."""
        ...

    def panels(self) -> tuple[list[Panel], str]:
        """Return the parts of a picture, and what is left out; none without reports."""
        ...


NUMBERS: Final = ("numbers:read_numbers", "numbers:compare_numbers")
READINGS: Final[Mapping[str, tuple[str, str]]] = {
    "shares": ("estimates:read_estimates", "comparison:compare_ranges"),
    "items": ("estimates:read_items", "comparison:compare_ranges"),
    "table": ("tables:read_tables", "comparison:compare_tables"),
    "search": ("searches:read_search", "searches:compare_searches"),
    "mean": NUMBERS,
    "distribution": NUMBERS,
    "ranges": NUMBERS,
}
"""By `Metric.reading`: the functions that read such a metric, and that compare two ranges of periods of it.

Each is loaded when it is first used.
"""


class RangeComparison(Protocol):
    """What changed between two ranges of periods."""

    @property
    def a(self) -> PeriodCounts:
        """The counts of the first range."""
        ...

    @property
    def b(self) -> PeriodCounts:
        """The counts of the second."""
        ...

    def to_json(self, *, everything: bool = True) -> dict[str, Any]:
        """Return the differences, unless `everything` of changed values alone, and the facts to read them by."""
        ...

    def csv_lines(self) -> Iterable[str]:
        """Return a header and a line per difference."""
        ...

    def blocks(self, limit: int | None = None) -> Iterable[Block]:
        """Return what a person reads; at most `limit` rows where there are many."""
        ...


def read(counted: PeriodCounts, kind: Aggregation = "total", options: EstimateOptions | None = None) -> Reading:
    """Return the reading of a metric from its counts; ParameterError where there is none or an option does not fit."""
    _check_ranges(counted.metric, options)
    reading: Reading = _function(counted.metric, 0)(counted, kind, options)
    return reading


def compare(
    a: PeriodCounts, b: PeriodCounts, options: EstimateOptions | None = None, *, overlap: float = 0.0
) -> RangeComparison:
    """Return what changed between two ranges of periods, `a` less `b`; see `compare_ranges`."""
    _check_ranges(a.metric, options)
    compared: RangeComparison = _function(a.metric, 1)(a, b, options, overlap=overlap)
    return compared


def _check_ranges(metric: Metric, options: EstimateOptions | None) -> None:
    if options is not None and options.ranges and metric.reading != "ranges":
        raise ParameterError(
            f"{metric.id} is not collected by ranges: --range {options.ranges[0]} does not apply to it"
        )


def _function(metric: Metric, place: int) -> Any:
    if metric.reading not in READINGS:
        raise ParameterError(f"{metric.id}: this version has no reading for {metric.reading}: upgrade overstory")
    module, _, function = READINGS[metric.reading][place].partition(":")
    return getattr(import_module(f"overstory.queries.{module}"), function)
