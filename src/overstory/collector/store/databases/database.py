"""What SQLite and PostgreSQL have in common: the interface of a database, its URL, and errors as one sentence."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import ClassVar, Final, NamedTuple, TypeVar

from sqlalchemy import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from overstory.protocol.errors import OverstoryError


class StoreError(OverstoryError):
    """A store is missing, locked, full or out of reach, has another schema, or belongs to another program."""


class DiskFullError(StoreError):
    """Nothing was written, because the disk is full."""


class RecountError(StoreError):
    """Counts would have to be made again from reports that were deleted."""


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
    "42P01": "a table of the store is missing: this store is incomplete",
}
"""Errors that an operator can do something about, by PostgreSQL's codes."""

BY_TEXT: Final = {
    "password authentication failed": BY_STATE["28P01"],
    'fatal: database "': BY_STATE["3D000"],
    'fatal: role "': BY_STATE["28000"],
    "locked": "another process has held the database for too long; try again, or stop the other process",
    "disk is full": "the disk is full; nothing of this was stored",
    "readonly": "the database is read-only: this process may not write its file or its folder",
    "read-only": "the database is read-only: this process may not write its file or its folder",
    "unable to open": "the database file cannot be opened: check its folder and its permissions",
    "not a database": "this file is not a SQLite database",
    "malformed": "the database file is damaged: restore a backup (overstory store restore)",
    "disk i/o error": "the disk failed while the database was read or written",
    "no such table": "a table of the store is missing: this store is incomplete",
}
"""What an error means, by a part of its text: of SQLite, or of PostgreSQL before there is a connection with codes."""


DRIVER_ERRORS: Final = (SQLAlchemyError, sqlite3.Error, UnicodeDecodeError)  # what a database driver raises


@contextmanager
def translate_errors(url: str) -> Iterator[None]:
    """Turn what a database driver raises into one `StoreError` that starts with the store's name."""
    try:
        yield
    except DRIVER_ERRORS as error:
        raise store_error(url, error) from error


def store_error(url: str, error: Exception) -> StoreError:
    """Return the error that stands for one of `DRIVER_ERRORS`."""
    if isinstance(error, DBAPIError):
        meaning = explain(error)
    elif isinstance(error, UnicodeDecodeError):  # SQLite quotes the damaged file, which is no text
        meaning = BY_TEXT["malformed"]
    elif isinstance(error, sqlite3.Error):  # of a statement that went past SQLAlchemy
        meaning = _meaning(str(error))
    else:
        meaning = str(error)
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


class IdsOfDay(NamedTuple):
    """Ids of batches that share a table (`schema.ids_table`), and the time after which all of them may be forgotten."""

    forget_after: int
    ids: Collection[bytes]


class Database:
    """An engine, and what SQLite and PostgreSQL do differently; what has a body here, only one of them has to do."""

    kind: ClassVar[str]

    def __init__(self, url: str, engine: Engine) -> None:
        self.url, self.engine = url, engine

    def write(self, work: Callable[[Connection], Result]) -> Result:
        """Run `work` in one transaction, durable when this returns; `work` may be run again from its start."""
        raise NotImplementedError

    def snapshot(self) -> AbstractContextManager[Connection]:
        """Open a transaction that reads, and sees one moment however long it takes."""
        raise NotImplementedError

    def insert_ids(self, connection: Connection, by_day: Mapping[int, IdsOfDay]) -> dict[int, set[bytes]]:
        """Insert batch ids into their days' tables, and return the new ones; others that insert one of them wait."""
        raise NotImplementedError

    def drop_ids(self, day: int, now: float) -> int:
        """Drop a day's ids unless one is remembered at `now`; return how many it had, -1: it must be dropped later."""
        raise NotImplementedError

    def size(self, connection: Connection) -> int:
        raise NotImplementedError

    def snapshot_of_ids(self) -> AbstractContextManager[Connection]:
        """Open a `snapshot` in which every table of ids can be read, though another process drops some of them."""
        return self.snapshot()

    def lock(self, connection: Connection) -> None:
        """Keep other processes that ask for this lock waiting until the transaction ends."""

    def work_claims(self) -> AbstractContextManager[Callable[[Hashable], bool]]:
        """Give a function that claims a piece of work, to do it only once: False means that another process does it."""
        return nullcontext(lambda _: True)

    def check_integrity(self, connection: Connection) -> None:
        """Run the database's own check, where it has one."""

    def in_place(self) -> bool:
        """Whether the database is the one that was opened; also after `close`."""
        return True

    def checkpoint(self) -> None:
        """Do now, without a lock, what the database would make a later writer do."""

    def note_deletions(self, connection: Connection, tables: Iterable[str]) -> None:
        """Note that this transaction deletes rows from these tables; call it last in the transaction."""

    def erase_deleted(self, urgent: Iterable[str] = ()) -> tuple[str, ...]:
        """Take deleted rows out of the files of due and `urgent` tables; return what can still be read, and why."""
        del urgent
        return ()

    def release_free_space(self) -> None:
        """Give freed space back, where the database does not do so by itself."""

    def serve_alone(self) -> None:
        """Lock the database against other serving processes, where only one may serve it."""

    def close(self) -> None:
        self.engine.dispose()


FORMS: Final = "sqlite:///FILE (or a file's name), or postgresql://USER@HOST/DATABASE"

SECRETS: Final = frozenset({"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"})
"""The parameters of libpq whose values nobody else may read."""

HIDDEN: Final = "***"


def parse_url(text: str) -> URL:
    """Return what names a store: a URL, or a file's name."""
    url = _url(text)
    kind = url.get_backend_name()
    unclear = kind == "sqlite" and (url.host or url.query)  # sqlite://folder/FILE lacks a slash
    if kind not in {"sqlite", "postgresql"} or url.database in {None, "", ":memory:"} or unclear:
        raise StoreError(f"a store is named by {FORMS}; not {shown(url)}")
    return url


def _url(text: str) -> URL:
    if "://" not in text:
        return URL.create("sqlite", database=text)
    try:
        return make_url(text)
    except (ArgumentError, ValueError) as error:  # neither is shown: they may quote a password
        raise StoreError(f"a store is named by {FORMS}") from error


def shown(url: URL) -> str:
    """Return a URL with its passwords hidden: that of the user, and those in its parameters."""
    hidden = url.update_query_dict(dict.fromkeys(_secrets(url), HIDDEN))
    return hidden.render_as_string(hide_password=True).replace("=%2A%2A%2A", f"={HIDDEN}")


def shown_text(text: str) -> str:
    """Return what a store is named by, as given, with passwords hidden."""
    return shown(_url(text)) if "://" in text else text


def has_password(text: str) -> bool:
    """Whether a store's URL holds a password, wherever in it; False where it is no URL: opening the store says so."""
    try:
        url = _url(text)
    except StoreError:
        return False
    return bool(url.password or _secrets(url))


def _secrets(url: URL) -> list[str]:
    return [name for name in url.query if name.lower() in SECRETS]
