"""Counting: every engine's workers open a unit, count it, and return counts with a checksum; the driver adds each once.

What is missing or wrong is an error, whatever an engine does.
"""

from __future__ import annotations

import socket
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.engines.folders import stream_checksum
from overstory.engines.places import open_place
from overstory.engines.units import Job, Unit
from overstory.files.labels import label_of
from overstory.files.parquet import joined, opened, read_row_groups
from overstory.kernels.threads import at_most, cores
from overstory.presentation.formats import in_bytes, plural
from overstory.protocol.errors import FormatError, OverstoryError
from overstory.protocol.kinds.base import Kind

Given = TypeVar("Given")
Result = TypeVar("Result")

COUNTS_HEADER: Final = struct.Struct("<4sIIQI")
MAGIC: Final = b"OVSC"


def encode_counts(counts: SupportCounts, num_reports: int) -> bytes:
    """Write counts, and how many reports were read for them."""
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
    """Submit calls to a pool, and yield the results as they end; at most `ahead()` calls are under way or not taken."""
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
        for batch in joined(read_unit(unit, job.mechanism())):
            counted = count(batch)
            counts = counted if counts is None else counts + counted
            num_reports += len(batch)
    return encode_counts(job.empty() if counts is None else counts, num_reports)


def numbered_counts(job: Job, unit: Unit) -> tuple[int, bytes]:
    """Count one unit, and return its number and its counts."""
    return unit.number, count_unit(job, unit)


def read_unit(unit: Unit, mechanism: Kind) -> Iterator[ReportBatch]:
    """Yield the reports of a unit; the first of an exported file compares the CRC-32 of all its bytes."""
    with open_place(unit.address) as raw:
        if unit.crc32 is not None:
            _check_file(raw, unit.crc32, unit.shown)
        with opened(raw, unit.shown) as file:
            label = label_of(file, unit.shown)
            check_label(label.digest, mechanism, unit.shown)
            yield from read_row_groups(file, label, unit.shown, range(unit.first, unit.stop))


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


AHEAD: Final = 4  # units for each thread that are waiting, being counted, or counted and not yet added


class EngineError(OverstoryError, RuntimeError):
    """An engine lost its workers, or did not count what it was given."""


ANSWER_SECONDS: Final = 20  # in which a scheduler or a master must take a connection


def check_answers(problem: str, places: Iterable[tuple[str, int]]) -> None:
    """Raise EngineError, with the problem, when nobody listens: engines' own clients try for minutes, and print why."""
    reason: Exception | None = None
    for place in places:
        try:
            socket.create_connection(place, ANSWER_SECONDS).close()
        except OSError as error:
            reason = error
        else:
            return
    raise EngineError(f"{problem}: {reason}") from reason


class Engine(Protocol):
    """What runs the reducer."""

    name: str  # as ``--engine`` takes it

    def map(self, job: Job, units: Sequence[Unit]) -> Iterator[tuple[int, bytes]]:
        """Yield each unit's number and what `overstory.engines.driver.count_unit` returned, in any order."""


class LocalEngine:
    """Counts units in threads of this process, one for each core unless given: the kernels hold no lock."""

    name = "local"

    def __init__(self, workers: int | None = None) -> None:
        self.workers = cores(workers)

    def map(self, job: Job, units: Sequence[Unit]) -> Iterator[tuple[int, bytes]]:
        with ExitStack() as at_end:
            pool = ThreadPoolExecutor(min(self.workers, len(units)))
            at_end.callback(pool.shutdown, cancel_futures=True)
            yield from results_of(
                lambda unit: pool.submit(numbered_counts, job, unit), units, lambda: AHEAD * self.workers
            )


@dataclass
class Run:
    """What came of a run."""

    collections: dict[int, SupportCounts]  # of each collection, all its reports once every unit is counted
    num_reports: int = 0
    num_bytes: int = 0
    num_units: int = 0
    repeats: int = 0  # results of units that had been counted already, and were dropped
    seconds: float = 0.0
    finished: set[int] = field(default_factory=set)

    @property
    def counts(self) -> SupportCounts:
        (counts,) = self.collections.values()
        return counts

    def sentences(self, engine: str) -> list[str]:
        spent = max(self.seconds, 1e-9)
        rates = f"{self.num_reports / spent:,.0f} reports and {in_bytes(self.num_bytes / spent)} a second"
        notes = [f"{plural(self.num_units, 'unit')} in {self.seconds:.1f} s by {engine}: {rates}"]
        again = f"{self.repeats:,} units were counted again, because a worker was lost"
        return [*notes, again] if self.repeats else notes


def count(engine: Engine, job: Job, units: Sequence[Unit], *, advance: Callable[[int], object] | None = None) -> Run:
    """Count all units by an engine; EngineError when counts are missing, damaged, or of other reports than stated."""
    started = time.perf_counter()
    by_number = {unit.number: unit for unit in units}
    assert len(by_number) == len(units)
    run = Run({collection: job.empty() for collection in sorted({unit.collection for unit in units} or {0})})
    for number, raw in engine.map(job, units) if units else ():
        if number in run.finished:
            run.repeats += 1
            continue
        _take(run, by_number.get(number), raw)
        if advance is not None:
            advance(by_number[number].num_bytes)
    if missing := [unit for unit in units if unit.number not in run.finished]:
        first = f"the first is in {missing[0].shown}"
        raise EngineError(f"{len(missing):,} of {len(units):,} units were not counted; {first}")
    run.seconds, run.num_units = time.perf_counter() - started, len(units)
    run.num_reports, run.num_bytes = (
        sum(getattr(unit, name) for unit in units) for name in ("num_reports", "num_bytes")
    )
    return run


def _take(run: Run, unit: Unit | None, raw: bytes) -> None:
    if unit is None:
        raise EngineError("the engine returned a unit that it was not given")
    counts, num_reports = decode_counts(raw)
    if num_reports != unit.num_reports:
        raise EngineError(
            f"{unit.shown}: {num_reports:,} reports were counted in {unit.first} .. {unit.stop}, and the file states "
            f"{unit.num_reports:,}: it was changed since, or is damaged"
        )
    run.collections[unit.collection] += counts
    run.finished.add(unit.number)
