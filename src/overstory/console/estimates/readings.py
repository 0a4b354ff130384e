"""Readings of other kinds than shares, computed by the process that decodes: tables, sets, numbers, searches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from overstory.protocol.errors import ParameterError
from overstory.protocol.sampling import context

if TYPE_CHECKING:
    from overstory.analysis.reports import ReportBatch
    from overstory.queries.counts import PeriodCounts
    from overstory.queries.estimates import Aggregation, EstimateOptions
    from overstory.queries.readings import Reading


MOST_ANSWERS: Final = 5_000_000
"""Answers that a page searches; they go to the process through memory."""


@dataclass(frozen=True, eq=False)
class Answers:
    """Stored reports, as the process gets them."""

    batches: tuple[ReportBatch, ...]

    def __call__(self) -> Iterator[ReportBatch]:
        """Yield the reports."""
        return iter(self.batches)


@dataclass(frozen=True, eq=False)
class ReadingWork:
    """What the process does."""

    counted: PeriodCounts
    kind: Aggregation
    options: EstimateOptions

    def __call__(self) -> Reading:
        """Return the reading."""
        from overstory.queries.readings import read

        reading: Any = read(self.counted, self.kind, self.options)
        if self.counted.reports is None:
            return reading  # type: ignore[no-any-return]
        return replace(reading, counted=replace(self.counted, reports=None))  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class ReadingTask:
    """What a reading is computed from; `key` is equal where all of it is."""

    counted: PeriodCounts
    kind: Aggregation
    options: EstimateOptions
    key: bytes

    @property
    def shared(self) -> tuple[()]:
        """Nothing is shared with other tasks."""
        return ()

    @property
    def work(self) -> ReadingWork:
        """What the process does; the answers to a search go with it.

        Raises
        ------
        ParameterError
            When there are too many answers for a page.
        """
        counted = self.counted
        if counted.metric.reading != "search" or counted.reports is None:
            return ReadingWork(replace(counted, reports=None), self.kind, self.options)
        if counted.num_reports > MOST_ANSWERS:
            raise ParameterError(
                f"{counted.num_reports:,} answers are too many for a page, which searches {MOST_ANSWERS:,}; run: "
                f"overstory decode --registry FILE --store URL --metric {counted.metric.id}"
            )
        return ReadingWork(replace(counted, reports=Answers(tuple(counted.reports()))), self.kind, self.options)

    def finished(self, result: Any) -> Any:
        """Return the process's answer as it is kept."""
        return result


def reading_task(counted: PeriodCounts, kind: Aggregation, options: EstimateOptions) -> ReadingTask:
    """Return the task of a reading."""
    metric = counted.metric
    about = counted.first, counted.last, counted.others, counted.group, counted.released
    rest = repr((kind, options, *about, metric.candidate_lists))
    key = hashlib.blake2b(context(metric.digest.hex(), rest, *map(str, metric.labels or ())), digest_size=16)
    for period in counted.periods:
        counts = counted.counts[period]
        key.update(f"{period} {counts.ones.shape}".encode())
        key.update(counts.totals.tobytes())
        key.update(counts.ones.tobytes())
    return ReadingTask(counted, kind, options, key.digest())
