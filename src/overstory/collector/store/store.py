"""The store: what the collector and its operator do with it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from overstory.collector.store import backup as copies
from overstory.collector.store.compaction import Compacted, Ripening, compact
from overstory.collector.store.connection import check, connect, migrate
from overstory.collector.store.counts import export, read_counts, read_periods, read_tally
from overstory.collector.store.database import Database
from overstory.collector.store.inbox import Received, add
from overstory.collector.store.metrics import StoredMetric, StoredMetrics, Summary, read_collected, remember, summarize
from overstory.collector.store.retention import Retained, last_day, retain
from overstory.collector.store.tokens import (
    Role,
    Token,
    add_token,
    find_token,
    note_token_days,
    read_tokens,
    revoke_token,
)

if TYPE_CHECKING:
    from overstory.analysis.reports import SupportCounts
    from overstory.protocol.metrics import Metric, MetricRegistry


class Store:
    """Reports, counts, batch ids and tokens, in one database; made by `open_store`.

    Safe to use from several threads, and by several processes on the same database.

    Parameters
    ----------
    database
        The open database: SQLite or PostgreSQL.
    entries
        How to count each mechanism's reports, by metric id and digest.

    Examples
    --------
    >>> import tempfile
    >>> from overstory.collector.store import open_store
    >>> with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/store.db", create=True) as store:
    ...     batch = Received("colour", 20_000, bytes(16), bytes(16), 8, 1, 1, bytes(2), bytes(1), 1_800_000_000)
    ...     store.add([batch]), store.add([batch])
    ([True], [False])
    """

    def __init__(self, database: Database, entries: StoredMetrics) -> None:
        self._database, self._entries = database, entries
        self._ripening = Ripening()

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
        ParameterError
            When a batch's columns are not as long as its number of reports says; nothing was stored.
        """
        return add(self._database, received)

    def warm_up(self) -> None:
        """Load what counting takes: the first compaction would, for most of a second, while senders wait.

        It counts no reports of each metric. Nothing is read or written.
        """
        from overstory.analysis.reports import load_kernels

        load_kernels()
        for entry in self._entries.values():
            entry.count(entry.no_reports)

    def checkpoint(self) -> None:
        """Do in the background what the database would make a later writer, and its senders, wait for.

        Raises
        ------
        StoreError
            When the database fails.
        """
        self._database.checkpoint()

    def in_place(self) -> bool:
        """Whether the store still is the one that was opened; False when its file was deleted, moved or replaced."""
        return self._database.in_place()

    def compact(self, now: float, *, within: float = 0.0, forgetting: bool = True) -> Compacted:
        """Count what is in the inbox, shuffle it among the reports of its period, forget ids that have expired.

        Every report is counted exactly once, however many processes compact, and wherever one of them is killed.

        Parameters
        ----------
        now
            Unix time in seconds.
        within
            A few reports of a metric and period, which would make a large chunk be written again, may wait for this
            many seconds in the inbox; 0: everything is folded now.
        forgetting
            Whether ids are forgotten: `now` must be right for that.

        Raises
        ------
        StoreError
            When the database fails; what was folded until then stays folded.
        """
        return compact(self._database, self._entries, now, self._ripening, within, forgetting=forgetting)

    def remember(self, registry: MetricRegistry) -> None:
        """Count and keep reports as this registry says from now on.

        Raises
        ------
        StoreError
            When a metric's periods have another length than those it was collected by, or the database fails.
        ParameterError
            When a metric is counted by candidate, and its candidates were not read.
        """
        remember(self._database, registry.values())
        self._entries = _entries(registry.values())

    def serve_alone(self) -> None:
        """See that no other process serves this store, until this one ends: of an embedded database.

        Raises
        ------
        StoreError
            When another process does.
        """
        self._database.serve_alone()

    def last_day(self) -> int | None:
        """Return the day, counted from 1970, on which ids were last forgotten, if ever.

        Raises
        ------
        StoreError
            When the database fails.
        """
        return last_day(self._database)

    def retain(self, now: float) -> Retained:
        """Delete the reports past their metric's retention. Their counts stay.

        Parameters
        ----------
        now
            Unix time in seconds.

        Raises
        ------
        StoreError
            When the database fails.
        """
        return retain(self._database, self._entries, now)

    def counts(self, metric: Metric, first: int, last: int) -> dict[int, SupportCounts]:
        """Return the support counts of each period in ``first .. last`` that has reports.

        They are what was folded and what still is in the inbox, as of one moment, of the mechanism that `metric` has
        now: reports of earlier parameters are never mixed in. Bits are counted by cohort; symbols and sets by value,
        those under public seeds by label.

        Raises
        ------
        StoreError
            When the database fails, or what is asked for was never counted and its reports are gone.
        ParameterError
            When reports are counted by candidate and the metric has none.
        """
        return read_counts(self._database, metric, first, last)

    def periods(self, metric_id: str) -> list[int]:
        """Return the periods of which there are reports or counts, in order.

        Raises
        ------
        StoreError
            When the database fails.
        """
        return read_periods(self._database, metric_id)

    def tally(self, metric_id: str, first: int, last: int) -> dict[tuple[int, bytes], int]:
        """Return how many reports there are of each (period, mechanism digest) in ``first .. last``.

        Raises
        ------
        StoreError
            When the database fails.
        """
        return read_tally(self._database, metric_id, first, last)

    def summary(self) -> Summary:
        """Return what the store holds, in figures.

        Raises
        ------
        StoreError
            When the database fails.
        """
        return summarize(self._database)

    def collected(self) -> list[tuple[StoredMetric, int]]:
        """Return under which terms there are reports in the store, and how many of each: mechanism, period, retention.

        Raises
        ------
        StoreError
            When the database fails.
        """
        return read_collected(self._database)

    def export(self, metric: Metric, first: int, last: int, path: str | os.PathLike[str]) -> int:
        """Write the kept reports of the periods ``first .. last`` as Parquet; return how many there are.

        Raises
        ------
        StoreError
            When the database fails.
        """
        return export(self._database, metric, first, last, path)

    def backup(self, path: str | os.PathLike[str]) -> int:
        """Write everything, as of one moment, into a new SQLite file that opens as a store; return its reports.

        The file is verified before it gets its name. Collectors go on writing meanwhile.

        Raises
        ------
        StoreError
            When the file exists, cannot be written, or the store is damaged.
        """
        return copies.backup(self._database, Path(path))

    def add_token(self, role: Role, application: str, expires: int | None = None) -> str:
        """Make a token and return it: it is not stored, and cannot be shown again.

        Parameters
        ----------
        role
            ``write`` for programs that report, ``admin`` for those that read.
        application
            Whose token it is.
        expires
            Unix time in seconds from which it is refused.

        Raises
        ------
        ParameterError
            When the role is none, or the application has no name.
        """
        return add_token(self._database, role, application, expires)

    def tokens(self) -> list[Token]:
        """Return what is stored of all tokens."""
        return read_tokens(self._database)

    def find_token(self, sha256: bytes) -> Token | None:
        """Return the token of that SHA-256; whether it is `usable` is for the caller to ask."""
        return find_token(self._database, sha256)

    def note_token_days(self, days: Mapping[str, int]) -> None:
        """Keep the last day, counted from 1970, on which each token was used; by the tokens' ids.

        Raises
        ------
        StoreError
            When the database fails.
        """
        note_token_days(self._database, days)

    def revoke_token(self, token_id: str) -> None:
        """Refuse a token from now on.

        Raises
        ------
        ParameterError
            When there is none of that id.
        """
        revoke_token(self._database, token_id)

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_store(url: str, registry: MetricRegistry | None = None, *, create: bool = False) -> Store:
    r"""Open the store that `url` names.

    Parameters
    ----------
    url
        ``sqlite:///FILE``, a file's name, or ``postgresql://USER:PASSWORD@HOST/DATABASE``.
    registry
        The metrics that are collected. The store remembers how they are counted and how long they are kept.
    create
        Make the store when it does not exist.

    Raises
    ------
    StoreError
        When there is no such store, it is somebody else's database, its schema is not this program's, or a metric's
        periods have another length than those it was collected by.
    ParameterError
        When a metric is counted by candidate, and its candidates were not read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/store.db", create=True) as store:
    ...     batch = Received("colour", 20_000, bytes(16), bytes(16), 8, 1, 1, b"\0\0", b"\1", 1_800_000_000)
    ...     store.add([batch, batch])
    [True, False]
    """
    database = connect(url, create=create)
    metrics = () if registry is None else tuple(registry.values())
    try:
        if create:
            migrate(database, create=True)
        check(database)
        remember(database, metrics)
    except BaseException:
        database.close()
        raise
    return Store(database, _entries(metrics))


def _entries(metrics: Iterable[Metric]) -> StoredMetrics:
    return {(entry.metric, entry.mechanism.digest): entry for entry in map(StoredMetric.of, metrics)}
