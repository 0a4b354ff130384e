"""What a store holds, in figures."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, Table, func, select

from overstory.collector.store.database import Database
from overstory.collector.store.known import Knowledge, Known, read_known
from overstory.collector.store.schema import BATCH_IDS, CHUNKS, COUNTS, INBOX, REVISION


@dataclass(frozen=True)
class MetricSummary:
    """One metric's reports of one mechanism.

    Attributes
    ----------
    metric, digest
        The metric's id, the mechanism's digest in hexadecimal.
    mechanism
        Its registry name; None when no registry has named it.
    first, last
        The labels of the first and the last period, or their numbers while the period's length is not known.
    counted, kept, waiting
        Reports in the counts, reports still kept, reports in the inbox.
    """

    metric: str
    digest: str
    mechanism: str | None
    first: str
    last: str
    counted: int
    kept: int
    waiting: int


@dataclass(frozen=True)
class Summary:
    """The whole store.

    Attributes
    ----------
    url, kind, schema
        Which database, of which kind, with which revision of the schema.
    size
        Bytes that it takes.
    batch_ids
        Ids remembered, so that no batch is counted twice.
    metrics
        By metric and mechanism.
    """

    url: str
    kind: str
    schema: str
    size: int
    batch_ids: int
    metrics: tuple[MetricSummary, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON values."""
        return asdict(self)


def summarize(database: Database) -> Summary:
    """Return what the store holds, as of one moment."""
    with database.snapshot() as connection:
        knowledge = read_known(connection)
        batch_ids = connection.execute(select(func.count()).select_from(BATCH_IDS)).scalar_one()
        metrics = tuple(_metrics(connection, knowledge))
        return Summary(database.url, database.kind, REVISION, database.size(connection), batch_ids, metrics)


def read_collected(database: Database) -> list[tuple[Known, int]]:
    """Return under which terms there are reports, and how many were counted or wait to be; see `Store.collected`."""
    with database.snapshot() as connection:
        knowledge = read_known(connection)
        sums = [_sums(connection, table) for table in (COUNTS, INBOX)]
    reports = {key: sum(found.get(key, (0, 0, 0))[0] for found in sums) for key in knowledge}
    return [(known, reports[key]) for key, known in knowledge.items() if reports[key]]


def _metrics(connection: Connection, knowledge: Knowledge) -> list[MetricSummary]:
    sums = {table.name: _sums(connection, table) for table in (COUNTS, CHUNKS, INBOX)}
    periods: dict[tuple[str, bytes], set[int]] = defaultdict(set)
    for found in sums.values():
        for key, (_, first, last) in found.items():
            periods[key] |= {first, last}
    return [
        _metric(key, ends, knowledge, {name: found.get(key, (0, 0, 0))[0] for name, found in sums.items()})
        for key, ends in sorted(periods.items())
    ]


def _sums(connection: Connection, table: Table) -> dict[tuple[str, bytes], tuple[int, int, int]]:
    c = table.c
    sums = func.sum(c.num_reports), func.min(c.period), func.max(c.period)
    rows = connection.execute(select(c.metric, c.digest, *sums).group_by(c.metric, c.digest))
    return {(metric, bytes(digest)): (int(total), first, last) for metric, digest, total, first, last in rows}


def _metric(key: tuple[str, bytes], ends: set[int], knowledge: Knowledge, reports: dict[str, int]) -> MetricSummary:
    known = knowledge.get(key)
    name = known.period.label if known else str
    return MetricSummary(
        metric=key[0],
        digest=key[1].hex(),
        mechanism=known.mechanism.name if known else None,
        first=name(min(ends)),
        last=name(max(ends)),
        counted=reports[COUNTS.name],
        kept=reports[CHUNKS.name],
        waiting=reports[INBOX.name],
    )
