"""The upkeep of reports: compaction counts each once and shuffles it among others, retention deletes what is past.

Counting takes no lock. One short transaction then deletes exactly the rows that were counted, or is undone.

Counts stay past retention only where at least `FEWEST_TOGETHER` reports share what is public about them: of few
reports, the counts are the reports. A cohort or seed with fewer is taken out of the counts of its period and group.
Which these are depends on no value, so the others are a random sample. Single reports can be computed from sums over
all seeds where they are not many more than the seeds, or than the values: of such a period, none stay.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Row, Table, delete, func, select, update
from sqlalchemy.exc import IntegrityError

from overstory.collector.settings import DAY
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
    unpack_counts,
    unpack_sums,
)
from overstory.collector.store.databases.database import Database, RecountError
from overstory.collector.store.metrics import StoredMetric, StoredMetrics, read_stored_metrics
from overstory.collector.store.operations import retain_operations
from overstory.collector.store.schema import (
    ABOUT,
    CHUNKS,
    COUNTS,
    IDS_DELETED,
    INBOX,
    OF_REPORTS,
    day_of_ids,
    ids_table_name,
    put_row,
    read_fact,
    read_id_days,
)
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.analysis.alarms.sums import ReportSums
    from overstory.analysis.reports import SupportCounts


SHARE: Final = 4  # reports are folded when they are at least one to this many in the chunk that is written again


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


@dataclass
class Compacted:
    """What a compaction has done."""

    reports: int = 0  # counted and shuffled
    rows: int = 0  # of the inbox, that they came in
    forgotten: int = 0  # batch ids that were deleted
    waiting: list[str] = field(default_factory=list)  # what could not be counted, and why
    remains: tuple[str, ...] = ()  # what was deleted and can still be read in the database's files, and why


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
    done = Compacted()
    with database.work_claims() as claim:
        for key in stale:
            if claim(key):
                _try(done, key, entries, lambda entry, key: _recount(database, entry, key))
        for key in waiting:
            if claim(key):
                _try(done, key, entries, lambda entry, key: _fold_all(database, entry, key, last, done))
    done.forgotten, stay = delete_expired_ids(database, now) if forgetting else (0, [])
    done.remains = (*stay, *database.erase_deleted())
    return done


def _try(done: Compacted, key: Key, entries: StoredMetrics, work: Callable[[StoredMetric, Key], None]) -> None:
    entry = entries.get((key.metric, key.digest))
    if entry is None:
        done.waiting.append(f"{key.metric}, mechanism {key.digest.hex()}: no registry has named this mechanism")
        return
    try:
        work(entry, key)
    except (ParameterError, RecountError) as error:
        done.waiting.append(f"{key.metric}, {entry.period.label(key.period)}: {error}")


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


def _fold_all(database: Database, entry: StoredMetric, key: Key, last: int, done: Compacted) -> None:
    overtaken = 0
    while overtaken < TRIES:
        try:
            rows, reports = _fold_some(database, entry, key, last)
        except OvertakenError:
            overtaken += 1
            continue
        if not rows:
            return
        done.rows += rows
        done.reports += reports
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


@dataclass(frozen=True)
class Retained:
    """What retention deleted."""

    reports: int
    chunks: int  # the rows that they were stored in
    remains: tuple[str, ...] = ()  # what can still be read in the database's files, and why


def retain(database: Database, entries: StoredMetrics, now: float) -> Retained:
    """Delete the reports past their metric's retention at unix time `now`; see `Store.retain`."""
    with database.snapshot() as connection:
        entries = read_stored_metrics(connection, entries)
    # The registry's metrics come last: the registry decides how long a metric's reports are stored.
    expired = {entry.metric: entry.last_expired(now) for entry in entries.values()}
    database.write(lambda connection: retain_operations(database, connection, entries, now))
    sizes = [size for metric, last in expired.items() for size in _delete_reports(database, metric, last)]
    database.release_free_space()
    return Retained(sum(sizes), len(sizes), database.erase_deleted(OF_REPORTS if sizes else ()))


def _delete_reports(database: Database, metric: str, last: int) -> list[int]:
    """Delete a metric's chunks up to the period `last`, and small counts; return the chunks' numbers of reports."""

    def work(connection: Connection) -> list[int]:
        keys = keys_of(connection, CHUNKS, CHUNKS.c.metric == metric, CHUNKS.c.period <= last)
        sizes = [size for key in keys for size in _delete_key(connection, key)]
        if sizes:
            database.note_deletions(connection, OF_REPORTS)
        return sizes

    return database.write(work)


def _delete_key(connection: Connection, key: Key) -> list[int]:
    from overstory.protocol.metrics.metric import FEWEST_TOGETHER

    # The counts first, as compaction does: whoever adds to them waits here.
    row = connection.execute(select(COUNTS).where(key.of(COUNTS)).with_for_update()).one_or_none()
    if row is None:  # another process has deleted these reports
        return []
    columns = CHUNKS.c.num_cohorts, CHUNKS.c.num_reports
    chunks = connection.execute(delete(CHUNKS).where(key.of(CHUNKS)).returning(*columns)).all()
    if chunks:
        counts = without_few(unpack_counts(bytes(row.counts)), chunks[0].num_cohorts, FEWEST_TOGETHER)
        if counts.num_reports or row.num_reports >= FEWEST_TOGETHER:
            connection.execute(update(COUNTS).where(key.of(COUNTS)).values(counts=pack_counts(counts), sums=None))
        else:
            connection.execute(delete(COUNTS).where(key.of(COUNTS)))
    return [chunk.num_reports for chunk in chunks]


def without_few(counts: SupportCounts, num_cohorts: int, fewest: int) -> SupportCounts:
    """Return the counts without the rows of which single reports could be read: those of fewer than `fewest`."""
    import numpy as np

    from overstory.analysis.reports import SupportCounts

    in_a_row = min(max(num_cohorts // counts.num_cohorts, 1), counts.num_bits)
    stay = counts.totals >= fewest * in_a_row
    return SupportCounts(np.where(stay, counts.totals, 0), np.where(stay[:, None], counts.ones, 0))


def delete_expired_ids(database: Database, now: float) -> tuple[int, list[str]]:
    """Delete, once a day, the ids of days that have passed; return how many, and the tables that are still there."""
    today = int(now // DAY)
    with database.snapshot() as connection:
        last = read_fact(connection, IDS_DELETED)
        if last is not None and int(last) >= today:
            return 0, []
        expired = [day for day, until in read_id_days(connection).items() if until <= now]
    dropped = {day: database.drop_ids(day, now) for day in expired}
    deleted = sum(count for count in dropped.values() if count > 0)
    stay = [f"{ids_table_name(day)}: it is in use, or another user's" for day, count in dropped.items() if count < 0]
    if not stay:
        database.write(lambda connection: _note_day(database, connection, str(today)))
    return deleted, stay


def _note_day(database: Database, connection: Connection, day: str) -> None:
    database.lock(connection)  # of two collectors that delete ids for the first time, only one may make the row
    put_row(connection, ABOUT, {"key": IDS_DELETED}, value=day)
