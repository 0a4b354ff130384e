"""What a store holds, in figures."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from sqlalchemy import Connection, Table, func, select

from overstory.collector.store.databases.database import Database
from overstory.collector.store.metrics import StoredMetrics, read_stored_metrics
from overstory.collector.store.operations import count_releases, read_collectors, read_notes, read_refusals
from overstory.collector.store.schema import CHUNKS, COUNTS, INBOX, SCHEMA, count_ids


@dataclass(frozen=True)
class MetricSummary:
    """One metric's reports of one mechanism."""

    metric: str
    digest: str  # the mechanism's, in hexadecimal
    mechanism: str | None  # its registry name; None when no registry has named it
    first: str  # a period's label, or its number while the period's length is unknown
    last: str
    counted: int  # reports in the counts
    kept: int  # reports that are still stored
    waiting: int  # reports in the inbox


@dataclass(frozen=True)
class Summary:
    """What a store holds.

    Attributes
    ----------
    url, kind, schema
        The database, its kind, and the number of its schema.
    size
        The size of the database, in bytes.
    batch_ids
        Number of stored batch ids; while an id is stored, no batch with this id is counted again.
    metrics
        A summary for each metric and mechanism.
    refused
        Reports, batches and requests that were refused, by reason, over all days that are stored.
    collectors, notes
        Numbers of collecting processes seen within a week, and of notes.
    releases
        Number of stored releases of shuffling relays.
    """

    url: str
    kind: str
    schema: int
    size: int
    batch_ids: int
    metrics: tuple[MetricSummary, ...]
    refused: dict[str, int] = field(default_factory=dict)
    collectors: int = 0
    notes: int = 0
    releases: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON values."""
        return asdict(self)


def summarize(database: Database) -> Summary:
    """Return what a store holds, as of one moment."""
    with database.snapshot_of_ids() as connection:
        entries = read_stored_metrics(connection)
        batch_ids = count_ids(connection)
        metrics = tuple(metric_summaries(connection, entries))
        size = database.size(connection)
        refused: Counter[str] = Counter()
        for (_, reason), count in read_refusals(connection).by_day.items():
            refused[reason] += count
        others = len(read_collectors(connection)), len(read_notes(connection)), count_releases(connection)
    return Summary(database.url, database.kind, SCHEMA, size, batch_ids, metrics, dict(refused), *others)


Sums = tuple[int, int, int]
"""A number of reports, and their first and last period."""

_NONE: Sums = (0, 0, 0)


def _sums_of(connection: Connection, table: Table) -> dict[tuple[str, bytes], Sums]:
    columns = table.c
    sums = func.sum(columns.num_reports), func.min(columns.period), func.max(columns.period)
    rows = connection.execute(select(columns.metric, columns.digest, *sums).group_by(columns.metric, columns.digest))
    return {(metric, bytes(digest)): (int(total), first, last) for metric, digest, total, first, last in rows}


def metric_summaries(connection: Connection, entries: StoredMetrics) -> Iterator[MetricSummary]:
    """Return a summary for each metric and mechanism."""
    sums = {table.name: _sums_of(connection, table) for table in (COUNTS, CHUNKS, INBOX)}
    periods: dict[tuple[str, bytes], set[int]] = defaultdict(set)
    for of_table in sums.values():
        for key, (_, first, last) in of_table.items():
            periods[key] |= {first, last}
    for key, ends in sorted(periods.items()):
        entry = entries.get(key)
        label = entry.period.label if entry else str
        reports = {name: of_table.get(key, _NONE)[0] for name, of_table in sums.items()}
        yield MetricSummary(
            metric=key[0],
            digest=key[1].hex(),
            mechanism=entry.mechanism.name if entry else None,
            first=label(min(ends)),
            last=label(max(ends)),
            counted=reports[COUNTS.name],
            kept=reports[CHUNKS.name],
            waiting=reports[INBOX.name],
        )
