"""The metrics that the store remembers, with how their reports are counted and how long they are stored; and a summary.

A collector that starts with a registry saves here what a later collector, or an operator without that registry, needs
to count reports, to delete them after retention, and to keep different parameters apart.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, Table, func, select, update

from overstory.collector.store.database import Database, StoreError
from overstory.collector.store.schema import BATCH_IDS, CHUNKS, COUNTS, INBOX, METRICS, REVISION
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.analysis.oracle import FrequencyOracle
    from overstory.analysis.reports import ReportBatch, SupportCounts
    from overstory.protocol.mechanisms.base import Mechanism
    from overstory.protocol.metrics import Metric, Period


@dataclass(frozen=True)
class StoredMetric:
    """How one metric's reports of one mechanism are counted and kept.

    Parameters
    ----------
    period, retention_days
        How long a period lasts, and how many days after its end its reports are kept.
    counts_digest
        Stands for all that stored counts depend on; see `Metric.counts_digest`.
    """

    metric: str
    mechanism: Mechanism
    period: Period
    retention_days: int
    counts_digest: bytes
    labels: tuple[str, ...] = ()

    @classmethod
    def of(cls, metric: Metric) -> StoredMetric:
        """Return what the store needs to know of a metric."""
        labels = metric.labels if metric.counted_by_label and not _has_domain(metric.mechanism) else ()
        return cls(metric.id, metric.mechanism, metric.period, metric.retention_days, metric.counts_digest, labels)

    @cached_property
    def oracle(self) -> FrequencyOracle:
        """The mechanism with the server's half."""
        from overstory.analysis.oracle import FrequencyOracle

        return FrequencyOracle(self.mechanism)

    @property
    def no_reports(self) -> ReportBatch:
        """A batch without reports."""
        from overstory.analysis.reports import ReportBatch
        from overstory.protocol.wire.batch import Batch

        of = self.mechanism
        return ReportBatch.from_wire(Batch(of.digest, of.payload_bits, of.num_cohorts, 0, b"", b""))

    def count(self, batch: ReportBatch) -> SupportCounts:
        """Count reports: bits by cohort, symbols, or the support of every candidate."""
        return self.oracle.accumulate(batch, self.labels or None)

    def last_expired(self, now: float) -> int:
        """Return the last period whose reports are past retention."""
        from overstory.protocol.metrics.metric import DAY

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


def _rebuilt(name: str, parameters: Mapping[str, Any], digest: bytes) -> Mechanism | None:
    """Return the mechanism of that digest; a hashing oracle that names no number of seeds is of version 0.1."""
    from overstory.protocol.encodings.base import SEEDS
    from overstory.protocol.mechanisms.registry import mechanism as build_mechanism

    for given in (parameters, {**parameters, "num_seeds": SEEDS}):
        try:
            built = build_mechanism(name, **given)
        except ParameterError:
            continue
        if built.digest == digest:
            return built
    return None


StoredMetrics = Mapping[tuple[str, bytes], StoredMetric]
"""By metric and mechanism digest."""


def _has_domain(mechanism: Mechanism) -> bool:
    from overstory.protocol.mechanisms.payloads import BitMechanism

    domain_size = getattr(mechanism.encoding, "domain_size", None)
    return isinstance(mechanism, BitMechanism) or domain_size is not None


def read_stored_metrics(connection: Connection) -> StoredMetrics:
    """Return all that the store remembers."""
    rows = connection.execute(select(METRICS))
    read = (StoredMetric.from_row(row) for row in rows)
    return {(entry.metric, entry.mechanism.digest): entry for entry in read if entry is not None}


def remember(database: Database, metrics: Iterable[Metric]) -> None:
    """Keep what is new about these metrics."""
    wanted = {(entry.metric, entry.mechanism.digest): entry for entry in map(StoredMetric.of, metrics)}
    with database.snapshot() as connection:
        stored = {(row.metric, bytes(row.digest)): row for row in connection.execute(select(METRICS))}
    for row in stored.values():
        _check_period(database.url, row, wanted)
    if all(key in stored and entry.row == dict(stored[key]._mapping) for key, entry in wanted.items()):  # noqa: SLF001 - public
        return
    database.write(lambda connection: _write(database, connection, wanted))


def _check_period(url: str, row: Row[Any], wanted: StoredMetrics) -> None:
    from overstory.protocol.metrics import Period

    for entry in wanted.values():
        if entry.metric == row.metric and entry.period.seconds != row.period_seconds:
            raise StoreError(
                f"{url}: {row.metric} was collected by {Period(row.period_seconds)} and the registry says "
                f"{entry.period}: give the metric a new id"
            )


def _write(database: Database, connection: Connection, wanted: StoredMetrics) -> None:
    database.alone(connection)  # of two collectors that start with the same new metric, only one may make the row
    present = {(row.metric, bytes(row.digest)) for row in connection.execute(select(METRICS))}
    for key, entry in wanted.items():
        at = (METRICS.c.metric == entry.metric) & (METRICS.c.digest == entry.mechanism.digest)
        if key in present:
            connection.execute(update(METRICS).where(at).values(entry.row))
        else:
            connection.execute(METRICS.insert(), [entry.row])
        # A metric's reports are kept as long as its newest entry says, whatever they were randomized with.
        same = METRICS.c.metric == entry.metric
        connection.execute(update(METRICS).where(same).values(retention_days=entry.retention_days))


@dataclass(frozen=True)
class MetricSummary:
    """One metric's reports of one mechanism.

    Attributes
    ----------
    metric, digest
        The metric's id, the mechanism's digest in hexadecimal.
    first, last
        The labels of the first and the last period, or their numbers while the period's length is not known.
    counted, kept, waiting
        Reports in the counts, reports still kept, reports in the inbox.
    """

    metric: str
    digest: str
    mechanism: str | None  # its registry name; None when no registry has named it
    first: str
    last: str
    counted: int
    kept: int
    waiting: int


@dataclass(frozen=True)
class Summary:
    """The whole store.

    Attributes
    ----------
    url, kind, schema
        Which database, of which kind, with which revision of the schema.
    size
        The size of the database, in bytes.
    batch_ids
        Ids remembered, so that no batch is counted twice.
    metrics
        A summary for each metric and mechanism.
    """

    url: str
    kind: str
    schema: str
    size: int
    batch_ids: int
    metrics: tuple[MetricSummary, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON values."""
        return asdict(self)


def summarize(database: Database) -> Summary:
    """Return what the store holds, as of one moment."""
    with database.snapshot() as connection:
        entries = read_stored_metrics(connection)
        batch_ids = connection.execute(select(func.count()).select_from(BATCH_IDS)).scalar_one()
        metrics = tuple(_metrics(connection, entries))
        return Summary(database.url, database.kind, REVISION, database.size(connection), batch_ids, metrics)


def read_collected(database: Database) -> list[tuple[StoredMetric, int]]:
    """Return under which terms there are reports, and how many were counted or wait to be; see `Store.collected`."""
    with database.snapshot() as connection:
        entries = read_stored_metrics(connection)
        sums = [_sums(connection, table) for table in (COUNTS, INBOX)]
    reports = {key: sum(found.get(key, (0, 0, 0))[0] for found in sums) for key in entries}
    return [(entry, reports[key]) for key, entry in entries.items() if reports[key]]


def _metrics(connection: Connection, entries: StoredMetrics) -> list[MetricSummary]:
    sums = {table.name: _sums(connection, table) for table in (COUNTS, CHUNKS, INBOX)}
    periods: dict[tuple[str, bytes], set[int]] = defaultdict(set)
    for found in sums.values():
        for key, (_, first, last) in found.items():
            periods[key] |= {first, last}
    return [
        _metric(key, ends, entries, {name: found.get(key, (0, 0, 0))[0] for name, found in sums.items()})
        for key, ends in sorted(periods.items())
    ]


def _sums(connection: Connection, table: Table) -> dict[tuple[str, bytes], tuple[int, int, int]]:
    c = table.c
    sums = func.sum(c.num_reports), func.min(c.period), func.max(c.period)
    rows = connection.execute(select(c.metric, c.digest, *sums).group_by(c.metric, c.digest))
    return {(metric, bytes(digest)): (int(total), first, last) for metric, digest, total, first, last in rows}


def _metric(key: tuple[str, bytes], ends: set[int], entries: StoredMetrics, reports: dict[str, int]) -> MetricSummary:
    entry = entries.get(key)
    name = entry.period.label if entry else str
    return MetricSummary(
        metric=key[0],
        digest=key[1].hex(),
        mechanism=entry.mechanism.name if entry else None,
        first=name(min(ends)),
        last=name(max(ends)),
        counted=reports[COUNTS.name],
        kept=reports[CHUNKS.name],
        waiting=reports[INBOX.name],
    )
