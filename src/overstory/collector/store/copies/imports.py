"""Import: what other stores exported is added to this one, each report once.

All parts are compared with their manifests first. Then each row group is one transaction, which also says how far its
part has got: an import that was killed goes on from there, and one that is repeated adds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sqlalchemy import ColumnElement, Connection, func, select, update

from overstory.collector.store.compaction import OvertakenError, add_counts, add_sums, sum_new
from overstory.collector.store.copies.export import known_ids
from overstory.collector.store.counts import Key, chunk_rows, shuffled, sums_of_key
from overstory.collector.store.databases.database import Database, StoreError
from overstory.collector.store.metrics import StoredMetric, StoredMetrics, read_stored_metrics
from overstory.collector.store.schema import CHECKS, CHUNKS, COUNTS, IMPORTS
from overstory.protocol.errors import FormatError

if TYPE_CHECKING:
    from overstory.analysis.reports import ReportBatch
    from overstory.engines.places import ExportedSet

TRIES: Final = 5


@dataclass
class Imported:
    """What an import did."""

    reports: int = 0  # that were added
    sets: int = 0  # the exported sets that they are of
    earlier: int = 0  # sets that had been added completely before
    past_retention: int = 0  # added reports that are past retention here: `Store.import_sets` deletes them again
    metrics: dict[str, int] = field(default_factory=dict)  # added reports by metric


def add_sets(
    database: Database,
    registered: StoredMetrics,
    sets: Sequence[ExportedSet],
    now: float,
    advance: Callable[[int], object] | None = None,
) -> Imported:
    """Add exported reports and their counts."""
    with database.snapshot() as connection:
        entries = read_stored_metrics(connection, registered)
        known = known_ids(connection, [one.manifest.id for one in sets])
        sums = select(IMPORTS.c.id, func.sum(IMPORTS.c.num_reports).label("reports")).group_by(IMPORTS.c.id)
        added = {row.id: int(row.reports) for row in connection.execute(sums)}
    done, left = Imported(), []
    for one in sets:
        if one.manifest.id in known:
            problem = "these reports were exported from this store, which has counted them: they would be added twice"
            raise StoreError(f"{database.url}: {one.source}: {problem}")
        if added.get(one.manifest.id) == one.manifest.num_reports:
            done.earlier += 1
        else:
            left.append((one, _entry_of(database, entries, one)))
    for one, _ in left:
        for part in one.manifest.parts:
            one.check(part, content=True)
    for one, entry in left:
        _Adding(database, entry, one, now, done, advance or (lambda _: None)).run()
    return done


def _entry_of(database: Database, entries: StoredMetrics, one: ExportedSet) -> StoredMetric:
    manifest = one.manifest
    entry = entries.get((manifest.metric, manifest.label.digest))
    if entry is None:
        raise StoreError(
            f"{one.source}: reports of {manifest.metric} with the parameters {manifest.label.digest.hex()}, which "
            f"neither the registry nor {database.url} lists: give the registry that they were collected with"
        )
    if entry.period.seconds != manifest.period_seconds:
        problem = (
            f"its periods have {manifest.period_seconds:,} seconds, those of {entry.metric} {entry.period.seconds:,}"
        )
        raise FormatError(problem, source=one.source)
    return entry


@dataclass
class _Adding:
    """The addition of one set."""

    database: Database
    entry: StoredMetric
    one: ExportedSet
    now: float
    done: Imported
    advance: Callable[[int], object]

    def run(self) -> None:
        """Add what is left of each part."""
        before = self.done.reports
        for number in range(len(self.one.manifest.parts)):
            self._add_part(number)
        self.done.sets += 1
        metric = self.entry.metric
        self.done.metrics[metric] = self.done.metrics.get(metric, 0) + self.done.reports - before

    def _add_part(self, number: int) -> None:
        part = self.one.manifest.parts[number]
        with closing(self._batches(number)) as batches:  # what fails in the database is no fault of the file
            for group, batch in batches:
                self._add(number, group, batch)
        with self.database.snapshot() as connection:
            added = connection.execute(select(IMPORTS.c.num_reports).where(*self._row(number))).scalar() or 0
        if added != part.reports:
            problem = f"{added:,} reports were added, and its manifest lists {part.reports:,}"
            raise FormatError(problem, source=f"{self.one.folder.identity}/{part.file}")

    def _batches(self, number: int) -> Generator[tuple[int, ReportBatch], None, None]:
        """Yield the reports of each row group of a part that was not added, with its number."""
        from overstory.engines.places import open_place
        from overstory.files.labels import label_of
        from overstory.files.parquet import joined, opened, read_blocks

        part = self.one.manifest.parts[number]
        address = self.one.address(part)
        source = f"{self.one.folder.identity}/{part.file}"
        with self.database.snapshot() as connection:
            first = self._groups_done(connection, number)
        with open_place(address) as raw, opened(raw, source) as file:
            label, groups = label_of(file, source), file.metadata.num_row_groups
            if label.digest != self.entry.mechanism.digest:
                raise FormatError("its reports are of other parameters than the manifest lists", source=source)
            for group in range(first, groups):
                for batch in joined(read_blocks(file, label, source, [group]), 1 << 62):
                    yield group, batch
                self.advance(part.bytes // groups)

    def _row(self, number: int) -> tuple[ColumnElement[bool], ...]:
        return IMPORTS.c.id == self.one.manifest.id, IMPORTS.c.part == number

    def _groups_done(self, connection: Connection, number: int) -> int:
        return connection.execute(select(IMPORTS.c.row_groups).where(*self._row(number))).scalar() or 0

    def _add(self, number: int, group: int, batch: ReportBatch) -> None:
        """Add a row group and its mark in one transaction; nothing when another import has added it."""
        manifest, entry = self.one.manifest, self.entry
        key = Key(manifest.metric, manifest.period, entry.mechanism.digest, manifest.group)
        is_past = key.period <= entry.last_expired(self.now)
        counts = entry.count(batch)
        with self.database.snapshot() as connection:
            sums = sum_new(entry, batch, sums_of_key(connection, entry, key))
        stored = chunk_rows(key, shuffled(batch))

        def work(connection: Connection) -> bool:
            self.database.lock(connection)  # of two imports of one row group, the second sees the mark of the first
            if self._groups_done(connection, number) != group:
                return False
            add_counts(connection, entry, key, counts)
            add_sums(connection, entry, key, sums)
            connection.execute(CHUNKS.insert(), stored)
            if group:
                added = IMPORTS.c.num_reports + len(batch)
                connection.execute(
                    update(IMPORTS).where(*self._row(number)).values(row_groups=group + 1, num_reports=added)
                )
            else:
                row = {"id": manifest.id, "part": number, "row_groups": 1, "num_reports": len(batch)}
                connection.execute(IMPORTS.insert(), [row])
            self.database.note_deletions(connection, {COUNTS.name, CHECKS.name})
            return True

        if self._write(work):
            self.done.reports += len(batch)
            self.done.past_retention += len(batch) * is_past

    def _write(self, work: Callable[[Connection], bool]) -> bool:
        for _ in range(TRIES):
            with suppress(OvertakenError):
                return self.database.write(work)
        raise StoreError(f"{self.database.url}: other processes write the same counts: try again")
