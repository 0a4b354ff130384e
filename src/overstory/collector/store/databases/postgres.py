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

from overstory.collector.store.databases.database import (
    Database,
    IdsOfDay,
    Result,
    StoreError,
    explain,
    shown,
    translate_errors,
)
from overstory.collector.store.schema import (
    ABOUT,
    BATCH_IDS,
    CHUNKS,
    COLLECTORS,
    COUNTS,
    DELETED_FROM,
    INBOX,
    NOTES,
    RELEASES,
    REWRITTEN,
    TALLIES,
    ids_table,
    ids_table_name,
    read_fact,
    read_id_days,
)

KEEP_DAY: Final = text(
    "INSERT INTO batch_ids (day, forget_after) VALUES (:day, :until) "
    "ON CONFLICT (day) DO UPDATE SET forget_after = greatest(batch_ids.forget_after, excluded.forget_after)"
)
"""Of two transactions that add the same day, one waits for the other: only one then makes the day's table."""

DAYS: Final = text("SELECT day, forget_after FROM batch_ids")

LOCK_MS: Final = 200  # how long to wait for the lock of a table: all later users of the table wait behind this one

IS_OWNER: Final = text("SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = CAST(:table AS regclass)")
MARK: Final = text(
    "INSERT INTO about (key, value) VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)
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
        """Run `work`, again a few times where it met another transaction, and once where the connection broke."""
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
        """Insert in the order of days and ids: no deadlocks. Reading `batch_ids` keeps tables from being dropped."""
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
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": STORE_LOCK})

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        reading = self.engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        with translate_errors(self.url), reading.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def snapshot_of_ids(self) -> Iterator[Connection]:
        """Open a snapshot once `batch_ids` is locked (LOCK TABLE needs none): no table of ids is dropped from then."""
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
        mark = secrets.token_hex(8)
        for table in sorted(tables):  # in one order: of two transactions, one waits
            connection.execute(MARK, {"key": DELETED_FROM + table, "value": mark})

    def erase_deleted(self, urgent: Iterable[str] = ()) -> tuple[str, ...]:
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


# Erasing: tables that rows were deleted from are rewritten

INSERTED_AGAIN: Final = {table.name: ", ".join(table.primary_key.columns.keys()) for table in (CHUNKS, COUNTS)}
"""Tables whose rows are written in one transaction by each rewriting, and their order: by an id that is random, or by
metric and period."""

REST: Final = dict.fromkeys((table.name for table in (INBOX, TALLIES, RELEASES, COLLECTORS, NOTES)), 1000) | (
    dict.fromkeys(INSERTED_AGAIN, 100)
)
"""The tables that are rewritten, besides those of ids. After a rewriting a table rests for this many times its
duration. Collectors wait while one of those with 1000 is rewritten: a thousandth of the time. Only operators read the
others, and only compactions and imports write them."""

REST_OF_IDS: Final = 1000
"""The same for all tables of ids together: each rests for that many times its duration and the number of tables."""

PASSES, PAUSE = 50, 0.02

SLICE: Final = 4000
MOST_SLICES: Final = 256
END: Final = bytes([255]) * 17  # greater than every batch id

COMMIT_TIMES: Final = "the server keeps the time of every commit: set track_commit_timestamp = off"
LOGGED: Final = (
    "the server's log has reports and batch ids, as values of statements: set log_parameter_max_length = 0 and "
    "log_parameter_max_length_on_error = 0"
)
LOGS_VALUES: Final = text(
    "SELECT coalesce(current_setting('log_parameter_max_length', true), '-1') <> '0' "
    "AND (current_setting('log_statement') IN ('mod', 'all') OR current_setting('log_min_duration_statement') <> '-1' "
    "OR coalesce(current_setting('log_min_duration_sample', true), '-1') <> '-1' "
    "OR CAST(coalesce(current_setting('log_transaction_sample_rate', true), '0') AS double precision) > 0) "
    "OR coalesce(current_setting('log_parameter_max_length_on_error', true), '0') <> '0'"
)
EXPLAINED: Final = (
    "the module auto_explain writes reports and batch ids into the server's log: set auto_explain.log_min_duration = -1"
)
EXPLAINS: Final = text("SELECT coalesce(current_setting('auto_explain.log_min_duration', true), '-1') <> '-1'")
"""A limit on parameters does not help: a plan that was made for certain values has them as constants."""

IS_THERE: Final = text("SELECT to_regclass(:table) IS NOT NULL")
LIMIT_WAIT: Final = text("SELECT set_config('lock_timeout', CAST(:ms AS text), false)")
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

AGAIN: Final = (
    "WITH gone AS (DELETE FROM {table}{some} RETURNING *) INSERT INTO {table} SELECT * FROM gone ORDER BY {order}"
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
    The rows that stay have their transaction numbers still, which tell in which order they were written, among those
    of all tables. So batch ids, chunks and counts are first deleted and inserted again, in an order of their own.
    Tables that are filled in turn and dropped would not spare this: counts change in place, a chunk that is not full is
    shuffled again by each folding, and the numbers of ids and chunks would stay those of their arrival.

    Both respect every open snapshot, `pg_dump`'s as well. A row that such a snapshot can still see stays in the file;
    the table is then rewritten again later.

    Which tables must be rewritten, and until when each rests, is in the store itself: all processes that share it take
    part in the same work, and the next one does what a killed one left undone.
    """

    database: Database
    clock: Callable[[Connection], float] = server_time  # Unix time in seconds

    def erase(self, urgent: Iterable[str]) -> tuple[str, ...]:
        at_once = set(urgent)
        with self.database.work_claims() as claim, self.database.engine.connect() as plain:
            connection = plain.execution_options(isolation_level="AUTOCOMMIT")
            remains = _settings_that_keep(connection)
            of_ids = list(map(ids_table_name, read_id_days(connection)))
            factors = {**REST, **dict.fromkeys(of_ids, REST_OF_IDS * len(of_ids))}
            connection.execute(LIMIT_WAIT, {"ms": LOCK_MS})
            try:
                for table, factor in factors.items():
                    if not self._due(connection, table, at_once):
                        why = _last_failure(connection, table)
                        remains += [f"{table}: {why}"] if why else []
                    elif not claim(("erase", table)):
                        remains += [f"{table}: another process is rewriting it"] if table in at_once else []
                    elif self._due(connection, table, at_once):  # nobody has done it just before
                        remains += [f"{table}: {why}" for why in self._try(connection, table, factor)]
            finally:
                if not connection.invalidated:
                    connection.execute(text("RESET lock_timeout"))
        return tuple(remains)

    def _due(self, connection: Connection, table: str, at_once: set[str]) -> bool:
        if not read_fact(connection, DELETED_FROM + table):
            return False
        rest = read_fact(connection, REWRITTEN + table)
        if rest is None or table in at_once:
            return True
        began, ends, _ = rest.split(" ", 2)
        return not float(began) <= self.clock(connection) < float(ends)  # a clock that was set back ends a rest

    def _try(self, connection: Connection, table: str, factor: int) -> list[str]:
        """Rewrite one table, which then rests; return why deleted rows can still be read in its file, if they can."""
        mark = read_fact(connection, DELETED_FROM + table)
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
        if table in INSERTED_AGAIN:
            # While an open transaction sees the old rows, each attempt would leave one more copy of all of them.
            if _last_failure(connection, table) and (why := self._vacuum(connection, table)):
                return why
            self._insert_all_again(table)
        return self._vacuum(connection, table)

    def _vacuum(self, connection: Connection, table: str) -> str:
        xid = connection.execute(TRANSACTION).scalar()
        _wait_for_others(connection, xid)
        connection.execute(text(f"VACUUM (FULL) {table}"))
        if not connection.execute(ERASED, {"table": table, "xid": xid}).scalar():
            return "an open transaction can still see deleted rows"
        return ""

    def _insert_all_again(self, table: str) -> None:
        """Give all rows of a table one transaction's number; who writes it meanwhile waits, and meets the same rows."""
        with self.database.engine.begin() as connection:
            connection.execute(WAIT_BRIEFLY, {"ms": LOCK_MS})
            connection.execute(text(f"LOCK TABLE {table} IN EXCLUSIVE MODE"))
            connection.execute(text(AGAIN.format(table=table, some="", order=INSERTED_AGAIN[table])))

    def _insert_again(self, table: str, count: int) -> None:
        """Give ids one transaction's number, in the order of their random bytes; other writers wait for a slice."""
        insert = text(AGAIN.format(table=table, some=" WHERE id >= :first AND id < :end", order="id"))
        slices = min(MOST_SLICES, 1 + count // SLICE)
        starts = [bytes([number * 256 // slices]) for number in range(1, slices)]
        for first, end in zip([b"", *starts], [*starts, END], strict=True):
            ends = {"first": first, "end": end}

            def again(connection: Connection, ends: dict[str, bytes] = ends) -> None:
                self.database.lock(connection)  # a deletion of expired ids would miss those that are being inserted
                connection.execute(insert, ends)

            self.database.write(again)


def _settings_that_keep(connection: Connection) -> list[str]:
    """Return which of the server's settings keep what compaction deletes."""
    keeps_times = connection.execute(text("SHOW track_commit_timestamp")).scalar() == "on"
    found = {
        COMMIT_TIMES: keeps_times,
        LOGGED: connection.execute(LOGS_VALUES).scalar(),
        EXPLAINED: connection.execute(EXPLAINS).scalar(),
    }
    return [problem for problem, is_there in found.items() if is_there]


def _last_failure(connection: Connection, table: str) -> str:
    """Return why the last rewriting of a table failed; an empty text when it succeeded."""
    rest = read_fact(connection, REWRITTEN + table)
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
