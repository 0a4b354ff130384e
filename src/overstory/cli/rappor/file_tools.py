"""The commands of RAPPOR's files: randomize values by simulated devices, hash candidates, count reports."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from itertools import islice
from typing import Any, Final, cast

from overstory.analysis.decoding.candidates import colliding
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.cli.arguments import check_pipes, print_outcome, shown
from overstory.cli.output import reading_bar, tell_skipped
from overstory.cli.rappor.engine_runs import Counting, run_engine, stated_mechanism, wants_engine
from overstory.files.csv import Skipped
from overstory.files.labels import Label
from overstory.files.parquet import read_label, write_blocks
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
    read_batches,
    read_packed,
    read_reports,
    start_of,
    sum_reports,
    write_packed,
    write_reports_csv,
)
from overstory.presentation.formats import epsilons_text
from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.kinds.base import Kind, Report
from overstory.protocol.kinds.bits import BitMechanism
from overstory.protocol.kinds.rappor import as_googles_client
from overstory.protocol.sampling import KeyedEntropy, Responder, SystemEntropy, context
from overstory.protocol.wire.upload import decode_batch, encode_reports

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

    def batches(self, holdings: Iterable[Holding]) -> Iterator[bytes]:
        """Yield packed batches; one without reports when there are none at all."""
        reports = map(self.report, holdings)
        chunk = list(islice(reports, BATCH))
        yield encode_reports(self.mechanism, chunk)
        while chunk := list(islice(reports, BATCH)):
            yield encode_reports(self.mechanism, chunk)

    def _make(self, client: str, cohort: int) -> Responder:
        """Return a device: the function from a value and its true bits to its permanent response."""
        secret = KeyedEntropy(self._master, context(client), purpose=b"client").bits(256).to_bytes(32, "little")
        reporting, permanent = self._reporting, self._reporting.rounds.permanent
        if permanent.is_identity:
            return lambda value, bits: bits  # noqa: ARG005 - no permanent noise
        about = context(METRIC, reporting.digest, cohort)
        return reporting.permanence.responder(permanent, reporting.encoding.num_bits, secret, about)


def encode(args: argparse.Namespace) -> int:
    check_pipes(args, "params", "values")
    parameters = read_params(args.params)
    mechanism = parameters.mechanism(args.hash_family)
    fleet = Fleet(mechanism, args.seed)
    with reading_bar("encoding", [args.values], quiet=args.quiet) as advance:
        _write(args.output, fleet, read_values(args.values, parameters.m, advance=advance))
    spent = privacy(mechanism)
    outcome = {"reports": fleet.sent, "output": args.output, **spent}
    print_outcome(args, outcome, f"{fleet.sent:,} reports in {shown(args.output)}; {epsilons_text(spent)}")
    return 0


def _write(path: str, fleet: Fleet, holdings: Iterator[Holding]) -> None:
    kind, encoding = kind_of(path), fleet.mechanism.encoding
    if kind == "csv":
        write_reports_csv(path, map(fleet.row, holdings), encoding.num_bits)
    elif kind == "ovsb":
        write_packed(path, fleet.batches(holdings))
    else:
        batches = (ReportBatch.from_wire(decode_batch(raw)) for raw in fleet.batches(holdings))
        write_blocks(path, batches, Label.of(fleet.mechanism))


def map_candidates(args: argparse.Namespace) -> int:
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
    print_outcome(args, outcome, line)
    return 0


def count(args: argparse.Namespace) -> int:
    check_pipes(args, "params", "reports")
    if args.output.endswith(".parquet"):
        return _write_blocks(args)
    counting = Counting(
        engine=args.engine,
        params=args.params,
        registry=args.registry,
        metric=args.metric,
        candidates=args.candidates,
        skip_bad=args.skip_bad,
        output=args.output,
        quiet=args.quiet,
        inputs=tuple(args.reports),
    )
    if wants_engine(counting):
        return run_engine(args, counting)
    parameters = read_params(args.params)
    skipped = Skipped() if args.skip_bad else None
    with reading_bar("summing", args.reports, quiet=args.quiet) as advance:
        how: dict[str, Any] = {"skipped": skipped, "advance": advance}
        batches = (batch for path in args.reports for batch in read_reports(path, parameters, **how))
        counts = sum_reports(batches, parameters.m, parameters.k)
    write_counts(args.output, counts)
    what = f"{counts.num_reports:,} reports in {parameters.m} cohorts"
    return _print_sum(args, counts, skipped, {"reports": counts.num_reports}, what)


def _print_sum(
    args: argparse.Namespace, counts: SupportCounts, skipped: Skipped | None, about: dict[str, Any], what: str
) -> int:
    tell_skipped(skipped)
    examples = [str(error) for error in skipped.examples] if skipped else []
    outcome = about | {"skipped": skipped.count if skipped else 0, "skipped_examples": examples}
    outcome |= {"cohorts": counts.totals.tolist(), "output": args.output}
    print_outcome(args, outcome, f"{what} summed into {shown(args.output)}")
    return 0


def _write_blocks(args: argparse.Namespace) -> int:
    if idle := [name for name in ("engine", "candidates") if getattr(args, name)]:
        raise ParameterError(f"--{idle[0]} has no effect with -o {args.output}: reports are written, and not counted")
    mechanism, skipped = _mechanism(args), Skipped() if args.skip_bad else None
    with reading_bar("writing blocks", args.reports, quiet=args.quiet) as advance:
        shape = (mechanism.payload_bits, mechanism.num_cohorts) if args.params else None
        batches = (
            batch
            for path in args.reports
            for batch in read_batches(path, partial(_check, mechanism, path), shape, skipped=skipped, advance=advance)
        )
        number = write_blocks(args.output, batches, Label.of(mechanism), metric=args.metric)
    tell_skipped(skipped)
    outcome = {"reports": number, "skipped": skipped.count if skipped else 0, "output": args.output}
    print_outcome(args, outcome, f"{number:,} reports of {mechanism.name} in {shown(args.output)}")
    return 0


def _mechanism(args: argparse.Namespace) -> Kind:
    """Return the mechanism of the first file that says of which it is, or of the options."""
    counting = Counting(params=args.params, registry=args.registry, metric=args.metric)
    for path in args.reports:
        start = start_of(path)
        if start == "parquet":
            label = read_label(path)
            return stated_mechanism(counting, label.digest, label, path)
        if start == "packed":
            return stated_mechanism(counting, next(read_packed(path)).digest, None, path)
    if not args.params:
        raise ParameterError("reports.csv does not say what made its reports: give --params")
    return read_params(args.params).mechanism()


def _check(mechanism: Kind, path: str, num_bits: int, num_cohorts: int, digest: bytes) -> None:  # noqa: ARG001 - the digest says it all
    if digest != mechanism.digest:
        raise FormatError(
            f"these reports are of other parameters than those of {mechanism.name} stated or read first: put "
            "them into a file of their own",
            source=path,
        )
