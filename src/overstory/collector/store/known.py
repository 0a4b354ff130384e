"""What the store remembers of its metrics: how their reports are counted, and how long they are kept.

A collector that was started with a registry leaves here what a later one, or an operator without that registry, needs
to count, to retain, and not to mix.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, select, update

from overstory.collector.store.database import Database
from overstory.collector.store.errors import StoreError
from overstory.collector.store.schema import METRICS
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.analysis.counts import SupportCounts
    from overstory.analysis.oracle import FrequencyOracle
    from overstory.analysis.reports import ReportBatch
    from overstory.protocol.mechanisms.mechanism import Mechanism
    from overstory.protocol.metrics import Metric, Period


@dataclass(frozen=True)
class Known:
    """How one metric's reports of one mechanism are counted and kept.

    Parameters
    ----------
    metric
        The metric's id.
    mechanism
        What its reports are.
    period, retention_days
        How long a period lasts, and how many days after its end its reports are kept.
    counts_digest
        Stands for all that stored counts depend on; see `Metric.counts_digest`.
    labels
        The candidates, where reports are counted by candidate; else none.
    """

    metric: str
    mechanism: Mechanism
    period: Period
    retention_days: int
    counts_digest: bytes
    labels: tuple[str, ...] = ()

    @classmethod
    def of(cls, metric: Metric) -> Known:
        """Return what the store needs to know of a metric.

        Raises
        ------
        ParameterError
            When its reports are counted by candidate, and the candidates were not read.
        """
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
        from overstory.protocol.wire import Batch

        of = self.mechanism
        return ReportBatch.from_wire(Batch(of.digest, of.payload_bits, of.num_cohorts, 0, b"", b""))

    def count(self, batch: ReportBatch) -> SupportCounts:
        """Count reports: bits by cohort, symbols, or the support of every candidate."""
        return self.oracle.accumulate(batch, self.labels or None)

    def last_expired(self, now: float) -> int:
        """Return the last period whose reports are past retention."""
        from overstory.protocol.metrics.period import DAY

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
    def from_row(cls, row: Row[Any]) -> Known | None:
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
    from overstory.protocol.encodings import SEEDS
    from overstory.protocol.mechanisms.registry import mechanism as build_mechanism

    for given in (parameters, {**parameters, "num_seeds": SEEDS}):
        try:
            built = build_mechanism(name, **given)
        except ParameterError:
            continue
        if built.digest == digest:
            return built
    return None


Knowledge = Mapping[tuple[str, bytes], Known]
"""By metric and mechanism digest."""


def _has_domain(mechanism: Mechanism) -> bool:
    from overstory.protocol.mechanisms.bits import BitMechanism

    domain_size = getattr(mechanism.encoding, "domain_size", None)
    return isinstance(mechanism, BitMechanism) or domain_size is not None


def read_known(connection: Connection) -> Knowledge:
    """Return all that the store remembers."""
    rows = connection.execute(select(METRICS))
    read = (Known.from_row(row) for row in rows)
    return {(known.metric, known.mechanism.digest): known for known in read if known is not None}


def remember(database: Database, metrics: Iterable[Metric]) -> None:
    """Keep what is new about these metrics.

    Raises
    ------
    StoreError
        When a metric's periods have another length than those already stored: they could not be told apart.
    ParameterError
        When a metric's candidates were not read.
    """
    wanted = {(known.metric, known.mechanism.digest): known for known in map(Known.of, metrics)}
    with database.snapshot() as connection:
        stored = {(row.metric, bytes(row.digest)): row for row in connection.execute(select(METRICS))}
    for row in stored.values():
        _check_period(database.url, row, wanted)
    if all(key in stored and known.row == dict(stored[key]._mapping) for key, known in wanted.items()):  # noqa: SLF001 - public
        return
    database.write(lambda connection: _write(database, connection, wanted))


def _check_period(url: str, row: Row[Any], wanted: Knowledge) -> None:
    from overstory.protocol.metrics import Period

    for known in wanted.values():
        if known.metric == row.metric and known.period.seconds != row.period_seconds:
            raise StoreError(
                f"{url}: {row.metric} was collected by {Period(row.period_seconds)} and the registry says "
                f"{known.period}: give the metric a new id"
            )


def _write(database: Database, connection: Connection, wanted: Knowledge) -> None:
    database.alone(connection)  # of two collectors that start with the same new metric, only one may make the row
    present = {(row.metric, bytes(row.digest)) for row in connection.execute(select(METRICS))}
    for key, known in wanted.items():
        at = (METRICS.c.metric == known.metric) & (METRICS.c.digest == known.mechanism.digest)
        if key in present:
            connection.execute(update(METRICS).where(at).values(known.row))
        else:
            connection.execute(METRICS.insert(), [known.row])
        # A metric's reports are kept as long as its newest entry says, whatever they were randomized with.
        same = METRICS.c.metric == known.metric
        connection.execute(update(METRICS).where(same).values(retention_days=known.retention_days))
