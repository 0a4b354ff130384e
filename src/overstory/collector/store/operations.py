"""What operators watch and write down: figures, refusals, heartbeats, notes; and what relays released together.

Refusals are stored by day without the metric, and by metric in the metric's own periods. Never by both: a day with a
metric of weeks would be a time finer than its period.
"""

from __future__ import annotations

import secrets
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, delete, func, select, text

from overstory.collector.settings import DAY
from overstory.collector.store.databases.database import Database
from overstory.collector.store.metrics import StoredMetrics, read_stored_metrics
from overstory.collector.store.schema import (
    CHUNKS,
    COLLECTORS,
    COUNTS,
    INBOX,
    METRICS,
    NOTES,
    RELEASES,
    SCHEMA,
    TALLIES,
    count_ids,
    put_row,
)
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.collector.ingest import Received

NOTE_KINDS: Final = ("release", "incident", "note")

NOTE_CHARACTERS: Final = 500  # the longest text of a note
SILENT: Final = 60  # seconds without a heartbeat after which a collector is silent
TALLY_DAYS: Final = 400  # days for which refusals by day are stored; those of a metric are deleted with its reports
DEAD_DAYS: Final = 7  # days without a heartbeat after which a collector's row is deleted

_ADD: Final = text(
    "INSERT INTO tallies (metric, period, reason, refused) VALUES (:metric, :period, :reason, :refused) "
    "ON CONFLICT (metric, period, reason) DO UPDATE SET refused = tallies.refused + excluded.refused"
)
_RELEASE: Final = text(
    "INSERT INTO releases (metric, period, release, messages) VALUES (:metric, :period, :release, :messages) "
    "ON CONFLICT (metric, period, release) DO UPDATE SET messages = releases.messages + excluded.messages"
)

Refused = Mapping[tuple[str | None, int, str], int]
"""Numbers of refusals, by (None, day from 1970, reason) and by (metric, number of its period, reason)."""


@dataclass(frozen=True)
class CollectorState:
    """The last heartbeat of a collecting process."""

    id: str  # random, drawn when the process starts: it names no machine and no address
    version: str  # of overstory, such as 0.2.0
    started: int  # as `last_seen`: unix time in seconds
    last_seen: int
    waiting: int  # reports, for their commit

    def silent(self, now: float) -> bool:
        return now - self.last_seen > SILENT

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Note:
    """What somebody wrote down about a day."""

    id: str  # random, in hexadecimal
    metric: str | None  # that it is about; None: all
    day: int  # counted from 1970, in UTC
    kind: str  # one of NOTE_KINDS
    text: str  # one line of a person: escape it wherever it is shown

    def to_json(self) -> dict[str, Any]:
        import datetime as dt

        day = dt.datetime.fromtimestamp(self.day * DAY, dt.UTC).date().isoformat()
        return {**asdict(self), "day": day}


@dataclass(frozen=True)
class Refusals:
    """How much was refused, by `Reason`."""

    by_day: Mapping[tuple[int, str], int] = field(default_factory=dict)  # counted from 1970, and reason
    # By metric, the metric's period in which they were refused, and reason; of which period they were is not stored.
    by_metric: Mapping[tuple[str, int, str], int] = field(default_factory=dict)


ALL_RELEASES: Final = b""
"""In place of a release's id: a row that counts the reports of all releases, not the messages of one."""


@dataclass(frozen=True)
class ReleasedReports:
    """What shuffling relays released of a metric and period."""

    releases: int  # with messages of them
    smallest: int  # messages in the smallest of these
    reports: int  # in all of these messages
    complete: bool = True  # whether these are all reports of the period, made with the same parameters


def write_releases(connection: Connection, released: Sequence[Received]) -> None:
    """Let releases grow by the messages of these new, released batches: each counts once for its metric and period."""
    messages = {(batch.metric, batch.period, batch.released) for batch in released if batch.num_reports}
    grown: Counter[tuple[str, int, bytes]] = Counter()
    for metric, period, message in messages:
        if message is not None:
            grown[metric, period, message.release] += 1
    for batch in released:
        grown[batch.metric, batch.period, ALL_RELEASES] += batch.num_reports
    # In one order: of two collectors that write the same rows, one waits.
    rows = [dict(zip(("metric", "period", "release"), key, strict=True), messages=grown[key]) for key in sorted(grown)]
    connection.execute(_RELEASE, rows)


def _read_releases(
    connection: Connection, metric: str, first: int, last: int, tally: Mapping[tuple[int, bytes], int]
) -> dict[int, ReleasedReports]:
    columns = RELEASES.c
    within = columns.metric == metric, columns.period >= first, columns.period <= last
    sizes: dict[int, list[int]] = {}
    reports: dict[int, int] = {}
    for row in connection.execute(select(RELEASES).where(*within).order_by(columns.period)):
        if bytes(row.release) == ALL_RELEASES:
            reports[row.period] = row.messages
        else:
            sizes.setdefault(row.period, []).append(row.messages)
    stored: dict[int, list[int]] = {}
    for (period, _), number in tally.items():
        stored.setdefault(period, []).append(number)
    return {
        period: ReleasedReports(len(some), min(some), reports[period], stored.get(period) == [reports[period]])
        for period, some in sizes.items()
    }


def retain_operations(database: Database, connection: Connection, entries: StoredMetrics, now: float) -> None:
    """Delete refusals and releases past retention, and the rows of collectors that ended long ago. Notes stay."""
    expired = {"": int(now // DAY) - TALLY_DAYS - 1}
    expired |= {entry.metric: entry.last_expired(now) for entry in entries.values()}
    past: list[tuple[Table, ColumnElement[bool]]] = [
        (table, (table.c.metric == metric) & (table.c.period <= last))
        for metric, last in sorted(expired.items())
        for table in (TALLIES, RELEASES)
    ]
    past.append((COLLECTORS, COLLECTORS.c.last_seen < int(now) - DEAD_DAYS * DAY))
    database.note_deletions(
        connection, {table.name for table, rows in past if connection.execute(delete(table).where(rows)).rowcount}
    )


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
    """What a store holds."""

    url: str
    kind: str  # of the database
    schema: int
    size: int  # of the database, in bytes
    batch_ids: int  # while an id is stored, no batch with this id is counted again
    metrics: tuple[MetricSummary, ...]
    refused: dict[str, int] = field(default_factory=dict)  # by reason, over all days that are stored
    collectors: int = 0  # seen within a week
    notes: int = 0
    releases: int = 0  # of shuffling relays


Sums = tuple[int, int, int]  # a number of reports, and their first and last period

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


def _tally(
    connection: Connection, metric: str, first: int, last: int, groups: Collection[str] | None = None
) -> dict[tuple[int, bytes], int]:
    reports: Counter[tuple[int, bytes]] = Counter()
    for table in (COUNTS, INBOX):
        within = [table.c.metric == metric, table.c.period >= first, table.c.period <= last]
        within += [] if groups is None else [table.c.device_group.in_(groups)]
        key = table.c.period, table.c.digest
        rows = connection.execute(select(*key, func.sum(table.c.num_reports)).where(*within).group_by(*key))
        for period, digest, number in rows:
            reports[period, bytes(digest)] += int(number)
    return dict(sorted(reports.items()))


class Operations:
    """The part of a store that operators watch and write to."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def report_state(self, state: CollectorState | None, refused: Refused) -> None:
        """Replace a collector's last heartbeat, and add to the refusals, in one transaction."""
        rows = [
            {"metric": metric or "", "period": period, "reason": str(reason), "refused": count}
            for (metric, period, reason), count in refused.items()
        ]

        def work(connection: Connection) -> None:
            if rows:  # in one order: of two collectors that write the same rows, one waits
                connection.execute(_ADD, sorted(rows, key=itemgetter("metric", "period", "reason")))
            if state is not None:
                put_row(connection, COLLECTORS, {"id": state.id}, **asdict(state))

        self._database.write(work)

    def refusals(self) -> Refusals:
        """Return how much was refused and why, by day and by metric, the oldest first."""
        rows = self._rows(select(TALLIES).order_by(TALLIES.c.metric, TALLIES.c.period, TALLIES.c.reason))
        return Refusals(
            {(row.period, row.reason): row.refused for row in rows if not row.metric},
            {(row.metric, row.period, row.reason): row.refused for row in rows if row.metric},
        )

    def collectors(self) -> list[CollectorState]:
        """Return the last heartbeat of each collecting process, the last one seen first."""
        rows = self._rows(select(COLLECTORS).order_by(COLLECTORS.c.last_seen.desc(), COLLECTORS.c.id))
        return [CollectorState(**row._mapping) for row in rows]  # noqa: SLF001 - public

    def notes(self, metric: str | None = None) -> list[Note]:
        """Return the notes on a metric and those on all metrics; without a metric, every note. The oldest first."""
        wanted = select(NOTES).order_by(NOTES.c.day, NOTES.c.kind, NOTES.c.text, NOTES.c.id)
        if metric is not None:
            wanted = wanted.where(NOTES.c.metric.in_(["", metric]))
        return [Note(row.id, row.metric or None, row.day, row.kind, row.text) for row in self._rows(wanted)]

    def _rows(self, wanted: Select[Any]) -> Sequence[Row[Any]]:
        with self._database.snapshot() as connection:
            return connection.execute(wanted).all()

    def add_note(self, text: str, day: int, kind: str = "note", metric: str | None = None) -> Note:
        """Store a note about a day, counted from 1970: on all metrics, or on one that the store remembers."""
        if kind not in NOTE_KINDS:
            raise ParameterError(f"a note is of kind {', '.join(NOTE_KINDS[:-1])} or {NOTE_KINDS[-1]}; not {kind!r}")
        words = text.strip()
        if not 1 <= len(words) <= NOTE_CHARACTERS:
            raise ParameterError(f"a note has 1 to {NOTE_CHARACTERS} characters; this one has {len(words)}")
        if not words.isprintable():
            raise ParameterError(
                "a note is one line of printable characters: no line breaks, tabs or invisible characters"
            )
        note = Note(secrets.token_hex(4), metric, day, kind, words)

        def work(connection: Connection) -> None:
            metrics = set(connection.execute(select(METRICS.c.metric)).scalars())
            if metric is not None and metric not in metrics:
                have = f"it remembers {', '.join(sorted(metrics))}" if metrics else "it remembers none yet"
                raise ParameterError(f"the store remembers no metric {metric}: {have}")
            connection.execute(NOTES.insert(), [{**asdict(note), "metric": metric or ""}])

        self._database.write(work)
        return note

    def remove_note(self, note_id: str) -> None:
        """Delete a note."""

        def work(connection: Connection) -> bool:
            is_deleted = bool(connection.execute(delete(NOTES).where(NOTES.c.id == note_id)).rowcount)
            if is_deleted:
                self._database.note_deletions(connection, {NOTES.name})
            return is_deleted

        if not self._database.write(work):
            raise ParameterError(f"there is no note {note_id}")

    def tally(
        self, metric_id: str, first: int, last: int, groups: Collection[str] | None = None
    ) -> dict[tuple[int, bytes], int]:
        """Return how many reports came of each (period, mechanism digest); past retention, counts may have fewer."""
        with self._database.snapshot() as connection:
            return _tally(connection, metric_id, first, last, groups)

    def releases(self, metric_id: str, first: int, last: int) -> dict[int, ReleasedReports]:
        """Return what shuffling relays released of each period in ``first .. last``; past retention, nothing."""
        with self._database.snapshot() as connection:
            tally = _tally(connection, metric_id, first, last)
            return _read_releases(connection, metric_id, first, last, tally)

    def summary(self) -> Summary:
        """Return what the store holds, in figures, as of one moment."""
        refused = select(TALLIES.c.reason, func.sum(TALLIES.c.refused)).where(TALLIES.c.metric == "")
        drawn = select(func.count(RELEASES.c.release.distinct())).where(RELEASES.c.release != ALL_RELEASES)
        numbers = *(select(func.count()).select_from(table) for table in (COLLECTORS, NOTES)), drawn
        with self._database.snapshot_of_ids() as connection:
            batch_ids, size = count_ids(connection), self._database.size(connection)
            metrics = tuple(metric_summaries(connection, read_stored_metrics(connection)))
            by_reason = connection.execute(refused.group_by(TALLIES.c.reason)).all()
            others = [connection.execute(number).scalar_one() for number in numbers]
        counts = {reason: int(count) for reason, count in by_reason}
        return Summary(self._database.url, self._database.kind, SCHEMA, size, batch_ids, metrics, counts, *others)
