"""``overstory convert``: reports of any format in, blocks of packed reports in Parquet out."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from overstory.cli.arguments import add_command, add_output, add_reporting, add_skipping, print_outcome, shown
from overstory.cli.progress import reading_bar, tell_skipped
from overstory.cli.rappor.engine_runs import add_sources, check_sources, stated_mechanism
from overstory.protocol.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from overstory.analysis.reports import ReportBatch
    from overstory.files.csv import Skipped
    from overstory.protocol.mechanisms.base import LocalRandomizer

MORE = """\
A row of the output is a block of reports of one cohort, which `overstory sum` counts at a third of the time of a row
for each report. Its label says what mechanism made the reports, so that nothing else need be given to count them.
Reports are read in a stream; the order within a cohort stays."""


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "convert",
        "put reports into Parquet in blocks, which are counted fastest",
        more=MORE,
        example="overstory convert monday.parquet tuesday.parquet -o week.parquet\n"
        "  overstory convert --params params.csv reports.csv.gz reports.ovsb -o reports.parquet",
    )
    parser.add_argument("inputs", nargs="+", metavar="FILE", help="reports.csv (also gz), packed batches or Parquet")
    add_sources(parser)
    parser.add_argument("--period", metavar="LABEL", help="with --registry: the reports' period, for its column")
    add_output(parser, "the Parquet file")
    add_skipping(parser, "lines (in packed files: batches)")
    add_reporting(parser)


def run(args: argparse.Namespace) -> int:
    check_sources(args)
    if args.output == "-":
        raise ParameterError("-o -: Parquet cannot be written to standard output; name a file")
    if args.period and not args.registry:
        raise ParameterError("--period has no effect without --registry, whose metric says how long a period is")
    from overstory.files.blocks import write_blocks
    from overstory.files.csv import Skipped
    from overstory.files.labels import Label

    mechanism, skipped = _mechanism(args), Skipped() if args.skip_bad else None
    period = None
    if args.period:
        from overstory.protocol.metrics import load_registry

        period = load_registry(args.registry)[args.metric].period.parse_label(args.period)
    with reading_bar(args, "converting", args.inputs) as advance:
        batches = (batch for path in args.inputs for batch in _batches(args, path, mechanism, skipped, advance))
        number = write_blocks(args.output, batches, Label.of(mechanism), metric=args.metric, period=period)
    tell_skipped(skipped, "records")
    outcome = {"reports": number, "skipped": skipped.count if skipped else 0, "output": args.output}
    print_outcome(args, outcome, f"{number:,} reports of {mechanism.name} in {shown(args.output)}")
    return 0


def _mechanism(args: argparse.Namespace) -> LocalRandomizer:
    """Return the mechanism of the first file that says of which it is, or of the options."""
    from overstory.files.parquet import read_label
    from overstory.files.reports import read_packed, start_of

    for path in args.inputs:
        start = start_of(path)
        if start == "parquet":
            label = read_label(path)
            return stated_mechanism(args, label.digest, label, path)
        if start == "packed":
            return stated_mechanism(args, next(read_packed(path)).digest, None, path)
    if not args.params:
        raise ParameterError("reports.csv does not say what made its reports: give --params")
    from overstory.files.rappor import read_params

    hashing = {"hash_family": args.hash_family} if args.hash_family else {}
    return read_params(args.params).mechanism(**hashing, hash_key=args.hash_key)


def _batches(
    args: argparse.Namespace,
    path: str,
    mechanism: LocalRandomizer,
    skipped: Skipped | None,
    advance: Callable[[int], object] | None,
) -> Iterator[ReportBatch]:
    from overstory.analysis.reports import ReportBatch
    from overstory.files.parquet import read_label, read_parquet
    from overstory.files.reports import read_packed, read_reports_csv, start_of

    start = start_of(path)
    if start == "parquet":
        _check(read_label(path).digest, mechanism, path)
        yield from read_parquet(path, advance=advance)
    elif start == "packed":
        for batch in read_packed(path, skipped=skipped, advance=advance):
            _check(batch.digest, mechanism, path)
            yield ReportBatch.from_wire(batch)
    elif args.params:
        bits, cohorts = mechanism.payload_bits, mechanism.num_cohorts
        yield from read_reports_csv(path, bits, cohorts, skipped=skipped, advance=advance)
    else:
        raise FormatError("neither Parquet nor packed batches; of reports.csv, give --params", source=path)


def _check(digest: bytes, mechanism: LocalRandomizer, path: str) -> None:
    if digest != mechanism.digest:
        raise FormatError(
            f"these reports are of other parameters than those of {mechanism.name} stated or read first: convert them "
            "into a file of their own",
            source=path,
        )
