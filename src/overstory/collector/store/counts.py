"""Reports and counts as bytes: rows of reports become arrays, and arrays rows, shuffled and cut into chunks.

Support counts take as few bytes each as the largest of them needs, and are checked when they are read:

    version u8 = 1 | bytes per count u8 | zero u16 | rows u32 | columns u32 | totals | ones, row by row | CRC-32 u32

Sums of reports, by which crafted ones are noticed, are one more blob; `digest` is that of the values they are about:

    version u8 = 1 | bytes per sum u8 | zero u16 | cells u32 | values u32 | buckets u32 | reports u64
    | reports with pairs u64 | digest, 16 bytes | ones | pairs of values, the upper triangle by row | seeds | CRC-32 u32

All integers are little-endian.
"""

from __future__ import annotations

import secrets
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from operator import add as plus
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from sqlalchemy import Column, ColumnElement, Connection, Row, Table, and_, func, select

from overstory.collector.store.databases.database import RecountError, StoreError
from overstory.collector.store.metrics import StoredMetric
from overstory.collector.store.schema import CHUNKS, COUNTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.analysis.alarms.sums import ReportSums
    from overstory.analysis.reports import ReportBatch, SupportCounts


CHUNK_BYTES: Final = 1 << 20  # bytes of a full chunk of shuffled reports
TOGETHER: Final = 1 << 23  # bytes of reports that are counted in one go


class Key(NamedTuple):
    """Reports with one key are counted together, and never mixed with others."""

    metric: str
    period: int
    digest: bytes
    device_group: str = ""

    @classmethod
    def of_row(cls, row: Any) -> Key:
        return cls(row.metric, row.period, bytes(row.digest), row.device_group)

    def of(self, table: Table) -> ColumnElement[bool]:
        return and_(*(column == value for column, value in zip(key_columns(table), self, strict=True)))


def key_columns(table: Table) -> list[Column[Any]]:
    """Return the columns of a table that are its rows' key."""
    return [table.c[name] for name in Key._fields]


def keys_of(connection: Connection, table: Table, *where: ColumnElement[bool]) -> list[Key]:
    """Return the keys that have rows, in order."""
    columns = key_columns(table)
    return list(map(Key.of_row, connection.execute(select(*columns).where(*where).distinct().order_by(*columns))))


def join_rows(rows: Sequence[Row[Any]]) -> ReportBatch:
    """Return the reports of rows of one key, in the rows' order."""
    from overstory.analysis.reports import ReportBatch
    from overstory.protocol.wire.upload import Batch, cohort_width

    first = rows[0]
    cohorts, bits = b"".join([row.cohorts for row in rows]), b"".join([row.bits for row in rows])
    reports = len(cohorts) // cohort_width(first.num_cohorts)
    return ReportBatch.from_wire(Batch(first.digest, first.num_bits, first.num_cohorts, reports, cohorts, bits))


Item = TypeVar("Item")


def grouped(items: Iterable[Item], size: Callable[[Item], int], most: int) -> Iterator[list[Item]]:
    """Yield items in their order, as many at a time as have at most this size together, or one that is larger."""
    group: list[Item] = []
    total = 0
    for item in items:
        length = size(item)
        if group and total + length > most:
            yield group
            group, total = [], 0
        group.append(item)
        total += length
    if group:
        yield group


def read_batches(connection: Connection, table: Table, *where: ColumnElement[bool]) -> Iterator[ReportBatch]:
    """Yield the reports of rows of one key, some megabytes at a time."""
    rows = connection.execute(select(table).where(*where).order_by(table.c.id), execution_options={"yield_per": 32})
    yield from map(join_rows, grouped(rows, lambda row: len(row.cohorts) + len(row.bits), TOGETHER))


def shuffled(batch: ReportBatch, seed: int | None = None) -> ReportBatch:
    """Return the reports in a random order: a permutation by the seed, or by one from the operating system."""
    import numpy as np

    from overstory.analysis.reports import ReportBatch

    order = np.random.default_rng(secrets.randbits(128) if seed is None else seed).permutation(len(batch))
    return ReportBatch(batch.cohorts[order], batch.bits[order], batch.num_bits, batch.num_cohorts)


def full_chunk(num_bits: int, num_cohorts: int) -> int:
    """Return how many reports a full chunk has."""
    from overstory.protocol.wire.upload import cohort_width

    return max(1, CHUNK_BYTES // (cohort_width(num_cohorts) + -(-num_bits // 8)))


def chunk_rows(key: Key, batch: ReportBatch) -> list[dict[str, Any]]:
    """Return the rows that hold these reports."""
    from overstory.protocol.wire.upload import cohort_width

    size, octets = full_chunk(batch.num_bits, batch.num_cohorts), batch.octets()
    cohorts = batch.cohorts.astype(f"<u{cohort_width(batch.num_cohorts)}", copy=False)
    about = {**key._asdict(), "num_bits": batch.num_bits, "num_cohorts": batch.num_cohorts}
    rows = []
    for start in range(0, len(batch), size):
        some = cohorts[start : start + size]
        columns = {"cohorts": some.tobytes(), "bits": octets[start : start + size].tobytes()}
        rows.append({**about, "num_reports": len(some), **columns})
    return rows


HEADER: Final = struct.Struct("<BBHII")
TRAILER: Final = struct.Struct("<I")
VERSION: Final = 1


def _pack(form: struct.Struct, about: tuple[Any, ...], arrays: Sequence[NDArray[Any]]) -> bytes:
    """Write a header, arrays in as few bytes a number as the largest needs, and a checksum."""
    import numpy as np

    width = np.min_scalar_type(max(int(array.max(initial=0)) for array in arrays)).itemsize
    body = b"".join((form.pack(VERSION, width, 0, *about), *(array.astype(f"<u{width}").tobytes() for array in arrays)))
    return body + TRAILER.pack(zlib.crc32(body))


def _unpack(
    form: struct.Struct, raw: bytes, what: str, count: Callable[..., int]
) -> tuple[tuple[Any, ...], NDArray[Any]]:
    """Read what `_pack` wrote: what the header says, and its numbers, of which there must be `count`."""
    import numpy as np

    end = len(raw) - TRAILER.size
    if end < form.size or zlib.crc32(raw[:end]) != TRAILER.unpack_from(raw, end)[0]:
        raise StoreError(f"stored {what} are damaged: their checksum does not match; restore a backup")
    version, width, _, *about = form.unpack_from(raw)
    if version != VERSION:
        raise StoreError(f"stored {what} of version {version} cannot be read: upgrade overstory")
    if end != form.size + width * count(*about):
        raise StoreError(f"stored {what} are not as long as their header says: another build wrote them")
    return tuple(about), np.frombuffer(raw[form.size : end], f"<u{width}")


def pack_counts(counts: SupportCounts) -> bytes:
    """Write counts."""
    return _pack(HEADER, (counts.num_cohorts, counts.num_bits), (counts.totals, counts.ones))


def unpack_counts(raw: bytes) -> SupportCounts:
    """Read counts."""
    from overstory.analysis.reports import SupportCounts

    (rows, columns), numbers = _unpack(HEADER, raw, "counts", lambda rows, columns: rows * (1 + columns))
    return SupportCounts(numbers[:rows], numbers[rows:].reshape(rows, columns))


def count_reports(connection: Connection, table: Table, entry: StoredMetric, key: Key) -> SupportCounts:
    """Count the reports of `table` that have this key."""
    return reduce(plus, map(entry.count, read_batches(connection, table, key.of(table))))


COUNTED: Final = [column for column in COUNTS.columns if column is not COUNTS.c.sums]
"""What `counts_of_row` needs of a row."""


def counts_of_key(connection: Connection, entry: StoredMetric, key: Key) -> SupportCounts:
    """Return the counts of what was folded with one key; see `counts_of_row`."""
    return counts_of_row(connection, entry, connection.execute(select(COUNTS).where(key.of(COUNTS))).one())


def counts_of_row(connection: Connection, entry: StoredMetric, row: Row[Any]) -> SupportCounts:
    """Return the counts of a row of what was folded; count again what was counted by other candidates."""
    key = Key.of_row(row)
    if bytes(row.counts_digest) == entry.counts_digest:
        return unpack_counts(bytes(row.counts))
    stored = connection.execute(select(func.sum(CHUNKS.c.num_reports)).where(key.of(CHUNKS))).scalar() or 0
    if stored != row.num_reports:
        raise RecountError(
            f"{key.metric}, {entry.period.label(key.period)}: its reports were counted for another list of candidates "
            "and are past retention; read it with the registry of that time, or leave this period out"
        )
    return count_reports(connection, CHUNKS, entry, key)


SUMS_HEADER: Final = struct.Struct("<BBHIIIQQ16s")


def pack_sums(sums: ReportSums, digest: bytes) -> bytes:
    """Write sums of reports, and the first bytes of the digest of what they are about."""
    arrays = sums.ones, sums.upper, sums.seeds
    return _pack(SUMS_HEADER, (*map(len, arrays), sums.num_reports, sums.pair_reports, digest[:16]), arrays)


def unpack_sums(raw: bytes, digest: bytes) -> ReportSums | None:
    """Read sums of reports; None when they are about other values than those of the digest."""
    import numpy as np

    from overstory.analysis.alarms.sums import ReportSums

    (cells, pairs, _, reports, pair_reports, about), numbers = _unpack(
        SUMS_HEADER, raw, "sums of reports", lambda cells, pairs, buckets, *_: cells + pairs + buckets
    )
    if about != digest[:16]:
        return None
    ones, upper, seeds = np.split(numbers.astype(np.int64), [cells, cells + pairs])
    return ReportSums(reports, ones, pair_reports, upper, seeds)


def sums_of_key(connection: Connection, entry: StoredMetric, key: Key) -> ReportSums | None:
    """Return what is summed of the stored reports that were folded with one key; None: nothing, or of other values."""
    raw = connection.execute(select(COUNTS.c.sums).where(key.of(COUNTS))).scalar()
    return None if raw is None else unpack_sums(bytes(raw), entry.counts_digest)


def sum_reports(
    connection: Connection, table: Table, entry: StoredMetric, key: Key, sums: ReportSums | None = None
) -> ReportSums | None:
    """Return the sums of the reports of `table` that have this key, added to `sums` of others."""
    if entry.watch is not None:
        for batch in read_batches(connection, table, key.of(table)):
            more = entry.sum(batch, sums)
            sums = more if sums is None or more is None else sums + more
    return sums
