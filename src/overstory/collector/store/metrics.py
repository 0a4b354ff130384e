"""What the store remembers of registries: how reports are counted, how long they are stored, which shard it is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from sqlalchemy import Connection, Row, func, select, update

from overstory.collector.settings import DAY
from overstory.collector.store.databases.database import Database, StoreError
from overstory.collector.store.schema import ABOUT, BATCH_IDS, COUNTS, METRICS, SHARD, put_row, read_fact
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.analysis.alarms.sums import ReportSums, Watch
    from overstory.analysis.reports import ReportBatch, SupportCounts
    from overstory.protocol.kinds.base import Kind
    from overstory.protocol.metrics import Metric, MetricRegistry, Period
    from overstory.protocol.metrics.tables import Shards


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


@dataclass(frozen=True)
class ServedShard:
    """Which shard a store holds, and by which registry it was served last."""

    shard: int  # its number, from 0
    shards: Shards  # the table [shards] of the registry
    mechanisms: Mapping[str, str]  # the digest of each metric's mechanism, in hexadecimal

    @classmethod
    def of(cls, registry: MetricRegistry, shard: int) -> ServedShard:
        if registry.shards is None:
            raise ParameterError(f"shard = {shard}: the registry has no table [shards], so one collector takes all")
        if not 0 <= shard < registry.shards.most:
            raise ParameterError(f"shard = {shard}: the registry's shards are 0 .. {registry.shards.most - 1}")
        mechanisms = {metric.id: metric.mechanism.digest.hex() for metric in registry.values()}
        return cls(shard, registry.shards, mechanisms)

    @property
    def text(self) -> str:
        return json.dumps(
            {"shard": self.shard, "shards": self.shards.to_json(), "metrics": dict(self.mechanisms)}, sort_keys=True
        )

    @classmethod
    def from_text(cls, text: str) -> ServedShard:
        from overstory.protocol.metrics.tables import Shards

        read = json.loads(text)
        return cls(read["shard"], Shards.from_json(read["shards"]), read["metrics"])

    def __str__(self) -> str:
        return f"shard {self.shard} of {self.shards}"


def served_shard(registry: MetricRegistry, shard: int | None) -> ServedShard | None:
    """Return what a store remembers that is served as a shard; None: without shards."""
    if shard is not None:
        return ServedShard.of(registry, shard)
    if registry.shards is not None:
        last = registry.shards.most - 1
        raise ParameterError(f"the registry has {last + 1} shards: set shard, 0 .. {last}")
    return None


def read_shard(connection: Connection) -> ServedShard | None:
    """Return which shard a store holds; None where it is of a registry without shards."""
    text = read_fact(connection, SHARD)
    return None if text is None else ServedShard.from_text(text)


def claim_shard(database: Database, registry: MetricRegistry, shard: int | None, now: float) -> None:
    """Remember that a store is served as this shard, or raise where it may not be; None: without shards."""
    claimed = served_shard(registry, shard)
    with database.snapshot() as connection:
        if claimed == read_shard(connection):
            return

    def work(connection: Connection) -> None:
        database.lock(connection)  # of two collectors, only one may make the row
        stored = read_shard(connection)
        if claimed is None:
            _refuse(database, f"it is {stored}: set shard, and keep the registry's table [shards]")
        elif stored is None:
            _check_first_claim(database, connection, registry, claimed, now)
        elif stored.shard != claimed.shard:
            own = f"it is {stored}, and holds the batch ids of that shard: serve it with shard = {stored.shard}"
            _refuse(database, own)
        else:
            _check_division(database, connection, registry, claimed.shards, stored.shards, now)
        put_row(connection, ABOUT, {"key": SHARD}, value=claimed.text)

    database.write(work)


def _refuse(database: Database, why: str) -> NoReturn:
    raise StoreError(f"{database.url}: {why}")


def _check_first_claim(
    database: Database, connection: Connection, registry: MetricRegistry, claimed: ServedShard, now: float
) -> None:
    """Refuse a store that was served without shards, unless it goes on as the first of them."""
    from overstory.protocol.metrics.tables import Shards

    if _is_empty(connection):
        return
    if claimed.shard != 0:
        _refuse(
            database, "it was served without shards: serve it with shard = 0, and give the others stores of their own"
        )
    _check_division(database, connection, registry, claimed.shards, Shards(((0, 1),)), now)


def _is_empty(connection: Connection) -> bool:
    return not any(
        connection.execute(select(func.count()).select_from(table.select().limit(1).subquery())).scalar_one()
        for table in (BATCH_IDS, COUNTS)
    )


def _check_division(
    database: Database, connection: Connection, registry: MetricRegistry, new: Shards, old: Shards, now: float
) -> None:
    """Refuse another number of shards on the first day of a period of which reports may have been stored here."""
    if new == old or _is_empty(connection):
        return
    days = [day for metric in registry.values() for day in _open_days(metric, now)]
    for day in range(min(days, default=0), max(days, default=-1) + 1):
        if new.count_on(day) != old.count_on(day):
            import datetime as dt

            label, last = (dt.date.fromordinal(dt.date(1970, 1, 1).toordinal() + d) for d in (day, max(days)))
            _refuse(
                database,
                f"reports of periods from {label} on were divided by {old.count_on(day)}, and the registry says "
                f"{new.count_on(day)}: a retry would reach another store and be counted again; leave the number, and "
                f"give the new one in [shards.from] from a day after {last}",
            )


def _open_days(metric: Metric, now: float) -> tuple[int, int]:
    """Return the first days of the earliest and the latest period of which reports are taken now."""
    current = metric.period.number(now)
    first = current
    while metric.accept_until(first - 1) > now:
        first -= 1
    return metric.period.start(first) // DAY, metric.period.start(current + 1) // DAY
