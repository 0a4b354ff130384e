"""Counting by an engine: what made the reports of files, their units, and what is said of the run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from overstory.cli.arguments import print_outcome, shown
from overstory.cli.output import progress
from overstory.presentation.document import Lines
from overstory.presentation.formats import in_bytes, plural
from overstory.protocol.errors import FormatError, ParameterError, suggestion
from overstory.protocol.wire import parse_digits

if TYPE_CHECKING:
    from overstory.engines.driver import Engine, Run
    from overstory.engines.places import Place
    from overstory.engines.units import Job, Unit
    from overstory.files.labels import Label
    from overstory.protocol.kinds.base import Kind


@dataclass(frozen=True)
class Counting:
    """What an engine is to count, and how: what the options say."""

    engine: str | None = None
    params: str | None = None
    registry: str | None = None
    metric: str | None = None
    output: str | None = None
    quiet: bool = False
    inputs: tuple[str, ...] = ()


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


LARGE: Final = 1 << 27  # bytes of files that are counted in units also where nobody asks for it


def wants_engine(counting: Counting) -> bool:
    """Whether an engine counts: where it was asked for, or the inputs are more than one process should count."""
    import glob

    from overstory.engines.folders import is_address

    if counting.engine or counting.registry or not counting.params:
        return True
    if any(is_address(name) or Path(name).is_dir() for name in counting.inputs):
        return True
    if any(glob.has_magic(name) and not Path(name).exists() for name in counting.inputs):
        return True
    return _are_large(counting.inputs)


def _are_large(names: Sequence[str]) -> bool:
    from overstory.files.reports import PARQUET_MAGIC
    from overstory.protocol.wire.upload import MAGIC

    if not all(Path(name).is_file() for name in names) or sum(Path(name).stat().st_size for name in names) <= LARGE:
        return False
    starts = []
    for name in names:
        with Path(name).open("rb") as file:
            starts.append(file.read(4))
    return all(start in (PARQUET_MAGIC, MAGIC) for start in starts)


@dataclass(frozen=True)
class CountedFiles:
    """Files of reports: what made them, where they lie, and the units that an engine counts."""

    mechanism: Kind
    engine: Engine
    job: Job
    places: list[Place]
    units: list[Unit]


def run_engine(args: argparse.Namespace, counting: Counting) -> int:
    from overstory.files.rappor import write_counts

    files = find_units(counting)
    output = str(counting.output)
    run = count_units(files.engine, files.job, files.units, quiet=counting.quiet)
    write_counts(output, run.counts)
    totals = run.counts.totals.tolist()
    outcome = {"reports": run.num_reports, "cohorts": totals, "output": output, **run_facts(files, run)}
    counted = f"{run.num_reports:,} reports of {files.mechanism.name} in {run.counts.num_cohorts:,} cohorts"
    sentences = Lines(f"{counted} summed into {shown(output)}", *run_sentences(files.engine.name, run))
    print_outcome(args, outcome, sentences)
    return 0


def find_units(counting: Counting) -> CountedFiles:
    from overstory.engines.places import find_copies, find_places
    from overstory.engines.units import Job, read_contents, unit_bytes, units_of

    if "-" in counting.inputs:
        raise ParameterError("an engine cannot read standard input (-): a unit starts in the middle of a file")
    engine = engine_of(counting.engine)
    workers = getattr(engine, "workers", None) or 8
    places = find_places(list(counting.inputs))
    contents = read_contents(places)
    for first, copy in find_copies(places):
        print(f"overstory: warning: {copy.shown} is a copy of {first.shown} and counts again", file=sys.stderr)
    # All files have one digest; the label may be of any of them.
    labelled = next((file for file in contents if file.label is not None), contents[0])
    mechanism = stated_mechanism(counting, labelled.digest, labelled.label, labelled.place.shown)
    units = units_of(contents, unit_bytes(contents, workers))
    return CountedFiles(mechanism, engine, Job.of(mechanism), places, units)


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


def run_facts(files: CountedFiles, run: Run) -> dict[str, Any]:
    return {
        "mechanism": files.mechanism.name,
        "engine": files.engine.name,
        "files": len(files.places),
        "units": run.num_units,
        "bytes": run.num_bytes,
        "seconds": run.seconds,
        "repeated_units": run.repeats,
    }


def stated_mechanism(counting: Counting, digest: bytes, label: Label | None, source: str) -> Kind:
    if counting.params:
        return _of_params(counting.params, digest, source)
    if counting.registry and counting.metric:
        from overstory.protocol.metrics import load_registry

        mechanism: Kind = load_registry(counting.registry)[counting.metric].mechanism
        if mechanism.digest != digest:
            raise FormatError(f"these reports were not made with the parameters of {counting.metric}", source=source)
        return mechanism
    if label is None:
        problem = "packed batches say which parameters they are of by a digest alone: give --params, or --registry"
        raise FormatError(f"{problem} and --metric", source=source)
    return label.mechanism(source)


def _of_params(params: str, digest: bytes, source: str) -> Kind:
    from overstory.files.rappor import read_params
    from overstory.files.reports import LabelCheck

    parameters = read_params(params)
    check = LabelCheck(source, parameters)
    check.check(parameters.k, parameters.m, digest)
    return check.mechanisms[digest]
