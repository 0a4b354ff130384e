"""``overstory sum``: reports in, counts per cohort and bit out."""

from __future__ import annotations

import argparse
from typing import Any

from overstory.cli.arguments import (
    add_command,
    add_output,
    add_pair,
    add_reporting,
    add_skipping,
    check_pipes,
    print_outcome,
    shown,
)
from overstory.cli.progress import reading_bar, tell_skipped
from overstory.cli.rappor.engine_runs import add_engines, add_sources, check_sources, run_engine, wants_engine
from overstory.protocol.errors import ParameterError

MORE = """\
Reads reports.csv (also gz), packed batches (.ovsb) and Parquet, recognized by their first bytes, in a stream: memory
does not grow with the files. Of a CSV it uses only the columns cohort and irr.

Parquet and packed batches of any oracle are also counted in units by several processes, by Dask or by Spark: name
files, folders, globs or addresses in an object store (s3://..., gs://...). A killed run goes on where it was.

With --pair it counts pairs of bits of two variables, from the files of Google's association tools: a header with cohort
and the two variables, or, as their simulation writes it, no header, the cohort counted from 1 and the bits reversed."""


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "sum",
        "count reports",
        more=MORE,
        example="overstory sum --params params.csv monday.csv.gz tuesday.ovsb -o counts.csv\n"
        "  overstory sum --engine dask s3://reports/metric=theme -o counts.csv",
    )
    parser.add_argument("reports", nargs="+", metavar="INPUT", help="files of reports, folders, globs or addresses")
    add_sources(parser)
    add_pair(parser)
    add_output(parser, "file for the counts: a row per cohort, its reports and then each bit's count")
    add_skipping(parser, "lines (in packed files: batches)")
    add_engines(parser)
    add_reporting(parser)


def run(args: argparse.Namespace) -> int:
    check_pipes(args, "params", "reports")
    if args.boolean and not args.pair:
        raise ParameterError("--boolean has no effect without --pair, which names the two variables")
    if args.pair:
        return _sum_pairs(args)
    check_sources(args)
    if wants_engine(args):
        return run_engine(args)
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


def _sum_pairs(args: argparse.Namespace) -> int:
    """Count pairs of bits."""
    if not args.params:
        raise ParameterError("--pair needs --params: its files have no labels")
    if args.hash_family or args.hash_key:
        raise ParameterError("--hash-family and --hash-key have no effect with --pair: its files have no labels")
    from overstory.files.csv import Skipped
    from overstory.files.rappor import pair_form, read_pairs, read_params, sum_pairs, write_pair_counts

    form = pair_form(read_params(args.params), args.pair, args.boolean)
    skipped = Skipped() if args.skip_bad else None
    with reading_bar(args, "summing", args.reports) as advance:
        batches = (batch for path in args.reports for batch in read_pairs(path, form, skipped=skipped, advance=advance))
        counts = sum_pairs(batches, form)
    write_pair_counts(args.output, counts, form)
    tell_skipped(skipped, "records")
    outcome = {
        "reports": counts.num_reports,
        "variables": list(form.names),
        "bits": list(form.widths),
        "skipped": skipped.count if skipped else 0,
        "skipped_examples": [str(error) for error in skipped.examples] if skipped else [],
        "cohorts": counts.totals.tolist(),
        "output": args.output,
    }
    pairs = f"{form.widths[0]} x {form.widths[1]} pairs of bits"
    print_outcome(args, outcome, f"{counts.num_reports:,} reports: {pairs} summed into {shown(args.output)}")
    return 0
