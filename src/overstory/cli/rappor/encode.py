"""``overstory encode``: true values in, reports out, as a fleet of simulated devices would send them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from overstory.cli.arguments import (
    add_command,
    add_hashing,
    add_option,
    add_output,
    add_reporting,
    add_skipping,
    check_pipes,
    print_outcome,
    read_mechanism,
    shown,
)
from overstory.cli.progress import reading_bar, tell_skipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overstory.cli.rappor.devices import Fleet
    from overstory.files.rappor import Holding

MORE = """\
Every client is a device with its own secret, drawn from the operating system for this run: a client that has a value
twice has one permanent response to it. The output's name decides its format: .csv, .csv.gz, .ovsb (packed batches, also
.ovsb.gz) or .parquet. Only the CSV has the columns bloom and prr, which never leave a real device: use them to test
clients against each other."""


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "encode",
        "randomize a file of true values into reports",
        more=MORE,
        example="overstory encode --params params.csv --values values.csv -o reports.csv",
    )
    add_option(parser, "--params", required=True)
    parser.add_argument("--values", required=True, metavar="FILE", help="true values: header client,cohort,value")
    add_hashing(parser)
    parser.add_argument(
        "--seed",
        metavar="N",
        help="the same seed gives the same output. For experiments; a seed protects nobody",
    )
    add_output(parser, "file for the reports")
    add_skipping(parser, "lines")
    add_reporting(parser)


def run(args: argparse.Namespace) -> int:
    check_pipes(args, "params", "values")
    from overstory.cli.rappor.devices import Fleet
    from overstory.files.csv import Skipped
    from overstory.files.rappor import epsilon_text, privacy, read_values

    parameters, mechanism = read_mechanism(args)
    fleet = Fleet(mechanism, args.seed)
    skipped = Skipped() if args.skip_bad else None
    with reading_bar(args, "encoding", [args.values]) as advance:
        holdings = read_values(args.values, parameters.m, skipped=skipped, advance=advance)
        _write(args.output, fleet, holdings)
    tell_skipped(skipped, "lines")
    spent = privacy(mechanism)
    outcome = {"reports": fleet.sent, "skipped": skipped.count if skipped else 0, "output": args.output, **spent}
    one, ever = epsilon_text(spent["epsilon_report"]), epsilon_text(spent["epsilon_permanent"])
    cost = f"epsilon {one} for one report, {ever} for all reports of one value"
    print_outcome(args, outcome, f"{fleet.sent:,} reports in {shown(args.output)}; {cost}")
    return 0


def _write(path: str, fleet: Fleet, holdings: Iterator[Holding]) -> None:
    from overstory.files.reports import kind_of

    kind, encoding = kind_of(path), fleet.mechanism.encoding
    if kind == "csv":
        from overstory.files.reports import write_reports_csv

        write_reports_csv(path, map(fleet.row, holdings), encoding.num_bits)
    elif kind == "ovsb":
        from overstory.files.reports import write_packed

        write_packed(path, fleet.batches(holdings))
    else:
        from overstory.analysis.reports import ReportBatch
        from overstory.files.labels import Label
        from overstory.files.parquet import write_parquet
        from overstory.protocol.wire.upload import decode_batch

        batches = (ReportBatch.from_wire(decode_batch(raw)) for raw in fleet.batches(holdings))
        write_parquet(path, batches, Label.of(fleet.mechanism))
