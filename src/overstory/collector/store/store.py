"""A store: batches come in exactly once, are counted, and are deleted after their retention.

`StoreReader` has the reading half.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING

from sqlalchemy import Connection, update

from overstory.collector.auth import Role, make_token
from overstory.collector.ingest.received import Received
from overstory.collector.settings import DAY
from overstory.collector.store.compaction import Compacted, InboxAges, compact
from overstory.collector.store.counts import inbox_rows
from overstory.collector.store.databases.connection import check, connect, create_tables
from overstory.collector.store.databases.database import Database, IdsOfDay
from overstory.collector.store.metrics import StoredMetrics, claim_shard, save_metrics
from overstory.collector.store.operations import (
    CollectorState,
    Note,
    Refused,
    delete_note,
    make_note,
    write_note,
    write_releases,
    write_state,
    write_token_days,
)
from overstory.collector.store.reader import StoreReader
from overstory.collector.store.retention import Retained, retain
from overstory.collector.store.schema import INBOX, TOKENS, day_of_ids
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.collector.store.copies.export import Exported, Selection
    from overstory.engines.folders import Folder
    from overstory.protocol.metrics import MetricRegistry


class Store(StoreReader):
    """Reports, counts, batch ids and tokens, in one database; made by `open_store`.

    Several threads may use it at once, and several processes the same database. Each method raises `StoreError` when
    the database fails.

    Parameters
    ----------
    database
        The open database: SQLite or PostgreSQL.

    Examples
    --------
    >>> import tempfile
    >>> from overstory.collector.store import open_store
    >>> with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/store.db", create=True) as store:
    ...     size, times = (8, 1, 1), (1_730_678_400, 1_728_086_400)
    ...     batch = Received("colour", 20_000, bytes(16), bytes(16), *size, bytes(2), bytes(1), *times)
    ...     store.add([batch]), store.add([batch])
    ([True], [False])
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._metrics: StoredMetrics = {}
        self._inbox_ages = InboxAges()

    def add(self, received: Sequence[Received]) -> list[bool]:
        """Store batches, all in one transaction that is durable when this returns.

        A release of a shuffling relay grows by the messages with new batches in the same transaction.

        Returns
        -------
        list of bool
            For each batch, in order: whether it is new. False means that its id was stored before, by this call, an
            earlier one or another collector; the batch is then not counted again.

        Raises
        ------
        StoreError
            When nothing was stored. It is always safe to send the same batches again.
        ParameterError
            When a batch's columns do not have the length that its number of reports requires; nothing was stored.
        """
        if not received:
            return []
        by_day = _ids_by_day(received)

        def work(connection: Connection) -> list[bool]:
            left = self._database.insert_ids(connection, by_day)
            new = [_take(left[day_of_ids(batch.ends)], batch.batch) for batch in received]
            fresh = list(compress(received, new))
            rows = inbox_rows(fresh)
            if rows:
                connection.execute(INBOX.insert(), rows)
            released = [batch for batch in fresh if batch.released is not None]
            if released:
                write_releases(connection, released)
            return new

        return self._database.write(work)

    def warm_up(self) -> None:
        """Load the kernels and count no reports of each metric: the first compaction then delays no sender."""
        from overstory.analysis.reports import load_kernels

        load_kernels()
        for entry in self._metrics.values():
            entry.count(entry.no_reports)

    def checkpoint(self) -> None:
        """Do in the background what the database would make a later writer, and its senders, wait for."""
        self._database.checkpoint()

    def compact(self, now: float, *, within: float = 0.0, forgetting: bool = True) -> Compacted:
        """Count the reports in the inbox, shuffle them among the reports of their period, delete expired batch ids.

        Every report is counted exactly once, however many processes compact, and wherever one of them is killed.

        Parameters
        ----------
        now
            Unix time in seconds.
        within
            Seconds that a few reports of a metric and period may wait in the inbox where a large chunk would have to
            be written again for them; 0: all reports are counted now.
        forgetting
            Whether expired ids are deleted: `now` must be right for that.

        Raises
        ------
        StoreError
            When the database fails; what was counted until then stays counted.
        """
        return compact(self._database, self._metrics, now, self._inbox_ages, within, forgetting=forgetting)

    def retain(self, now: float) -> Retained:
        """Delete the reports past their metric's retention at unix time `now`, and their sums of pairs.

        Their counts stay where at least ten reports share a cell; see `overstory.collector.store.retention`.
        Refusals are deleted with their metric's reports, those by day after 400 days; the row of a collector a week
        after its last heartbeat.
        """
        return retain(self._database, self._metrics, now)

    def export_closed(
        self,
        registry: MetricRegistry,
        folder: Folder,
        selected: Selection,
        *,
        now: float,
        advance: Callable[[int], object] | None = None,
    ) -> Exported:
        """Write the reports of closed periods into a folder, each once, however often and wherever this is killed."""
        from overstory.collector.store.copies.export import Export

        self.compact(now, forgetting=False)
        return Export(self._database, registry, folder, advance).run(selected, now)

    def verify_export(self, registry: MetricRegistry, folder: Folder, *, now: float) -> tuple[int, list[str]]:
        """Compare a folder with what should be exported to it: how many manifests, and what is wrong."""
        from overstory.collector.store.copies.export import Export

        self.compact(now, forgetting=False)
        return Export(self._database, registry, folder).verify(now)

    def remember(self, registry: MetricRegistry) -> None:
        """Count and retain reports as this registry says from now on.

        Raises
        ------
        StoreError
            When a metric's periods have another length than those it was collected by, or the database fails.
        ParameterError
            When a metric is counted by candidate, and its candidates were not read.
        """
        self._metrics = save_metrics(self._database, registry.values())

    def claim_shard(self, registry: MetricRegistry, shard: int | None, now: float) -> None:
        """Remember that the store is served as this shard, or as the only store; see `metrics.claim_shard`.

        Raises
        ------
        ParameterError
            When the registry has no such shard, or has shards and none is given.
        StoreError
            When the store holds another shard, or reports of open periods would be divided otherwise than before.
        """
        claim_shard(self._database, registry, shard, now)

    def report_state(self, state: CollectorState | None, refused: Refused) -> None:
        """Store a collector's heartbeat, and add to the refusals, in one transaction."""
        self._database.write(lambda connection: write_state(connection, state, refused))

    def add_note(self, text: str, day: int, kind: str = "note", metric: str | None = None) -> Note:
        """Store a note about a day, counted from 1970; see `Note`.

        Raises
        ------
        ParameterError
            When the text is empty, too long or more than a line, or the kind or the metric is unknown.
        """
        note = make_note(text, day, kind, metric)
        self._database.write(lambda connection: write_note(connection, note))
        return note

    def remove_note(self, note_id: str) -> None:
        """Delete a note.

        Raises
        ------
        ParameterError
            When no note has this id.
        """
        if not self._database.write(lambda connection: delete_note(self._database, connection, note_id)):
            raise ParameterError(f"there is no note {note_id}: overstory store notes list shows the ids")

    def serve_alone(self) -> None:
        """Lock an embedded database against other serving processes, until this process ends.

        Raises
        ------
        StoreError
            When another process serves this store.
        """
        self._database.serve_alone()

    def add_token(self, role: Role, application: str, expires: int | None = None) -> str:
        """Make a token and return it: it is not stored, and cannot be shown again.

        Parameters
        ----------
        role
            ``write`` for programs that report, ``admin`` for those that read, ``viewer`` or ``analyst`` for people who
            log in to the console, ``relay`` for a shuffling relay.
        application
            The name of the application that uses the token.
        expires
            Unix time in seconds from which it is refused.

        Raises
        ------
        ParameterError
            When there is no such role, or the application has no name.
        """
        plain, token = make_token(role, application, expires)
        row = {column.name: getattr(token, column.name) for column in TOKENS.columns}
        self._database.write(lambda connection: connection.execute(TOKENS.insert(), [row]))
        return plain

    def note_token_days(self, days: Mapping[str, int]) -> None:
        """Store the last day, counted from 1970, on which each token was used, by the tokens' ids."""
        self._database.write(lambda connection: write_token_days(self._database, connection, days))

    def revoke_token(self, token_id: str) -> None:
        """Refuse a token from now on.

        Raises
        ------
        ParameterError
            When no token has this id.
        """
        valid = TOKENS.c.id == token_id, TOKENS.c.revoked.is_(None)
        revoke = update(TOKENS).where(*valid).values(revoked=int(time.time()))
        if token_id.isascii() and self._database.write(lambda connection: connection.execute(revoke).rowcount):
            return
        if all(token.id != token_id for token in self.tokens()):
            raise ParameterError(f"there is no token {token_id}: overstory store tokens list shows the ids")


def _ids_by_day(received: Sequence[Received]) -> dict[int, IdsOfDay]:
    """Return the ids of these batches by the day of their tables, in order."""
    found: dict[int, tuple[list[int], set[bytes]]] = {}
    for batch in received:
        times, ids = found.setdefault(day_of_ids(batch.ends), ([], set()))
        times.append(batch.forget_after)
        ids.add(batch.batch)
    # To the end of a day: the exact second would be that of a metric's period, and link the ids to the metric.
    return {day: IdsOfDay(-(-max(times) // DAY) * DAY, ids) for day, (times, ids) in sorted(found.items())}


def _take(left: set[bytes], batch: bytes) -> bool:
    """Take an id out of those that are new, once."""
    if batch not in left:
        return False
    left.remove(batch)
    return True


def open_store(url: str, registry: MetricRegistry | None = None, *, create: bool = False) -> Store:
    r"""Open the store that `url` names.

    Parameters
    ----------
    url
        ``sqlite:///FILE``, a file's name, or ``postgresql://USER:PASSWORD@HOST/DATABASE``.
    registry
        The metrics that are collected. The store remembers how they are counted and how long their reports are stored.
    create
        Make the store when it does not exist.

    Raises
    ------
    StoreError
        When there is no such store, the database belongs to another program, its schema is not this program's, or a
        metric's periods have another length than those it was collected by.
    ParameterError
        When a metric is counted by candidate, and its candidates were not read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/store.db", create=True) as store:
    ...     size, times = (8, 1, 1), (1_730_678_400, 1_728_086_400)
    ...     batch = Received("colour", 20_000, bytes(16), bytes(16), *size, bytes(2), bytes(1), *times)
    ...     store.add([batch, batch])
    [True, False]
    """
    database = connect(url, create=create)
    try:
        if create:
            database.write(lambda connection: create_tables(database, connection))
        check(database)
        store = Store(database)
        if registry is not None:
            store.remember(registry)
    except BaseException:
        database.close()
        raise
    return store
