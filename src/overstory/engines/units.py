"""Units of work: which parts of which files are counted together, and how many reports each must have."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Self

from overstory.analysis.kinds.base import count_reports
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.engines.folders import shown_address
from overstory.engines.places import Place, open_place
from overstory.files.io import GZIP_MAGIC
from overstory.files.labels import Label, label_of
from overstory.files.parquet import opened, reports_of_row_groups
from overstory.files.reports import PARQUET_MAGIC
from overstory.protocol.errors import FormatError, WireError
from overstory.protocol.kinds.base import Kind
from overstory.protocol.wire.upload import HEADER, MAGIC, batch_length, decode_batch, encode_reports

BLOCKS: Final = "blocks"
PACKED: Final = "packed batches"
SMALLEST_UNIT: Final = 1 << 24  # bytes; a smaller unit costs more to hand out than to count
LARGEST_UNIT: Final = 1 << 28
PART_BYTES: Final = 1 << 22  # a unit of packed batches has at least this many bytes, unless the file ends


@dataclass(frozen=True)
class Unit:
    """Part of a file, from `first` to before `stop`: row groups, or bytes of packed batches; collections stay apart."""

    number: int
    address: str
    layout: str
    first: int
    stop: int
    num_reports: int
    num_bytes: int
    collection: int = 0
    watched: int = 0  # how many of its first reports a job looks at more closely, if it looks closer at some
    crc32: int | None = None
    """Of the first unit of an exported file: the CRC-32 of the whole file, compared where checksums are."""

    @property
    def shown(self) -> str:
        return shown_address(self.address)

    def joined(self, after: Unit) -> Unit:
        reports, size = self.num_reports + after.num_reports, self.num_bytes + after.num_bytes
        return replace(self, stop=after.stop, num_reports=reports, num_bytes=size)


@dataclass(frozen=True)
class Job:
    """What is done to each unit: its reports are counted; it travels by pickle. Another kind overrides `count`."""

    packed: bytes  # the mechanism, pickled

    @classmethod
    def of(cls, mechanism: Kind) -> Self:
        return cls(pickle.dumps(mechanism))

    def mechanism(self) -> Kind:
        """Return the mechanism, built once in each process."""
        return _built(self.packed)

    def count(self, batch: ReportBatch) -> SupportCounts:
        return count_reports(self.mechanism(), batch)

    def counting(self, unit: Unit) -> Callable[[ReportBatch], SupportCounts]:  # noqa: ARG002 - of some jobs
        """Return what counts the batches of a unit, one after the other."""
        return self.count

    def empty(self) -> SupportCounts:
        return self.count(ReportBatch.from_wire(decode_batch(encode_reports(self.mechanism(), []))))


@lru_cache(maxsize=8)
def _built(packed: bytes) -> Kind:
    built: Kind = pickle.loads(packed)  # noqa: S301 - our own driver pickled it
    return built


@dataclass(frozen=True)
class Contents:
    """What a file holds: its label or, of packed batches, the digest alone, and the smallest units that it has."""

    place: Place
    digest: bytes
    label: Label | None
    parts: list[Unit]


def read_contents(places: Sequence[Place]) -> list[Contents]:
    """Read the footers and headers of files, several at a time; files of different parameters are refused."""
    contents = []
    with ThreadPoolExecutor(8) as pool:
        for read in pool.map(_contents, places):
            contents.append(read)
            listed, stated = read.place.num_reports, sum(part.num_reports for part in read.parts)
            if listed is not None and listed != stated:
                problem = f"it has {stated:,} reports, and its manifest lists {listed:,}: it was replaced"
                raise FormatError(problem, source=read.place.shown)
            if read.digest != contents[0].digest:
                raise FormatError(
                    f"its reports are of other parameters than those of {contents[0].place.shown}: count them apart",
                    source=read.place.shown,
                )
    return contents


def _contents(place: Place) -> Contents:
    with open_place(place.address) as raw:
        start = raw.read(4)
        if start == PARQUET_MAGIC:
            return _of_parquet(raw, place)
        if start == MAGIC:
            raw.seek(0)
            return _of_batches(raw, place)
    if start[:2] == GZIP_MAGIC:
        raise FormatError("compressed by gz: unpack it, for a unit starts in the middle of a file", source=place.shown)
    raise FormatError(
        "neither Parquet nor packed batches (.ovsb): reports.csv is counted by one process, with --params",
        source=place.shown,
    )


def _of_parquet(raw: Any, place: Place) -> Contents:
    with opened(raw, place.shown) as file:
        label = label_of(file, place.shown)
        parts = [
            Unit(0, place.address, BLOCKS, group, group + 1, count, file.metadata.row_group(group).total_byte_size)
            for group, count in enumerate(reports_of_row_groups(file, place.shown))
        ]
        return Contents(place, label.digest, label, parts)


def _of_batches(raw: Any, place: Place) -> Contents:
    parts: list[Unit] = []
    at, digests = 0, set()
    while at < place.size:
        raw.seek(at)
        header = raw.read(HEADER.size)
        try:
            stop = at + batch_length(header)
        except WireError as error:
            raise FormatError(f"the batch at byte {at}: {error.problem}", source=place.shown) from error
        if stop > place.size:
            raise FormatError(
                f"the batch at byte {at} ends {stop - place.size} bytes after the file", source=place.shown
            )
        *_, num_reports, digest = HEADER.unpack(header)
        digests.add(digest)
        batch = Unit(0, place.address, PACKED, at, stop, num_reports, stop - at)
        if parts and parts[-1].num_bytes < PART_BYTES:  # small batches are handed out together
            parts[-1] = parts[-1].joined(batch)
        else:
            parts.append(batch)
        at = stop
    if len(digests) > 1:
        raise FormatError("its batches are of different parameters: count them apart", source=place.shown)
    return Contents(place, digests.pop(), None, parts)


def unit_bytes(contents: Iterable[Contents], workers: int) -> int:
    """Return how large units should be, so that each worker gets about eight: the last ones end together."""
    total = sum(part.num_bytes for file in contents for part in file.parts)
    return min(max(total // (8 * workers), SMALLEST_UNIT), LARGEST_UNIT)


def units_of(contents: Iterable[Contents], largest: int) -> list[Unit]:
    """Cut files into units of about `largest` bytes; a unit is of one file, and at least one row group or batch."""
    units: list[Unit] = []
    for file in contents:
        for place, part in enumerate(file.parts):
            if place and units[-1].num_bytes + part.num_bytes <= largest:
                units[-1] = units[-1].joined(part)
            else:
                units.append(replace(part, number=len(units), crc32=None if place else file.place.crc32))
    return units
