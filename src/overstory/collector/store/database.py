"""What the two databases have in common: transactions that write, moments that are read, errors in one sentence."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import ClassVar, Final, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from overstory.collector.store.errors import said

Result = TypeVar("Result")

AGAIN: Final = {"40001", "40P01"}
"""PostgreSQL's codes for a transaction that met another one: serialization failure, deadlock."""

ATTEMPTS: Final = 6


class Database(ABC):
    """An engine, and how one takes what the other does differently.

    Parameters
    ----------
    url
        The database as messages name it, without a password.
    engine
        SQLAlchemy's.
    """

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
        """Open a transaction that reads, and sees one moment however long it takes.

        Raises
        ------
        StoreError
            When the database cannot be read.
        """

    @abstractmethod
    def claims(self) -> AbstractContextManager[Callable[[Hashable], bool]]:
        """Give a function that says whether this process may work on a thing: it may while no other does.

        It spares work done twice; nothing that is stored depends on it.
        """

    @abstractmethod
    def check_sound(self, connection: Connection) -> None:
        """Let the database look itself through, where it can.

        Raises
        ------
        StoreError
            When it finds damage.
        """

    @abstractmethod
    def settle(self) -> None:
        """Do now, without holding anybody up, what the database would make a later writer do."""

    @abstractmethod
    def owe(self, connection: Connection, tables: Iterable[str]) -> None:
        """Note that this transaction deletes rows from these tables; call it last in the transaction."""

    @abstractmethod
    def erase(self, at_once: Iterable[str] = ()) -> tuple[str, ...]:
        """Take deleted rows out of the database's files, of all tables that are owed it.

        Parameters
        ----------
        at_once
            Tables that do not rest first.

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
        """See that no other process serves this database, where only one may.

        Raises
        ------
        StoreError
            When another one does.
        """

    def write(self, work: Callable[[Connection], Result]) -> Result:
        """Run `work` in one transaction, durable when this returns.

        A transaction that met another one is run again from its start, a few times. So is, once, one whose connection
        broke: whether it was committed is then unknown, and what `work` does must bear to be done twice.

        Raises
        ------
        StoreError
            When it cannot be committed; then nothing of it is.
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
