"""A store: batches come in exactly once, are counted, and are deleted after their retention.

SQLite for one collector, PostgreSQL for several; one schema.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import compress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from sqlalchemy import ColumnElement, Connection, Table, select, union, update

from overstory.collector.auth import Role, Token, make_token
from overstory.collector.settings import DAY
from overstory.collector.store.copies import backup as backups
from overstory.collector.store.counts import (
    COUNTED,
    Key,
    count_reports,
    counts_of_row,
    keys_of,
    read_batches,
    shuffled,
    sum_reports,
    sums_of_key,
)
from overstory.collector.store.databases.connection import check, connect, create_tables
from overstory.collector.store.databases.database import Database, IdsOfDay, StoreError
from overstory.collector.store.metrics import StoredMetric, StoredMetrics, read_stored_metrics, save_metrics
from overstory.collector.store.operations import Operations, metric_summaries, write_releases
from overstory.collector.store.schema import CHUNKS, COUNTS, IDS_DELETED, INBOX, TOKENS, day_of_ids, read_fact
from overstory.collector.store.upkeep import Compacted, InboxAges, Retained, compact, retain
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.analysis.alarms.sums import ReportSums
    from overstory.analysis.reports import ReportBatch, SupportCounts
    from overstory.collector.ingest import Received
    from overstory.collector.store.copies.export import Exported
    from overstory.engines.folders import Folder
    from overstory.protocol.metrics import Metric, MetricRegistry

__all__ = ["Store", "StoreError", "open_store"]

INBOX_KEY: Final = ("metric", "period", "digest", "device_group", "num_bits", "num_cohorts")


def _inbox_rows(batches: Iterable[Received]) -> list[dict[str, Any]]:
    """Return one row of the inbox for each (metric, period, digest, group) that there are reports of."""
    from overstory.protocol.wire.upload import cohort_width

    together: dict[tuple[Any, ...], list[Received]] = {}
    for batch in batches:
        key = batch.metric, batch.period, batch.digest, batch.group, batch.num_bits, batch.num_cohorts
        together.setdefault(key, []).append(batch)
    rows = []
    for key, some in together.items():
        metric, *_, num_bits, num_cohorts = key
        reports = sum(batch.num_reports for batch in some)
        cohorts, bits = b"".join([batch.cohorts for batch in some]), b"".join([batch.bits for batch in some])
        if (len(cohorts), len(bits)) != (reports * cohort_width(num_cohorts), reports * (-(-num_bits // 8))):
            raise ParameterError(
                f"{metric}: {reports} reports of {num_bits} bits and {num_cohorts} cohorts do not have columns of "
                f"{len(cohorts)} and {len(bits)} bytes"
            )
        if reports:
            about = dict(zip(INBOX_KEY, key, strict=True))
            rows.append({**about, "num_reports": reports, "cohorts": cohorts, "bits": bits})
    return rows


class Store(Operations):
    """Reports, counts, batch ids and tokens, in one database that several threads and processes may use at once.

    Each method raises `StoreError` when the database fails; what is given wrongly is a `ParameterError`.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._metrics: StoredMetrics = {}
        self._inbox_ages = InboxAges()

    def add(self, received: Sequence[Received]) -> list[bool]:
        """Store batches in one durable transaction; return of each whether it is new: its id was not stored before.

        After an error nothing was stored, and it is always safe to send the same batches again. Releases of a shuffling
        relay grow by the messages with new batches in the same transaction.
        """
        if not received:
            return []
        by_day = _ids_by_day(received)

        def work(connection: Connection) -> list[bool]:
            left = self._database.insert_ids(connection, by_day)
            new = []
            for batch in received:  # the first with an id takes it
                ids = left[day_of_ids(batch.ends)]
                new.append(batch.batch in ids)
                ids.discard(batch.batch)
            fresh = list(compress(received, new))
            rows = _inbox_rows(fresh)
            if rows:
                connection.execute(INBOX.insert(), rows)
            released = [batch for batch in fresh if batch.released is not None]
            if released:
                write_releases(connection, released)
            return new

        return self._database.write(work)

    def warm_up(self) -> None:
        """Load the kernels and count no reports of each metric: the first compaction then delays no sender."""
        from overstory.analysis.reports import ReportBatch, load_kernels

        load_kernels()
        for entry in self._metrics.values():
            entry.count(ReportBatch.of(entry.mechanism, []))

    def checkpoint(self) -> None:
        """Do in the background what the database would make a later writer, and its senders, wait for."""
        self._database.checkpoint()

    def compact(self, now: float, *, within: float = 0.0, forgetting: bool = True) -> Compacted:
        """Count the inbox, shuffle it among the reports of its period, delete expired ids where `forgetting`.

        Every report is counted exactly once, however many processes compact, and wherever one of them is killed. A few
        reports of a metric and period wait for up to `within` seconds where a large chunk would be written for them.
        """
        return compact(self._database, self._metrics, now, self._inbox_ages, within, forgetting=forgetting)

    def retain(self, now: float) -> Retained:
        """Delete the reports past their metric's retention, and what operators watched long ago; see `upkeep`."""
        return retain(self._database, self._metrics, now)

    def export_closed(
        self,
        registry: MetricRegistry,
        folder: Folder,
        metric: str | None = None,
        *,
        now: float,
        advance: Callable[[int], object] | None = None,
    ) -> Exported:
        """Write the reports of closed periods into a folder, each once, however often and wherever this is killed."""
        from overstory.collector.store.copies.export import Export

        self.compact(now, forgetting=False)
        return Export(self._database, registry, folder, advance).run(now, metric)

    def remember(self, registry: MetricRegistry) -> None:
        """Count and retain reports as this registry says from now on; a metric's periods must have the same length."""
        self._metrics = save_metrics(self._database, registry.values())

    def serve_alone(self) -> None:
        """Lock an embedded database against other serving processes, until this process ends."""
        self._database.serve_alone()

    def add_token(self, role: Role, application: str, expires: int | None = None) -> str:
        """Make a token and return it: it is not stored, and cannot be shown again."""
        plain, token = make_token(role, application, expires)
        row = {column.name: getattr(token, column.name) for column in TOKENS.columns}
        self._database.write(lambda connection: connection.execute(TOKENS.insert(), [row]))
        return plain

    def revoke_token(self, token_id: str) -> None:
        """Refuse a token from now on."""
        valid = TOKENS.c.id == token_id, TOKENS.c.revoked.is_(None)
        revoke = update(TOKENS).where(*valid).values(revoked=int(time.time()))
        if token_id.isascii() and self._database.write(lambda connection: connection.execute(revoke).rowcount):
            return
        if all(token.id != token_id for token in self.tokens()):
            raise ParameterError(f"there is no token {token_id}: overstory store tokens shows the ids")

    @property
    def url(self) -> str:
        """The database's URL, without a password."""
        return self._database.url

    def in_place(self) -> bool:
        """Whether the store is the one that was opened; False when its file was deleted, moved or replaced."""
        return self._database.in_place()

    def counts(
        self,
        metric: Metric,
        first: int,
        last: int,
        among: Collection[int] | None = None,
        groups: Collection[str] | None = None,
    ) -> dict[int, SupportCounts]:
        """Return the counts of each period that has reports, of all devices or of `groups`; the inbox counts, too.

        Only reports of the mechanism that `metric` has now are counted, by cohort, value or label. Past retention,
        cohorts and seeds with few reports are no longer counted, and other candidates cannot be: `RecountError`.
        """
        from overstory.queries.counts import sum_by_key

        entry = StoredMetric.of(metric)

        def found(connection: Connection) -> Iterator[tuple[int, SupportCounts]]:
            of_periods = partial(_of_periods, entry=entry, first=first, last=last, among=among, groups=groups)
            for row in connection.execute(select(*COUNTED).where(*of_periods(COUNTS))).all():
                yield row.period, counts_of_row(connection, entry, row)
            for key in keys_of(connection, INBOX, *of_periods(INBOX)):
                yield key.period, count_reports(connection, INBOX, entry, key)

        with self._database.snapshot() as connection:
            return sum_by_key(found(connection))

    def sums(
        self, metric: Metric, first: int, last: int, groups: Collection[str] | None = None
    ) -> dict[int, ReportSums]:
        """Return what is summed of the stored reports of each period, by which crafted ones are noticed."""
        from overstory.queries.counts import sum_by_key

        entry = StoredMetric.of(metric)
        if entry.watch is None:
            return {}
        by_key: dict[Key, ReportSums | None] = {}
        with self._database.snapshot() as connection:
            for key in keys_of(connection, COUNTS, *_of_periods(COUNTS, entry, first, last, None, groups)):
                by_key[key] = sums_of_key(connection, entry, key)
            for key in keys_of(connection, INBOX, *_of_periods(INBOX, entry, first, last, None, groups)):
                by_key[key] = sum_reports(connection, INBOX, entry, key, by_key.get(key))
        return sum_by_key((key.period, read) for key, read in by_key.items() if read is not None)

    def groups(self, metric_id: str) -> list[str]:
        """Return the groups that a metric has reports of; empty text: reports that name none."""
        return self._sorted("device_group", metric_id)

    def periods(self, metric_id: str) -> list[int]:
        """Return the periods that have reports or counts, ascending."""
        return self._sorted("period", metric_id)

    def _sorted(self, column: str, metric_id: str) -> list[Any]:
        selects = (select(table.c[column]).where(table.c.metric == metric_id) for table in (COUNTS, INBOX))
        with self._database.snapshot() as connection:
            return sorted(connection.execute(union(*selects)).scalars())

    def reports(
        self, metric: Metric, first: int, last: int, groups: Collection[str] | None = None
    ) -> Iterator[ReportBatch]:
        """Yield the stored reports of periods, of all devices or of `groups`, shuffled within some megabytes."""
        entry = StoredMetric.of(metric)
        with self._database.snapshot() as connection:
            for table in (CHUNKS, INBOX):
                for key in keys_of(connection, table, *_of_periods(table, entry, first, last, None, groups)):
                    for batch in read_batches(connection, table, key.of(table)):
                        yield shuffled(batch)

    def backup(self, path: str | os.PathLike[str]) -> int:
        """Write a backup: a new, verified SQLite file that opens as a store; return the number of reports in it."""
        return backups.backup(self._database, Path(path))

    def collected(self) -> list[tuple[StoredMetric, int]]:
        """Return each metric and mechanism that the store has reports of, with the number of reports."""
        with self._database.snapshot() as connection:
            entries = read_stored_metrics(connection)
            found = list(metric_summaries(connection, entries))
        reports = {(one.metric, bytes.fromhex(one.digest)): one.counted + one.waiting for one in found}
        return [(entry, reports[key]) for key, entry in entries.items() if reports.get(key)]

    def last_day(self) -> int | None:
        """Return the last day, counted from 1970, on which expired batch ids were deleted; None: never."""
        with self._database.snapshot() as connection:
            day = read_fact(connection, IDS_DELETED)
        return None if day is None else int(day)

    def tokens(self) -> list[Token]:
        """Return what is stored of all tokens, the oldest first."""
        with self._database.snapshot() as connection:
            rows = connection.execute(select(TOKENS).order_by(TOKENS.c.created, TOKENS.c.application, TOKENS.c.id))
            return [Token(**{**row, "sha256": bytes(row["sha256"])}) for row in rows.mappings()]

    def find_token(self, sha256: bytes) -> Token | None:
        """Return the token with this SHA-256, also when it has expired or was revoked; None when there is none."""
        return next((token for token in self.tokens() if token.sha256 == sha256), None)

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _ids_by_day(received: Sequence[Received]) -> dict[int, IdsOfDay]:
    found: dict[int, tuple[list[int], set[bytes]]] = {}
    for batch in received:
        times, ids = found.setdefault(day_of_ids(batch.ends), ([], set()))
        times.append(batch.forget_after)
        ids.add(batch.batch)
    # To the end of a day: the exact second would be that of a metric's period, and link the ids to the metric.
    return {day: IdsOfDay(-(-max(times) // DAY) * DAY, ids) for day, (times, ids) in sorted(found.items())}


def _of_periods(
    table: Table,
    entry: StoredMetric,
    first: int,
    last: int,
    among: Collection[int] | None = None,
    groups: Collection[str] | None = None,
) -> tuple[ColumnElement[bool], ...]:
    of_mechanism = table.c.metric == entry.metric, table.c.digest == entry.mechanism.digest
    chosen = (table.c.period, among), (table.c.device_group, groups)
    some = [column.in_(values) for column, values in chosen if values is not None]
    return (*of_mechanism, table.c.period >= first, table.c.period <= last, *some)


def open_store(url: str, registry: MetricRegistry | None = None, *, create: bool = False) -> Store:
    """Open the store that `url` names, with the metrics that are collected; `create` makes one that is missing."""
    database = connect(url, create=create)
    try:
        if create:
            database.write(lambda connection: create_tables(database, connection))
        check(database)
        store = Store(database)
        if registry is not None:
            store.remember(registry)
    except BaseException:
        database.close()
        raise
    return store
