"""What the store remembers of registries: how reports are counted, and how long they are stored."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, select, update

from overstory.collector.store.databases.database import Database, StoreError
from overstory.collector.store.schema import METRICS, put_row
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.analysis.alarms.sums import ReportSums, Watch
    from overstory.analysis.reports import ReportBatch, SupportCounts
    from overstory.protocol.kinds.base import Kind
    from overstory.protocol.metrics import Metric, Period


@dataclass(frozen=True)
class StoredMetric:
    """How one metric's reports of one mechanism are counted, and how long they are stored."""

    metric: str
    mechanism: Kind
    period: Period
    retention_days: int  # after a period's end
    counts_digest: bytes  # of all that stored counts depend on; see `Metric.counts_digest`

    @classmethod
    def of(cls, metric: Metric) -> StoredMetric:
        return cls(metric.id, metric.mechanism, metric.period, metric.retention_days, metric.counts_digest)

    def count(self, batch: ReportBatch) -> SupportCounts:
        """Count reports: bits by cohort, symbols, or the support of every value of the domain."""
        from overstory.analysis.kinds.base import count_reports

        return count_reports(self.mechanism, batch)

    @property
    def watch(self) -> Watch | None:
        from overstory.analysis.alarms.sums import Watch

        return Watch.of(self.mechanism)

    def sum(self, batch: ReportBatch, before: ReportSums | None) -> ReportSums | None:
        """Return what is summed of new reports; pairs as long as those before are fewer than their number."""
        from overstory.analysis.alarms.sums import PAIR_REPORTS

        room = PAIR_REPORTS - (0 if before is None else before.pair_reports)
        return None if self.watch is None else self.watch.sum(batch, max(room, 0))

    def last_expired(self, now: float) -> int:
        return self.period.last_ended(now, self.retention_days)

    @property
    def row(self) -> dict[str, Any]:
        described = {"name": self.mechanism.name, "parameters": dict(self.mechanism.parameters)}
        return {
            "metric": self.metric,
            "digest": self.mechanism.digest,
            "period_seconds": self.period.seconds,
            "retention_days": self.retention_days,
            "counts_digest": self.counts_digest,
            "mechanism": json.dumps(described, sort_keys=True),
        }

    @classmethod
    def from_row(cls, row: Row[Any]) -> StoredMetric | None:
        """Read a row; None when this program cannot build the mechanism, or builds another one."""
        from overstory.protocol.kinds.registry import any_mechanism
        from overstory.protocol.metrics import Period

        described = json.loads(row.mechanism)
        try:
            mechanism = any_mechanism(described["name"], **described["parameters"])
        except ParameterError:
            return None
        if mechanism.digest != row.digest:
            return None
        period = Period(row.period_seconds)
        return cls(row.metric, mechanism, period, row.retention_days, row.counts_digest)


StoredMetrics = Mapping[tuple[str, bytes], StoredMetric]  # by metric and mechanism digest


def read_stored_metrics(connection: Connection, registered: StoredMetrics = MappingProxyType({})) -> StoredMetrics:
    """Return all metrics that the store remembers, then the `registered` ones, which take the place of stored ones."""
    rows = connection.execute(select(METRICS))
    stored = (StoredMetric.from_row(row) for row in rows if (row.metric, bytes(row.digest)) not in registered)
    return {**_by_key(entry for entry in stored if entry is not None), **registered}


def save_metrics(database: Database, metrics: Iterable[Metric]) -> StoredMetrics:
    """Store what is new about these metrics, and return them."""
    entries = _by_key(map(StoredMetric.of, metrics))
    with database.snapshot() as connection:
        stored = {(row.metric, bytes(row.digest)): row for row in connection.execute(select(METRICS))}
    for row in stored.values():
        _check_period(database.url, row, entries)
    if any(key not in stored or entry.row != dict(stored[key]._mapping) for key, entry in entries.items()):  # noqa: SLF001 - public
        database.write(lambda connection: _write(database, connection, entries))
    return entries


def _by_key(entries: Iterable[StoredMetric]) -> StoredMetrics:
    return {(entry.metric, entry.mechanism.digest): entry for entry in entries}


def _check_period(url: str, row: Row[Any], entries: StoredMetrics) -> None:
    from overstory.protocol.metrics import Period

    for entry in entries.values():
        if entry.metric == row.metric and entry.period.seconds != row.period_seconds:
            raise StoreError(
                f"{url}: {row.metric} was collected by {Period(row.period_seconds)} and the registry says "
                f"{entry.period}: give the metric a new id"
            )


def _write(database: Database, connection: Connection, entries: StoredMetrics) -> None:
    database.lock(connection)  # of two collectors that start with the same new metric, only one may make the row
    for (metric, digest), entry in entries.items():
        put_row(connection, METRICS, {"metric": metric, "digest": digest}, **entry.row)
        # A metric's newest entry decides how long reports are stored, also those of other mechanisms.
        same = METRICS.c.metric == entry.metric
        connection.execute(update(METRICS).where(same).values(retention_days=entry.retention_days))
