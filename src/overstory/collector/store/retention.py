"""Forget batch ids that no copy can arrive under any more, and reports past retention.

Take deleted rows out of PostgreSQL's files, and the order of arrival out of the batch ids.

PostgreSQL leaves a deleted row on its page, with the number of the transaction that wrote it: a report could be joined
to the batch id that came in the same transaction. A plain VACUUM frees the room and need not overwrite it. VACUUM FULL
writes a table into a new file, without the rows that nobody can see any more, and deletes the old file. It leaves the
transaction numbers of the rows that stay, so batch ids are first deleted and inserted again, in their own order.

Both respect every snapshot that is open elsewhere, `pg_dump`'s as well. A row that such a snapshot can still see stays
in the file; the table is then rewritten again in a later step.

Which tables are owed a rewriting, and how long each rests, is in the store itself: all processes that share it take
part in the same work, and one that was killed before it leaves it to the next.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, Connection, delete, func, select, text, update
from sqlalchemy.exc import DBAPIError

from overstory.collector.store.database import Database, StoreError, explain
from overstory.collector.store.metrics import StoredMetrics, read_stored_metrics
from overstory.collector.store.schema import ABOUT, BATCH_IDS, CHUNKS, COUNTS, INBOX

FORGOTTEN: Final = "forgotten"
"""The day on which ids were last forgotten: they expire with the end of a day, so once a day is enough."""

FEW: Final = 100_000
SLICES: Final = 256


def forget(database: Database, now: float) -> int:
    """Delete the ids whose day has passed; return how many.

    A large table is gone through in slices, each a transaction: whoever writes does not wait for long.
    """
    from overstory.protocol.metrics.metric import DAY

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


def retain(database: Database, entries: StoredMetrics, now: float) -> Retained:
    """Delete reports past their metric's retention; see `Store.retain`."""
    with database.snapshot() as connection:
        remembered = read_stored_metrics(connection).values()
    # The registry at hand has the last word on how long a metric's reports are kept.
    expired = {entry.metric: entry.last_expired(now) for entry in (*remembered, *entries.values())}
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


TABLES: Final = (INBOX.name, BATCH_IDS.name, CHUNKS.name, COUNTS.name)

REST: Final = {INBOX.name: 1000, BATCH_IDS.name: 1000, CHUNKS.name: 100, COUNTS.name: 100}
"""How many times as long as its rewriting took a table then rests. Ingest waits while one of the first two is
rewritten: for a thousandth of the time. The other two are read by operators and written by compactions alone."""

OWED: Final = "owed to "
"""With a table's name, the key of a mark of the last transaction that deleted rows from it; empty once it is rewritten.
Where there is none, the store is of a program that kept no marks: rows may have been deleted."""

RESTS: Final = "rest of "
"""With a table's name, the key of its rest: when that began and when it ends, by the server's clock, and why rewriting
it failed, if it did."""

PASSES, PAUSE = 50, 0.02

LOCK_MS: Final = 200
"""How long to wait for a table that somebody else uses: whoever comes after would have to wait as well."""

SLICE: Final = 4000
MOST_SLICES: Final = 256
END: Final = bytes([255]) * 17
"""Behind every batch id."""

TIMES_KEPT: Final = "the server keeps the time of every commit: set track_commit_timestamp = off"

COUNT: Final = text("SELECT count(*) FROM batch_ids")
LIMIT_WAIT: Final = text("SELECT set_config('lock_timeout', CAST(:ms AS text), false)")
OWNED: Final = text("SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = CAST(:table AS regclass)")
MARK: Final = text(
    "INSERT INTO about (key, value) VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)
CLEAR: Final = text(
    "INSERT INTO about (key, value) VALUES (:key, '') "
    "ON CONFLICT (key) DO UPDATE SET value = '' WHERE about.value = CAST(:mark AS text)"
)
"""A mark that was put there meanwhile stays."""

TIME: Final = text("SELECT CAST(extract(epoch FROM clock_timestamp()) AS double precision)")
NOW: Final = text("SELECT CAST(CAST(pg_current_xact_id() AS xid) AS text)")
ENDED: Final = text(
    "SELECT age(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS xid)) <= age(CAST(CAST(:xid AS text) AS xid))"
)
ERASED: Final = text(
    "SELECT age(relfrozenxid) <= age(CAST(CAST(:xid AS text) AS xid)) FROM pg_class "
    "WHERE oid = CAST(:table AS regclass)"
)
"""Whether a rewritten table has no row that was deleted before transaction `xid`: rewriting freezes every row that all
snapshots agree on, and notes up to which transaction they do."""

AGAIN: Final = text(
    "WITH gone AS (DELETE FROM batch_ids WHERE id >= :first AND id < :end RETURNING id, forget_after) "
    "INSERT INTO batch_ids (id, forget_after) SELECT id, forget_after FROM gone ORDER BY id"
)


def owe(connection: Connection, tables: Iterable[str]) -> None:
    """Mark, in the transaction that deletes rows from these tables and as the last thing in it, that it does so."""
    mark = secrets.token_hex(8)
    for table in sorted(tables):  # in one order: of two transactions, one waits
        connection.execute(MARK, {"key": OWED + table, "value": mark})


def server_time(connection: Connection) -> float:
    """Return the server's Unix time: the one clock that all processes share."""
    now: float = connection.execute(TIME).scalar_one()
    return now


@dataclass
class Eraser:
    """Rewrites tables that rows were deleted from, each as often as its size allows.

    Parameters
    ----------
    clock
        Unix time in seconds.
    """

    database: Database
    clock: Callable[[Connection], float] = server_time

    def erase(self, at_once: Iterable[str] = ()) -> tuple[str, ...]:
        """Rewrite the tables that are owed it; see `Database.erase`."""
        hurried = set(at_once)
        with self.database.claims() as claim, self.database.engine.connect() as plain:
            connection = plain.execution_options(isolation_level="AUTOCOMMIT")
            remains = [TIMES_KEPT] if connection.execute(text("SHOW track_commit_timestamp")).scalar() == "on" else []
            owed = [table for table in TABLES if _fact(connection, OWED + table) != ""]
            due = [table for table in owed if self._due(connection, table, hurried)]
            remains += [f"{table}: {why}" for table in owed if table not in due and (why := _failed(connection, table))]
            if not due:
                return tuple(remains)
            connection.execute(LIMIT_WAIT, {"ms": LOCK_MS})
            try:
                for table in due:
                    if not claim(("erase", table)):
                        remains += [f"{table}: another process is rewriting it"] if table in hurried else []
                    elif self._due(connection, table, hurried):  # nobody has done it just before
                        remains += [f"{table}: {why}" for why in self._try(connection, table)]
            finally:
                if not connection.invalidated:
                    connection.execute(text("RESET lock_timeout"))
        return tuple(remains)

    def _due(self, connection: Connection, table: str, hurried: set[str]) -> bool:
        if _fact(connection, OWED + table) == "":
            return False
        rest = _fact(connection, RESTS + table)
        if rest is None or table in hurried:
            return True
        began, ends, _ = rest.split(" ", 2)
        return not float(began) <= self.clock(connection) < float(ends)  # a clock that was set back ends a rest

    def _try(self, connection: Connection, table: str) -> list[str]:
        """Rewrite one table; return why rows that were deleted can still be read in its file, if they can."""
        mark = _fact(connection, OWED + table)
        began = self.clock(connection)
        try:
            why = self._rewrite(connection, table)
        except StoreError as error:
            why = str(error)
        except DBAPIError as error:
            why = "another transaction holds it" if _locked(error) else explain(error)
        now = self.clock(connection)
        rest = f"{now} {now + max(0.0, now - began) * REST[table]} {why}"

        def note(writing: Connection) -> None:
            if not why:
                writing.execute(CLEAR, {"key": OWED + table, "mark": mark})
            writing.execute(MARK, {"key": RESTS + table, "value": rest})

        self.database.write(note)
        return [why] if why else []

    def _rewrite(self, connection: Connection, table: str) -> str:
        if not connection.execute(OWNED, {"table": table}).scalar():
            return "only its owner can rewrite it: let the collector connect as the table's owner"
        if table == BATCH_IDS.name:
            self._insert_again(connection.execute(COUNT).scalar_one())
        xid = connection.execute(NOW).scalar()
        _wait_for_others(connection, xid)
        connection.execute(text(f"VACUUM (FULL) {table}"))
        if not connection.execute(ERASED, {"table": table, "xid": xid}).scalar():
            return "an open transaction can still see deleted rows"
        return ""

    def _insert_again(self, count: int) -> None:
        """Give ids one transaction's number, in the order of their random bytes; a large table slice by slice.

        Who sends one of these ids again meanwhile waits for the slice, and then finds it there.
        """
        slices = min(MOST_SLICES, 1 + count // SLICE)
        starts = [bytes([number * 256 // slices]) for number in range(1, slices)]
        for first, end in zip([b"", *starts], [*starts, END], strict=True):
            self.database.write(lambda connection: self._insert_slice(connection, first, end))  # noqa: B023 - run at once

    def _insert_slice(self, connection: Connection, first: bytes, end: bytes) -> None:
        self.database.alone(connection)  # who forgets ids would miss those that are on the way
        connection.execute(AGAIN, {"first": first, "end": end})


def _fact(connection: Connection, key: str) -> str | None:
    return connection.execute(select(ABOUT.c.value).where(ABOUT.c.key == key)).scalar()


def _failed(connection: Connection, table: str) -> str:
    """Return why the last rewriting of a table failed; nothing where it did not."""
    rest = _fact(connection, RESTS + table)
    return rest.split(" ", 2)[2] if rest else ""


def _wait_for_others(connection: Connection, xid: str | None) -> None:
    """Wait a little for the transactions that began before `xid`: those of senders take milliseconds."""
    for _ in range(PASSES):
        if connection.execute(ENDED, {"xid": xid}).scalar():
            return
        time.sleep(PAUSE)


def _locked(error: DBAPIError) -> bool:
    return getattr(error.orig, "sqlstate", None) == "55P03"
