"""What SQLite and PostgreSQL have in common: writing and reading transactions, and errors as one sentence.

Each error message says what is wrong with the store, and where possible what to do.
"""

from __future__ import annotations

import random
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import ClassVar, Final, TypeVar

from sqlalchemy import Connection, Engine
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


Result = TypeVar("Result")

AGAIN: Final = {"40001", "40P01"}
"""PostgreSQL's codes for a transaction that met another one: serialization failure, deadlock."""

ATTEMPTS: Final = 6


class Database(ABC):
    """An engine, and how one takes what the other does differently."""

    kind: ClassVar[str]

    def __init__(self, url: str, engine: Engine) -> None:
        self.url, self.engine = url, engine
        self._writer = self._writing(engine)

    @abstractmethod
    def _writing(self, engine: Engine) -> Engine:
        """Return the engine whose transactions write."""

    @abstractmethod
    def claim(self, connection: Connection, forget_after: Mapping[bytes, int]) -> set[bytes]:
        """Keep these batch ids, and return those that were not there before.

        Another transaction that claims one of them at the same moment waits until this one has ended.
        """

    @abstractmethod
    def size(self, connection: Connection) -> int:
        """Return the bytes that the store takes."""

    @abstractmethod
    def alone(self, connection: Connection) -> None:
        """Let nobody else migrate while this transaction lasts."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[Connection]:
        """Open a transaction that reads, and sees one moment however long it takes."""

    @abstractmethod
    def claims(self) -> AbstractContextManager[Callable[[Hashable], bool]]:
        """Give a function that says whether this process may work on a thing: it may while no other does.

        It spares work done twice; nothing that is stored depends on it.
        """

    @abstractmethod
    def check_sound(self, connection: Connection) -> None:
        """Let the database look itself through, where it can."""

    @abstractmethod
    def in_place(self) -> bool:
        """Whether the database still is the one that was opened; also after `close`."""

    @abstractmethod
    def checkpoint(self) -> None:
        """Do now, without holding anybody up, what the database would make a later writer do."""

    @abstractmethod
    def owe(self, connection: Connection, tables: Iterable[str]) -> None:
        """Note that this transaction deletes rows from these tables; call it last in the transaction."""

    @abstractmethod
    def erase(self, at_once: Iterable[str] = ()) -> tuple[str, ...]:
        """Take deleted rows out of the database's files, of all tables that are owed it.

        Returns
        -------
        tuple of str
            What can still be read in the files, and why; a later call tries again. Other tables whose turn has not
            come, and those that another process is working on, are not named.
        """

    @abstractmethod
    def tidy(self) -> None:
        """Give freed space back, where the database does not do so by itself."""

    @abstractmethod
    def serve_alone(self) -> None:
        """See that no other process serves this database, where only one may."""

    def write(self, work: Callable[[Connection], Result]) -> Result:
        """Run `work` in one transaction, durable when this returns.

        A transaction that met another one is run again from its start, a few times. So is, once, one whose connection
        broke: whether it was committed is then unknown, and what `work` does must bear to be done twice.
        """
        with said(self.url):
            for attempt in range(ATTEMPTS):
                try:
                    with self._writer.begin() as connection:
                        return work(connection)
                except DBAPIError as error:
                    if not _again(error, attempt):
                        raise
                    time.sleep(random.uniform(0, 0.01 * 2**attempt))  # noqa: S311 - two that met must not meet again
        raise AssertionError("the last attempt returns or raises")  # pragma: no cover

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()


def _again(error: DBAPIError, attempt: int) -> bool:
    if getattr(error.orig, "sqlstate", None) in AGAIN:
        return attempt + 1 < ATTEMPTS
    return error.connection_invalidated and attempt == 0
