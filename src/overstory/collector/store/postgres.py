"""PostgreSQL, for several collectors at once; `Eraser` takes deleted rows out of its files."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

from sqlalchemy import URL, Connection, TextClause, create_engine, delete, event, func, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateTable

from overstory.collector.store.database import Database, IdsOfDay, Result, StoreError, explain, translate_errors
from overstory.collector.store.schema import (
    ABOUT,
    BATCH_IDS,
    BATCH_IDS_BEFORE,
    CHECKS,
    CHUNKS,
    COUNTS,
    DELETED_FROM,
    INBOX,
    REWRITTEN,
    ids_table,
    ids_table_name,
    read_id_days,
)

KEEP_DAY: Final = text(
    "INSERT INTO batch_ids (day, forget_after) VALUES (:day, :until) "
    "ON CONFLICT (day) DO UPDATE SET forget_after = greatest(batch_ids.forget_after, excluded.forget_after)"
)
"""Of two transactions that add the same day, one waits for the other: only one then makes the day's table."""

ANY_BEFORE: Final = text("SELECT EXISTS (SELECT FROM batch_ids_before)")

IDS_BEFORE: Final = text("SELECT id FROM batch_ids_before WHERE id = ANY(CAST(:ids AS bytea[]))")

DAYS: Final = text("SELECT day, forget_after FROM batch_ids")

WAIT_BRIEFLY: Final = text("SELECT set_config('lock_timeout', CAST(:ms AS text), true)")

STAYS: Final = {"55P03", "40P01"}
"""The codes for a table that cannot be dropped now: it is in use, or part of a deadlock."""

DURABLE: Final = (
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
)

TRY_LOCK: Final = text("SELECT pg_try_advisory_lock(:number)")

STORE_LOCK: Final = 0x6F766572  # "over": the number of the advisory lock of the store

CONFLICTS: Final = {"40001", "40P01"}
"""The codes for a transaction that met another one: serialization failure, deadlock."""

ATTEMPTS: Final = 6


class PostgresDatabase(Database):
    """A database of a server; any number of processes write at once."""

    kind = "postgresql"

    def __init__(self, url: URL) -> None:
        engine = create_engine(
            url.set(drivername="postgresql+psycopg"),
            isolation_level="READ COMMITTED",
            hide_parameters=True,  # stored values do not appear in messages and logs
            pool_pre_ping=True,  # after a restart of the server, connections are replaced
            connect_args={"connect_timeout": 10, "application_name": "overstory"},
        )
        event.listen(engine, "connect", _durable)
        super().__init__(url.render_as_string(hide_password=True), engine)
        self._eraser = Eraser(self)
        self._ids_before = True

    def write(self, work: Callable[[Connection], Result]) -> Result:
        """Run `work` in one transaction.

        A transaction that met another one is run again from its start, a few times. One whose connection broke is run
        again once: whether it was committed is then unknown.
        """
        with translate_errors(self.url):
            for attempt in range(ATTEMPTS):
                try:
                    with self.engine.begin() as connection:
                        return work(connection)
                except DBAPIError as error:
                    if not _is_worth_repeating(error, attempt):
                        raise
                    time.sleep(random.uniform(0, 0.01 * 2**attempt))  # noqa: S311 - two that met must not meet again
        raise AssertionError("the last attempt returns or raises")  # pragma: no cover

    def insert_ids(self, connection: Connection, by_day: Mapping[int, IdsOfDay]) -> dict[int, set[bytes]]:
        """Insert the ids of each day in one statement, days and ids in their order: two transactions never deadlock.

        Reading `batch_ids` locks it until this transaction ends: none of the tables can be dropped meanwhile.
        """
        stored = {row.day: row.forget_after for row in connection.execute(DAYS)}
        for day, (forget_after, _) in sorted(by_day.items()):
            if stored.get(day, -1) < forget_after:
                connection.execute(KEEP_DAY, {"day": day, "until": forget_after})
            if day not in stored:
                connection.execute(CreateTable(ids_table(day), if_not_exists=True))
        before = self._stored_before(connection, [one for some in by_day.values() for one in some.ids])
        new = {}
        for day, (_, ids) in sorted(by_day.items()):
            rows = connection.execute(_insert_ids(day), {"ids": sorted(set(ids) - before)})
            new[day] = {bytes(one) for one in rows.scalars()}
        return new

    def _stored_before(self, connection: Connection, ids: list[bytes]) -> set[bytes]:
        """Return which of these ids were accepted before schema 0006; a table that was seen empty stays empty."""
        self._ids_before = self._ids_before and connection.execute(ANY_BEFORE).scalar_one()
        if not self._ids_before:
            return set()
        return {bytes(one) for one in connection.execute(IDS_BEFORE, {"ids": ids}).scalars()}

    def drop_ids(self, day: int, now: float) -> int:
        """Drop a table of ids, and with it its file, while no transaction inserts ids or reads them."""
        table = ids_table(day)

        def work(connection: Connection) -> int:
            connection.execute(WAIT_BRIEFLY, {"ms": LOCK_MS})
            connection.execute(text("LOCK TABLE batch_ids IN ACCESS EXCLUSIVE MODE"))
            if read_id_days(connection).get(day, now + 1) > now:
                return 0  # another process has dropped it, or has taken one more batch
            table.drop(connection)
            connection.execute(delete(BATCH_IDS).where(BATCH_IDS.c.day == day))
            connection.execute(
                delete(ABOUT).where(ABOUT.c.key.in_([DELETED_FROM + table.name, REWRITTEN + table.name]))
            )
            return 1

        with self.snapshot_of_ids() as connection:  # before the lock: counting takes long
            if day not in read_id_days(connection):
                return 0
            if not connection.execute(IS_OWNER, {"table": table.name}).scalar():
                return -1
            count: int = connection.execute(select(func.count()).select_from(table)).scalar_one()
        with translate_errors(self.url):
            try:
                with self.engine.begin() as connection:
                    return count * work(connection)
            except DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) in STAYS:
                    return -1
                raise

    def serve_alone(self) -> None:
        """Do nothing: any number of collectors may serve one database."""

    def size(self, connection: Connection) -> int:
        """Return the size of the database."""
        size: int = connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one()
        return size

    def lock(self, connection: Connection) -> None:
        """Take an advisory lock that ends with the transaction."""
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": STORE_LOCK})

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Open a repeatable read."""
        reading = self.engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        with translate_errors(self.url), reading.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def snapshot_of_ids(self) -> Iterator[Connection]:
        """Open a repeatable read that keeps `batch_ids` locked for reading: dropping a table locks it for writing.

        LOCK TABLE needs no snapshot: the transaction gets it after the lock, and sees what was dropped before.
        """
        with self.snapshot() as connection:
            connection.execute(text("LOCK TABLE batch_ids IN ACCESS SHARE MODE"))
            yield connection

    @contextmanager
    def work_claims(self) -> Iterator[Callable[[Hashable], bool]]:
        """Claim work by advisory locks, which end with their connection."""
        with (
            translate_errors(self.url),
            self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
        ):

            def claim(work: Hashable) -> bool:
                number = int.from_bytes(blake2b(repr(work).encode(), digest_size=8).digest(), "big", signed=True)
                taken: bool = connection.execute(TRY_LOCK, {"number": number}).scalar_one()
                return taken

            try:
                yield claim
            finally:
                connection.execute(text("SELECT pg_advisory_unlock_all()"))

    def check_integrity(self, connection: Connection) -> None:
        """Do nothing: PostgreSQL checks the checksums of its pages whenever it reads them."""

    def in_place(self) -> bool:
        """Return True: the files are the server's."""
        return True

    def checkpoint(self) -> None:
        """Do nothing: the server's checkpointer does."""

    def note_deletions(self, connection: Connection, tables: Iterable[str]) -> None:
        """Mark the tables: the next process that erases rewrites them."""
        mark = secrets.token_hex(8)
        for table in sorted(tables):  # in one order: of two transactions, one waits
            connection.execute(MARK, {"key": DELETED_FROM + table, "value": mark})

    def erase_deleted(self, urgent: Iterable[str] = ()) -> tuple[str, ...]:
        """Rewrite the tables into new files, and batch ids in their own order."""
        with translate_errors(self.url):
            return self._eraser.erase(urgent)

    def release_free_space(self) -> None:
        """Do nothing: rewriting a table gives its room back, and autovacuum does."""


@lru_cache(maxsize=1024)
def _insert_ids(day: int) -> TextClause:
    return text(
        f"INSERT INTO {ids_table_name(day)} (id) SELECT * FROM unnest(CAST(:ids AS bytea[])) "  # noqa: S608 - the store's own name
        "ON CONFLICT (id) DO NOTHING RETURNING id"
    )


def _durable(raw: Any, _: Any) -> None:
    """Let a commit wait for the disk, whatever the settings of the server, the database or the role; any user may."""
    with raw.cursor() as cursor:
        cursor.execute(DURABLE)
    raw.commit()  # otherwise it is undone with its transaction


def _is_worth_repeating(error: DBAPIError, attempt: int) -> bool:
    if getattr(error.orig, "sqlstate", None) in CONFLICTS:
        return attempt + 1 < ATTEMPTS
    return error.connection_invalidated and attempt == 0


TABLES: Final = (INBOX.name, BATCH_IDS_BEFORE.name, CHUNKS.name, COUNTS.name, CHECKS.name)
"""The tables that are rewritten, besides those of ids."""

REST: Final = {INBOX.name: 1000, BATCH_IDS_BEFORE.name: 1000, CHUNKS.name: 100, COUNTS.name: 100, CHECKS.name: 100}
"""After a rewriting a table rests for this many times its duration. Ingest waits while one of the first two is
rewritten: a thousandth of the time. Only operators read the others, and only compactions write them."""

REST_OF_IDS: Final = 1000
"""The same for all tables of ids together: each rests for that many times its duration and the number of tables."""

PASSES, PAUSE = 50, 0.02

LOCK_MS: Final = 200
"""How long to wait for the lock of a table: all later users of the table wait behind this one."""

SLICE: Final = 4000
MOST_SLICES: Final = 256
END: Final = bytes([255]) * 17
"""Greater than every batch id."""

COMMIT_TIMES: Final = "the server keeps the time of every commit: set track_commit_timestamp = off"

IS_THERE: Final = text("SELECT to_regclass(:table) IS NOT NULL")
LIMIT_WAIT: Final = text("SELECT set_config('lock_timeout', CAST(:ms AS text), false)")
IS_OWNER: Final = text("SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = CAST(:table AS regclass)")
MARK: Final = text(
    "INSERT INTO about (key, value) VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)
CLEAR: Final = text(
    "INSERT INTO about (key, value) VALUES (:key, '') "
    "ON CONFLICT (key) DO UPDATE SET value = '' WHERE about.value = CAST(:mark AS text)"
)
"""A mark that was made meanwhile stays."""

TIME: Final = text("SELECT CAST(extract(epoch FROM clock_timestamp()) AS double precision)")
TRANSACTION: Final = text("SELECT CAST(CAST(pg_current_xact_id() AS xid) AS text)")
ENDED: Final = text(
    "SELECT age(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS xid)) <= age(CAST(CAST(:xid AS text) AS xid))"
)
ERASED: Final = text(
    "SELECT age(relfrozenxid) <= age(CAST(CAST(:xid AS text) AS xid)) FROM pg_class "
    "WHERE oid = CAST(:table AS regclass)"
)
"""Whether a rewritten table has no row that was deleted before transaction `xid`: rewriting freezes every row that all
snapshots agree on, and notes up to which transaction they do."""

INSERT_AGAIN: Final = (
    "WITH gone AS (DELETE FROM {table} WHERE id >= :first AND id < :end RETURNING *) "
    "INSERT INTO {table} SELECT * FROM gone ORDER BY id"
)


def server_time(connection: Connection) -> float:
    """Return the server's Unix time: the one clock that all processes share."""
    now: float = connection.execute(TIME).scalar_one()
    return now


@dataclass
class Eraser:
    """Rewrites tables that rows were deleted from, each as often as its size allows.

    PostgreSQL leaves a deleted row on its page, with the number of the transaction that wrote it: a report could be
    joined to the batch id that came in the same transaction. A plain VACUUM frees the room and need not overwrite it.
    VACUUM FULL writes a table into a new file, without the rows that nobody can see any more, and deletes the old file.
    The rows that stay have their transaction numbers still, so batch ids are first deleted and inserted again, in their
    own order.

    Both respect every open snapshot, `pg_dump`'s as well. A row that such a snapshot can still see stays in the file;
    the table is then rewritten again later.

    Which tables must be rewritten, and until when each rests, is in the store itself: all processes that share it take
    part in the same work, and the next one does what a killed one left undone.
    """

    database: Database
    clock: Callable[[Connection], float] = server_time  # Unix time in seconds

    def erase(self, urgent: Iterable[str]) -> tuple[str, ...]:
        """Rewrite the tables that are due; see `Database.erase_deleted`."""
        at_once = set(urgent)
        with self.database.work_claims() as claim, self.database.engine.connect() as plain:
            connection = plain.execution_options(isolation_level="AUTOCOMMIT")
            remains = [COMMIT_TIMES] if connection.execute(text("SHOW track_commit_timestamp")).scalar() == "on" else []
            of_ids = list(map(ids_table_name, read_id_days(connection)))
            marked = [table for table in TABLES if _value(connection, DELETED_FROM + table) != ""]
            # A table of ids that nobody has marked holds no id of a folded report.
            marked += [table for table in of_ids if _value(connection, DELETED_FROM + table)]
            factors = {**REST, **dict.fromkeys(of_ids, REST_OF_IDS * len(of_ids))}
            due = [table for table in marked if self._due(connection, table, at_once)]
            resting = [table for table in marked if table not in due]
            remains += [f"{table}: {why}" for table in resting if (why := _last_failure(connection, table))]
            if not due:
                return tuple(remains)
            connection.execute(LIMIT_WAIT, {"ms": LOCK_MS})
            try:
                for table in due:
                    if not claim(("erase", table)):
                        remains += [f"{table}: another process is rewriting it"] if table in at_once else []
                    elif self._due(connection, table, at_once):  # nobody has done it just before
                        remains += [f"{table}: {why}" for why in self._try(connection, table, factors[table])]
            finally:
                if not connection.invalidated:
                    connection.execute(text("RESET lock_timeout"))
        return tuple(remains)

    def _due(self, connection: Connection, table: str, at_once: set[str]) -> bool:
        if _value(connection, DELETED_FROM + table) == "":
            return False
        rest = _value(connection, REWRITTEN + table)
        if rest is None or table in at_once:
            return True
        began, ends, _ = rest.split(" ", 2)
        return not float(began) <= self.clock(connection) < float(ends)  # a clock that was set back ends a rest

    def _try(self, connection: Connection, table: str, factor: int) -> list[str]:
        """Rewrite one table, which then rests; return why deleted rows can still be read in its file, if they can."""
        mark = _value(connection, DELETED_FROM + table)
        began = self.clock(connection)
        try:
            why = self._rewrite(connection, table)
        except (StoreError, DBAPIError) as error:
            if not connection.execute(IS_THERE, {"table": table}).scalar():
                return []  # ids that were dropped meanwhile
            why = str(error) if isinstance(error, StoreError) else _reason(error)
        now = self.clock(connection)
        rest = f"{now} {now + max(0.0, now - began) * factor} {why}"

        def note(writing: Connection) -> None:
            read_id_days(writing)  # which keeps the table there
            if not writing.execute(IS_THERE, {"table": table}).scalar():
                return
            if not why:
                writing.execute(CLEAR, {"key": DELETED_FROM + table, "mark": mark})
            writing.execute(MARK, {"key": REWRITTEN + table, "value": rest})

        self.database.write(note)
        return [why] if why else []

    def _rewrite(self, connection: Connection, table: str) -> str:
        if not connection.execute(IS_OWNER, {"table": table}).scalar():
            return "only its owner can rewrite it: let the collector connect as the table's owner"
        if table.startswith(BATCH_IDS.name):
            self._insert_again(table, connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())  # noqa: S608 - the store's own name
        xid = connection.execute(TRANSACTION).scalar()
        _wait_for_others(connection, xid)
        connection.execute(text(f"VACUUM (FULL) {table}"))
        if not connection.execute(ERASED, {"table": table, "xid": xid}).scalar():
            return "an open transaction can still see deleted rows"
        return ""

    def _insert_again(self, table: str, count: int) -> None:
        """Give ids one transaction's number, in the order of their random bytes; a large table slice by slice.

        A transaction that inserts one of these ids meanwhile waits for the slice, and then meets the id.
        """
        slices = min(MOST_SLICES, 1 + count // SLICE)
        starts = [bytes([number * 256 // slices]) for number in range(1, slices)]
        for first, end in zip([b"", *starts], [*starts, END], strict=True):
            self.database.write(lambda connection: self._insert_slice(connection, table, first, end))  # noqa: B023 - run at once

    def _insert_slice(self, connection: Connection, table: str, first: bytes, end: bytes) -> None:
        self.database.lock(connection)  # a deletion of expired ids would miss those that are being inserted
        connection.execute(text(INSERT_AGAIN.format(table=table)), {"first": first, "end": end})


def _value(connection: Connection, key: str) -> str | None:
    return connection.execute(select(ABOUT.c.value).where(ABOUT.c.key == key)).scalar()


def _last_failure(connection: Connection, table: str) -> str:
    """Return why the last rewriting of a table failed; an empty text when it succeeded."""
    rest = _value(connection, REWRITTEN + table)
    return rest.split(" ", 2)[2] if rest else ""


def _wait_for_others(connection: Connection, xid: str | None) -> None:
    """Wait a little for the transactions that began before `xid`: those of senders take milliseconds."""
    for _ in range(PASSES):
        if connection.execute(ENDED, {"xid": xid}).scalar():
            return
        time.sleep(PAUSE)


def _reason(error: DBAPIError) -> str:
    locked = getattr(error.orig, "sqlstate", None) == "55P03"
    return "another transaction holds it" if locked else explain(error)
