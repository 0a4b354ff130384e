"""What the database says about exports: which chunks are a set, and how far each destination has got with it.

A set is all chunks of one key that were not in a set yet. It gets a random id, and is never shuffled again. A
destination has a row of the set from before the first file is written there. The row's state is

    writing     parts are being written, under names with the row's attempt: a later export removes them
    committed   all parts are there; the row holds the manifest, which is still to be written
    published   the manifest is there
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, func, select, update

from overstory.collector.store.counts import Key, key_columns
from overstory.collector.store.databases.database import Database
from overstory.collector.store.schema import ABOUT, CHUNKS, EXPORTS, STORE_ID

WRITING: Final = "writing"
COMMITTED: Final = "committed"
PUBLISHED: Final = "published"


@dataclass(frozen=True)
class ReportSet:
    """Reports that are exported together."""

    id: str
    key: Key


@dataclass(frozen=True)
class Attempt:
    """What a destination's row says when an export begins with a set.

    Parameters
    ----------
    id
        In the names of the parts that are to be written.
    earlier
        The attempt that left parts; empty: none did.
    manifest
        Not empty: all parts are there, and this is to be published.
    """

    id: str
    earlier: str
    manifest: str


def store_id(database: Database) -> str:
    """Return the id of a store, which is drawn when it is first asked for."""

    def work(connection: Connection) -> str:
        database.lock(connection)
        stored = connection.execute(select(ABOUT.c.value).where(ABOUT.c.key == STORE_ID)).scalar()
        if stored is None:
            stored = secrets.token_hex(16)
            connection.execute(ABOUT.insert(), [{"key": STORE_ID, "value": stored}])
        return str(stored)

    return database.write(work)


def gather(database: Database, key: Key) -> None:
    """Make a set of the key's chunks that are in none."""

    def work(connection: Connection) -> None:
        own = key.of(CHUNKS), CHUNKS.c.export_id == ""
        if connection.execute(update(CHUNKS).where(*own).values(export_id=secrets.token_hex(16))).rowcount:
            database.note_deletions(connection, {CHUNKS.name})  # an earlier version of a row is a deleted row

    database.write(work)


def unfinished(connection: Connection, destination: str) -> list[ReportSet]:
    """Return the sets that an export to this destination has begun and not published."""
    rows = connection.execute(select(EXPORTS).where(EXPORTS.c.destination == destination, EXPORTS.c.state != PUBLISHED))
    return sorted((ReportSet(row.id, Key.of_row(row)) for row in rows), key=lambda one: (one.key, one.id))


def rows_of(connection: Connection, destination: str | None = None) -> list[Row[Any]]:
    """Return the rows of a destination, or all."""
    rows = select(EXPORTS).order_by(EXPORTS.c.destination, *key_columns(EXPORTS), EXPORTS.c.id)
    return list(connection.execute(rows if destination is None else rows.where(EXPORTS.c.destination == destination)))


def begin(database: Database, one: ReportSet, destination: str) -> Attempt | None:
    """Write down that a set is being written; None when it is published there already."""
    attempt = secrets.token_hex(16)
    own = EXPORTS.c.id == one.id, EXPORTS.c.destination == destination

    def work(connection: Connection) -> Attempt | None:
        database.lock(connection)
        row = connection.execute(select(EXPORTS).where(*own)).first()
        if row is None:
            fresh = {"num_reports": 0, "attempt": attempt, "state": WRITING, "manifest": ""}
            new = {"id": one.id, "destination": destination, **one.key._asdict(), **fresh}
            connection.execute(EXPORTS.insert(), [new])
            return Attempt(attempt, "", "")
        if row.state == PUBLISHED:
            return None
        if row.state == COMMITTED:
            return Attempt(row.attempt, "", row.manifest)
        connection.execute(update(EXPORTS).where(*own).values(attempt=attempt))
        return Attempt(attempt, row.attempt, "")

    return database.write(work)


def commit(database: Database, one: ReportSet, destination: str, attempt: str, manifest: str, reports: int) -> bool:
    """Write down the manifest of what was written; False when another export took over, or the reports are deleted."""

    def work(connection: Connection) -> bool:
        database.lock(connection)
        if reports_of_set(connection, one) != reports:
            return False
        own = (
            EXPORTS.c.id == one.id,
            EXPORTS.c.destination == destination,
            EXPORTS.c.attempt == attempt,
            EXPORTS.c.state == WRITING,
        )
        done = update(EXPORTS).where(*own).values(state=COMMITTED, manifest=manifest, num_reports=reports)
        return bool(connection.execute(done).rowcount)

    return database.write(work)


def reports_of_set(connection: Connection, one: ReportSet) -> int:
    """Return how many reports of a set are stored."""
    total = select(func.sum(CHUNKS.c.num_reports)).where(one.key.of(CHUNKS), CHUNKS.c.export_id == one.id)
    return int(connection.execute(total).scalar() or 0)


def publish(database: Database, one: ReportSet, destination: str) -> None:
    """Write down that the manifest is at the destination."""
    own = EXPORTS.c.id == one.id, EXPORTS.c.destination == destination, EXPORTS.c.state == COMMITTED
    database.write(lambda connection: connection.execute(update(EXPORTS).where(*own).values(state=PUBLISHED)))


def forget(database: Database, one: ReportSet, destination: str, attempt: str) -> None:
    """Remove the row of a set that was never committed there."""
    own = EXPORTS.c.id == one.id, EXPORTS.c.destination == destination, EXPORTS.c.attempt == attempt
    database.write(lambda connection: connection.execute(delete(EXPORTS).where(*own, EXPORTS.c.state == WRITING)))


def adopt(database: Database, one: ReportSet, destination: str, manifest: str, reports: int) -> None:
    """Write down that a set is at a destination that has got another name."""
    row = {"num_reports": reports, "attempt": "", "state": PUBLISHED, "manifest": manifest}
    new = {"id": one.id, "destination": destination, **one.key._asdict(), **row}
    database.write(lambda connection: connection.execute(EXPORTS.insert(), [new]))


def known_ids(connection: Connection, ids: Iterable[str]) -> set[str]:
    """Return which ids are of sets that this store has a row or reports of."""
    wanted = list(ids)
    if not wanted:
        return set()
    found = connection.execute(select(EXPORTS.c.id).where(EXPORTS.c.id.in_(wanted))).scalars()
    stored = connection.execute(select(CHUNKS.c.export_id).where(CHUNKS.c.export_id.in_(wanted)).distinct()).scalars()
    return {*found, *stored}
