"""Kept reports as a Parquet file, for other tools."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from overstory.collector.store.database import Database
from overstory.collector.store.reading import read_reports

if TYPE_CHECKING:
    from overstory.analysis.reports import ReportBatch
    from overstory.protocol.metrics import Metric


def export(database: Database, metric: Metric, first: int, last: int, path: str | os.PathLike[str]) -> int:
    """Write the kept reports of some periods; see `Store.export`."""
    from overstory.files.parquet import Label, write_parquet

    mechanism = metric.mechanism
    label = Label(mechanism.payload_bits, mechanism.num_cohorts, mechanism.canonical())
    written = _Count()
    write_parquet(path, written.passing(read_reports(database, metric, first, last)), label)
    return written.reports


class _Count:
    """Counts reports as they pass."""

    def __init__(self) -> None:
        self.reports = 0

    def passing(self, batches: Iterable[ReportBatch]) -> Iterator[ReportBatch]:
        for batch in batches:
            self.reports += len(batch)
            yield batch
