"""Counting by an engine: what made the reports of files, their units, runs that go on, and what is said of them."""

from __future__ import annotations

import argparse
import os
import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from overstory.cli.arguments import print_outcome, shown
from overstory.cli.output import progress
from overstory.presentation.document import Lines
from overstory.presentation.formats import plural
from overstory.protocol.errors import FormatError, ParameterError, suggestion
from overstory.protocol.wire import parse_digits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from overstory.engines.driver import Checkpoint, Engine, Run
    from overstory.engines.places import Place
    from overstory.engines.units import Job, Unit
    from overstory.files.labels import Label
    from overstory.protocol.kinds.base import Kind
    from overstory.protocol.metrics import Metric
    from overstory.queries.sources.exported import Files


UNFINISHED: Final = ".unfinished"
"""After the name of an output: the file of what is finished, from which a run that was killed goes on."""


@dataclass(frozen=True)
class Counting:
    """What an engine is to count, and how: what the options say."""

    engine: str | None = None
    params: str | None = None
    registry: str | None = None
    metric: str | None = None
    candidates: str | None = None
    skip_bad: bool = False
    output: str | None = None
    quiet: bool = False
    makes_folders: bool = False  # whether the output is a folder, made where it is missing
    files: Mapping[str, str | None] = field(default_factory=dict)  # that are written, by their options
    inputs: tuple[str, ...] = ()

    @property
    def unfinished(self) -> str | None:
        """The file of what is finished; None where the output has no name."""
        return os.path.realpath(self.output) + UNFINISHED if self.output and self.output != "-" else None


@contextmanager
def count_units(counting: Counting, files: CountedFiles) -> Iterator[Run]:
    """Yield the counts of files; what is finished is kept until they are written."""
    with _kept_jobs(counting, files.engine, []) as count_next:
        yield count_next(files.job, files)


@contextmanager
def counting_jobs(
    counting: Counting, engine: Engine, *, is_watched: bool = True
) -> Iterator[Callable[[Job, Files], Run]]:
    """Yield what counts one job after the other; what each finished is kept until all are.

    What was not counted by this run, or twice, is printed on the error stream; before it, where the options name the
    engine, how fast it was and what was spilled.
    """
    runs: list[Run] = []
    with _kept_jobs(counting, engine, runs, is_watched=is_watched) as count_next:
        yield count_next
    if counting.quiet or not runs:
        return
    whole = _whole_of(runs)
    notes = notes_of_repeats(whole.resumed, whole.repeats, whole.num_units)
    for note in [*(run_sentences(engine.name, whole)[:1] if counting.engine else []), *notes]:
        print(f"overstory: {note}", file=sys.stderr)


@contextmanager
def _kept_jobs(
    counting: Counting, engine: Engine, runs: list[Run], *, is_watched: bool = True
) -> Iterator[Callable[[Job, Files | CountedFiles], Run]]:
    """Yield what counts a job; what is finished of the first is kept in a file, of others in files beside it."""
    from overstory.engines.driver import Checkpoint, count, fingerprint

    path = counting.unfinished
    _check_unfinished(counting, path)
    kept: list[Checkpoint] = []
    if path is not None and counting.makes_folders:
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120 - as in the rest of this file

    def count_next(job: Job, files: Files | CountedFiles) -> Run:
        checkpoint = None
        if path is not None:
            run_id = fingerprint(job, files.places, files.units)
            checkpoint = Checkpoint(f"{path}.{len(kept)}" if kept else path, run_id)
            _remove_of_others(checkpoint)
            kept.append(checkpoint)
        size, quiet = sum(unit.num_bytes for unit in files.units), counting.quiet or not is_watched
        with progress(f"counting ({engine.name})", size or None, quiet=quiet, in_bytes=True) as bar:
            run = count(engine, job, files.units, checkpoint=checkpoint, advance=bar.advance)
        if checkpoint is not None:
            checkpoint.write(run.collections, run.finished, at_once=True)
        runs.append(run)
        return run

    yield count_next
    for checkpoint in kept:
        checkpoint.remove()


def _check_unfinished(counting: Counting, path: str | None) -> None:
    """Refuse a file for what is finished that is also a result or an input: it is removed at the end."""
    if path is None:
        return
    same = re.compile(rf"{re.escape(_real(path))}(\.[0-9]+)?")
    for what, text in [*counting.files.items(), *(("the input", text) for text in counting.inputs)]:
        if text and text != "-" and same.fullmatch(_real(text)):
            raise ParameterError(f"{path} and {what} {text} are one file, which is removed at the end: name another")


def _real(path: str) -> str:
    return os.path.normcase(os.path.realpath(path))


def _whole_of(runs: list[Run]) -> Run:
    """Return what runs took together; a file that each of them read counts each time."""
    from overstory.engines.driver import Run

    names = ("num_reports", "num_bytes", "num_units", "resumed", "repeats", "seconds")
    return Run({}, **{name: sum(getattr(run, name) for run in runs) for name in names})


def _remove_of_others(checkpoint: Checkpoint) -> None:
    """Remove what another run finished; a file that no run wrote is refused."""
    if not checkpoint.belongs():
        problem = "is of a run over other files, or with other options"
        print(f"overstory: {checkpoint.path} {problem}: counting from the start", file=sys.stderr)
        checkpoint.path.unlink(missing_ok=True)


def run_sentences(engine: str, run: Run) -> list[str]:
    """Return how the counting went, in sentences: the rates first."""
    from overstory.presentation.formats import in_bytes

    spent = max(run.seconds, 1e-9)
    rates = f"{run.num_reports / spent:,.0f} reports and {in_bytes(run.num_bytes / spent)} a second"
    notes = [f"{plural(run.num_units, 'unit')} in {run.seconds:.1f} s by {engine}: {rates}"]
    return notes + notes_of_repeats(run.resumed, run.repeats)


def notes_of_repeats(resumed: int, repeated: int, units: int | None = None) -> list[str]:
    """Return what to say of units that another run counted, and of those that were counted twice."""
    of = "" if units is None else f" of {units:,}"
    notes = [f"{resumed:,}{of} units had been counted by an earlier run"] if resumed else []
    return notes + ([f"{repeated:,} units were counted again, because a worker was lost"] if repeated else [])


LARGE: Final = 1 << 27
"""Bytes of files that are counted in units also where nobody asks for it."""


def wants_engine(counting: Counting) -> bool:
    """Whether an engine counts: where it was asked for, or the inputs are more than one process should count."""
    import glob
    from pathlib import Path

    from overstory.engines.folders import is_address
    from overstory.files.labels import is_labelled

    asked = counting.engine or counting.candidates or counting.registry
    if asked or is_labelled(counting.output or "") or not counting.params:
        return True
    if any(is_address(name) or Path(name).is_dir() for name in counting.inputs):
        return True
    if any(glob.has_magic(name) and not Path(name).exists() for name in counting.inputs):
        return True
    return not counting.skip_bad and _are_large(counting.inputs)


def _are_large(names: Sequence[str]) -> bool:
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

    mechanism: Kind
    engine: Engine
    job: Job
    places: list[Place]
    units: list[Unit]


def run_engine(args: argparse.Namespace, counting: Counting) -> int:
    """Count by an engine."""
    from overstory.files.labels import LabelledCounts, is_labelled, write_labelled
    from overstory.files.rappor import write_counts

    files = find_units(counting)
    if counting.candidates and files.job.asked is None:
        raise ParameterError(
            f"--candidates has no effect: {files.mechanism.name} is counted by bit or seed; give them to "
            "`overstory decode`"
        )
    output = str(counting.output)
    with count_units(counting, files) as run:
        if is_labelled(output):
            write_labelled(output, LabelledCounts.of(files.mechanism, run.counts, files.job.asked))
        else:
            write_counts(output, run.counts)
    totals = run.counts.totals.tolist()
    outcome = {"reports": run.num_reports, "cohorts": totals, "output": output, **run_facts(files, run)}
    counted = f"{run.num_reports:,} reports of {files.mechanism.name} in {run.counts.num_cohorts:,} cohorts"
    sentences = Lines(f"{counted} summed into {shown(output)}", *run_sentences(files.engine.name, run))
    print_outcome(args, outcome, sentences)
    return 0


def find_units(counting: Counting) -> CountedFiles:
    """Return the files that are named, and the units that the engine will count."""
    from overstory.engines.places import find_copies, find_places
    from overstory.engines.units import Job, read_contents, unit_bytes, units_of

    if counting.skip_bad:
        raise ParameterError("--skip-bad is for files that one process reads: leave it out, or give --params and files")
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
    job = Job.of(mechanism, asked_values(counting, mechanism))
    units = units_of(contents, unit_bytes(contents, workers))
    return CountedFiles(mechanism, engine, job, places, units)


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
    """Return how the counting went, as JSON values."""
    return {
        "mechanism": files.mechanism.name,
        "engine": files.engine.name,
        "files": len(files.places),
        "units": run.num_units,
        "bytes": run.num_bytes,
        "seconds": run.seconds,
        "resumed_units": run.resumed,
        "repeated_units": run.repeats,
    }


def stated_mechanism(counting: Counting, digest: bytes, label: Label | None, source: str) -> Kind:
    """Return the mechanism of reports with this digest."""
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


def asked_values(counting: Counting, mechanism: Any) -> list[int] | None:
    """Return the symbols of the candidates to count; None: of all values, or none in particular."""
    encoding = getattr(mechanism, "encoding", None)
    # Counted by bit or seed: strings are looked for when the counts are decoded.
    if encoding is None or encoding.by_seed or encoding.decoded or not counting.candidates:
        return None
    from overstory.files.rappor import read_candidates

    return _symbols(counting, read_candidates(counting.candidates), mechanism.domain_size)


def named_metric(registry: str | None, metric: str | None) -> Metric | None:
    """Return the metric, where one is named."""
    if not registry or not metric:
        return None
    from overstory.protocol.metrics import load_registry

    return load_registry(registry)[metric]


def _symbols(counting: Counting, given: list[str], size: int) -> list[int]:
    """Return the symbols of candidates of a domain: the places of a metric's labels, or the numbers that they are."""
    metric = named_metric(counting.registry, counting.metric)
    labels = () if metric is None else metric.labels
    places = {label: place for place, label in enumerate(labels)} if len(labels) == size else {}
    symbols = []
    for text in given:
        number = places.get(text, size if (spelled := parse_digits(text)) is None else spelled)
        if number >= size:
            raise FormatError(f"{text[:40]!r} is no value of the domain 0 .. {size - 1}", source=counting.candidates)
        symbols.append(number)
    return symbols
