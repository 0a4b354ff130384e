"""PostgreSQL, for several collectors at once; `Eraser` takes deleted rows out of its files."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

from sqlalchemy import URL, Connection, TextClause, create_engine, delete, event, func, select, text
from sqlalchemy.exc import DBAPIError

from overstory.collector.store.databases.database import (
    Database,
    IdsOfDay,
    Result,
    translate_errors,
)
from overstory.collector.store.databases.eraser import IS_OWNER, LOCK_MS, MARK, Eraser
from overstory.collector.store.databases.urls import shown
from overstory.collector.store.schema import (
    ABOUT,
    BATCH_IDS,
    DELETED_FROM,
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
            connect_args={"connect_timeout": 10, "application_name": "overstory"}
            | {"tcp_user_timeout": 30_000, "keepalives_idle": 10, "keepalives_interval": 10},  # a host that is gone
        )
        event.listen(engine, "connect", _durable)
        super().__init__(shown(url), engine)
        self._eraser = Eraser(self)

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
                # Unless another transaction made it, which this one waited for.
                ids_table(day).create(connection, checkfirst=True)
        new = {}
        for day, (_, ids) in sorted(by_day.items()):
            rows = connection.execute(_insert_ids(day), {"ids": sorted(set(ids))})
            new[day] = {bytes(one) for one in rows.scalars()}
        return new

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

    def size(self, connection: Connection) -> int:
        size: int = connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one()
        return size

    def lock(self, connection: Connection) -> None:
        """Take an advisory lock that ends with the transaction."""
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": STORE_LOCK})

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
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

    def note_deletions(self, connection: Connection, tables: Iterable[str]) -> None:
        """Mark the tables: the next process that erases rewrites them."""
        mark = secrets.token_hex(8)
        for table in sorted(tables):  # in one order: of two transactions, one waits
            connection.execute(MARK, {"key": DELETED_FROM + table, "value": mark})

    def erase_deleted(self, urgent: Iterable[str] = ()) -> tuple[str, ...]:
        """Rewrite the tables into new files, and batch ids in their own order."""
        with translate_errors(self.url):
            return self._eraser.erase(urgent)


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
