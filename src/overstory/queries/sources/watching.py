"""Sums of reports, by which crafted ones are noticed, as a job of an engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from overstory.analysis.alarms.sums import PAIR_REPORTS, ReportSums, Watch, symmetric
from overstory.analysis.reports import SupportCounts
from overstory.engines.units import Job

if TYPE_CHECKING:
    from overstory.analysis.reports import ReportBatch
    from overstory.engines.units import Unit, Values


@dataclass(frozen=True)
class SumsJob(Job):
    """Sums the reports of each unit; the sums travel and are added as one row of counts."""

    @property
    def watch(self) -> Watch | None:
        """What is summed; None where nothing is."""
        return Watch.of(self.mechanism(), self.asked or ())

    def count(self, batch: ReportBatch, values: Values | None = None) -> SupportCounts:  # noqa: ARG002 - not divided
        """Sum a batch."""
        return self._sum(batch, PAIR_REPORTS)

    def counting(self, unit: Unit) -> Callable[[ReportBatch], SupportCounts]:
        """Return what sums the batches of a unit, which look for pairs in its first reports alone."""
        left = unit.watched

        def sum_next(batch: ReportBatch) -> SupportCounts:
            nonlocal left
            summed = self._sum(batch, left)
            left = max(left - len(batch), 0)
            return summed

        return sum_next

    def num_values(self) -> int | None:
        """Sums are not divided: pairs need all values of a report."""
        return None

    def _sum(self, batch: ReportBatch, pair_reports: int) -> SupportCounts:
        watch = self.watch
        assert watch is not None
        sums = watch.sum(batch, pair_reports)
        upper = sums.pairs[np.triu_indices(len(sums.pairs))]
        row = np.concatenate((np.array([sums.pair_reports]), sums.ones, upper, sums.seeds))
        return SupportCounts([sums.num_reports], row[None, :])

    def sums(self, summed: SupportCounts) -> ReportSums:
        """Return the sums that a row of counts holds."""
        watch = self.watch
        assert watch is not None
        row = summed.ones[0]
        ones, upper, seeds = np.split(row[1:], [watch.num_cells, len(row) - 1 - watch.num_buckets])
        return ReportSums(summed.num_reports, ones, int(row[0]), symmetric(upper), seeds)
