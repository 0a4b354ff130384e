"""The driver: each unit's counts are added once, whatever an engine does; what is missing or wrong is an error.

It also states what counting will take, by rates of one core of a server of 2025 with the files in its page cache;
`bench/scale.py` prints this machine's.
"""

from __future__ import annotations

import hashlib
import json
import socket
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from overstory.engines.reducer import decode_counts, encode_counts, numbered_counts, results_of
from overstory.files.io import replacing
from overstory.kernels.threads import cores
from overstory.protocol.errors import FormatError, OverstoryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from overstory.analysis.reports import SupportCounts
    from overstory.engines.places import Place
    from overstory.engines.units import Job, Unit


AHEAD: Final = 4
"""Units for each thread that are waiting, being counted, or counted and not yet added."""


class EngineError(OverstoryError, RuntimeError):
    """An engine lost its workers, or did not count what it was given."""


ANSWER_SECONDS: Final = 20
"""In which a scheduler or a master must take a connection."""


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

    @property
    def name(self) -> str:
        """As ``--engine`` takes it."""
        ...

    def map(self, job: Job, units: Sequence[Unit]) -> Iterator[tuple[int, bytes]]:
        """Yield each unit's number and what `overstory.engines.reducer.count_unit` returned, in any order."""
        ...


class LocalEngine:
    """Counts units in threads of this process, one for each core unless given: the kernels hold no lock.

    A thread holds a row group of one unit at a time, so memory does not grow with the files.
    """

    name = "local"

    def __init__(self, workers: int | None = None) -> None:
        self.workers = cores(workers)

    def map(self, job: Job, units: Sequence[Unit]) -> Iterator[tuple[int, bytes]]:
        """Yield each unit's number and counts, in the order in which they are done."""
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
    resumed: int = 0  # units taken over from an earlier run that was killed
    repeats: int = 0  # results of units that had been counted already, and were dropped
    seconds: float = 0.0
    finished: set[int] = field(default_factory=set)

    @property
    def counts(self) -> SupportCounts:
        """The counts of the only collection."""
        (counts,) = self.collections.values()
        return counts


def count(
    engine: Engine,
    job: Job,
    units: Sequence[Unit],
    *,
    checkpoint: Checkpoint | None = None,
    advance: Callable[[int], object] | None = None,
) -> Run:
    """Count all units by an engine; a checkpoint has what an earlier run finished, and gets what this one finishes.

    `advance` is called with the bytes of every unit that is done. Raises EngineError when a unit's counts are missing,
    damaged, or of another number of reports than its file states.
    """
    started = time.perf_counter()
    by_number = {unit.number: unit for unit in units}
    assert len(by_number) == len(units)
    run = Run({collection: job.empty() for collection in sorted({unit.collection for unit in units} or {0})})
    run.num_units = len(units)
    if checkpoint is not None and (earlier := checkpoint.read()) is not None:
        run.collections, run.finished = earlier
        run.resumed = len(run.finished)
        if advance is not None:
            advance(sum(by_number[number].num_bytes for number in run.finished))
    left = [unit for unit in units if unit.number not in run.finished]
    for number, raw in engine.map(job, left) if left else ():
        if number in run.finished:
            run.repeats += 1
            continue
        _take(run, by_number.get(number), raw)
        if advance is not None:
            advance(by_number[number].num_bytes)
        if checkpoint is not None:
            checkpoint.write(run.collections, run.finished)
    _check_complete(run, units)
    run.seconds = time.perf_counter() - started
    run.num_reports, run.num_bytes = sizes_of(units)
    return run


def sizes_of(units: Sequence[Unit]) -> tuple[int, int]:
    """Return how many reports and bytes units are of."""
    return sum(unit.num_reports for unit in units), sum(unit.num_bytes for unit in units)


def _take(run: Run, unit: Unit | None, raw: bytes) -> None:
    """Add one unit's counts."""
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


def _check_complete(run: Run, units: Sequence[Unit]) -> None:
    missing = [unit for unit in units if unit.number not in run.finished]
    if missing:
        raise EngineError(
            f"{len(missing):,} of {len(units):,} units were not counted; the first is in {missing[0].shown}"
        )


EVERY: Final = 2.0
"""Seconds between two writes, at least."""
SHARE: Final = 0.05
"""Of the time is spent on writing, at most."""
CHECKSUM: Final = 4
"""Bytes at the end of the file: the CRC-32 of all before them."""


def fingerprint(job: Job, places: Sequence[Place], units: Sequence[Unit]) -> str:
    """Return what a run is of: equal for equal files, units and questions, and where checksums are compared in both."""
    digest = hashlib.blake2b(digest_size=16)
    asked = [(name, value) for name, value in vars(job).items() if name != "packed"]
    for part in (type(job).__name__, job.mechanism().digest, *asked, *places, *units):
        digest.update(part if isinstance(part, bytes) else repr(part).encode())
        digest.update(b"\0")
    return digest.hexdigest()


class Checkpoint:
    """The file of one run."""

    def __init__(self, path: str | Path, fingerprint: str) -> None:
        self.path, self._fingerprint = Path(path), fingerprint
        self._next = time.monotonic() + EVERY

    def belongs(self) -> bool:
        """Whether the file is of this run, or there is none."""
        return not self.path.exists() or self._read()[0] == self._fingerprint

    def read(self) -> tuple[dict[int, SupportCounts], set[int]] | None:
        """Return the counts and the numbers of the units they are of; None where there are none of this run."""
        if not self.path.exists():
            return None
        run_id, parts, finished = self._read()
        return (parts, finished) if run_id == self._fingerprint else None

    def _read(self) -> tuple[str, dict[int, SupportCounts], set[int]]:
        try:
            return _decoded(self.path.read_bytes())
        except (KeyError, TypeError, ValueError, OverflowError, FormatError) as error:
            problem = "this is no file of a run that was cut short, or a damaged one: remove it, or name another"
            raise FormatError(problem, source=str(self.path)) from error

    def write(self, parts: Mapping[int, SupportCounts], finished: set[int], *, at_once: bool = False) -> None:
        """Write what is finished, now and then unless it must be written at once."""
        started = time.monotonic()
        if started < self._next and not at_once:
            return
        encoded = [(collection, encode_counts(counts, len(finished))) for collection, counts in parts.items()]
        sizes = [(collection, len(raw)) for collection, raw in encoded]
        header = json.dumps({"run": self._fingerprint, "units": sorted(finished), "parts": sizes}).encode()
        content = header + b"\n" + b"".join(raw for _, raw in encoded)
        with replacing(self.path) as name, Path(name).open("wb") as file:
            file.write(content)
            file.write(zlib.crc32(content).to_bytes(CHECKSUM))
        ended = time.monotonic()
        self._next = ended + max(EVERY, (ended - started) / SHARE)

    def remove(self) -> None:
        """The run is complete; a file that is none of this run stays, whoever wrote it."""
        with suppress(FormatError):
            if self.belongs():
                self.path.unlink(missing_ok=True)


def _decoded(raw: bytes) -> tuple[str, dict[int, SupportCounts], set[int]]:
    """Return of which run a checkpoint is, its counts, and the numbers of the units that they are of."""
    line, _, body = raw[:-CHECKSUM].partition(b"\n")
    if zlib.crc32(raw[:-CHECKSUM]).to_bytes(CHECKSUM) != raw[-CHECKSUM:]:
        raise ValueError("its checksum is another one")
    header: dict[str, Any] = json.loads(line)
    finished, at = set(header["units"]), 0
    parts: dict[int, SupportCounts] = {}
    for collection, size in header["parts"]:
        parts[collection], num_finished = decode_counts(body[at : at + size])
        at += size
        if num_finished != len(finished):
            raise ValueError("its counts are of other units")
    return header["run"], parts, finished
