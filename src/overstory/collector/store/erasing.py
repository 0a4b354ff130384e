"""Take deleted rows out of PostgreSQL's files, and the order of arrival out of the batch ids.

PostgreSQL leaves a deleted row on its page, with the number of the transaction that wrote it: a report could be joined
to the batch id that came in the same transaction. A plain VACUUM frees the room and need not overwrite it. VACUUM FULL
writes a table into a new file, without the rows that nobody can see any more, and deletes the old file. It leaves the
transaction numbers of the rows that stay, so batch ids are first deleted and inserted again, in their own order.

Both respect every snapshot that is open elsewhere, `pg_dump`'s as well. A row that such a snapshot can still see stays
in the file; the table is then rewritten again in a later step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from overstory.collector.store.database import Database
from overstory.collector.store.errors import StoreError, explain
from overstory.collector.store.schema import BATCH_IDS, CHUNKS, COUNTS, INBOX

TABLES: Final = (INBOX.name, BATCH_IDS.name, CHUNKS.name, COUNTS.name)

REST: Final = {INBOX.name: 1000, BATCH_IDS.name: 1000, CHUNKS.name: 100, COUNTS.name: 100}
"""How many times as long as its rewriting took a table then rests. Ingest waits while one of the first two is
rewritten: for a thousandth of the time. The other two are read by operators and written by compactions alone."""

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


@dataclass
class Eraser:
    """Rewrites tables that rows were deleted from, each as often as its size allows.

    Parameters
    ----------
    database
        Where the tables are.
    clock
        Seconds, monotonic.
    """

    database: Database
    clock: Callable[[], float] = time.monotonic
    _owed: set[str] = field(default_factory=lambda: set(TABLES))  # an earlier process may have been killed before it
    _rest_until: dict[str, float] = field(default_factory=dict)

    def erase(self, tables: Iterable[str]) -> tuple[str, ...]:
        """Rewrite these tables and those still owed; see `Database.erase`."""
        self._owed.update(tables)
        due = [table for table in TABLES if table in self._owed and self.clock() >= self._rest_until.get(table, 0.0)]
        if not due:
            return ()
        with self.database.claims() as claim, self.database.engine.connect() as plain:
            connection = plain.execution_options(isolation_level="AUTOCOMMIT")
            remains = [TIMES_KEPT] if connection.execute(text("SHOW track_commit_timestamp")).scalar() == "on" else []
            connection.execute(LIMIT_WAIT, {"ms": LOCK_MS})
            try:
                for table in due:
                    if claim(("erase", table)):
                        remains += [f"{table}: {why}" for why in self._try(connection, table)]
            finally:
                if not connection.invalidated:
                    connection.execute(text("RESET lock_timeout"))
        return tuple(remains)

    def _try(self, connection: Connection, table: str) -> list[str]:
        """Rewrite one table; return why rows that were deleted can still be read in its file, if they can."""
        began = self.clock()
        self._owed.discard(table)
        try:
            why = self._rewrite(connection, table)
        except StoreError as error:
            why = str(error)
        except DBAPIError as error:
            why = "another transaction holds it" if _locked(error) else explain(error)
        if why:
            self._owed.add(table)
        now = self.clock()
        self._rest_until[table] = now + (now - began) * REST[table]
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


def _wait_for_others(connection: Connection, xid: str | None) -> None:
    """Wait a little for the transactions that began before `xid`: those of senders take milliseconds."""
    for _ in range(PASSES):
        if connection.execute(ENDED, {"xid": xid}).scalar():
            return
        time.sleep(PAUSE)


def _locked(error: DBAPIError) -> bool:
    return getattr(error.orig, "sqlstate", None) == "55P03"
