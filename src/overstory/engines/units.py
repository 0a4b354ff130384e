"""Units of work: which parts of which files are counted together, and how many reports each must have."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Self

from overstory.analysis.kinds.base import count_reports
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.engines.folders import shown_address
from overstory.engines.places import Place, open_place
from overstory.files.io import GZIP_MAGIC, PARQUET_MAGIC
from overstory.files.labels import Label, label_of
from overstory.files.parquet import opened, reports_of_row_groups
from overstory.protocol.errors import FormatError
from overstory.protocol.kinds.base import Kind
from overstory.protocol.wire.upload import decode_batch, encode_reports

SMALLEST_UNIT: Final = 1 << 24  # bytes; a smaller unit costs more to hand out than to count
LARGEST_UNIT: Final = 1 << 28


@dataclass(frozen=True)
class Unit:
    """Part of a file: the row groups from `first` to before `stop`; collections stay apart."""

    number: int
    address: str
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
    """What a file holds: its label, and the smallest units that it has."""

    place: Place
    label: Label
    parts: list[Unit]


def read_contents(places: Sequence[Place]) -> list[Contents]:
    """Read the footers of files, several at a time; files of different parameters are refused."""
    contents = []
    with ThreadPoolExecutor(8) as pool:
        for read in pool.map(_contents, places):
            contents.append(read)
            listed, stated = read.place.num_reports, sum(part.num_reports for part in read.parts)
            if listed is not None and listed != stated:
                problem = f"it has {stated:,} reports, and its manifest lists {listed:,}: it was replaced"
                raise FormatError(problem, source=read.place.shown)
            if read.label.digest != contents[0].label.digest:
                raise FormatError(
                    f"its reports are of other parameters than those of {contents[0].place.shown}: count them apart",
                    source=read.place.shown,
                )
    return contents


def _contents(place: Place) -> Contents:
    with open_place(place.address) as raw:
        start = raw.read(4)
        if start != PARQUET_MAGIC:
            problem = "compressed by gz: unpack it, for a unit starts in the middle of a file"
            if start[:2] != GZIP_MAGIC:
                problem = "this is no Parquet: reports.csv is counted by one process, with --params"
            raise FormatError(problem, source=place.shown)
        with opened(raw, place.shown) as file:
            label = label_of(file, place.shown)
            parts = [
                Unit(0, place.address, group, group + 1, count, file.metadata.row_group(group).total_byte_size)
                for group, count in enumerate(reports_of_row_groups(file, place.shown))
            ]
            return Contents(place, label, parts)


def unit_bytes(contents: Iterable[Contents], workers: int) -> int:
    """Return how large units should be, so that each worker gets about eight: the last ones end together."""
    total = sum(part.num_bytes for file in contents for part in file.parts)
    return min(max(total // (8 * workers), SMALLEST_UNIT), LARGEST_UNIT)


def units_of(contents: Iterable[Contents], largest: int) -> list[Unit]:
    """Cut files into units of about `largest` bytes; a unit is of one file, and at least one row group."""
    units: list[Unit] = []
    for file in contents:
        for place, part in enumerate(file.parts):
            if place and units[-1].num_bytes + part.num_bytes <= largest:
                units[-1] = units[-1].joined(part)
            else:
                units.append(replace(part, number=len(units), crc32=None if place else file.place.crc32))
    return units
