"""The metrics that the store remembers: how their reports are counted, and how long they are stored.

A collector that starts with a registry saves here what a later collector, or an operator without that registry, needs
to count reports, to delete them after retention, and to keep different parameters apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, select, update

from overstory.collector.settings import DAY
from overstory.collector.store.database import Database, StoreError
from overstory.collector.store.schema import METRICS
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.analysis.reports import ReportBatch, SupportCounts
    from overstory.protocol.mechanisms.base import LocalRandomizer
    from overstory.protocol.metrics import Metric, Period


@dataclass(frozen=True)
class StoredMetric:
    """How one metric's reports of one mechanism are counted, and how long they are stored.

    Parameters
    ----------
    period, retention_days
        The length of a period, and the days after its end for which its reports are stored.
    counts_digest
        A digest of all that stored counts depend on; see `Metric.counts_digest`.
    """

    metric: str
    mechanism: LocalRandomizer
    period: Period
    retention_days: int
    counts_digest: bytes
    labels: tuple[str, ...] = ()

    @classmethod
    def of(cls, metric: Metric) -> StoredMetric:
        """Return what the store needs of a metric."""
        labels = metric.labels if metric.counted_by_label and metric.domain.size is None else ()
        return cls(metric.id, metric.mechanism, metric.period, metric.retention_days, metric.counts_digest, labels)

    @property
    def no_reports(self) -> ReportBatch:
        """A batch without reports."""
        from overstory.analysis.reports import ReportBatch
        from overstory.protocol.wire.upload import Batch

        of = self.mechanism
        return ReportBatch.from_wire(Batch(of.digest, of.payload_bits, of.num_cohorts, 0, b"", b""))

    def count(self, batch: ReportBatch) -> SupportCounts:
        """Count reports: bits by cohort, symbols, or the support of every candidate."""
        from overstory.analysis.support.registry import count_reports

        return count_reports(self.mechanism, batch, self.labels or None)

    def last_expired(self, now: float) -> int:
        """Return the last period whose reports are past retention."""
        return self.period.number(now - self.retention_days * DAY) - 1

    @property
    def row(self) -> dict[str, Any]:
        """Its row in the table of metrics."""
        described = {"name": self.mechanism.name, "parameters": dict(self.mechanism.parameters)}
        return {
            "metric": self.metric,
            "digest": self.mechanism.digest,
            "period_seconds": self.period.seconds,
            "retention_days": self.retention_days,
            "counts_digest": self.counts_digest,
            "mechanism": json.dumps(described, sort_keys=True),
            "labels": json.dumps(self.labels),
        }

    @classmethod
    def from_row(cls, row: Row[Any]) -> StoredMetric | None:
        """Read a row; None when this program cannot build the mechanism, or builds another one."""
        from overstory.protocol.metrics import Period

        described = json.loads(row.mechanism)
        mechanism = _rebuilt(described["name"], described["parameters"], row.digest)
        if mechanism is None:
            return None
        period = Period(row.period_seconds)
        labels = tuple(json.loads(row.labels))
        return cls(row.metric, mechanism, period, row.retention_days, row.counts_digest, labels)


def _rebuilt(name: str, parameters: Mapping[str, Any], digest: bytes) -> LocalRandomizer | None:
    """Return the mechanism with this digest; a hashing oracle without a number of seeds is of version 0.1."""
    from overstory.protocol.encodings.base import SEEDS
    from overstory.protocol.metrics.mechanisms import any_mechanism

    for given in (parameters, {**parameters, "num_seeds": SEEDS}):
        try:
            built = any_mechanism(name, **given)
        except ParameterError:
            continue
        if built.digest == digest:
            return built
    return None


StoredMetrics = Mapping[tuple[str, bytes], StoredMetric]
"""By metric and mechanism digest."""


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
    present = {(row.metric, bytes(row.digest)) for row in connection.execute(select(METRICS))}
    for key, entry in entries.items():
        at = (METRICS.c.metric == entry.metric) & (METRICS.c.digest == entry.mechanism.digest)
        if key in present:
            connection.execute(update(METRICS).where(at).values(entry.row))
        else:
            connection.execute(METRICS.insert(), [entry.row])
        # A metric's newest entry decides how long reports are stored, also those of other mechanisms.
        same = METRICS.c.metric == entry.metric
        connection.execute(update(METRICS).where(same).values(retention_days=entry.retention_days))
