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

    def to_json(self) -> dict[str, Any]:
        """Return the estimates and the facts to read them by, as JSON values."""
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
    "items": "overstory.queries.items:read_items",
    "table": "overstory.queries.tables:read_tables",
    "search": "overstory.queries.searches:read_search",
}
"""By `Metric.reading`: the function that reads such a metric; loaded when it is first used."""


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
    metric = counted.metric
    if metric.reading not in READINGS:
        raise ParameterError(f"{metric.id}: this version has no reading for {metric.reading}: upgrade overstory")
    module, _, function = READINGS[metric.reading].partition(":")
    reading: Reading = getattr(import_module(module), function)(counted, kind, options)
    return reading
