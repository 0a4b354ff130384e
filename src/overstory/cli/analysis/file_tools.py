"""The commands of RAPPOR's files: randomize values, hash candidates, count reports, also by an engine."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from overstory.analysis.decoding.candidates import colliding
from overstory.analysis.reports import ReportBatch
from overstory.cli.command import Outcome, check_pipes, count_units, reading_bar, shown
from overstory.files.io import is_parquet
from overstory.files.labels import Label
from overstory.files.parquet import write_blocks
from overstory.files.rappor import (
    Holding,
    hash_candidates,
    privacy,
    read_candidates,
    read_params,
    read_values,
    write_counts,
    write_map,
)
from overstory.files.reports import (
    ReportRow,
    kind_of,
    labelled_mechanism,
    read_reports,
    sum_reports,
    write_reports_csv,
)
from overstory.presentation.document import Lines
from overstory.presentation.formats import epsilons_text
from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.kinds.base import Kind, Report
from overstory.protocol.kinds.bits import BitMechanism, as_googles_client
from overstory.protocol.sampling import KeyedEntropy, Responder, SystemEntropy, context
from overstory.protocol.wire.upload import decode_batch, encode_reports

if TYPE_CHECKING:
    from overstory.engines.units import Contents

BATCH: Final = 1 << 16
METRIC: Final = "encode"
ENCODINGS: Final = 1 << 14  # how many true encodings stay in memory; clients that hold one value in one cohort share it


class Fleet:
    """Devices that are made when their client is first met, and made again, the same, when they were forgotten."""

    def __init__(self, mechanism: BitMechanism, seed: str | None = None, *, most: int = 1 << 14) -> None:
        self.mechanism, self.sent = mechanism, 0
        self._reporting = cast("BitMechanism", as_googles_client(mechanism))
        self._encode = lru_cache(maxsize=ENCODINGS)(mechanism.encode)
        self._devices = lru_cache(maxsize=most)(self._make)
        seeded = None if seed is None else KeyedEntropy(b"overstory encode", seed.encode(), purpose=b"seed")
        self._master = os.urandom(32) if seeded is None else seeded.bits(256).to_bytes(32, "little")
        self._random_bits = (SystemEntropy() if seeded is None else seeded).bits

    def row(self, holding: Holding) -> ReportRow:
        """Return a report with all that its device knows of it."""
        client, cohort, value = holding
        bloom = self._encode(value, cohort)
        permanent = self._devices(client, cohort)(value.encode("utf-8", "surrogatepass"), bloom)
        self.sent += 1
        return ReportRow(client, cohort, bloom, permanent, self.mechanism.instantaneous(permanent, self._random_bits))

    def report(self, holding: Holding) -> Report:
        return Report(holding.cohort, self.row(holding).irr)

    def batches(self, holdings: Iterable[Holding]) -> Iterator[ReportBatch]:
        """Yield the reports in batches; one without reports when there are none at all."""
        reports = map(self.report, holdings)
        chunk = list(islice(reports, BATCH))
        yield ReportBatch.from_wire(decode_batch(encode_reports(self.mechanism, chunk)))
        while chunk := list(islice(reports, BATCH)):
            yield ReportBatch.from_wire(decode_batch(encode_reports(self.mechanism, chunk)))

    def _make(self, client: str, cohort: int) -> Responder:
        """Return a device: the function from a value and its true bits to its permanent response."""
        secret = KeyedEntropy(self._master, context(client), purpose=b"client").bits(256).to_bytes(32, "little")
        reporting, permanent = self._reporting, self._reporting.rounds.permanent
        if permanent.is_identity:
            return lambda value, bits: bits  # noqa: ARG005 - no permanent noise
        about = context(METRIC, reporting.digest, cohort)
        return reporting.permanence.responder(permanent, reporting.encoding.num_bits, secret, about)


def encode(args: argparse.Namespace) -> Outcome:
    check_pipes(args, "params", "values")
    parameters = read_params(args.params)
    mechanism = parameters.mechanism(args.hash_family)
    fleet = Fleet(mechanism, args.seed)
    with reading_bar("encoding", [args.values], quiet=args.quiet) as advance:
        _write(args.output, fleet, read_values(args.values, parameters.m, advance=advance))
    spent = privacy(mechanism)
    outcome = {"reports": fleet.sent, "output": args.output, **spent}
    return Outcome(outcome, f"{fleet.sent:,} reports in {shown(args.output)}; {epsilons_text(spent)}")


def _write(path: str, fleet: Fleet, holdings: Iterator[Holding]) -> None:
    if kind_of(path) == "csv":
        write_reports_csv(path, map(fleet.row, holdings), fleet.mechanism.encoding.num_bits)
    else:
        write_blocks(path, fleet.batches(holdings), Label.of(fleet.mechanism))


def map_candidates(args: argparse.Namespace) -> Outcome:
    check_pipes(args, "params", "candidates")
    parameters = read_params(args.params)
    mechanism = parameters.mechanism(args.hash_family)
    with reading_bar("reading candidates", [args.candidates], quiet=args.quiet) as advance:
        candidates = read_candidates(args.candidates, advance)
    candidate_map = hash_candidates(candidates, mechanism.encoding)
    write_map(args.output, candidate_map)
    groups = [[candidates[i] for i in group] for group in colliding(candidate_map)]
    outcome = {"candidates": len(candidates), "colliding_candidates": groups, "output": args.output}
    line = f"{len(candidates):,} candidates in {parameters.m} cohorts mapped into {shown(args.output)}"
    if groups:
        line += f"; {len(groups)} groups set the same bits in every cohort: only their sums can be estimated"
    return Outcome(outcome, line)


def count(args: argparse.Namespace) -> Outcome:
    check_pipes(args, "params", "reports")
    if args.output.endswith(".parquet"):
        raise ParameterError(f"-o {args.output}: counts are CSV: give another name")
    if _wants_engine(args):
        return _sum_by_engine(args)
    parameters = read_params(args.params)
    with reading_bar("summing", args.reports, quiet=args.quiet) as advance:
        batches = (batch for path in args.reports for batch in read_reports(path, parameters, advance=advance))
        counts = sum_reports(batches, parameters.m, parameters.k)
    write_counts(args.output, counts)
    what = f"{counts.num_reports:,} reports in {parameters.m} cohorts"
    outcome = {"reports": counts.num_reports, "cohorts": counts.totals.tolist(), "output": args.output}
    return Outcome(outcome, f"{what} summed into {shown(args.output)}")


LARGE: Final = 1 << 27  # bytes of files that are counted in units also where nobody asks for it


def _wants_engine(args: argparse.Namespace) -> bool:
    """Whether an engine counts: where it was asked for, or the inputs are more than one process should count."""
    import glob

    from overstory.engines.folders import is_address

    if args.engine or args.registry or not args.params:
        return True
    if any(is_address(name) or Path(name).is_dir() for name in args.reports):
        return True
    if any(glob.has_magic(name) and not Path(name).exists() for name in args.reports):
        return True
    if not all(Path(name).is_file() for name in args.reports):
        return False
    is_large = sum(Path(name).stat().st_size for name in args.reports) > LARGE
    return is_large and all(map(is_parquet, args.reports))


def _sum_by_engine(args: argparse.Namespace) -> Outcome:
    from overstory.engines.clusters import engine_of
    from overstory.engines.places import find_copies, find_places
    from overstory.engines.units import Job, read_contents, unit_bytes, units_of

    if "-" in args.reports:
        raise ParameterError("an engine cannot read standard input (-): a unit starts in the middle of a file")
    engine = engine_of(args.engine)
    places = find_places(args.reports)
    contents = read_contents(places)
    for first, copy in find_copies(places):
        print(f"overstory: warning: {copy.shown} is a copy of {first.shown} and counts again", file=sys.stderr)
    mechanism = _stated_mechanism(args, contents[0])  # all files have one digest
    units = units_of(contents, unit_bytes(contents, getattr(engine, "workers", None) or 8))
    run = count_units(engine, Job.of(mechanism), units, quiet=args.quiet)
    write_counts(args.output, run.counts)
    outcome = {
        "reports": run.num_reports,
        "cohorts": run.counts.totals.tolist(),
        "output": args.output,
        "mechanism": mechanism.name,
        "engine": engine.name,
        "files": len(places),
        "units": run.num_units,
        "bytes": run.num_bytes,
        "seconds": run.seconds,
        "repeated_units": run.repeats,
    }
    counted = f"{run.num_reports:,} reports of {mechanism.name} in {run.counts.num_cohorts:,} cohorts"
    return Outcome(outcome, Lines(f"{counted} summed into {shown(args.output)}", *run.sentences(engine.name)))


def _stated_mechanism(args: argparse.Namespace, file: Contents) -> Kind:
    """Return what made the reports of a file, by the options or by its label."""
    source, digest = file.place.shown, file.label.digest
    if args.params:
        return labelled_mechanism(file.label, read_params(args.params), source)
    if args.registry:
        from overstory.protocol.metrics import load_registry

        mechanism: Kind = load_registry(args.registry)[args.metric].mechanism
        if mechanism.digest != digest:
            raise FormatError(f"these reports were not made with the parameters of {args.metric}", source=source)
        return mechanism
    return file.label.mechanism(source)
