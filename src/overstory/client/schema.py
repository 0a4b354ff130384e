"""The tables of state.db, and how a database of an earlier version becomes one of this.

Version 1 had the first four tables; `VERSION` counts the steps since. A step is never edited once released: it is
what databases on people's devices went through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from overstory.client.errors import Fault, StateError

if TYPE_CHECKING:
    import sqlite3

FIRST: Final = (
    "CREATE TABLE about (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    # One report per period and metric: the primary key is the promise.
    "CREATE TABLE reported (metric TEXT, period INTEGER, PRIMARY KEY (metric, period)) WITHOUT ROWID",
    # One row per permanent response that was reported; `tag` is a keyed hash, so no value is here.
    """CREATE TABLE responses (
        metric TEXT NOT NULL, mechanism BLOB NOT NULL, number INTEGER NOT NULL, tag BLOB NOT NULL,
        permanent BLOB NOT NULL, reports INTEGER NOT NULL,
        PRIMARY KEY (metric, mechanism, tag), UNIQUE (metric, mechanism, number)) WITHOUT ROWID""",
    """CREATE TABLE outbox (
        id INTEGER PRIMARY KEY AUTOINCREMENT, batch BLOB NOT NULL UNIQUE, metric TEXT NOT NULL, period INTEGER NOT NULL,
        body BLOB NOT NULL, due REAL NOT NULL, attempts INTEGER NOT NULL, state TEXT NOT NULL, answer TEXT)""",
)

STEPS: Final = (
    (  # 1 -> 2: responses recorded under `local`, what mechanisms' privacy rests on, tallies, which response was sent
        "ALTER TABLE responses ADD COLUMN kept INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE outbox ADD COLUMN response INTEGER",
        "CREATE TABLE terms (mechanism BLOB PRIMARY KEY, terms TEXT NOT NULL) WITHOUT ROWID",
        "CREATE TABLE counts (what TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID",
        "CREATE INDEX outbox_by_state ON outbox (state, due)",
    ),
)
VERSION: Final = 1 + len(STEPS)


def version_of(connection: sqlite3.Connection) -> int:
    """Return the schema's version; 0 where there is none yet."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchone():
        return 0
    found = connection.execute("SELECT value FROM about WHERE key = 'schema'").fetchone()
    if found is None or not isinstance(found[0], int) or found[0] < 1:
        raise StateError(Fault.DAMAGED, "state.db does not say which version it has")
    return int(found[0])


def upgrade(connection: sqlite3.Connection, version: int) -> None:
    """Bring the schema up to date; the caller's transaction makes that all or nothing.

    Raises
    ------
    StateError
        `newer` when a later version of Overstory wrote the database.
    """
    if version > VERSION:
        raise StateError(
            Fault.NEWER,
            f"state.db has version {version}, and this version of Overstory knows {VERSION}: use the newer one again",
        )
    for statement in FIRST if version == 0 else ():
        connection.execute(statement)
    for step in STEPS[max(version - 1, 0) :]:
        for statement in step:
            connection.execute(statement)
    connection.execute("REPLACE INTO about VALUES ('schema', ?)", (VERSION,))
