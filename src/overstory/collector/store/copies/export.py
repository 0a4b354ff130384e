"""Export: the reports of closed periods become files in a folder or an object store, each report once.

Parts come first, then a transaction in our own database that holds the manifest, then the manifest itself. So no object
store needs a transaction or a comparison, and an export that was killed anywhere is completed by the next one. Neither
ids of batches nor times of arrival are in the files. The chunks of a set are read in a random order, and the reports of
some 8 MiB of chunks are shuffled together; a set larger than that is not shuffled as a whole: reports that were
folded together into one chunk stay within the same 8 MiB.

A set is all chunks of one key that were not in a set yet. It gets a random id, and is never shuffled again. A
destination has a row of the set from before the first file is written there. The row's state is

    writing     parts are being written, under names with the row's attempt: a later export removes them
    committed   all parts are there; the row holds the manifest, which is still to be written
    published   the manifest is there
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Row, delete, func, select, update

from overstory.collector.store.counts import TOGETHER, Key, join_rows, key_columns, keys_of, shuffled
from overstory.collector.store.databases.database import Database, StoreError
from overstory.collector.store.metrics import StoredMetric, StoredMetrics, read_stored_metrics
from overstory.collector.store.schema import ABOUT, CHUNKS, EXPORTS, INBOX, STORE_ID
from overstory.protocol.errors import OverstoryError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from overstory.analysis.reports import ReportBatch
    from overstory.engines.folders import Folder
    from overstory.files.labels import Manifest, PartFile
    from overstory.protocol.metrics import MetricRegistry


PART_BYTES: Final = 1 << 29
"""Bytes of reports in a part."""


@dataclass
class Exported:
    """What an export did."""

    # What was written, by this export or by one that was killed before it had published.
    manifests: list[Manifest] = field(default_factory=list)
    # By metric, the periods that still take reports, and until when the first does, in unix time.
    open: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)  # what cannot be exported, and why
    earlier: int = 0  # sets that were at the destination before
    removed: int = 0  # files of killed exports that were removed


@dataclass(frozen=True)
class Selection:
    """Which metric and periods are exported; None leaves that open."""

    metric: str | None = None
    first: int | None = None
    last: int | None = None

    def has(self, key: Key) -> bool:
        """Whether a key is selected."""
        return (
            (self.metric is None or key.metric == self.metric)
            and (self.first is None or key.period >= self.first)
            and (self.last is None or key.period <= self.last)
        )


WRITING: Final = "writing"
COMMITTED: Final = "committed"
PUBLISHED: Final = "published"


@dataclass(frozen=True)
class ReportSet:
    """Reports that are exported together."""

    id: str
    key: Key


@dataclass(frozen=True)
class Attempt:
    """What a destination's row says when an export begins with a set."""

    id: str  # in the names of the parts that are to be written
    earlier: str  # the attempt that left parts; empty: none did
    manifest: str  # not empty: all parts are there, and this is to be published


def store_id(database: Database) -> str:
    """Return the id of a store, which is drawn when it is first asked for."""

    def work(connection: Connection) -> str:
        database.lock(connection)
        stored = connection.execute(select(ABOUT.c.value).where(ABOUT.c.key == STORE_ID)).scalar()
        if stored is None:
            stored = secrets.token_hex(16)
            connection.execute(ABOUT.insert(), [{"key": STORE_ID, "value": stored}])
        return str(stored)

    return database.write(work)


def gather(database: Database, key: Key) -> None:
    """Make a set of the key's chunks that are in none."""

    def work(connection: Connection) -> None:
        own = key.of(CHUNKS), CHUNKS.c.export_id == ""
        if connection.execute(update(CHUNKS).where(*own).values(export_id=secrets.token_hex(16))).rowcount:
            database.note_deletions(connection, {CHUNKS.name})  # an earlier version of a row is a deleted row

    database.write(work)


def unfinished(connection: Connection, destination: str) -> list[ReportSet]:
    """Return the sets that an export to this destination has begun and not published."""
    rows = connection.execute(select(EXPORTS).where(EXPORTS.c.destination == destination, EXPORTS.c.state != PUBLISHED))
    return sorted((ReportSet(row.id, Key.of_row(row)) for row in rows), key=lambda one: (one.key, one.id))


def rows_of(connection: Connection, destination: str | None = None) -> list[Row[Any]]:
    """Return the rows of a destination, or all."""
    rows = select(EXPORTS).order_by(EXPORTS.c.destination, *key_columns(EXPORTS), EXPORTS.c.id)
    return list(connection.execute(rows if destination is None else rows.where(EXPORTS.c.destination == destination)))


def begin(database: Database, one: ReportSet, destination: str) -> Attempt | None:
    """Write down that a set is being written; None when it is published there already."""
    attempt = secrets.token_hex(16)
    own = EXPORTS.c.id == one.id, EXPORTS.c.destination == destination

    def work(connection: Connection) -> Attempt | None:
        database.lock(connection)
        row = connection.execute(select(EXPORTS).where(*own)).first()
        if row is None:
            fresh = {"num_reports": 0, "attempt": attempt, "state": WRITING, "manifest": ""}
            new = {"id": one.id, "destination": destination, **one.key._asdict(), **fresh}
            connection.execute(EXPORTS.insert(), [new])
            return Attempt(attempt, "", "")
        if row.state == PUBLISHED:
            return None
        if row.state == COMMITTED:
            return Attempt(row.attempt, "", row.manifest)
        connection.execute(update(EXPORTS).where(*own).values(attempt=attempt))
        return Attempt(attempt, row.attempt, "")

    return database.write(work)


def commit(database: Database, one: ReportSet, destination: str, attempt: str, manifest: str, reports: int) -> bool:
    """Write down the manifest of what was written; False when another export took over, or the reports are deleted."""

    def work(connection: Connection) -> bool:
        database.lock(connection)
        if reports_of_set(connection, one) != reports:
            return False
        own = (
            EXPORTS.c.id == one.id,
            EXPORTS.c.destination == destination,
            EXPORTS.c.attempt == attempt,
            EXPORTS.c.state == WRITING,
        )
        done = update(EXPORTS).where(*own).values(state=COMMITTED, manifest=manifest, num_reports=reports)
        return bool(connection.execute(done).rowcount)

    return database.write(work)


def reports_of_set(connection: Connection, one: ReportSet) -> int:
    """Return how many reports of a set are stored."""
    total = select(func.sum(CHUNKS.c.num_reports)).where(one.key.of(CHUNKS), CHUNKS.c.export_id == one.id)
    return int(connection.execute(total).scalar() or 0)


def publish(database: Database, one: ReportSet, destination: str) -> None:
    """Write down that the manifest is at the destination."""
    own = EXPORTS.c.id == one.id, EXPORTS.c.destination == destination, EXPORTS.c.state == COMMITTED
    database.write(lambda connection: connection.execute(update(EXPORTS).where(*own).values(state=PUBLISHED)))


def forget(database: Database, one: ReportSet, destination: str, attempt: str) -> None:
    """Remove the row of a set that was never committed there."""
    own = EXPORTS.c.id == one.id, EXPORTS.c.destination == destination, EXPORTS.c.attempt == attempt
    database.write(lambda connection: connection.execute(delete(EXPORTS).where(*own, EXPORTS.c.state == WRITING)))


def adopt(database: Database, one: ReportSet, destination: str, manifest: str, reports: int) -> None:
    """Write down that a set is at a destination that has got another name."""
    row = {"num_reports": reports, "attempt": "", "state": PUBLISHED, "manifest": manifest}
    new = {"id": one.id, "destination": destination, **one.key._asdict(), **row}
    database.write(lambda connection: connection.execute(EXPORTS.insert(), [new]))


def known_ids(connection: Connection, ids: Iterable[str]) -> set[str]:
    """Return which ids are of sets that this store has a row or reports of."""
    wanted = list(ids)
    if not wanted:
        return set()
    found = connection.execute(select(EXPORTS.c.id).where(EXPORTS.c.id.in_(wanted))).scalars()
    stored = connection.execute(select(CHUNKS.c.export_id).where(CHUNKS.c.export_id.in_(wanted)).distinct()).scalars()
    return {*found, *stored}


class Export:
    """An export of one store into one folder; `advance` is called with the bytes of reports that were written."""

    def __init__(
        self,
        database: Database,
        registry: MetricRegistry,
        folder: Folder,
        advance: Callable[[int], object] | None = None,
    ) -> None:
        self._database, self._registry, self._folder = database, registry, folder
        self._destination, self._store = folder.identity, store_id(database)
        self._advance = advance or (lambda _: None)
        self._entries: StoredMetrics = {}
        self._done = Exported()

    def run(self, selected: Selection, now: float) -> Exported:
        """Export what is closed, selected and not at the destination yet."""
        with self._database.snapshot() as connection:
            self._entries = read_stored_metrics(connection)
            begun = unfinished(connection, self._destination)
            keys = sorted(filter(selected.has, {*keys_of(connection, CHUNKS), *keys_of(connection, INBOX)}))
        for one in begun:
            self._export(one)
        for key in keys:
            if self._is_ready(key, now):
                gather(self._database, key)
                for one in self._new_sets(key):
                    if not self._is_there(one):
                        self._export(one)
        return self._done

    def _new_sets(self, key: Key) -> list[ReportSet]:
        with self._database.snapshot() as connection:
            ids = select(CHUNKS.c.export_id).where(key.of(CHUNKS), CHUNKS.c.export_id != "").distinct()
            sets = [ReportSet(one, key) for one in sorted(connection.execute(ids).scalars())]
            have = {row.id for row in rows_of(connection, self._destination)}
        self._done.earlier += sum(one.id in have for one in sets)
        return [one for one in sets if one.id not in have]

    def _is_ready(self, key: Key, now: float) -> bool:
        """Whether a key's period is closed, and all of its reports are counted."""
        metric, entry = self._registry.get(key.metric), self._entries.get((key.metric, key.digest))
        if metric is None or entry is None:
            missing = "the registry does not list it" if metric is None else "no registry has named its mechanism"
            self._wait(f"{key.metric}: {missing}")
            return False
        label, until = entry.period.label(key.period), metric.final_from(key.period)
        if now < until:
            periods = self._done.open.setdefault(key.metric, [])
            if (label, until) not in periods:
                periods.append((label, until))
            return False
        with self._database.snapshot() as connection:
            waits = bool(keys_of(connection, INBOX, key.of(INBOX)))
        if waits:
            self._wait(
                f"{key.metric}, {label}: reports in the inbox were not counted: overstory store compact says why"
            )
        return not waits

    def _wait(self, reason: str) -> None:
        if reason not in self._done.waiting:
            self._done.waiting.append(reason)

    def _is_there(self, one: ReportSet) -> bool:
        """Whether the destination has a set under another name that it had; the row of it is then written."""
        from overstory.engines.folders import Folder
        from overstory.engines.places import read_sets

        here = read_sets(Folder(self._folder.address(_partition(one))))
        own = {found.manifest.id: found for found in here if found.manifest.store == self._store}
        with self._database.snapshot() as connection:
            known = known_ids(connection, own)
        if unknown := [found for number, found in own.items() if number not in known]:
            raise StoreError(
                f"{self._database.url}: {unknown[0].source} is an export of this store that it does not know of: it "
                "was restored from an earlier backup, and would export those reports twice; name another destination"
            )
        if one.id not in own:
            return False
        manifest = own[one.id].manifest
        adopt(self._database, one, self._destination, manifest.to_json(), manifest.num_reports)
        self._done.earlier += 1
        return True

    def _export(self, one: ReportSet) -> None:
        """Bring a set to the destination, wherever an earlier export was killed."""
        from overstory.files.labels import Manifest, manifest_name

        attempt = begin(self._database, one, self._destination)
        if attempt is None:
            self._done.earlier += 1
            return
        if attempt.earlier:
            self._remove(_partition(one), attempt.earlier)
        text = attempt.manifest or self._write(one, attempt.id)
        if text is None:
            return
        name = f"{_partition(one)}/{manifest_name(one.id)}"
        self._folder.write(name, text.encode())
        publish(self._database, one, self._destination)
        self._done.manifests.append(Manifest.from_json(text, name))

    def _write(self, one: ReportSet, attempt: str) -> str | None:
        """Write the parts and commit their manifest; None when the reports are deleted, or another export took over."""
        from overstory.files.labels import Label, Manifest

        key, entry = one.key, self._entries.get((one.key.metric, one.key.digest))
        if entry is None:
            self._wait(f"{key.metric}: no registry has named its mechanism")
            return None
        try:
            parts, totals = self._write_parts(one, entry, attempt)
        except BaseException:
            with suppress(OverstoryError):
                self._remove(_partition(one), attempt)
            raise
        label = entry.period.label(key.period)
        about = (key.metric, key.period, entry.period.seconds, label, key.device_group, Label.of(entry.mechanism))
        manifest = Manifest(one.id, self._store, *about, tuple(totals.tolist()), tuple(parts))
        text = manifest.to_json()
        if parts and commit(self._database, one, self._destination, attempt, text, manifest.num_reports):
            return text
        self._remove(_partition(one), attempt)
        with self._database.snapshot() as connection:
            is_deleted = not reports_of_set(connection, one)
        if is_deleted:
            forget(self._database, one, self._destination, attempt)
        why = "its reports were deleted after retention" if is_deleted else "another export writes it at this moment"
        self._wait(f"{key.metric}, {label}: {why}")
        return None

    def _write_parts(
        self, one: ReportSet, entry: StoredMetric, attempt: str
    ) -> tuple[list[PartFile], NDArray[np.int64]]:
        import numpy as np

        from overstory.engines.folders import file_checksum
        from overstory.files.labels import Label, PartFile, part_name
        from overstory.files.parquet import write_blocks
        from overstory.protocol.encodings.base import MAX_COHORTS

        cohorts = entry.mechanism.num_cohorts
        totals = np.zeros(cohorts if cohorts <= MAX_COHORTS else 0, np.int64)
        key, parts = one.key, []

        def counting(ids: Sequence[Sequence[int]]) -> Iterator[ReportBatch]:
            for batch in self._read(ids):
                if len(totals):
                    totals[:] += np.bincount(batch.cohorts, minlength=len(totals))
                yield batch
                self._advance(batch.bits.nbytes)

        for number, ids in enumerate(self._cut(one)):
            name = part_name(attempt, number)
            with self._folder.staged(f"{_partition(one)}/{name}") as staged:
                reports = write_blocks(
                    staged,
                    counting(ids),
                    Label.of(entry.mechanism),
                    metric=key.metric,
                    period=key.period,
                    group=key.device_group,
                )
                size, crc = file_checksum(staged)
            parts.append(PartFile(name, size, crc, reports))
        return parts, totals

    def _cut(self, one: ReportSet) -> Iterator[list[list[int]]]:
        """Yield the chunks' numbers of each part, in a random order, by what is read and shuffled together."""
        size = func.length(CHUNKS.c.cohorts) + func.length(CHUNKS.c.bits)
        of_set = one.key.of(CHUNKS), CHUNKS.c.export_id == one.id
        with self._database.snapshot() as connection:
            chunks = [tuple(row) for row in connection.execute(select(CHUNKS.c.id, size).where(*of_set))]
        secrets.SystemRandom().shuffle(chunks)
        part: list[list[int]] = []
        together: list[int] = []
        read = total = 0
        for number, length in chunks:
            if together and (read + length > TOGETHER or total + length > PART_BYTES):
                part.append(together)
                together, read = [], 0
            if part and total + length > PART_BYTES:
                yield part
                part, total = [], 0
            together.append(number)
            read, total = read + length, total + length
        if together:
            yield [*part, together]

    def _read(self, numbers: Sequence[Sequence[int]]) -> Iterator[ReportBatch]:
        """Yield the reports of some chunks, shuffled; chunks of a set are never written again."""
        for some in numbers:
            with self._database.snapshot() as connection:
                chunks = connection.execute(select(CHUNKS).where(CHUNKS.c.id.in_(some))).all()
            if chunks:
                yield shuffled(join_rows(chunks))

    def _remove(self, partition: str, attempt: str) -> None:
        for name in self._folder.names(partition):
            if attempt in name:
                self._folder.remove(f"{partition}/{name}")
                self._done.removed += 1


def _partition(one: ReportSet) -> str:
    from overstory.files.labels import partition_path

    return partition_path(one.key.metric, one.key.period, one.key.digest)


def verify(database: Database, folder: Folder) -> tuple[int, list[str]]:
    """Compare a destination with the database: return the number of its sets, and what is wrong."""
    from overstory.engines.folders import Folder as Below
    from overstory.engines.places import ExportedSet
    from overstory.files.labels import Manifest, manifest_name, partition_path

    wrong: list[str] = []
    with database.snapshot() as connection:
        stated = rows_of(connection, folder.identity)
    for row in stated:
        partition = partition_path(row.metric, row.period, bytes(row.digest))
        name = f"{partition}/{manifest_name(row.id)}"
        if row.state != PUBLISHED:
            wrong.append(f"{name}: an export was killed before it was written: export again")
            continue
        try:
            if folder.size(name) is None:
                wrong.append(f"{name}: missing")
                continue
            if folder.read(name).decode(errors="replace") != row.manifest:
                wrong.append(f"{name}: not what was exported")
            one = ExportedSet(Below(folder.address(partition)), Manifest.from_json(row.manifest, name))
            for part in one.manifest.parts:
                one.check(part, content=True)
        except OverstoryError as error:
            wrong.append(str(error))
    return len(stated), wrong


@dataclass(frozen=True)
class OutsideRetention:
    """Exported reports that the store itself has deleted, or is about to: nothing deletes their copies."""

    destination: str
    metric: str
    last: str
    reports: int


def outside_retention(database: Database, now: float) -> list[OutsideRetention]:
    """Return which exported reports are past their metric's retention, by destination and metric."""
    with database.snapshot() as connection:
        entries, stated = read_stored_metrics(connection), rows_of(connection)
    by_metric: dict[tuple[str, str], tuple[int, int]] = {}
    of_metric = {entry.metric: entry for entry in entries.values()}
    for row in stated:
        entry = of_metric.get(row.metric)
        if entry is None or row.state == WRITING or row.period > entry.last_expired(now):
            continue
        last, reports = by_metric.get((row.destination, row.metric), (row.period, 0))
        by_metric[row.destination, row.metric] = max(last, row.period), reports + row.num_reports
    return [
        OutsideRetention(destination, metric, of_metric[metric].period.label(last), reports)
        for (destination, metric), (last, reports) in sorted(by_metric.items())
    ]


def retained_too_briefly(registry: MetricRegistry) -> list[str]:
    """Return the metrics whose reports are deleted before their period is closed: none can be exported."""
    return [metric.id for metric in registry.values() if metric.retention_days <= metric.grace_days]
