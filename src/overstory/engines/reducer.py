"""The reducer: open a unit, count it, return the counts. The same function runs in every engine's workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.engines.folders import stream_checksum
from overstory.engines.places import open_place
from overstory.engines.results import encode_counts
from overstory.engines.units import PACKED, Job, Unit
from overstory.files.joining import joined
from overstory.files.labels import label_of
from overstory.files.parquet import opened, read_row_groups
from overstory.kernels.threads import at_most
from overstory.protocol.errors import FormatError, WireError
from overstory.protocol.wire.upload import HEADER, batch_length, decode_batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overstory.protocol.mechanisms.base import LocalRandomizer


def count_unit(job: Job, unit: Unit) -> bytes:
    """Count one unit with one thread, and return its counts as `overstory.engines.results` writes them.

    Raises
    ------
    FormatError
        When the file is damaged, or its reports are another mechanism's than the job's.
    """
    counts: SupportCounts | None = None
    num_reports = 0
    count = job.counting(unit)
    with at_most(1):
        for batch in joined(read_unit(job, unit, job.mechanism())):
            counted = count(batch)
            counts = counted if counts is None else counts + counted
            num_reports += len(batch)
    return encode_counts(job.empty(unit.values) if counts is None else counts, num_reports)


def read_unit(job: Job, unit: Unit, mechanism: LocalRandomizer) -> Iterator[ReportBatch]:
    """Yield the reports of a unit; the first of an exported file compares the CRC-32 of all its bytes, if asked to."""
    with open_place(unit.address) as raw:
        if job.verify and unit.crc32 is not None and unit.is_first:
            _check_file(raw, unit.crc32, unit.shown)
        if unit.layout == PACKED:
            yield from _packed(raw, unit, mechanism)
            return
        with opened(raw, unit.shown, verify=job.verify) as file:
            label = label_of(file, unit.shown)
            check_label(label.digest, mechanism, unit.shown)
            yield from read_row_groups(file, label, unit.shown, range(unit.first, unit.stop), verify=job.verify)


def _check_file(raw: Any, crc32: int, source: str) -> None:
    """Raise FormatError unless a file has this checksum."""
    if stream_checksum(raw)[1] != crc32:
        raise FormatError("the file was damaged: its CRC-32 is not the one that its manifest lists", source=source)
    raw.seek(0)


def check_label(digest: bytes, mechanism: LocalRandomizer, source: str) -> None:
    """Raise FormatError unless reports are of this mechanism."""
    if digest != mechanism.digest:
        raise FormatError(
            f"these reports are not of {mechanism.name} with the parameters of the others, or of those stated: their "
            "label differs",
            source=source,
        )


def _packed(raw: Any, unit: Unit, mechanism: LocalRandomizer) -> Iterator[ReportBatch]:
    at = unit.first
    while at < unit.stop:
        try:
            raw.seek(at)
            length = batch_length(raw.read(HEADER.size))
            raw.seek(at)
            batch = decode_batch(raw.read(length))
        except WireError as error:
            raise FormatError(f"the batch at byte {at}: {error.problem}", source=unit.shown) from error
        check_label(batch.digest, mechanism, unit.shown)
        at = raw.tell()
        yield ReportBatch.from_wire(batch)
