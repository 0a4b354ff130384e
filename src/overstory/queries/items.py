"""Estimates of a metric of sets: the share of devices that have each item, and how many items a device has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, ClassVar, Final

from overstory.analysis.support.item_sets import ItemEstimate
from overstory.presentation.document import Lines
from overstory.protocol.errors import ParameterError
from overstory.queries.estimates import EstimateSeries, read_estimates

if TYPE_CHECKING:
    from overstory.presentation.document import Block
    from overstory.queries.counts import PeriodCounts
    from overstory.queries.estimates import Aggregation, EstimateOptions

MOST_SIZES: Final = 12
"""Ranges of which the mean size is written out, the last ones."""


class ItemSeries(EstimateSeries):
    """Estimates of items over a range of periods: shares that need not add up to 1, and the mean size of a set."""

    name: ClassVar[str] = "items"

    def blocks(self, *, everything: bool = False, written: str | None = None) -> Iterator[Block]:
        """Return the shares as one table, the facts to read it by, and the mean sizes; see `Reading`."""
        yield from super().blocks(everything=everything, written=written)
        if self.parts:
            yield Lines(*self.sizes())

    def sizes(self) -> Iterator[str]:
        """Yield the mean size of each of the last ranges in a sentence."""
        for part in self.parts[-MOST_SIZES:]:
            learned = part.estimate
            assert isinstance(learned, ItemEstimate)
            size = learned.mean_size
            low, high = size.interval(kind=learned.interval_kind)
            when = "" if self.kind == "total" else f" in {self.counted.label(part.last)}"
            yield (
                f"items of a device{when}: {size.mean:.2f} on average, 95% interval {low:.2f} to {high:.2f} "
                f"(of a larger set {size.most} count)"
            )


def read_items(
    counted: PeriodCounts, kind: Aggregation = "total", options: EstimateOptions | None = None
) -> ItemSeries:
    """Estimate the share of devices that have each item of a metric of sets; see `read_estimates`.

    Raises
    ------
    ParameterError
        When an option does not fit the metric, as post-processing does not: shares of items need not add up to 1.
    """
    if options is not None and options.steps:
        raise ParameterError(
            f"{counted.metric.id}: shares of items need not add up to 1, so post-processing does not fit them: "
            "leave it out"
        )
    series = read_estimates(counted, kind, options)
    return ItemSeries(**{part.name: getattr(series, part.name) for part in fields(series)})
