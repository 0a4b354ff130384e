"""Read counts: what is stored, and what is not folded yet, both as of one moment.

Rows of reports as arrays, and arrays as rows: shuffled, cut into chunks.

Support counts as bytes: as narrow as the largest of them allows, and checked when they are read.

    version u8 = 1 | bytes per count u8 | zero u16 | rows u32 | columns u32 | totals | ones, row by row | CRC-32 u32

All little-endian.

Kept reports as a Parquet file, for other tools.
"""

from __future__ import annotations

import os
import secrets
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import add as plus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, Table, and_, func, select, union

from overstory.collector.store.database import Database, RecountError, StoreError
from overstory.collector.store.metrics import StoredMetric
from overstory.collector.store.schema import CHUNKS, COUNTS, INBOX

if TYPE_CHECKING:
    from overstory.analysis.reports import ReportBatch, SupportCounts
    from overstory.protocol.metrics import Metric


CHUNK_BYTES: Final = 1 << 20
"""How large a chunk of shuffled reports becomes."""

TOGETHER: Final = 1 << 23
"""Bytes of reports that are counted in one go."""


class Key(NamedTuple):
    """What is counted together and never mixed with anything else."""

    metric: str
    period: int
    digest: bytes

    def of(self, table: Table) -> ColumnElement[bool]:
        """Return the condition that a row of `table` has this key."""
        return and_(table.c.metric == self.metric, table.c.period == self.period, table.c.digest == self.digest)


def keys_of(connection: Connection, table: Table, *where: ColumnElement[bool]) -> list[Key]:
    """Return the keys that have rows, in order."""
    columns = (table.c.metric, table.c.period, table.c.digest)
    rows = connection.execute(select(*columns).where(*where).distinct().order_by(*columns))
    return [Key(metric, period, bytes(digest)) for metric, period, digest in rows]


def joined(rows: Sequence[Row[Any]]) -> ReportBatch:
    """Return the reports of rows of one key, in the rows' order."""
    from overstory.analysis.reports import ReportBatch
    from overstory.protocol.wire.batch import Batch, cohort_width

    first = rows[0]
    cohorts, bits = b"".join([row.cohorts for row in rows]), b"".join([row.bits for row in rows])
    reports = len(cohorts) // cohort_width(first.num_cohorts)
    return ReportBatch.from_wire(Batch(first.digest, first.num_bits, first.num_cohorts, reports, cohorts, bits))


def streamed(connection: Connection, table: Table, *where: ColumnElement[bool]) -> Iterator[ReportBatch]:
    """Yield the reports of rows of one key, some megabytes at a time."""
    waiting: list[Row[Any]] = []
    size = 0
    rows = connection.execute(select(table).where(*where).order_by(table.c.id), execution_options={"yield_per": 32})
    for row in rows:
        waiting.append(row)
        size += len(row.cohorts) + len(row.bits)
        if size >= TOGETHER:
            yield joined(waiting)
            waiting, size = [], 0
    if waiting:
        yield joined(waiting)


def shuffled(batch: ReportBatch) -> ReportBatch:
    """Return the reports in an order that nobody knows: a permutation seeded by the operating system."""
    import numpy as np

    from overstory.analysis.reports import ReportBatch

    order = np.random.default_rng(secrets.randbits(128)).permutation(len(batch))
    return ReportBatch(batch.cohorts[order], batch.bits[order], batch.num_bits, batch.num_cohorts)


def full_chunk(num_bits: int, num_cohorts: int) -> int:
    """Return how many reports a full chunk has.

    Examples
    --------
    >>> full_chunk(128, 64)
    58254
    """
    from overstory.protocol.wire.batch import cohort_width

    return max(1, CHUNK_BYTES // (cohort_width(num_cohorts) + -(-num_bits // 8)))


def chunks(key: Key, batch: ReportBatch) -> list[dict[str, Any]]:
    """Return the rows that hold these reports."""
    from overstory.protocol.wire.batch import cohort_width

    size, octets = full_chunk(batch.num_bits, batch.num_cohorts), batch.octets()
    cohorts = batch.cohorts.astype(f"<u{cohort_width(batch.num_cohorts)}", copy=False)
    return [
        {
            **key._asdict(),
            "num_bits": batch.num_bits,
            "num_cohorts": batch.num_cohorts,
            "num_reports": len(cohorts[start : start + size]),
            "cohorts": cohorts[start : start + size].tobytes(),
            "bits": octets[start : start + size].tobytes(),
        }
        for start in range(0, len(batch), size)
    ]


HEADER: Final = struct.Struct("<BBHII")
TRAILER: Final = struct.Struct("<I")
VERSION: Final = 1


def pack_counts(counts: SupportCounts) -> bytes:
    """Write counts.

    Examples
    --------
    >>> from overstory.analysis.reports import SupportCounts
    >>> counts = SupportCounts([300], [[7, 299]])
    >>> len(pack_counts(counts)), unpack_counts(pack_counts(counts)) == counts
    (22, True)
    """
    import numpy as np

    width = np.min_scalar_type(int(counts.totals.max())).itemsize
    header = HEADER.pack(VERSION, width, 0, counts.num_cohorts, counts.num_bits)
    columns = [array.astype(f"<u{width}").tobytes() for array in (counts.totals, counts.ones)]
    body = b"".join((header, *columns))
    return body + TRAILER.pack(zlib.crc32(body))


def unpack_counts(raw: bytes) -> SupportCounts:
    """Read counts."""
    import numpy as np

    from overstory.analysis.reports import SupportCounts

    end = len(raw) - TRAILER.size
    if end < HEADER.size or zlib.crc32(raw[:end]) != TRAILER.unpack_from(raw, end)[0]:
        raise StoreError("stored counts are damaged: their checksum does not match; restore a backup")
    version, width, _, rows, columns = HEADER.unpack_from(raw)
    if version != VERSION or end != HEADER.size + width * rows * (1 + columns):
        raise StoreError(f"stored counts of version {version} cannot be read: upgrade overstory")
    numbers = np.frombuffer(raw, f"<u{width}", offset=HEADER.size, count=rows * (1 + columns))
    return SupportCounts(numbers[:rows], numbers[rows:].reshape(rows, columns))


def read_counts(database: Database, metric: Metric, first: int, last: int) -> dict[int, SupportCounts]:
    """Return the counts of each period that has any; see `Store.counts`."""
    entry = StoredMetric.of(metric)
    with database.snapshot() as connection:
        found = {
            key.period: folded(connection, entry, key)
            for key in keys_of(connection, COUNTS, *_within(COUNTS, entry, first, last))
        }
        for key in keys_of(connection, INBOX, *_within(INBOX, entry, first, last)):
            tail = _counted(connection, INBOX, entry, key)
            found[key.period] = found[key.period] + tail if key.period in found else tail
    return dict(sorted(found.items()))


def _within(table: Table, entry: StoredMetric, first: int, last: int) -> tuple[ColumnElement[bool], ...]:
    here = table.c.metric == entry.metric, table.c.digest == entry.mechanism.digest
    return (*here, table.c.period >= first, table.c.period <= last)


def _counted(connection: Connection, table: Table, entry: StoredMetric, key: Key) -> SupportCounts:
    return reduce(plus, map(entry.count, streamed(connection, table, key.of(table))))


def folded(connection: Connection, entry: StoredMetric, key: Key) -> SupportCounts:
    """Return the counts of what was folded, counted anew where they were counted by other candidates."""
    row = connection.execute(select(COUNTS).where(key.of(COUNTS))).one()
    if bytes(row.counts_digest) == entry.counts_digest:
        return unpack_counts(bytes(row.counts))
    kept = connection.execute(select(func.sum(CHUNKS.c.num_reports)).where(key.of(CHUNKS))).scalar() or 0
    if kept != row.num_reports:
        raise RecountError(
            f"{key.metric}, {entry.period.label(key.period)}: its reports were counted for another list of candidates "
            "and are past retention; read it with the registry of that time, or leave this period out"
        )
    return _counted(connection, CHUNKS, entry, key)


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
    entry = StoredMetric.of(metric)
    with database.snapshot() as connection:
        for table in (CHUNKS, INBOX):
            for key in keys_of(connection, table, *_within(table, entry, first, last)):
                for batch in streamed(connection, table, key.of(table)):
                    yield shuffled(batch)


def export(database: Database, metric: Metric, first: int, last: int, path: str | os.PathLike[str]) -> int:
    """Write the kept reports of some periods; see `Store.export`."""
    from overstory.files.parquet import Label, write_parquet

    mechanism = metric.mechanism
    label = Label(mechanism.payload_bits, mechanism.num_cohorts, mechanism.canonical())
    written = _Count()
    write_parquet(path, written.passing(read_reports(database, metric, first, last)), label)
    return written.reports


class _Count:
    """Counts reports as they pass."""

    def __init__(self) -> None:
        self.reports = 0

    def passing(self, batches: Iterable[ReportBatch]) -> Iterator[ReportBatch]:
        for batch in batches:
            self.reports += len(batch)
            yield batch
