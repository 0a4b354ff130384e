"""Forget batch ids that no copy can arrive under any more, and reports past retention."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, Connection, delete, func, select, update

from overstory.collector.store.database import Database
from overstory.collector.store.known import Knowledge, read_known
from overstory.collector.store.schema import ABOUT, BATCH_IDS, CHUNKS

FORGOTTEN: Final = "forgotten"
"""The day on which ids were last forgotten: they expire with the end of a day, so once a day is enough."""

FEW: Final = 100_000
SLICES: Final = 256


def forget(database: Database, now: float) -> int:
    """Delete the ids whose day has passed; return how many.

    A large table is gone through in slices, each a transaction: whoever writes does not wait for long.
    """
    from overstory.protocol.metrics.period import DAY

    today = int(now // DAY)
    last = last_day(database)
    if last is not None and last >= today:
        return 0
    with database.snapshot() as connection:
        some = select(BATCH_IDS.c.id).limit(FEW).subquery()
        few = connection.execute(select(func.count()).select_from(some)).scalar_one() < FEW
    expired = BATCH_IDS.c.forget_after <= now
    deleted = sum(_delete(database, (expired, *part)) for part in _parts(few=few))
    database.write(lambda connection: _remember_day(database, connection, str(today)))
    return deleted


def last_day(database: Database) -> int | None:
    """Return the day, counted from 1970, on which ids were last forgotten, if ever."""
    with database.snapshot() as connection:
        last = connection.execute(select(ABOUT.c.value).where(ABOUT.c.key == FORGOTTEN)).scalar()
    return None if last is None else int(last)


def _parts(*, few: bool) -> Iterable[tuple[ColumnElement[bool], ...]]:
    if few:
        return [()]
    starts = [BATCH_IDS.c.id >= bytes([first]) for first in range(1, SLICES)]
    ends = [BATCH_IDS.c.id < bytes([first]) for first in range(1, SLICES)]
    return [(ends[0],), *zip(starts, ends[1:], strict=False), (starts[-1],)]


def _delete(database: Database, where: tuple[ColumnElement[bool], ...]) -> int:
    def work(connection: Connection) -> int:
        database.alone(connection)  # ids that are being rewritten would be missed
        deleted = connection.execute(delete(BATCH_IDS).where(*where)).rowcount
        if deleted:
            database.owe(connection, {BATCH_IDS.name})
        return deleted

    return database.write(work)


def _remember_day(database: Database, connection: Connection, day: str) -> None:
    database.alone(connection)  # of two collectors that forget for the first time, only one may make the row
    if not connection.execute(update(ABOUT).where(ABOUT.c.key == FORGOTTEN).values(value=day)).rowcount:
        connection.execute(ABOUT.insert(), [{"key": FORGOTTEN, "value": day}])


@dataclass(frozen=True)
class Retained:
    """What retention deleted.

    Attributes
    ----------
    reports, chunks
        Reports past retention, and the rows that they were kept in. Their counts stay.
    remains
        What was deleted and can still be read in the database's files, and why; see `Database.erase`.
    """

    reports: int
    chunks: int
    remains: tuple[str, ...] = ()


def retain(database: Database, knowledge: Knowledge, now: float) -> Retained:
    """Delete reports past their metric's retention; see `Store.retain`."""
    with database.snapshot() as connection:
        remembered = read_known(connection).values()
    # The registry at hand has the last word on how long a metric's reports are kept.
    expired = {known.metric: known.last_expired(now) for known in (*remembered, *knowledge.values())}
    reports = rows = 0
    for metric, last in expired.items():
        sizes = database.write(lambda connection: _delete_chunks(database, connection, metric, last))  # noqa: B023 - run at once
        reports, rows = reports + sum(sizes), rows + len(sizes)
    database.tidy()
    return Retained(reports, rows, database.erase({CHUNKS.name} if rows else ()))


def _delete_chunks(database: Database, connection: Connection, metric: str, last: int) -> list[int]:
    past = (CHUNKS.c.metric == metric) & (CHUNKS.c.period <= last)
    sizes = list(connection.execute(delete(CHUNKS).where(past).returning(CHUNKS.c.num_reports)).scalars())
    if sizes:
        database.owe(connection, {CHUNKS.name})
    return sizes
