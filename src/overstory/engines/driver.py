"""The driver: each unit's counts are added once, whatever an engine does; what is missing or wrong is an error.

It also states what counting will take, by rates of one core of a server of 2025 with the files in its page cache;
`bench/scale.py` prints this machine's.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from overstory.engines.division import put_together
from overstory.engines.results import decode_counts
from overstory.engines.units import BLOCKS, PACKED, ROWS
from overstory.protocol.errors import OverstoryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from overstory.analysis.reports import SupportCounts
    from overstory.engines.checkpoint import Checkpoint
    from overstory.engines.units import Job, Tally, Unit, Values

READING: Final = {BLOCKS: 2.4e-10, ROWS: 4.8e-10, PACKED: 7e-10}
"""Core-seconds for a byte of each layout, to read, check and hand it to a kernel."""
FACTORS: Final = {"local": 1.0, "dask": 1.25, "spark": 2.9}
"""An engine's core-seconds over those of local processes, with units of 160 MB."""
STARTS: Final = {"local": 1.0, "dask": 3.0, "spark": 10.0}
"""Seconds until an engine on this machine counts."""


def core_seconds(engine: str, job: Job, units: Sequence[Unit]) -> float:
    """Return about how many core-seconds counting these units takes."""
    reading = sum(READING[unit.layout] * unit.num_bytes for unit in units)
    counting = sum(job.counting_seconds(unit.num_reports, unit.values) for unit in units)
    return (reading + counting) * FACTORS.get(engine, 1.0)


class EngineError(OverstoryError, RuntimeError):
    """An engine lost its workers, or did not count what it was given."""


class Engine(Protocol):
    """What runs the reducer."""

    @property
    def name(self) -> str:
        """As ``--engine`` takes it."""
        ...

    @property
    def retries(self) -> int:
        """How often this engine has counted a unit again because a worker was lost, where it can tell."""
        ...

    @property
    def spilled(self) -> int | None:
        """Bytes that this engine's workers have written to disk for want of memory; None where it cannot tell."""
        ...

    def map(self, job: Job, units: Sequence[Unit]) -> Iterator[tuple[int, bytes]]:
        """Yield each unit's number and what `overstory.engines.reducer.count_unit` returned, in any order."""
        ...


@dataclass
class Run:
    """What came of a run.

    Parameters
    ----------
    parts
        The counts of each collection and range of values that units count.
    collections
        The counts of each collection, once every unit is counted.
    repeats
        Results of units that had been counted already, and were dropped.
    resumed
        Units taken over from an earlier run that was killed.
    retries, spilled
        By how much the engine's own figures grew: see `Engine`.
    """

    parts: dict[Tally, SupportCounts]
    num_reports: int = 0
    num_bytes: int = 0
    num_units: int = 0
    resumed: int = 0
    repeats: int = 0
    retries: int = 0
    spilled: int | None = 0
    seconds: float = 0.0
    finished: set[int] = field(default_factory=set)
    collections: dict[int, SupportCounts] = field(default_factory=dict)

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
    """Count all units by an engine.

    Parameters
    ----------
    checkpoint
        What an earlier run finished, and where this one writes what it has finished.
    advance
        Called with the bytes of every unit that is done.

    Raises
    ------
    EngineError
        When a unit's counts are missing, damaged, or of another number of reports than its file states.
    """
    started, (retries, spilled) = time.perf_counter(), _figures(engine)
    by_number = {unit.number: unit for unit in units}
    assert len(by_number) == len(units)
    run = Run({tally: job.empty(tally[1]) for tally in {unit.tally: None for unit in units} or ((0, None),)})
    run.num_units = len(units)
    if checkpoint is not None and (earlier := checkpoint.read()) is not None:
        run.parts, run.finished = earlier
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
            checkpoint.write(run.parts, run.finished)
    _check_complete(run, units)
    run.collections = _collections(run.parts)
    all_retries, all_spilled = _figures(engine)
    run.retries = all_retries - retries
    run.spilled = None if all_spilled is None or spilled is None else all_spilled - spilled
    run.seconds = time.perf_counter() - started
    run.num_reports, run.num_bytes = sizes_of(units)
    return run


def _figures(engine: Engine) -> tuple[int, int | None]:
    """Return the engine's `retries` and `spilled`; one of the user's own may have neither."""
    return getattr(engine, "retries", 0), getattr(engine, "spilled", None)


def sizes_of(units: Sequence[Unit]) -> tuple[int, int]:
    """Return how many reports and bytes units are of; of units that count ranges of values, those of the first."""
    first = [unit for unit in units if unit.is_first]
    return sum(unit.num_reports for unit in first), sum(unit.num_bytes for unit in first)


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
    run.parts[unit.tally] += counts
    run.finished.add(unit.number)


def _collections(parts: Mapping[Tally, SupportCounts]) -> dict[int, SupportCounts]:
    ranges: dict[int, dict[Values | None, SupportCounts]] = {}
    for (collection, values), counts in parts.items():
        ranges.setdefault(collection, {})[values] = counts
    return {collection: put_together(of) for collection, of in sorted(ranges.items())}


def _check_complete(run: Run, units: Sequence[Unit]) -> None:
    missing = [unit for unit in units if unit.number not in run.finished]
    if missing:
        raise EngineError(
            f"{len(missing):,} of {len(units):,} units were not counted; the first is in {missing[0].shown}"
        )
