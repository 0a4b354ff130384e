"""Export: the reports of closed periods become files in a folder or an object store, each report once.

Names follow from the store and the key, and the manifest comes last: what was killed is written once more, under the
same names. Neither batch ids nor times are in the files; reports are shuffled within some 8 MiB of chunks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from operator import itemgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select

from overstory.analysis.reports import ReportBatch
from overstory.collector.store.counts import TOGETHER, Key, grouped, join_rows, keys_of, shuffled
from overstory.collector.store.databases.database import Database
from overstory.collector.store.metrics import StoredMetric, StoredMetrics, read_stored_metrics
from overstory.collector.store.schema import CHUNKS, INBOX, STORE_ID, read_fact
from overstory.engines.folders import Folder, FolderError, stream_checksum
from overstory.files.labels import (
    MANIFEST_NAME,
    PART_NAME,
    Label,
    Manifest,
    PartFile,
    manifest_name,
    part_name,
    partition_path,
    read_partition,
)
from overstory.files.parquet import write_blocks
from overstory.protocol.kinds.base import MAX_COHORTS
from overstory.protocol.metrics import MetricRegistry

PART_BYTES: Final = 1 << 29  # bytes of reports in a part


@dataclass
class Exported:
    """What an export did."""

    manifests: list[Manifest] = field(default_factory=list)  # that were written
    # By metric, the periods that still take reports, and until when the first does, in unix time.
    open: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)  # what cannot be exported, and why
    earlier: int = 0  # manifests that were at the destination before
    removed: int = 0  # files of killed exports that were removed
    outside: list[OutsideRetention] = field(default_factory=list)


@dataclass(frozen=True)
class OutsideRetention:
    """Reports at the destination that the store itself has deleted, or is about to: nothing deletes their copies."""

    metric: str
    last: str
    manifests: int


Chunk = tuple[int, int]  # the number of a row of `chunks`, which was drawn at random, and its size in bytes


def export_id(store: str, key: Key) -> str:
    """Return the id of a key's reports, wherever they are exported to: its first half is of the store."""
    about = "\0".join((key.metric, str(key.period), key.digest.hex(), key.device_group))
    return store[:16] + blake2b(about.encode(), digest_size=8).hexdigest()


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
        with database.snapshot() as connection:
            self._store = str(read_fact(connection, STORE_ID))
        self._advance = advance or (lambda _: None)
        self._entries: StoredMetrics = {}
        self._done = Exported()

    def run(self, now: float, metric: str | None = None) -> Exported:
        """Export what is closed, of one metric or of all, and not at the destination yet."""
        with self._database.snapshot() as connection:
            self._entries = read_stored_metrics(connection)
            keys = sorted({*keys_of(connection, CHUNKS), *keys_of(connection, INBOX)})
        there = set(self._folder.names(recursive=True))
        self._remove_orphans(there, keys)
        for key in (key for key in keys if metric in {None, key.metric}):
            if self._is_ready(key, now):
                if self._manifest_name(key) in there:
                    self._done.earlier += 1
                else:
                    self._export(key)
        self._done.outside = self._outside_retention(there, now)
        return self._done

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

    def _export(self, key: Key) -> None:
        """Write the parts of a key, and then their manifest, unless its reports changed meanwhile."""
        entry, chunks = self._entries[key.metric, key.digest], self._chunks(key)
        label = entry.period.label(key.period)
        try:
            parts, totals = self._write_parts(key, entry, chunks)
        except FolderError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            self._wait(f"{key.metric}, {label}: another export writes it at this moment")
            return
        if not parts or self._chunks(key) != chunks:
            for part in parts:
                self._remove(f"{_partition(key)}/{part.file}")
            self._wait(f"{key.metric}, {label}: its reports were deleted, or more came, while they were written")
            return
        about = (key.metric, key.period, entry.period.seconds, label, key.device_group, Label.of(entry.mechanism))
        number = export_id(self._store, key)
        manifest = Manifest(number, self._store, *about, tuple(totals.tolist()), tuple(parts))
        self._folder.write(self._manifest_name(key), manifest.to_json().encode())
        self._done.manifests.append(manifest)

    def _write_parts(
        self, key: Key, entry: StoredMetric, chunks: Sequence[Chunk]
    ) -> tuple[list[PartFile], NDArray[np.int64]]:
        cohorts = entry.mechanism.num_cohorts
        totals = np.zeros(cohorts if cohorts <= MAX_COHORTS else 0, np.int64)
        about: dict[str, Any] = {"metric": key.metric, "period": key.period, "group": key.device_group}
        label, parts = Label.of(entry.mechanism), []

        def counting(numbers: Sequence[Sequence[int]]) -> Iterator[ReportBatch]:
            for batch in self._read(numbers):
                if len(totals):
                    totals[:] += np.bincount(batch.cohorts, minlength=len(totals))
                yield batch
                self._advance(batch.bits.nbytes)

        for number, together in enumerate(_cut(chunks)):
            name = part_name(export_id(self._store, key), number)
            with self._folder.staged(f"{_partition(key)}/{name}") as staged:
                reports = write_blocks(staged, counting(together), label, **about)
                with staged.open("rb") as written:
                    size, crc = stream_checksum(written)
            parts.append(PartFile(name, size, crc, reports))
        return parts, totals

    def _chunks(self, key: Key) -> list[Chunk]:
        """Return a key's chunks in the order of their random numbers, which are in no file."""
        size = func.length(CHUNKS.c.cohorts) + func.length(CHUNKS.c.bits)
        rows = select(CHUNKS.c.id, size).where(key.of(CHUNKS)).order_by(CHUNKS.c.id)
        with self._database.snapshot() as connection:
            return [(number, size) for number, size in connection.execute(rows)]

    def _read(self, numbers: Sequence[Sequence[int]]) -> Iterator[ReportBatch]:
        for some in numbers:
            with self._database.snapshot() as connection:
                rows = select(CHUNKS).where(CHUNKS.c.id.in_(some)).order_by(CHUNKS.c.id)
                chunks = connection.execute(rows).all()
            if chunks:
                seed = int.from_bytes(blake2b(repr(some).encode(), digest_size=16).digest(), "big")
                yield shuffled(join_rows(chunks), seed)

    def _remove_orphans(self, there: Collection[str], keys: Sequence[Key]) -> None:
        """Remove what a killed export left: half a file, and parts of reports that were deleted since."""
        stored = {export_id(self._store, key) for key in keys}
        for path in sorted(there):
            folder, _, name = path.rpartition("/")
            own = re.match(rf"\.*(?:part|manifest)-({self._store[:16]}[0-9a-f]{{16}})", name)
            if own is None:
                continue
            is_lost = own[1] not in stored and f"{folder}/{manifest_name(own[1])}" not in there
            if name.startswith(".") or (is_lost and PART_NAME.fullmatch(name)):
                self._remove(path)

    def _remove(self, path: str) -> None:
        self._folder.remove(path)
        self._done.removed += 1

    def _manifest_name(self, key: Key) -> str:
        return f"{_partition(key)}/{manifest_name(export_id(self._store, key))}"

    def _outside_retention(self, there: Collection[str], now: float) -> list[OutsideRetention]:
        """Return which reports at the destination, of any store, are past their metric's retention."""
        of_metric = {entry.metric: entry for entry in self._entries.values()}
        periods: dict[str, list[int]] = {}
        for path in there:
            folder, _, name = path.rpartition("/")
            partition = read_partition(folder) if MANIFEST_NAME.fullmatch(name) else None
            if partition is None or partition[0] not in of_metric:
                continue
            metric, period = partition
            if period <= of_metric[metric].last_expired(now):
                periods.setdefault(metric, []).append(period)
        return [
            OutsideRetention(metric, of_metric[metric].period.label(max(past)), len(past))
            for metric, past in sorted(periods.items())
        ]


def _partition(key: Key) -> str:
    return partition_path(key.metric, key.period, key.digest)


def _cut(chunks: Sequence[Chunk]) -> Iterator[list[list[int]]]:
    """Yield the chunks' numbers of each part, by what is read and shuffled together."""
    together = grouped(chunks, itemgetter(1), TOGETHER)
    for part in grouped(together, lambda some: sum(size for _, size in some), PART_BYTES):
        yield [[number for number, _ in some] for some in part]
