"""Counting by an engine: which one, its progress, and what is said of the run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from overstory.cli.output import progress
from overstory.presentation.formats import in_bytes, plural
from overstory.protocol.errors import ParameterError, suggestion
from overstory.protocol.wire import parse_digits

if TYPE_CHECKING:
    from overstory.engines.driver import Engine, Run
    from overstory.engines.units import Job, Unit


def count_units(engine: Engine, job: Job, units: Sequence[Unit], *, quiet: bool) -> Run:
    """Return what the engine counts, and show how much of it is done."""
    from overstory.engines.driver import count

    size = sum(unit.num_bytes for unit in units)
    with progress(f"counting ({engine.name})", size or None, quiet=quiet, in_bytes=True) as bar:
        return count(engine, job, units, advance=bar.advance)


@contextmanager
def counting_jobs(asked: str | None, engine: Engine, *, quiet: bool) -> Iterator[Callable[[Job, Sequence[Unit]], Run]]:
    """Yield what counts one job after the other; at the end the error stream has how that went."""
    from overstory.engines.driver import Run

    runs: list[Run] = []

    def count_next(job: Job, units: Sequence[Unit]) -> Run:
        runs.append(count_units(engine, job, units, quiet=quiet))
        return runs[-1]

    yield count_next
    if quiet or not runs:
        return
    names = ("num_reports", "num_bytes", "num_units", "repeats", "seconds")
    whole = Run({}, **{name: sum(getattr(run, name) for run in runs) for name in names})
    for note in run_sentences(engine.name, whole)[0 if asked else 1 :]:
        print(f"overstory: {note}", file=sys.stderr)


def run_sentences(engine: str, run: Run) -> list[str]:
    spent = max(run.seconds, 1e-9)
    rates = f"{run.num_reports / spent:,.0f} reports and {in_bytes(run.num_bytes / spent)} a second"
    notes = [f"{plural(run.num_units, 'unit')} in {run.seconds:.1f} s by {engine}: {rates}"]
    return notes + ([f"{run.repeats:,} units were counted again, because a worker was lost"] if run.repeats else [])


ENGINES: Final = ("local", "dask", "spark")


def engine_of(text: str | None) -> Engine:
    """Return the engine of that name, which an address or a number of processes or threads may follow."""
    name, _, where = (text or "local").partition(":")
    if name not in ENGINES:
        raise ParameterError(f"--engine {text}: choose one of {', '.join(ENGINES)}{suggestion(name, ENGINES)}")
    workers = parse_digits(where)
    if workers == 0 or (where and workers is None and name == "local"):
        raise ParameterError(f"--engine {text}: give a whole number, 1 or more, after {name}:")
    place = where if where and workers is None else None
    if name == "dask":
        from overstory.engines.dask_cluster import DaskEngine

        return DaskEngine(place, workers)
    if name == "spark":
        from overstory.engines.spark_session import SparkEngine

        return SparkEngine(master=place, workers=workers)
    from overstory.engines.driver import LocalEngine

    return LocalEngine(workers)
