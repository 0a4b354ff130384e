"""Retention: reports whose time is over are deleted, and batch ids whose day has passed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, Connection, delete, func, select, update

from overstory.collector.settings import DAY
from overstory.collector.store.databases.database import Database
from overstory.collector.store.metrics import StoredMetrics, read_stored_metrics
from overstory.collector.store.operations import retain_operations
from overstory.collector.store.schema import (
    ABOUT,
    BATCH_IDS_BEFORE,
    CHECKS,
    CHUNKS,
    IDS_DELETED,
    OF_REPORTS,
    ids_table_name,
    read_id_days,
)


@dataclass(frozen=True)
class Retained:
    """What retention deleted.

    Attributes
    ----------
    reports, chunks
        Reports past retention, and the rows that they were stored in. Their counts stay.
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
    sizes = [size for metric, last in expired.items() for size in _delete_chunks(database, metric, last)]
    database.release_free_space()
    return Retained(sum(sizes), len(sizes), database.erase_deleted(OF_REPORTS if sizes else ()))


def _delete_chunks(database: Database, metric: str, last: int) -> list[int]:
    """Delete a metric's chunks up to the period `last`; return their numbers of reports."""
    past, sums = ((table.c.metric == metric) & (table.c.period <= last) for table in (CHUNKS, CHECKS))

    def work(connection: Connection) -> list[int]:
        sizes = list(connection.execute(delete(CHUNKS).where(past).returning(CHUNKS.c.num_reports)).scalars())
        if connection.execute(delete(CHECKS).where(sums)).rowcount or sizes:
            database.note_deletions(connection, OF_REPORTS)
        return sizes

    return database.write(work)


FEW: Final = 100_000
SLICES: Final = 256
"""A table with fewer than `FEW` ids is deleted from in one transaction, a larger one in this many."""


def delete_expired_ids(database: Database, now: float) -> tuple[int, list[str]]:
    """Delete the batch ids whose day has passed, once a day: they expire at the end of a day.

    Returns
    -------
    tuple of int and list of str
        How many ids were deleted, and which tables of ids are still there although their day has passed.
    """
    today = int(now // DAY)
    with database.snapshot() as connection:
        last = connection.execute(select(ABOUT.c.value).where(ABOUT.c.key == IDS_DELETED)).scalar()
        if last is not None and int(last) >= today:
            return 0, []
        expired = [day for day, until in read_id_days(connection).items() if until <= now]
    dropped = {day: database.drop_ids(day, now) for day in expired}
    deleted = _delete_ids_before(database, now) + sum(count for count in dropped.values() if count > 0)
    stay = [f"{ids_table_name(day)}: it is in use, or another user's" for day, count in dropped.items() if count < 0]
    if not stay:
        database.write(lambda connection: _note_day(database, connection, str(today)))
    return deleted, stay


def _delete_ids_before(database: Database, now: float) -> int:
    """Delete what expired of the ids that were accepted before schema 0006; return how many.

    A large table is gone through in slices, each a transaction: no writer waits for long.
    """
    ids = BATCH_IDS_BEFORE.c
    with database.snapshot() as connection:
        first_ids = select(ids.id).limit(FEW).subquery()
        count = connection.execute(select(func.count()).select_from(first_ids)).scalar_one()
    if not count:
        return 0
    return sum(_delete_ids(database, (ids.forget_after <= now, *part)) for part in _slices(few=count < FEW))


def _slices(*, few: bool) -> Iterable[tuple[ColumnElement[bool], ...]]:
    """Return the conditions that cut a table of ids into slices, by the first byte of an id."""
    if few:
        return [()]
    starts = [BATCH_IDS_BEFORE.c.id >= bytes([first]) for first in range(1, SLICES)]
    ends = [BATCH_IDS_BEFORE.c.id < bytes([first]) for first in range(1, SLICES)]
    return [(ends[0],), *zip(starts, ends[1:], strict=False), (starts[-1],)]


def _delete_ids(database: Database, where: tuple[ColumnElement[bool], ...]) -> int:
    def work(connection: Connection) -> int:
        database.lock(connection)  # ids that are being rewritten would be missed
        deleted = connection.execute(delete(BATCH_IDS_BEFORE).where(*where)).rowcount
        if deleted:
            database.note_deletions(connection, {BATCH_IDS_BEFORE.name})
        return deleted

    return database.write(work)


def _note_day(database: Database, connection: Connection, day: str) -> None:
    database.lock(connection)  # of two collectors that delete ids for the first time, only one may make the row
    if not connection.execute(update(ABOUT).where(ABOUT.c.key == IDS_DELETED).values(value=day)).rowcount:
        connection.execute(ABOUT.insert(), [{"key": IDS_DELETED, "value": day}])
