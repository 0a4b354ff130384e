"""The reading half of a store: counts, periods, a summary, stored reports, tokens. No server is needed for it."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sqlalchemy import ColumnElement, Connection, Table, func, select, union

from overstory.collector.auth import Token
from overstory.collector.store.copies import backup as backups
from overstory.collector.store.counts import (
    Key,
    count_reports,
    counts_of_row,
    keys_of,
    read_batches,
    shuffled,
    sum_reports,
    sums_of_key,
)
from overstory.collector.store.databases.database import Database
from overstory.collector.store.metrics import ServedShard, StoredMetric, StoredMetrics, read_shard, read_stored_metrics
from overstory.collector.store.operations import (
    CollectorState,
    Note,
    Refusals,
    ReleasedReports,
    count_releases,
    read_collectors,
    read_notes,
    read_refusals,
    read_releases,
)
from overstory.collector.store.schema import (
    ABOUT,
    CHECKS,
    CHUNKS,
    COUNTS,
    IDS_DELETED,
    INBOX,
    SCHEMA,
    TOKEN_USED,
    TOKENS,
    count_ids,
    read_fact,
)

if TYPE_CHECKING:
    from overstory.analysis.alarms.sums import ReportSums
    from overstory.analysis.reports import ReportBatch, SupportCounts
    from overstory.protocol.metrics import Metric


class StoreReader:
    """What can be read from a store.

    Each method reads as of one moment, while collectors write. Each raises `StoreError` when the database fails.

    Parameters
    ----------
    database
        The open database: SQLite or PostgreSQL.

    Examples
    --------
    >>> import tempfile
    >>> from overstory.collector.store import open_store
    >>> with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/store.db", create=True) as store:
    ...     store.summary().metrics, store.periods("colour")
    ((), [])
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def url(self) -> str:
        """The database's URL, without a password."""
        return self._database.url

    def served_shard(self) -> ServedShard | None:
        """Return which shard the store holds; None where it is of a registry without shards."""
        with self._database.snapshot() as connection:
            return read_shard(connection)

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
        """Return the support counts of each period in ``first .. last`` that has reports, and is in `among` if given.

        They are those of all devices, or of the devices in the stored `groups`.

        Reports in the inbox are counted, too. Only reports of the mechanism that `metric` has now are counted, never
        those of earlier parameters. Bits are counted by cohort; symbols and sets by value, or by label where the seeds
        are public. Past retention, cohorts and seeds with few reports are no longer counted.

        Raises
        ------
        StoreError
            When the database fails, or the reports were counted for other candidates and are past retention.
        ParameterError
            When reports are counted by candidate and the metric has none.
        """
        entry = StoredMetric.of(metric)
        counts: dict[int, SupportCounts] = {}

        def add(period: int, more: SupportCounts) -> None:
            counts[period] = counts[period] + more if period in counts else more

        with self._database.snapshot() as connection:
            for row in connection.execute(
                select(COUNTS).where(*_of_periods(COUNTS, entry, first, last, among, groups))
            ).all():
                add(row.period, counts_of_row(connection, entry, row))
            for key in keys_of(connection, INBOX, *_of_periods(INBOX, entry, first, last, among, groups)):
                add(key.period, count_reports(connection, INBOX, entry, key))
        return dict(sorted(counts.items()))

    def sums(
        self, metric: Metric, first: int, last: int, groups: Collection[str] | None = None
    ) -> dict[int, ReportSums]:
        """Return what is summed of the reports of each period, by which crafted ones are noticed; see `Watch`.

        Reports in the inbox are summed, too. A period whose reports are past retention has none.
        """
        entry = StoredMetric.of(metric)
        by_key: dict[Key, ReportSums] = {}
        if entry.watch is None:
            return {}
        with self._database.snapshot() as connection:
            for table in (CHECKS, INBOX):
                for key in keys_of(connection, table, *_of_periods(table, entry, first, last, None, groups)):
                    folded = by_key.get(key)
                    read = (
                        sums_of_key(connection, entry, key)
                        if table is CHECKS
                        else sum_reports(connection, table, entry, key, folded)
                    )
                    if read is not None:
                        by_key[key] = read
        sums: dict[int, ReportSums] = {}
        for key in sorted(by_key):
            sums[key.period] = sums[key.period] + by_key[key] if key.period in sums else by_key[key]
        return sums

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

    def stored(self, metric_id: str) -> dict[int, int]:
        """Return how many counted reports of each period are still stored: what retention has not deleted."""
        of_period = select(CHUNKS.c.period, func.sum(CHUNKS.c.num_reports)).where(CHUNKS.c.metric == metric_id)
        with self._database.snapshot() as connection:
            rows = connection.execute(of_period.group_by(CHUNKS.c.period))
            return {period: int(reports) for period, reports in rows}

    def tally(
        self, metric_id: str, first: int, last: int, groups: Collection[str] | None = None
    ) -> dict[tuple[int, bytes], int]:
        """Return the number of reports that came of each (period, mechanism digest) in ``first .. last``.

        Past retention, fewer may be in the counts that stay.
        """
        with self._database.snapshot() as connection:
            return _tally(connection, metric_id, first, last, groups)

    def releases(self, metric_id: str, first: int, last: int) -> dict[int, ReleasedReports]:
        """Return what shuffling relays released of each period in ``first .. last``; past retention, nothing."""
        with self._database.snapshot() as connection:
            tally = _tally(connection, metric_id, first, last)
            return read_releases(connection, metric_id, first, last, tally)

    def reports(
        self, metric: Metric, first: int, last: int, groups: Collection[str] | None = None
    ) -> Iterator[ReportBatch]:
        """Yield the stored reports of the periods ``first .. last``, of all devices or of the stored `groups`.

        They are shuffled within some megabytes.
        """
        entry = StoredMetric.of(metric)
        with self._database.snapshot() as connection:
            for table in (CHUNKS, INBOX):
                for key in keys_of(connection, table, *_of_periods(table, entry, first, last, None, groups)):
                    for batch in read_batches(connection, table, key.of(table)):
                        yield shuffled(batch)

    def backup(self, path: str | os.PathLike[str]) -> int:
        """Write a backup: a new SQLite file that opens as a store; return the number of reports in it.

        The file is verified before it gets its name.

        Raises
        ------
        StoreError
            When the file exists, cannot be written, or the store is damaged.
        """
        return backups.backup(self._database, Path(path))

    def summary(self) -> Summary:
        """Return what the store holds, in figures."""
        with self._database.snapshot_of_ids() as connection:
            entries = read_stored_metrics(connection)
            batch_ids = count_ids(connection)
            metrics = tuple(metric_summaries(connection, entries))
            size = self._database.size(connection)
            refused: Counter[str] = Counter()
            for (_, reason), count in read_refusals(connection).by_day.items():
                refused[reason] += count
            others = len(read_collectors(connection)), len(read_notes(connection)), count_releases(connection)
        return Summary(self.url, self._database.kind, SCHEMA, size, batch_ids, metrics, dict(refused), *others)

    def collected(self) -> list[tuple[StoredMetric, int]]:
        """Return each metric and mechanism that the store has reports of, with the number of reports."""
        with self._database.snapshot() as connection:
            entries = read_stored_metrics(connection)
            sums = [sums_of(connection, table) for table in (COUNTS, INBOX)]
        reports = {key: sum(of_table.get(key, NO_REPORTS)[0] for of_table in sums) for key in entries}
        return [(entry, reports[key]) for key, entry in entries.items() if reports[key]]

    def refusals(self) -> Refusals:
        """Return how much was refused and why, by day and by metric."""
        with self._database.snapshot() as connection:
            return read_refusals(connection)

    def collectors(self) -> list[CollectorState]:
        """Return the last heartbeat of each collecting process, the last one seen first."""
        with self._database.snapshot() as connection:
            served = read_shard(connection)
            return read_collectors(connection, None if served is None else served.shard)

    def notes(self, metric: str | None = None) -> list[Note]:
        """Return the notes on a metric and those on all metrics; without a metric, every note. The oldest first."""
        with self._database.snapshot() as connection:
            return read_notes(connection, metric)

    def last_day(self) -> int | None:
        """Return the last day, counted from 1970, on which expired batch ids were deleted; None: never."""
        with self._database.snapshot() as connection:
            day = read_fact(connection, IDS_DELETED)
        return None if day is None else int(day)

    def tokens(self) -> list[Token]:
        """Return what is stored of all tokens, the oldest first."""
        with self._database.snapshot() as connection:
            days = select(ABOUT.c.key, ABOUT.c.value).where(ABOUT.c.key.startswith(TOKEN_USED))
            used = {row.key.removeprefix(TOKEN_USED): int(row.value) for row in connection.execute(days)}
            rows = connection.execute(select(TOKENS).order_by(TOKENS.c.created, TOKENS.c.application, TOKENS.c.id))
            return [
                Token(**{**row, "sha256": bytes(row["sha256"])}, used=used.get(row["id"])) for row in rows.mappings()
            ]

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


def _tally(
    connection: Connection, metric: str, first: int, last: int, groups: Collection[str] | None = None
) -> dict[tuple[int, bytes], int]:
    reports: Counter[tuple[int, bytes]] = Counter()
    for table in (COUNTS, INBOX):
        within = [table.c.metric == metric, table.c.period >= first, table.c.period <= last]
        within += [] if groups is None else [table.c.device_group.in_(groups)]
        key = table.c.period, table.c.digest
        rows = connection.execute(select(*key, func.sum(table.c.num_reports)).where(*within).group_by(*key))
        for period, digest, number in rows:
            reports[period, bytes(digest)] += int(number)
    return dict(sorted(reports.items()))


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


@dataclass(frozen=True)
class MetricSummary:
    """One metric's reports of one mechanism."""

    metric: str
    digest: str  # the mechanism's, in hexadecimal
    mechanism: str | None  # its registry name; None when no registry has named it
    first: str  # a period's label, or its number while the period's length is unknown
    last: str
    counted: int  # reports in the counts
    kept: int  # reports that are still stored
    waiting: int  # reports in the inbox


@dataclass(frozen=True)
class Summary:
    """What a store holds.

    Attributes
    ----------
    url, kind, schema
        The database, its kind, and the number of its schema.
    size
        The size of the database, in bytes.
    batch_ids
        Number of stored batch ids; while an id is stored, no batch with this id is counted again.
    metrics
        A summary for each metric and mechanism.
    refused
        Reports, batches and requests that were refused, by reason, over all days that are stored.
    collectors, notes
        Numbers of collecting processes seen within a week, and of notes.
    releases
        Number of stored releases of shuffling relays.
    """

    url: str
    kind: str
    schema: int
    size: int
    batch_ids: int
    metrics: tuple[MetricSummary, ...]
    refused: dict[str, int] = field(default_factory=dict)
    collectors: int = 0
    notes: int = 0
    releases: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON values."""
        return asdict(self)


Sums = tuple[int, int, int]
"""A number of reports, and their first and last period."""

NO_REPORTS: Sums = (0, 0, 0)


def sums_of(connection: Connection, table: Table) -> dict[tuple[str, bytes], Sums]:
    """Return the sums of a table's reports by metric and mechanism digest."""
    columns = table.c
    sums = func.sum(columns.num_reports), func.min(columns.period), func.max(columns.period)
    rows = connection.execute(select(columns.metric, columns.digest, *sums).group_by(columns.metric, columns.digest))
    return {(metric, bytes(digest)): (int(total), first, last) for metric, digest, total, first, last in rows}


def metric_summaries(connection: Connection, entries: StoredMetrics) -> Iterator[MetricSummary]:
    """Return a summary for each metric and mechanism."""
    sums = {table.name: sums_of(connection, table) for table in (COUNTS, CHUNKS, INBOX)}
    periods: dict[tuple[str, bytes], set[int]] = defaultdict(set)
    for of_table in sums.values():
        for key, (_, first, last) in of_table.items():
            periods[key] |= {first, last}
    for key, ends in sorted(periods.items()):
        entry = entries.get(key)
        label = entry.period.label if entry else str
        reports = {name: of_table.get(key, NO_REPORTS)[0] for name, of_table in sums.items()}
        yield MetricSummary(
            metric=key[0],
            digest=key[1].hex(),
            mechanism=entry.mechanism.name if entry else None,
            first=label(min(ends)),
            last=label(max(ends)),
            counted=reports[COUNTS.name],
            kept=reports[CHUNKS.name],
            waiting=reports[INBOX.name],
        )
