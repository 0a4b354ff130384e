"""What can go wrong with a store, each in one sentence that says what would be right."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from overstory.protocol.errors import OverstoryError


class StoreError(OverstoryError):
    """A store that is missing, not ours, of another schema, full, locked or out of reach."""


class DiskFullError(StoreError):
    """Nothing was written, because there is no room."""


class RecountError(StoreError):
    """Counts that would have to be made anew from reports that are gone."""


BY_STATE: Final = {
    "53100": "the database server's disk is full; nothing of this was stored",
    "53200": "the database server is out of memory; nothing of this was stored",
    "53300": "the database server has no connection left: raise its max_connections, or run fewer collectors",
    "28P01": "the database server refuses this user's password",
    "28000": "the database server refuses this user",
    "3D000": "there is no such database on this server: make it first (createdb NAME)",
    "42501": "this user may not do that in this database: it needs its own tables (GRANT ALL ON DATABASE ... TO ...)",
    "25006": "the database is read-only here: name the primary server",
    "57P03": "the database server is starting or stopping; try again",
    "42P01": "a table of the store is missing: this is no whole store",
}
"""PostgreSQL's codes that an operator can do something about."""

BY_TEXT: Final = {
    "password authentication failed": BY_STATE["28P01"],
    'fatal: database "': BY_STATE["3D000"],
    'fatal: role "': BY_STATE["28000"],
    "locked": "another process has held the database for too long; try again, or stop the other process",
    "disk is full": "the disk is full; nothing of this was stored",
    "readonly": "the database is read-only: this process may not write its file or its folder",
    "read-only": "the database is read-only: this process may not write its file or its folder",
    "unable to open": "the database file cannot be opened: are its folder and its rights as they should be?",
    "not a database": "this file is no SQLite database",
    "malformed": "the database file is damaged: restore a backup (overstory store restore)",
    "disk i/o error": "the disk failed while the database was read or written",
    "no such table": "a table of the store is missing: this is no whole store",
}
"""What SQLite says, or PostgreSQL before there is a connection that has codes; and what it means."""


@contextmanager
def said(url: str) -> Iterator[None]:
    """Turn what a database driver raises into one `StoreError` that starts with the store's name."""
    try:
        yield
    except DBAPIError as error:
        raise _error(url, explain(error)) from error
    except SQLAlchemyError as error:
        raise StoreError(f"{url}: {error}") from error
    except sqlite3.Error as error:  # of a statement that went past SQLAlchemy
        raise _error(url, _meaning(str(error))) from error
    except UnicodeDecodeError as error:  # SQLite says what is wrong in the words of the file, which are no text
        raise StoreError(f"{url}: {BY_TEXT['malformed']}") from error


def _error(url: str, meaning: str) -> StoreError:
    kind = DiskFullError if meaning in {BY_STATE["53100"], BY_TEXT["disk is full"]} else StoreError
    return kind(f"{url}: {meaning}")


def explain(error: DBAPIError) -> str:
    """Return what a driver's error means to an operator."""
    state = getattr(error.orig, "sqlstate", None)
    if state in BY_STATE:
        return BY_STATE[state]
    text = " ".join(str(error.orig).split())
    meaning = _meaning(text)
    if meaning == text and (error.connection_invalidated or "connect" in text.lower()):
        return f"the database server cannot be reached ({text})"
    return meaning


def _meaning(text: str) -> str:
    lowered = text.lower()
    return next((meaning for part, meaning in BY_TEXT.items() if part in lowered), text)
