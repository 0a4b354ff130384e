"""Rows of reports as arrays, and arrays as rows: shuffled, cut into chunks."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, Table, and_, select

if TYPE_CHECKING:
    from overstory.analysis.reports import ReportBatch

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
    from overstory.protocol.wire import Batch, cohort_width

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
    from overstory.protocol.wire import cohort_width

    return max(1, CHUNK_BYTES // (cohort_width(num_cohorts) + -(-num_bits // 8)))


def chunks(key: Key, batch: ReportBatch) -> list[dict[str, Any]]:
    """Return the rows that hold these reports."""
    from overstory.protocol.wire import cohort_width

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
