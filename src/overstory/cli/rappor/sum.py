"""``overstory sum``: reports in, counts per cohort and bit out."""

from __future__ import annotations

import argparse
from typing import Any

from overstory.cli.arguments import (
    add_command,
    add_hashing,
    add_output,
    add_params,
    add_reporting,
    add_skipping,
    check_pipes,
    print_outcome,
    shown,
)

MORE = """\
Reads reports.csv (also gz), packed batches (.ovsb) and Parquet, recognized by their first bytes, in a stream: memory
does not grow with the files. Of a CSV it uses only the columns cohort and irr."""


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "sum",
        "count reports",
        more=MORE,
        example="overstory sum --params params.csv --reports monday.csv.gz tuesday.ovsb -o counts.csv",
    )
    add_params(parser)
    parser.add_argument("--reports", required=True, nargs="+", metavar="FILE", help="files of reports")
    add_hashing(parser, otherwise="any", note="; packed and Parquet files are checked against it")
    add_output(parser, "file for the counts: a row per cohort, its reports and then each bit's count")
    add_skipping(parser, "lines (in packed files: batches)")
    add_reporting(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    check_pipes(args, "params", "reports")
    from overstory.cli.progress import reading_bar, tell_skipped
    from overstory.files.csv import Skipped
    from overstory.files.rappor import read_params, write_counts
    from overstory.files.reports import read_reports, sum_reports

    parameters = read_params(args.params)
    skipped = Skipped() if args.skip_bad else None
    with reading_bar(args, "summing", args.reports) as advance:
        batches = (
            batch
            for path in args.reports
            for batch in read_reports(
                path,
                parameters,
                hash_family=args.hash_family,
                hash_key=args.hash_key,
                skipped=skipped,
                advance=advance,
            )
        )
        counts = sum_reports(batches, parameters.m, parameters.k)
    write_counts(args.output, counts)
    tell_skipped(skipped, "records")
    outcome = {
        "reports": counts.num_reports,
        "skipped": skipped.count if skipped else 0,
        "skipped_examples": [str(error) for error in skipped.examples] if skipped else [],
        "cohorts": counts.totals.tolist(),
        "output": args.output,
    }
    print_outcome(
        args, outcome, f"{counts.num_reports:,} reports in {parameters.m} cohorts summed into {shown(args.output)}"
    )
    return 0
