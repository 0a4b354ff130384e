"""Retention: reports whose time is over are deleted, and batch ids whose day has passed.

Counts stay only where at least `FEWEST_TOGETHER` reports share what is public about them: of few reports, the counts
are the reports. A cohort or seed with fewer is taken out of the counts of its period and group. Which these are depends
on no value, so the others are a random sample of the reports. Some counts are sums over all seeds, by value. Single
reports can be computed from those where they are not many more than the seeds, or than the values: of a period with
fewer than `FEWEST_TOGETHER` for each, none stay.

A period that was counted by several stores has cells of its own in each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, select, update

from overstory.collector.settings import DAY
from overstory.collector.store.counts import Key, keys_of, pack_counts, unpack_counts
from overstory.collector.store.databases.database import Database
from overstory.collector.store.metrics import StoredMetrics, read_stored_metrics
from overstory.collector.store.operations import retain_operations
from overstory.collector.store.schema import (
    ABOUT,
    CHUNKS,
    COUNTS,
    IDS_DELETED,
    OF_REPORTS,
    ids_table_name,
    put_row,
    read_fact,
    read_id_days,
)

if TYPE_CHECKING:
    from overstory.analysis.reports import SupportCounts


@dataclass(frozen=True)
class Retained:
    """What retention deleted.

    Attributes
    ----------
    reports, chunks
        Reports past retention, and the rows that they were stored in.
    remains
        What was deleted and can still be read in the database's files, and why; see `Database.erase_deleted`.
    """

    reports: int
    chunks: int
    remains: tuple[str, ...] = ()


def retain(database: Database, entries: StoredMetrics, now: float) -> Retained:
    """Delete the reports past their metric's retention at unix time `now`; see `Store.retain`."""
    with database.snapshot() as connection:
        entries = read_stored_metrics(connection, entries)
    # The registry's metrics come last: the registry decides how long a metric's reports are stored.
    expired = {entry.metric: entry.last_expired(now) for entry in entries.values()}
    database.write(lambda connection: retain_operations(database, connection, entries, now))
    sizes = [size for metric, last in expired.items() for size in _delete_reports(database, metric, last)]
    database.release_free_space()
    return Retained(sum(sizes), len(sizes), database.erase_deleted(OF_REPORTS if sizes else ()))


def _delete_reports(database: Database, metric: str, last: int) -> list[int]:
    """Delete a metric's chunks up to the period `last`, and small counts; return the chunks' numbers of reports."""

    def work(connection: Connection) -> list[int]:
        keys = keys_of(connection, CHUNKS, CHUNKS.c.metric == metric, CHUNKS.c.period <= last)
        sizes = [size for key in keys for size in _delete_key(connection, key)]
        if sizes:
            database.note_deletions(connection, OF_REPORTS)
        return sizes

    return database.write(work)


def _delete_key(connection: Connection, key: Key) -> list[int]:
    from overstory.protocol.metrics.metric import FEWEST_TOGETHER

    # The counts first, as compaction does: whoever adds to them waits here.
    row = connection.execute(select(COUNTS).where(key.of(COUNTS)).with_for_update()).one_or_none()
    if row is None:  # another process has deleted these reports
        return []
    columns = CHUNKS.c.num_cohorts, CHUNKS.c.num_reports
    chunks = connection.execute(delete(CHUNKS).where(key.of(CHUNKS)).returning(*columns)).all()
    if chunks:
        counts = without_few(unpack_counts(bytes(row.counts)), chunks[0].num_cohorts, FEWEST_TOGETHER)
        if counts.num_reports or row.num_reports >= FEWEST_TOGETHER:
            connection.execute(update(COUNTS).where(key.of(COUNTS)).values(counts=pack_counts(counts), sums=None))
        else:
            connection.execute(delete(COUNTS).where(key.of(COUNTS)))
    return [chunk.num_reports for chunk in chunks]


def without_few(counts: SupportCounts, num_cohorts: int, fewest: int) -> SupportCounts:
    """Return the counts without the rows of which single reports could be read: those of fewer than `fewest` reports.

    `num_cohorts` is what reports name: more than there are rows where a row goes over all of them.
    """
    import numpy as np

    from overstory.analysis.reports import SupportCounts

    in_a_row = min(max(num_cohorts // counts.num_cohorts, 1), counts.num_bits)
    stay = counts.totals >= fewest * in_a_row
    return SupportCounts(np.where(stay, counts.totals, 0), np.where(stay[:, None], counts.ones, 0))


def delete_expired_ids(database: Database, now: float) -> tuple[int, list[str]]:
    """Delete, once a day, the ids of days that have passed; return how many, and the tables that are still there."""
    today = int(now // DAY)
    with database.snapshot() as connection:
        last = read_fact(connection, IDS_DELETED)
        if last is not None and int(last) >= today:
            return 0, []
        expired = [day for day, until in read_id_days(connection).items() if until <= now]
    dropped = {day: database.drop_ids(day, now) for day in expired}
    deleted = sum(count for count in dropped.values() if count > 0)
    stay = [f"{ids_table_name(day)}: it is in use, or another user's" for day, count in dropped.items() if count < 0]
    if not stay:
        database.write(lambda connection: _note_day(database, connection, str(today)))
    return deleted, stay


def _note_day(database: Database, connection: Connection, day: str) -> None:
    database.lock(connection)  # of two collectors that delete ids for the first time, only one may make the row
    put_row(connection, ABOUT, {"key": IDS_DELETED}, value=day)
