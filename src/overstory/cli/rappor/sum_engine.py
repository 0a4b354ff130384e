"""``overstory sum`` by an engine: folders, globs and object stores, several processes or a cluster."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from overstory.cli.arguments import print_outcome, shown
from overstory.presentation.document import Lines
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.engines.driver import Engine, Run
    from overstory.engines.places import Place
    from overstory.engines.units import Contents, Job, Unit
    from overstory.protocol.mechanisms.base import LocalRandomizer

ENGINES: Final = ("local", "dask", "spark")
ALONE: Final = ("engine", "workers", "scheduler", "master", "dry_run", "verify", "resume", "candidates", "registry")
"""Options that only an engine takes: any of them asks for one."""
UNFINISHED: Final = ".unfinished"
LONG: Final = 1 << 16
"""Values of a list that workers of a cluster read themselves: it does not travel with every unit."""
LARGE: Final = 1 << 27
"""Bytes of files that are counted in units also where nobody asks for it."""


def add_engines(parser: argparse.ArgumentParser, *, with_candidates: bool = True, unfinished: bool = True) -> None:
    """Add the options; a command may have ``--candidates`` already, or resume only where a file is named."""
    group = parser.add_argument_group("of Parquet and packed batches, by an engine")
    group.add_argument("--engine", choices=ENGINES, help="what counts: processes here, Dask or Spark (default: local)")
    group.add_argument("--workers", type=int, metavar="N", help="processes (default: one for each core)")
    group.add_argument("--scheduler", metavar="ADDRESS", help="of a running Dask scheduler, such as tcp://host:8786")
    group.add_argument("--master", metavar="URL", help="of Spark, such as spark://host:7077 (default: this machine)")
    if with_candidates:
        group.add_argument(
            "--candidates", metavar="FILE", help="values to count, one per line; needed where an oracle has no domain"
        )
    group.add_argument("--verify", action="store_true", help="compare the files' checksums, which takes longer")
    group.add_argument(
        "--resume",
        metavar="FILE",
        help="where finished units are written; a run that was killed goes on from there "
        f"(default: {f'the name of the output and {UNFINISHED}' if unfinished else 'nowhere'})",
    )
    group.add_argument("--dry-run", action="store_true", help="print what would be read and how long it may take")


def wants_engine(args: argparse.Namespace) -> bool:
    """Whether an engine counts: where it was asked for, or the inputs are more than one process should count."""
    from pathlib import Path

    from overstory.engines.folders import is_address
    from overstory.files.counts import is_labelled

    if is_labelled(args.output) or any(getattr(args, name) for name in ALONE) or not args.params:
        return True
    if any(is_address(name) or Path(name).is_dir() or _is_glob(name) for name in args.reports):
        return True
    return not args.skip_bad and _are_large(args.reports)


def _is_glob(name: str) -> bool:
    import glob
    from pathlib import Path

    return glob.has_magic(name) and not Path(name).exists()


def _are_large(names: list[str]) -> bool:
    from pathlib import Path

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

    mechanism: LocalRandomizer
    engine: Engine
    job: Job
    places: list[Place]
    units: list[Unit]


def run_engine(args: argparse.Namespace) -> int:
    """Count by an engine."""
    from overstory.cli.rappor.engine_runs import count_units
    from overstory.files.counts import LabelledCounts, is_labelled, write_labelled
    from overstory.files.rappor import write_counts

    files = find_units(args, args.reports)
    if args.candidates and files.job.values() is None:
        raise ParameterError(
            f"--candidates has no effect: {files.mechanism.name} is counted by bit or seed; give them to "
            "`overstory decode`"
        )
    if args.dry_run:
        return print_expected(args, files)
    unfinished = None if args.output == "-" else args.output + UNFINISHED
    with count_units(args, files, unfinished) as run:
        if is_labelled(args.output):
            write_labelled(args.output, LabelledCounts.of(files.mechanism, run.counts, files.job.values()))
        else:
            write_counts(args.output, run.counts)
    _print_run(args, files, run)
    return 0


def find_units(args: argparse.Namespace, names: list[str]) -> CountedFiles:
    """Return the files that are named, and the units that the engine of the options will count."""
    from overstory.cli.rappor.sources import asked_values
    from overstory.engines.division import divide_values
    from overstory.engines.places import find_places
    from overstory.engines.units import Job, Listed, read_contents, unit_bytes, units_of

    check_engine(args, names)
    engine = engine_of(args)
    workers = getattr(engine, "workers", None) or 8
    places = find_places(names)
    contents = read_contents(places)
    mechanism = _mechanism(args, contents)
    asked = asked_values(args, mechanism)
    is_long = asked is not None and len(asked) > LONG and args.candidates and not args.registry
    if asked is not None and is_long and engine.name != "local":
        job = Job.of(mechanism, verify=args.verify, listed=Listed.of(args.candidates, asked))
    else:
        job = Job.of(mechanism, asked, verify=args.verify)
    units = divide_values(job, units_of(contents, unit_bytes(contents, workers)), workers)
    return CountedFiles(mechanism, engine, job, places, units)


def check_engine(args: argparse.Namespace, names: list[str]) -> None:
    """Refuse options that do not fit the engine, and names that it cannot read."""
    engine = args.engine or "local"
    for name, needed in (("scheduler", "dask"), ("master", "spark")):
        if getattr(args, name) and engine != needed:
            raise ParameterError(f"--{name} has no effect without --engine {needed}")
    if args.workers is not None and args.workers < 1:
        raise ParameterError(f"--workers {args.workers}: give a whole number, 1 or more")
    if args.scheduler and args.workers:
        raise ParameterError("--workers has no effect with --scheduler, which has workers of its own")
    if getattr(args, "skip_bad", False):
        raise ParameterError("--skip-bad is for files that one process reads: leave it out, or give --params and files")
    if "-" in names:
        raise ParameterError("an engine cannot read standard input (-): a unit starts in the middle of a file")


def engine_of(args: argparse.Namespace) -> Engine:
    """Return the engine that the options name."""
    if args.engine == "dask":
        from overstory.engines.dask_cluster import DaskEngine

        return DaskEngine(args.scheduler, args.workers)
    if args.engine == "spark":
        from overstory.engines.spark_session import SparkEngine

        return SparkEngine(master=args.master, workers=args.workers)
    from overstory.engines.local import LocalEngine

    return LocalEngine(args.workers)


def _mechanism(args: argparse.Namespace, contents: list[Contents]) -> LocalRandomizer:
    """Return the mechanism of all files, which have one digest; the label may be of any of them."""
    from overstory.cli.rappor.sources import stated_mechanism

    labelled = next((file for file in contents if file.label is not None), contents[0])
    return stated_mechanism(args, labelled.digest, labelled.label, labelled.place.shown)


def print_expected(args: argparse.Namespace, files: CountedFiles) -> int:
    """Print what would be read, and how long it may take."""
    from overstory.engines.driver import STARTS, core_seconds, sizes_of
    from overstory.presentation.formats import in_bytes
    from overstory.privacy.text import plural

    engine, units = files.engine.name, files.units
    seconds = core_seconds(engine, files.job, units)
    reports, size = sizes_of(units)
    outcome = {
        "engine": engine,
        "files": len(files.places),
        "units": len(units),
        "reports": reports,
        "bytes": size,
        "core_seconds": seconds,
        "start_seconds": STARTS[engine],
    }
    print_outcome(
        args,
        outcome,
        Lines(
            f"{reports:,} reports of {files.mechanism.name} in {plural(len(files.places), 'file')}, {in_bytes(size)}: "
            f"{plural(len(units), 'unit')}",
            f"about {seconds:.2g} core-seconds by {engine}, and {STARTS[engine]:g} s to start; nothing was counted",
        ),
    )
    return 0


def run_facts(files: CountedFiles, run: Run) -> dict[str, Any]:
    """Return how the counting went, as JSON values."""
    return {
        "mechanism": files.mechanism.name,
        "engine": files.engine.name,
        "files": len(files.places),
        "units": run.num_units,
        "bytes": run.num_bytes,
        "seconds": run.seconds,
        "resumed_units": run.resumed,
        "repeated_units": run.retries + run.repeats,
        "spilled_bytes": run.spilled,
    }


def _print_run(args: argparse.Namespace, files: CountedFiles, run: Run) -> None:
    from overstory.cli.rappor.engine_runs import run_sentences

    totals = run.counts.totals.tolist()
    outcome = {"reports": run.num_reports, "cohorts": totals, "output": args.output, **run_facts(files, run)}
    counted = f"{run.num_reports:,} reports of {files.mechanism.name} in {run.counts.num_cohorts:,} cohorts"
    print_outcome(
        args, outcome, Lines(f"{counted} summed into {shown(args.output)}", *run_sentences(files.engine.name, run))
    )
