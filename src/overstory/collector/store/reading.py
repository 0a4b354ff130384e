"""Read counts: what is stored, and what is not folded yet, both as of one moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import reduce
from operator import add as plus
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, Connection, Table, func, select, union

from overstory.collector.store.columns import Key, keys_of, shuffled, streamed
from overstory.collector.store.count_blobs import unpack_counts
from overstory.collector.store.database import Database
from overstory.collector.store.errors import RecountError
from overstory.collector.store.known import Known
from overstory.collector.store.schema import CHUNKS, COUNTS, INBOX

if TYPE_CHECKING:
    from overstory.analysis.counts import SupportCounts
    from overstory.analysis.reports import ReportBatch
    from overstory.protocol.metrics import Metric


def read_counts(database: Database, metric: Metric, first: int, last: int) -> dict[int, SupportCounts]:
    """Return the counts of each period that has any; see `Store.counts`."""
    known = Known.of(metric)
    with database.snapshot() as connection:
        found = {
            key.period: folded(connection, known, key)
            for key in keys_of(connection, COUNTS, *_within(COUNTS, known, first, last))
        }
        for key in keys_of(connection, INBOX, *_within(INBOX, known, first, last)):
            tail = _counted(connection, INBOX, known, key)
            found[key.period] = found[key.period] + tail if key.period in found else tail
    return dict(sorted(found.items()))


def _within(table: Table, known: Known, first: int, last: int) -> tuple[ColumnElement[bool], ...]:
    here = table.c.metric == known.metric, table.c.digest == known.mechanism.digest
    return (*here, table.c.period >= first, table.c.period <= last)


def _counted(connection: Connection, table: Table, known: Known, key: Key) -> SupportCounts:
    return reduce(plus, map(known.count, streamed(connection, table, key.of(table))))


def folded(connection: Connection, known: Known, key: Key) -> SupportCounts:
    """Return the counts of what was folded, counted anew where they were counted by other candidates.

    Raises
    ------
    RecountError
        When they would have to be counted anew, and the reports are past retention.
    """
    row = connection.execute(select(COUNTS).where(key.of(COUNTS))).one()
    if bytes(row.counts_digest) == known.counts_digest:
        return unpack_counts(bytes(row.counts))
    kept = connection.execute(select(func.sum(CHUNKS.c.num_reports)).where(key.of(CHUNKS))).scalar() or 0
    if kept != row.num_reports:
        raise RecountError(
            f"{key.metric}, {known.period.label(key.period)}: its reports were counted for another list of candidates "
            "and are past retention; read it with the registry of that time, or leave this period out"
        )
    return _counted(connection, CHUNKS, known, key)


def read_periods(database: Database, metric: str) -> list[int]:
    """Return the periods that have reports or counts, in order."""
    tables = COUNTS, INBOX
    with database.snapshot() as connection:
        found = union(*(select(table.c.period).where(table.c.metric == metric) for table in tables))
        return sorted(connection.execute(found).scalars())


def read_tally(database: Database, metric: str, first: int, last: int) -> dict[tuple[int, bytes], int]:
    """Return the reports of each (period, mechanism digest), whatever the parameters were; see `Store.tally`."""
    found: Counter[tuple[int, bytes]] = Counter()
    with database.snapshot() as connection:
        for table in (COUNTS, INBOX):
            here = table.c.metric == metric, table.c.period >= first, table.c.period <= last
            key = table.c.period, table.c.digest
            rows = connection.execute(select(*key, func.sum(table.c.num_reports)).where(*here).group_by(*key))
            for period, digest, reports in rows:
                found[period, bytes(digest)] += int(reports)
    return dict(sorted(found.items()))


def read_reports(database: Database, metric: Metric, first: int, last: int) -> Iterator[ReportBatch]:
    """Yield all kept reports as of one moment, shuffled within some megabytes."""
    known = Known.of(metric)
    with database.snapshot() as connection:
        for table in (CHUNKS, INBOX):
            for key in keys_of(connection, table, *_within(table, known, first, last)):
                for batch in streamed(connection, table, key.of(table)):
                    yield shuffled(batch)
