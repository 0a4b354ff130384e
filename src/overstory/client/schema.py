"""The tables of state.db, and how a database of an earlier version becomes one of this.

Version 1 had the first four tables; `VERSION` counts the steps since. A step is never edited once released: it is
what databases on people's devices went through.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from overstory.client.errors import Fault, StateError

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

ERASE_ID: Final = (
    "batch = CAST('erased ' || id AS BLOB),"
    " body = CASE WHEN length(body) < 24 THEN body"
    " ELSE CAST(substr(body, 1, 8) || zeroblob(16) || substr(body, 25) AS BLOB) END"
)
"""What takes the batch id out of a row of the outbox, and out of the upload in it."""

_LENGTHS: Final = "SELECT 604800 AS seconds" + "".join(
    f" UNION ALL SELECT {minutes * 60}" for minutes in range(1, 1441) if not 1440 % minutes
)
"""Every length of a period, in seconds: a week, a day, and the whole minutes that divide one."""

STEPS: Final = (
    (  # 1 -> 2: responses recorded under `local`, what mechanisms' privacy rests on, tallies, which response was sent
        "ALTER TABLE responses ADD COLUMN kept INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE outbox ADD COLUMN response INTEGER",
        "CREATE TABLE terms (mechanism BLOB PRIMARY KEY, terms TEXT NOT NULL) WITHOUT ROWID",
        "CREATE TABLE counts (what TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID",
        "CREATE INDEX outbox_by_state ON outbox (state, due)",
    ),
    (  # 2 -> 3: when each metric's key may go, what was made with the one secret of before; settled rows lose their ids
        "CREATE TABLE keys (metric TEXT PRIMARY KEY, ends INTEGER, erased INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID",
        # shared: whether these responses shared their noise; NULL until it is decided, with a registry
        """CREATE TABLE legacy (
            metric TEXT, mechanism BLOB, shared INTEGER, PRIMARY KEY (metric, mechanism)) WITHOUT ROWID""",
        "INSERT INTO keys (metric) SELECT DISTINCT metric FROM responses",
        "INSERT INTO legacy (metric, mechanism) SELECT DISTINCT metric, mechanism FROM responses",
        f"UPDATE outbox SET {ERASE_ID} WHERE state IN ('sent', 'dropped')",  # noqa: S608 - own words
    ),
    (  # 3 -> 4: which periods the claims number; the machine's mark has another key, and is made at the next opening
        # A number alone does not say of which length its period is. It is the longest by which the last period reported
        # has begun: by the next longer one it would lie years ahead.
        f"""INSERT INTO about SELECT 'length ' || metric, max(seconds) FROM
            (SELECT metric, max(period) AS last FROM reported GROUP BY metric), ({_LENGTHS})
            WHERE seconds * last <= CAST(strftime('%s') AS INTEGER) + 86400 GROUP BY metric""",  # noqa: S608 - own words
        "DELETE FROM about WHERE key = 'machine'",
    ),
)
VERSION: Final = 1 + len(STEPS)


def version_of(connection: sqlite3.Connection) -> int:
    """Return the schema's version; 0 where there is none yet."""
    try:
        found = connection.execute("SELECT value FROM about WHERE key = 'schema'").fetchone()
    except sqlite3.OperationalError:  # no table, or none that can be read: then this raises again
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchone():
            raise
        return 0
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
            if version or statement.startswith(("CREATE", "ALTER")):  # new tables have no rows to change
                connection.execute(statement)
    connection.execute("REPLACE INTO about VALUES ('schema', ?)", (VERSION,))
