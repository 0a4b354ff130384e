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


READINGS: Final[Mapping[str, str]] = {
    "shares": "overstory.queries.estimates:read_estimates",
    "items": "overstory.queries.estimates:read_items",
    "table": "overstory.queries.tables:read_tables",
    "search": "overstory.queries.searches:read_search",
    "mean": "overstory.queries.numbers:read_numbers",
    "distribution": "overstory.queries.numbers:read_numbers",
    "ranges": "overstory.queries.numbers:read_numbers",
}
"""By `Metric.reading`: the function that reads such a metric; loaded when it is first used."""


COMPARISONS: Final[Mapping[str, str]] = {
    "shares": "overstory.queries.comparison:compare_ranges",
    "items": "overstory.queries.comparison:compare_ranges",
    "table": "overstory.queries.comparison:compare_tables",
    "search": "overstory.queries.searches:compare_searches",
    "mean": "overstory.queries.numbers:compare_numbers",
    "distribution": "overstory.queries.numbers:compare_numbers",
    "ranges": "overstory.queries.numbers:compare_numbers",
}
"""By `Metric.reading`: the function that compares two ranges of periods; loaded when it is first used."""


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
    """Return the reading of a metric from its counts.

    Parameters
    ----------
    counted
        The counts of a range of periods, from `read_store` or `read_remote`.
    kind
        One estimate of the range, one of each period, or cumulative ones.
    options
        The options; None: the defaults of `EstimateOptions`.

    Raises
    ------
    ParameterError
        When there is no such reading, or an option does not fit the metric.

    Examples
    --------
    >>> from overstory.protocol.metrics import parse_registry
    >>> from overstory.protocol.metrics.registry import EXAMPLE
    >>> from overstory.queries.counts import PeriodCounts
    >>> read(PeriodCounts(parse_registry(EXAMPLE)["colour"], None, None, {})).to_json()["readings"]
    []
    """
    _check_ranges(counted.metric, options)
    reading: Reading = _function(READINGS, counted.metric)(counted, kind, options)
    return reading


def compare(
    a: PeriodCounts, b: PeriodCounts, options: EstimateOptions | None = None, *, overlap: float = 0.0
) -> RangeComparison:
    """Return what changed between two ranges of periods, `a` less `b`; see `compare_ranges`.

    Raises
    ------
    ParameterError
        When ranges of such a metric are not compared, or these cannot be.
    """
    _check_ranges(a.metric, options)
    compared: RangeComparison = _function(COMPARISONS, a.metric)(a, b, options, overlap=overlap)
    return compared


def _check_ranges(metric: Metric, options: EstimateOptions | None) -> None:
    if options is not None and options.ranges and metric.reading != "ranges":
        raise ParameterError(
            f"{metric.id} is not collected by ranges: --range {options.ranges[0]} does not apply to it"
        )


def _function(table: Mapping[str, str], metric: Metric) -> Any:
    if metric.reading not in table:
        what = "reading for" if table is READINGS else "comparison of"
        raise ParameterError(f"{metric.id}: this version has no {what} {metric.reading}: upgrade overstory")
    module, _, function = table[metric.reading].partition(":")
    return getattr(import_module(module), function)
