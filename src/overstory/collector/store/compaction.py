"""Fold the inbox: count each report once, shuffle it among others of its period, forget ids that have expired.

Reading, counting and shuffling happen without a lock. One short transaction then deletes exactly the rows that were
counted and writes what they became. If any of them is no longer there, another process has folded it: the whole
transaction is undone, and nothing was counted twice.

Which parts of the inbox are worth folding: each folding writes a whole chunk again.

A trickle of reports over many metrics, folded every few seconds, would write a hundred thousand bytes for each byte.
Reports of a key are folded when they are a share of the chunk that they are shuffled into, or have waited for minutes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Row, Table, delete, func, select, update
from sqlalchemy.exc import IntegrityError

from overstory.collector.store.counts import Key, chunks, folded, full_chunk, joined, keys_of, pack_counts, shuffled
from overstory.collector.store.database import Database, RecountError
from overstory.collector.store.metrics import StoredMetric, StoredMetrics, read_stored_metrics
from overstory.collector.store.retention import forget
from overstory.collector.store.schema import BATCH_IDS, CHUNKS, COUNTS, INBOX
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.analysis.reports import SupportCounts


SHARE: Final = 4
"""Reports that wait are folded when there are a fourth as many as in the chunk that is written again."""


class Ripening:
    """Remembers since when each key has had reports in the inbox: the store itself keeps no times."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[Key, float] = {}

    def ripe(self, connection: Connection, keys: Sequence[Key], seconds: float) -> list[Key]:
        """Return those of the waiting `keys` whose reports are many, or have waited for that many seconds."""
        if not seconds:
            return list(keys)
        now = self._clock()
        self._since = {key: self._since.get(key, now) for key in keys}
        ripe = [key for key in keys if now - self._since[key] >= seconds or _many(connection, key)]
        for key in ripe:
            del self._since[key]
        return ripe


def _many(connection: Connection, key: Key) -> bool:
    """Whether as many reports of the key wait as are worth writing its open chunk again."""
    waiting = connection.execute(select(func.sum(INBOX.c.num_reports)).where(key.of(INBOX))).scalar() or 0
    sizes = select(CHUNKS.c.num_bits, CHUNKS.c.num_cohorts, CHUNKS.c.num_reports).where(key.of(CHUNKS))
    rows = connection.execute(sizes)
    again = sum(reports for bits, cohorts, reports in rows if reports < full_chunk(bits, cohorts))
    return bool(int(waiting) * SHARE >= again)


FOLD_BYTES: Final = 1 << 21
"""Reports that one transaction folds: memory does not grow with the inbox, and who wants to write waits for little."""

FOLD_ROWS: Final = 1024
TRIES: Final = 3

CHANGED: Final = (INBOX.name, CHUNKS.name, COUNTS.name, BATCH_IDS.name)
"""The tables that folding leaves old rows in; ids that came with the folded rows are among them."""


@dataclass(frozen=True)
class Compacted:
    """What a compaction did.

    Attributes
    ----------
    reports, rows
        Reports counted and shuffled, and the rows of the inbox that they came in.
    forgotten
        The number of batch ids that were deleted.
    waiting
        What could not be counted, and why: a metric of which the store knows no mechanism, most often.
    remains
        What was deleted and can still be read in the database's files, and why; see `Database.erase`.
    """

    reports: int = 0
    rows: int = 0
    forgotten: int = 0
    waiting: tuple[str, ...] = ()
    remains: tuple[str, ...] = ()


@dataclass
class _Tally:
    reports: int = 0
    rows: int = 0
    waiting: list[str] = field(default_factory=list)


class _OvertakenError(Exception):
    """Another process has folded one of these rows."""


def compact(
    database: Database, entries: StoredMetrics, now: float, ripening: Ripening, within: float, *, forgetting: bool
) -> Compacted:
    """Fold what was in the inbox when this began, and is worth it; see `Store.compact`."""
    with database.snapshot() as connection:
        entries = {**read_stored_metrics(connection), **entries}
        last = connection.execute(select(func.max(INBOX.c.id))).scalar() or 0
        waiting = ripening.ripe(connection, keys_of(connection, INBOX), within)
        stale = _stale(connection, entries)
    tally = _Tally()
    with database.claims() as claim:
        for key in stale:
            if claim(key):
                _attempt(tally, key, entries, lambda entry, key: _recount(database, entry, key))
        for key in waiting:
            if claim(key):
                _attempt(tally, key, entries, lambda entry, key: _fold_all(database, entry, key, last, tally))
    forgotten = forget(database, now) if forgetting else 0
    return Compacted(tally.reports, tally.rows, forgotten, tuple(tally.waiting), database.erase())


def _attempt(tally: _Tally, key: Key, entries: StoredMetrics, work: Callable[[StoredMetric, Key], None]) -> None:
    entry = entries.get((key.metric, key.digest))
    if entry is None:
        tally.waiting.append(f"{key.metric}, mechanism {key.digest.hex()}: no registry has named this mechanism")
        return
    try:
        work(entry, key)
    except (ParameterError, RecountError) as error:
        tally.waiting.append(f"{key.metric}, {entry.period.label(key.period)}: {error}")


def _stale(connection: Connection, entries: StoredMetrics) -> list[Key]:
    """Return what was counted for other candidates than those asked for now, and can be counted anew."""
    stale = []
    for entry in entries.values():
        of = COUNTS.c.metric == entry.metric, COUNTS.c.digest == entry.mechanism.digest
        stale += keys_of(connection, COUNTS, *of, COUNTS.c.counts_digest != entry.counts_digest)
    kept = set(keys_of(connection, CHUNKS)) if stale else set()
    return [key for key in stale if key in kept]


def _recount(database: Database, entry: StoredMetric, key: Key) -> None:
    with database.snapshot() as connection:
        counts = folded(connection, entry, key)
    # Folding only ever adds: as many reports as were counted here are the same reports.
    unchanged = key.of(COUNTS) & (COUNTS.c.num_reports == counts.num_reports)

    def work(connection: Connection) -> None:
        connection.execute(update(COUNTS).where(unchanged).values(_counts_row(entry, counts)))
        database.owe(connection, {COUNTS.name})

    database.write(work)


def _fold_all(database: Database, entry: StoredMetric, key: Key, last: int, tally: _Tally) -> None:
    overtaken = 0
    while overtaken < TRIES:
        try:
            rows, reports = _fold_some(database, entry, key, last)
        except _OvertakenError:
            overtaken += 1
            continue
        if not rows:
            return
        tally.rows += rows
        tally.reports += reports
        database.checkpoint()


def _fold_some(database: Database, entry: StoredMetric, key: Key, last: int) -> tuple[int, int]:
    """Fold the oldest rows of a key, some megabytes; return how many rows and reports."""
    with database.snapshot() as connection:
        rows = _oldest(connection, key, last)
        if not rows:
            return 0, 0
        partial = _partial(connection, key, rows[0])
    new = joined(rows)
    counts = entry.count(new)
    chunked = chunks(key, shuffled(joined([*rows, *partial])))

    def work(connection: Connection) -> None:
        _add_counts(connection, entry, key, counts)
        _take(connection, INBOX, rows)
        _take(connection, CHUNKS, partial)
        connection.execute(CHUNKS.insert(), chunked)
        database.owe(connection, CHANGED)

    database.write(work)
    return len(rows), len(new)


def _oldest(connection: Connection, key: Key, last: int) -> Sequence[Row[Any]]:
    size = func.length(INBOX.c.cohorts) + func.length(INBOX.c.bits)
    ordered = select(INBOX.c.id, size).where(key.of(INBOX), INBOX.c.id <= last).order_by(INBOX.c.id).limit(FOLD_ROWS)
    ids: list[int] = []
    total = 0
    for number, length in connection.execute(ordered):
        if ids and total + length > FOLD_BYTES:
            break
        ids.append(number)
        total += length
    return connection.execute(select(INBOX).where(INBOX.c.id.in_(ids)).order_by(INBOX.c.id)).all()


def _partial(connection: Connection, key: Key, like: Row[Any]) -> Sequence[Row[Any]]:
    """Return a chunk that is not full, if there is one: its reports are shuffled again with the new ones."""
    full = full_chunk(like.num_bits, like.num_cohorts)
    return connection.execute(select(CHUNKS).where(key.of(CHUNKS), CHUNKS.c.num_reports < full).limit(1)).all()


def _take(connection: Connection, table: Table, rows: Sequence[Row[Any]]) -> None:
    """Delete these rows, all of them."""
    if rows and connection.execute(delete(table).where(table.c.id.in_([row.id for row in rows]))).rowcount != len(rows):
        raise _OvertakenError


def _add_counts(connection: Connection, entry: StoredMetric, key: Key, counts: SupportCounts) -> None:
    present = connection.execute(select(COUNTS.c.num_reports).where(key.of(COUNTS)).with_for_update()).scalar()
    if present is None:
        try:
            connection.execute(COUNTS.insert(), [{**key._asdict(), **_counts_row(entry, counts)}])
        except IntegrityError as error:
            raise _OvertakenError from error
        return
    total = folded(connection, entry, key) + counts
    connection.execute(update(COUNTS).where(key.of(COUNTS)).values(_counts_row(entry, total)))


def _counts_row(entry: StoredMetric, counts: SupportCounts) -> dict[str, Any]:
    return {
        "counts_digest": entry.counts_digest,
        "num_reports": counts.num_reports,
        "counts": pack_counts(counts),
    }
