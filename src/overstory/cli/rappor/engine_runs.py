"""Runs of an engine: what counts one job or several, shows how far it is, and keeps what is finished."""

from __future__ import annotations

import argparse
import os
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from overstory.protocol.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from overstory.cli.rappor.sum_engine import CountedFiles
    from overstory.engines.checkpoint import Checkpoint
    from overstory.engines.driver import Engine, Run
    from overstory.engines.units import Job, Unit
    from overstory.queries.sources.exported import Files

OUTPUTS: Final = {"output": "-o", "csv": "--csv", "plot": "--plot", "candidates_out": "--candidates-out"}
"""Options that name a file to write."""
INPUTS: Final = ("inputs", "reports")


@contextmanager
def count_units(args: argparse.Namespace, files: CountedFiles, unfinished: str | None) -> Iterator[Run]:
    """Yield the counts of files; what is finished is kept until they are written.

    Parameters
    ----------
    unfinished
        Where finished units are written unless the options name another file.
    """
    from overstory.engines.checkpoint import Checkpoint, fingerprint

    check_resume(args, unfinished)
    checkpoint, path = None, args.resume or unfinished
    if path is not None:
        run_id = fingerprint(files.job, files.places, files.units)
        checkpoint = _own(Checkpoint(path, run_id), asked=args.resume is not None)
    yield _count(args, files.engine, files.job, files.units, checkpoint)
    if checkpoint is not None:
        checkpoint.remove()


@contextmanager
def counting_jobs(
    args: argparse.Namespace, engine: Engine, *, is_watched: bool = True
) -> Iterator[Callable[[Job, Files], Run]]:
    """Yield what counts one job after the other; with ``--resume``, each keeps what is finished until all are.

    The first is kept in the file that is named, the others beside it. What was not counted by this run, or twice, is
    printed on the error stream; before it, where the options name the engine, how fast it was and what was spilled.

    Parameters
    ----------
    is_watched
        Whether a bar shows how far each job is: False where one shows the whole.
    """
    from overstory.engines.checkpoint import Checkpoint, fingerprint

    check_resume(args)
    kept: list[Checkpoint] = []
    runs: list[Run] = []

    def count_next(job: Job, files: Files) -> Run:
        checkpoint = None
        if args.resume is not None:
            path = f"{args.resume}.{len(kept)}" if kept else args.resume
            checkpoint = _own(Checkpoint(path, fingerprint(job, files.places, files.units)), asked=True)
            kept.append(checkpoint)
        run = _count(args, engine, job, files.units, checkpoint, is_watched=is_watched)
        if checkpoint is not None:
            checkpoint.write(run.parts, run.finished, at_once=True)
        runs.append(run)
        return run

    yield count_next
    for checkpoint in kept:
        checkpoint.remove()
    if args.quiet or not runs:
        return
    whole = _whole_of(runs)
    notes = notes_of_repeats(whole.resumed, whole.retries + whole.repeats, whole.num_units)
    for note in [*(run_sentences(engine.name, whole)[:1] if args.engine else []), *notes]:
        print(f"overstory: {note}", file=sys.stderr)


def check_resume(args: argparse.Namespace, unfinished: str | None = None) -> None:
    """Refuse a file for what is finished that is also a result or an input: it is removed at the end.

    Raises
    ------
    ParameterError
        When it is; also when a result has the name of a later file of ``--resume``, such as FILE.1.
    """
    path = args.resume or unfinished
    if path is None:
        return
    of_resume = re.compile(rf"{re.escape(_real(path))}(\.[0-9]+)?")
    named = [(option, getattr(args, name, None)) for name, option in OUTPUTS.items()]
    named += [("the input", text) for name in INPUTS for text in getattr(args, name, None) or ()]
    for what, text in named:
        if text and text != "-" and of_resume.fullmatch(_real(text)):
            option = f"--resume {path}" if args.resume else path
            raise ParameterError(f"{option} and {what} {text} are one file, which is removed at the end: name another")


def _real(path: str) -> str:
    return os.path.normcase(os.path.realpath(path))


def _whole_of(runs: list[Run]) -> Run:
    """Return what runs took together; a file that each of them read counts each time."""
    from overstory.engines.driver import Run

    names = ("num_reports", "num_bytes", "num_units", "resumed", "repeats", "retries", "seconds")
    sums = {name: sum(getattr(run, name) for run in runs) for name in names}
    spills = [run.spilled for run in runs]
    return Run({}, **sums, spilled=None if None in spills else sum(size or 0 for size in spills))


def _own(checkpoint: Checkpoint, *, asked: bool) -> Checkpoint:
    """Return the checkpoint if it is sound and of this run; another is refused, or removed where nobody named it."""
    try:
        if checkpoint.belongs():
            checkpoint.read()
            return checkpoint
        problem = "is of a run over other files, or with other options"
    except FormatError:
        if asked:
            raise
        problem = "is damaged"
    if asked:
        raise ParameterError(
            f"--resume {checkpoint.path}: this is of a run over other files or parameters, or of one that differs in "
            "--verify, or the files were changed since; remove it, or name another"
        )
    print(f"overstory: {checkpoint.path} {problem}: counting from the start", file=sys.stderr)
    checkpoint.path.unlink(missing_ok=True)
    return checkpoint


def _count(
    args: argparse.Namespace,
    engine: Engine,
    job: Job,
    units: list[Unit],
    checkpoint: Checkpoint | None,
    *,
    is_watched: bool = True,
) -> Run:
    from overstory.cli.progress import progress
    from overstory.engines.driver import count

    size = sum(unit.num_bytes for unit in units)
    quiet = args.quiet or not is_watched
    with progress(f"counting ({engine.name})", size or None, quiet=quiet, in_bytes=True) as bar:
        return count(engine, job, units, checkpoint=checkpoint, advance=bar.advance)


def run_sentences(engine: str, run: Run) -> list[str]:
    """Return how the counting went, in sentences: the rates first."""
    from overstory.presentation.formats import in_bytes
    from overstory.privacy.text import plural

    spent = max(run.seconds, 1e-9)
    rates = f"{run.num_reports / spent:,.0f} reports and {in_bytes(run.num_bytes / spent)} a second"
    spilled = "spills not known" if run.spilled is None else f"{in_bytes(run.spilled)} spilled to disk"
    notes = [f"{plural(run.num_units, 'unit')} in {run.seconds:.1f} s by {engine}: {rates}; {spilled}"]
    return notes + notes_of_repeats(run.resumed, run.retries + run.repeats)


def notes_of_repeats(resumed: int, repeated: int, units: int | None = None) -> list[str]:
    """Return what to say of units that another run counted, and of those that were counted twice."""
    of = "" if units is None else f" of {units:,}"
    notes = [f"{resumed:,}{of} units had been counted by an earlier run"] if resumed else []
    return notes + ([f"{repeated:,} units were counted again, because a worker was lost"] if repeated else [])
