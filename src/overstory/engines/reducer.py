"""The reducer: open a unit, count it, return the counts, as bytes with a checksum; every engine's workers run it."""

from __future__ import annotations

import struct
import zlib
from concurrent.futures import FIRST_COMPLETED, wait
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.engines.folders import stream_checksum
from overstory.engines.places import open_place
from overstory.engines.units import PACKED, Job, Unit
from overstory.files.labels import label_of
from overstory.files.parquet import joined, opened, read_row_groups
from overstory.kernels.threads import at_most
from overstory.protocol.errors import FormatError, WireError
from overstory.protocol.wire.upload import HEADER, batch_length, decode_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

    from overstory.protocol.kinds.base import Kind


Given = TypeVar("Given")
Result = TypeVar("Result")

COUNTS_HEADER: Final = struct.Struct("<4sIIQI")
MAGIC: Final = b"OVSC"


def encode_counts(counts: SupportCounts, num_reports: int) -> bytes:
    """Write counts, and how many reports were read for them.

    >>> decode_counts(encode_counts(SupportCounts([2], [[1, 0]]), 2))
    (SupportCounts(2 reports, num_cohorts=1, num_bits=2), 2)
    """
    body = counts.totals.astype("<i8").tobytes() + counts.ones.astype("<i8").tobytes()
    return COUNTS_HEADER.pack(MAGIC, counts.num_cohorts, counts.num_bits, num_reports, zlib.crc32(body)) + body


def decode_counts(raw: bytes) -> tuple[SupportCounts, int]:
    """Read what `encode_counts` wrote."""
    if len(raw) < COUNTS_HEADER.size:
        raise FormatError(f"counts have a header of {COUNTS_HEADER.size} bytes; {len(raw)} are here")
    magic, cohorts, bits, num_reports, checksum = COUNTS_HEADER.unpack_from(raw)
    body = raw[COUNTS_HEADER.size :]
    if magic != MAGIC or len(body) != 8 * cohorts * (bits + 1) or zlib.crc32(body) != checksum:
        raise FormatError("these bytes are no counts, or were damaged on their way")
    numbers = np.frombuffer(body, "<i8")
    return SupportCounts(numbers[:cohorts], numbers[cohorts:].reshape(cohorts, bits)), num_reports


def results_of(
    submit: Callable[[Given], Future[Result]], given: Iterable[Given], ahead: Callable[[], int]
) -> Iterator[Result]:
    """Submit calls to a pool, and yield the results as they end.

    At most `ahead()` calls are waiting, running, or ended and not yet taken: memory does not grow with their number,
    however slowly the results are taken.
    """
    calls = iter(given)
    running: set[Future[Result]] = set()
    ended: set[Future[Result]] = set()
    while True:
        running |= {submit(one) for one in islice(calls, max(ahead() - len(running) - len(ended), 0))}
        if not ended:
            if not running:
                return
            ended, running = wait(running, return_when=FIRST_COMPLETED)
        yield ended.pop().result()


def count_unit(job: Job, unit: Unit) -> bytes:
    """Count one unit with one thread, and return its counts as `encode_counts` writes them."""
    counts: SupportCounts | None = None
    num_reports = 0
    count = job.counting(unit)
    with at_most(1):
        for batch in joined(read_unit(job, unit, job.mechanism())):
            counted = count(batch)
            counts = counted if counts is None else counts + counted
            num_reports += len(batch)
    return encode_counts(job.empty() if counts is None else counts, num_reports)


def numbered_counts(job: Job, unit: Unit) -> tuple[int, bytes]:
    """Count one unit, and return its number and its counts."""
    return unit.number, count_unit(job, unit)


def read_unit(job: Job, unit: Unit, mechanism: Kind) -> Iterator[ReportBatch]:
    """Yield the reports of a unit; the first of an exported file compares the CRC-32 of all its bytes, as a rule."""
    with open_place(unit.address) as raw:
        if job.verify and unit.crc32 is not None:
            _check_file(raw, unit.crc32, unit.shown)
        if unit.layout == PACKED:
            yield from _packed(raw, unit, mechanism)
            return
        with opened(raw, unit.shown, verify=job.verify) as file:
            label = label_of(file, unit.shown)
            check_label(label.digest, mechanism, unit.shown)
            yield from read_row_groups(file, label, unit.shown, range(unit.first, unit.stop), verify=job.verify)


def _check_file(raw: Any, crc32: int, source: str) -> None:
    if stream_checksum(raw)[1] != crc32:
        raise FormatError("the file was damaged: its CRC-32 is not the one that its manifest lists", source=source)
    raw.seek(0)


def check_label(digest: bytes, mechanism: Kind, source: str) -> None:
    """Raise FormatError unless reports are of this mechanism."""
    if digest != mechanism.digest:
        raise FormatError(
            f"these reports are not of {mechanism.name} with the parameters of the others, or of those stated: their "
            "label differs",
            source=source,
        )


def _packed(raw: Any, unit: Unit, mechanism: Kind) -> Iterator[ReportBatch]:
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
