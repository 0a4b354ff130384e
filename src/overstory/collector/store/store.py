"""The store: what the collector and its operator do with it."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from overstory.collector.store.adding import add
from overstory.collector.store.database import Database
from overstory.collector.store.opening import check, connect, migrate
from overstory.collector.store.received import Received
from overstory.protocol.metrics.registry import MetricRegistry


class Store:
    """Reports, counts, batch ids and tokens, in one database. Safe to use from several threads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def url(self) -> str:
        """The database's name, without a password."""
        return self._database.url

    def add(self, received: Sequence[Received]) -> list[bool]:
        """Store batches, all in one transaction that is durable when this returns.

        Returns
        -------
        list of bool
            For each batch, in order: whether it is new. False means that its id was stored before, by this call, an
            earlier one or another collector; the batch is then not counted again.

        Raises
        ------
        StoreError
            When nothing was stored. To send the same batches again is always safe.
        """
        return add(self._database, received)

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_store(url: str, registry: MetricRegistry | None = None, *, create: bool = False) -> Store:  # noqa: ARG001 - see below
    r"""Open the store that `url` names.

    Parameters
    ----------
    url
        ``sqlite:///FILE``, a file's name, or ``postgresql://USER:PASSWORD@HOST/DATABASE``.
    registry
        The metrics to be collected.
    create
        Make the store when it does not exist.

    Raises
    ------
    StoreError
        When there is no such store, it is somebody else's database, or its schema is not this program's.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/store.db", create=True) as store:
    ...     batch = Received("colour", 20_000, bytes(16), bytes(16), 8, 1, 1, b"\0\0", b"\1", 1_800_000_000)
    ...     store.add([batch, batch])
    [True, False]
    """
    database = connect(url, create=create)
    try:
        if create:
            migrate(database, create=True)
        check(database)
    except BaseException:
        database.close()
        raise
    return Store(database)
