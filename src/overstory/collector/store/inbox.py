"""What the collector hands over, and how it is merged before it is written.

Accept batches: each id once, everything of a call in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Any, NamedTuple

from sqlalchemy import Connection

from overstory.collector.store.database import Database
from overstory.collector.store.schema import INBOX
from overstory.protocol.errors import ParameterError


class Received(NamedTuple):
    """One accepted batch of reports.

    A tuple because a collector makes one for each request, and a frozen dataclass takes several times as long.

    Parameters
    ----------
    metric, period
        What the reports are about: the metric's id, the number of its period.
    batch
        The batch's id, 16 bytes from the sender's secret or drawn: it is stored once, however often it is sent.
    digest
        The digest of the mechanism that made the reports, 16 bytes.
    num_bits, num_cohorts, num_reports
        The payload bits of a report, the mechanism's cohorts, and the reports in the batch.
    cohorts, bits
        Its columns as they travel; see `overstory.protocol.wire.batch.Batch`.
    forget_after
        Unix time in seconds after which no copy of the batch can be accepted any more.

    Examples
    --------
    >>> batch = Received("colour", 20_000, bytes(16), bytes(16), 8, 1, 1, bytes(2), bytes(1), 1_800_000_000)
    >>> batch.metric, batch.num_reports
    ('colour', 1)
    """

    metric: str
    period: int
    batch: bytes
    digest: bytes
    num_bits: int
    num_cohorts: int
    num_reports: int
    cohorts: bytes
    bits: bytes
    forget_after: int


def merged(batches: Iterable[Received]) -> list[dict[str, Any]]:
    """Return one row of the inbox for each (metric, period, digest) that there are reports of."""
    groups: dict[tuple[str, int, bytes, int, int], list[Received]] = {}
    for one in batches:
        groups.setdefault((one.metric, one.period, one.digest, one.num_bits, one.num_cohorts), []).append(one)
    rows = [_row(*key, group) for key, group in groups.items()]
    return [row for row in rows if row["num_reports"]]


def _row(
    metric: str, period: int, digest: bytes, num_bits: int, num_cohorts: int, group: list[Received]
) -> dict[str, Any]:
    from overstory.protocol.wire.batch import cohort_width  # whoever only looks at a store has no use for it

    reports = sum(one.num_reports for one in group)
    cohorts, bits = b"".join([one.cohorts for one in group]), b"".join([one.bits for one in group])
    if (len(cohorts), len(bits)) != (reports * cohort_width(num_cohorts), reports * (-(-num_bits // 8))):
        raise ParameterError(
            f"{metric}: {reports} reports of {num_bits} bits and {num_cohorts} cohorts do not have columns of "
            f"{len(cohorts)} and {len(bits)} bytes"
        )
    return {
        "metric": metric,
        "period": period,
        "digest": digest,
        "num_bits": num_bits,
        "num_cohorts": num_cohorts,
        "num_reports": reports,
        "cohorts": cohorts,
        "bits": bits,
    }


def add(database: Database, received: Sequence[Received]) -> list[bool]:
    """Store what is new of `received`; see `Store.add`."""
    from overstory.protocol.metrics.metric import DAY

    if not received:
        return []
    # To the end of a day: the exact second would be that of a metric's period, which an id is not to be known by.
    forget_after = {one.batch: -(-one.forget_after // DAY) * DAY for one in received}
    first = {received[place].batch: place for place in reversed(range(len(received)))}

    def work(connection: Connection) -> list[bool]:
        claimed = database.claim(connection, forget_after)
        new = [first[one.batch] == place and one.batch in claimed for place, one in enumerate(received)]
        rows = merged(compress(received, new))
        if rows:
            connection.execute(INBOX.insert(), rows)
        return new

    return database.write(work)
