"""Compaction: count the reports in the inbox once each, shuffle them among others of their period, delete expired ids.

Reading, counting and shuffling happen without a lock. One short transaction then deletes exactly the rows that were
counted and writes what they became. If any of them is no longer there, another process has folded it: the transaction
is undone, and nothing was counted twice.

Each folding writes a chunk again. A trickle of reports over many metrics, folded every few seconds, would write a
hundred thousand bytes for each byte. So the reports of a key are folded when they are a fourth of the chunk that they
are shuffled into, or have waited for minutes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Row, Table, delete, func, select, update
from sqlalchemy.exc import IntegrityError

from overstory.collector.store.counts import (
    Key,
    chunk_rows,
    counts_of_key,
    counts_of_row,
    full_chunk,
    grouped,
    join_rows,
    keys_of,
    pack_counts,
    pack_sums,
    shuffled,
    sum_reports,
    sums_of_key,
    unpack_sums,
)
from overstory.collector.store.databases.database import Database, RecountError
from overstory.collector.store.metrics import StoredMetric, StoredMetrics, read_stored_metrics
from overstory.collector.store.retention import delete_expired_ids
from overstory.collector.store.schema import (
    CHUNKS,
    COUNTS,
    INBOX,
    day_of_ids,
    ids_table_name,
    read_id_days,
)
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.analysis.alarms.sums import ReportSums
    from overstory.analysis.reports import SupportCounts


SHARE: Final = 4
"""Reports are folded when they are at least one to this many in the chunk that is written again."""


class InboxAges:
    """Remembers since when each key has had reports in the inbox: the store itself has no times."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[Key, float] = {}

    def due(self, connection: Connection, keys: Sequence[Key], seconds: float) -> list[Key]:
        """Return the `keys` that have many reports in the inbox, or have had some for that many seconds."""
        if not seconds:
            return list(keys)
        now = self._clock()
        self._since = {key: self._since.get(key, now) for key in keys}
        due = [key for key in keys if now - self._since[key] >= seconds or _many(connection, key)]
        for key in due:
            del self._since[key]
        return due


def _many(connection: Connection, key: Key) -> bool:
    """Whether the key has enough reports in the inbox to write its open chunk again."""
    waiting = connection.execute(select(func.sum(INBOX.c.num_reports)).where(key.of(INBOX))).scalar() or 0
    sizes = select(CHUNKS.c.num_bits, CHUNKS.c.num_cohorts, CHUNKS.c.num_reports).where(key.of(CHUNKS))
    rows = connection.execute(sizes)
    again = sum(reports for bits, cohorts, reports in rows if reports < full_chunk(bits, cohorts))
    return bool(int(waiting) * SHARE >= again)


FOLD_BYTES: Final = 1 << 21
"""Bytes of reports that one transaction folds: memory does not grow with the inbox, and other writers wait briefly."""

FOLD_ROWS: Final = 1024
TRIES: Final = 3

CHANGED: Final = (INBOX.name, CHUNKS.name, COUNTS.name)
"""The tables that folding leaves old rows in, besides that of the ids that came with the folded rows."""


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
        What could not be counted, and why: most often the store does not know the metric's mechanism.
    remains
        What was deleted and can still be read in the database's files, and why; see `Database.erase_deleted`.
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


class OvertakenError(Exception):
    """Another process has folded one of these rows, or has made the row of their counts: begin again."""


def compact(
    database: Database, entries: StoredMetrics, now: float, ages: InboxAges, within: float, *, forgetting: bool
) -> Compacted:
    """Fold the reports that were in the inbox when this began, where that is due; see `Store.compact`."""
    with database.snapshot() as connection:
        entries = read_stored_metrics(connection, entries)
        last = connection.execute(select(func.max(INBOX.c.id))).scalar() or 0
        waiting = ages.due(connection, keys_of(connection, INBOX), within)
        stale = _stale(connection, entries)
    tally = _Tally()
    with database.work_claims() as claim:
        for key in stale:
            if claim(key):
                _try(tally, key, entries, lambda entry, key: _recount(database, entry, key))
        for key in waiting:
            if claim(key):
                _try(tally, key, entries, lambda entry, key: _fold_all(database, entry, key, last, tally))
    forgotten, stay = delete_expired_ids(database, now) if forgetting else (0, [])
    remains = (*stay, *database.erase_deleted())
    return Compacted(tally.reports, tally.rows, forgotten, tuple(tally.waiting), remains)


def _try(tally: _Tally, key: Key, entries: StoredMetrics, work: Callable[[StoredMetric, Key], None]) -> None:
    entry = entries.get((key.metric, key.digest))
    if entry is None:
        tally.waiting.append(f"{key.metric}, mechanism {key.digest.hex()}: no registry has named this mechanism")
        return
    try:
        work(entry, key)
    except (ParameterError, RecountError) as error:
        tally.waiting.append(f"{key.metric}, {entry.period.label(key.period)}: {error}")


def _stale(connection: Connection, entries: StoredMetrics) -> list[Key]:
    """Return the keys that were counted for other candidates than today's, and can be counted again."""
    stale = []
    for entry in entries.values():
        of_entry = COUNTS.c.metric == entry.metric, COUNTS.c.digest == entry.mechanism.digest
        stale += keys_of(connection, COUNTS, *of_entry, COUNTS.c.counts_digest != entry.counts_digest)
    stored = set(keys_of(connection, CHUNKS)) if stale else set()
    return [key for key in stale if key in stored]


def _recount(database: Database, entry: StoredMetric, key: Key) -> None:
    with database.snapshot() as connection:
        counts = counts_of_key(connection, entry, key)
        sums = sum_reports(connection, CHUNKS, entry, key)

    def work(connection: Connection) -> None:
        # The same reports: folding adds some that came, and retention deletes some that are stored. The row is locked
        # before the chunks are read.
        came = connection.execute(select(COUNTS.c.num_reports).where(key.of(COUNTS)).with_for_update()).scalar()
        stored = connection.execute(select(func.sum(CHUNKS.c.num_reports)).where(key.of(CHUNKS))).scalar()
        if came == stored == counts.num_reports:
            connection.execute(update(COUNTS).where(key.of(COUNTS)).values(_counts_row(entry, counts, sums)))
        database.note_deletions(connection, {COUNTS.name})

    database.write(work)


def _fold_all(database: Database, entry: StoredMetric, key: Key, last: int, tally: _Tally) -> None:
    overtaken = 0
    while overtaken < TRIES:
        try:
            rows, reports = _fold_some(database, entry, key, last)
        except OvertakenError:
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
        # A chunk that is not full, if there is one: its reports are shuffled again with the new ones.
        full = full_chunk(rows[0].num_bits, rows[0].num_cohorts)
        open_chunk = select(CHUNKS).where(key.of(CHUNKS), CHUNKS.c.num_reports < full).limit(1)
        partial = connection.execute(open_chunk).all()
        summed = sums_of_key(connection, entry, key)
    new = join_rows(rows)
    counts = entry.count(new)
    sums = entry.sum(new, summed)
    chunked = chunk_rows(key, shuffled(join_rows([*rows, *partial])))
    day = day_of_ids(entry.period.start(key.period + 1))

    def work(connection: Connection) -> None:
        _add_counts(connection, entry, key, counts, sums)
        _take(connection, INBOX, rows)
        _take(connection, CHUNKS, partial)
        connection.execute(CHUNKS.insert(), chunked)
        of_ids = {ids_table_name(day)} if day in read_id_days(connection) else set()
        database.note_deletions(connection, {*CHANGED, *of_ids})

    database.write(work)
    return len(rows), len(new)


def _oldest(connection: Connection, key: Key, last: int) -> Sequence[Row[Any]]:
    size = func.length(INBOX.c.cohorts) + func.length(INBOX.c.bits)
    ordered = select(INBOX.c.id, size).where(key.of(INBOX), INBOX.c.id <= last).order_by(INBOX.c.id).limit(FOLD_ROWS)
    first = next(grouped(connection.execute(ordered).all(), itemgetter(1), FOLD_BYTES), [])
    ids = [number for number, _ in first]
    return connection.execute(select(INBOX).where(INBOX.c.id.in_(ids)).order_by(INBOX.c.id)).all()


def _take(connection: Connection, table: Table, rows: Sequence[Row[Any]]) -> None:
    if not rows:
        return
    if connection.execute(delete(table).where(table.c.id.in_([row.id for row in rows]))).rowcount != len(rows):
        raise OvertakenError


def _add_counts(
    connection: Connection, entry: StoredMetric, key: Key, counts: SupportCounts, sums: ReportSums | None
) -> None:
    """Add what was counted of new reports; `OvertakenError` when another process makes their row at this moment."""
    row = connection.execute(select(COUNTS).where(key.of(COUNTS)).with_for_update()).one_or_none()
    if row is None:
        try:
            connection.execute(COUNTS.insert(), [{**key._asdict(), **_counts_row(entry, counts, sums)}])
        except IntegrityError as error:
            raise OvertakenError from error
        return
    if sums is not None and row.sums is not None:  # those of the reports that are in the chunks
        before = unpack_sums(bytes(row.sums), entry.counts_digest)
        if before is None:  # the list of candidates has changed
            before = sum_reports(connection, CHUNKS, entry, key)
        sums = sums if before is None else before + sums
    total = _counts_row(entry, counts_of_row(connection, entry, row) + counts, sums)
    total["num_reports"] = row.num_reports + counts.num_reports  # those that retention took out of the counts, too
    connection.execute(update(COUNTS).where(key.of(COUNTS)).values(total))


def _counts_row(entry: StoredMetric, counts: SupportCounts, sums: ReportSums | None) -> dict[str, Any]:
    return {
        "counts_digest": entry.counts_digest,
        "num_reports": counts.num_reports,
        "counts": pack_counts(counts),
        "sums": None if sums is None else pack_sums(sums, entry.counts_digest),
    }
