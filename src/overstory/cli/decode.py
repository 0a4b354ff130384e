"""``overstory decode``: counts and a candidate map in, estimates out."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from overstory.cli.arguments import (
    add_command,
    add_hashing,
    add_output,
    add_params,
    add_reporting,
    read_mechanism,
)
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.analysis.counts import SupportCounts
    from overstory.analysis.decoding import Decoded
    from overstory.files.params import RapporParameters
    from overstory.protocol.channels import BinaryChannel

MORE = """\
Writes results.csv (every candidate, most frequent first) and metrics.json into DIR, and prints what was detected.
The candidate map is taken as it is: it must be the one the devices' hash functions give."""


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "decode",
        "learn from counts how many reports hold each candidate",
        more=MORE,
        example="overstory decode --params params.csv --counts counts.csv --map map.csv -o results",
    )
    add_params(parser)
    parser.add_argument("--counts", required=True, metavar="FILE", help="counts, as `overstory sum` writes them")
    parser.add_argument("--map", required=True, metavar="FILE", help="candidate map, as `overstory map` writes it")
    parser.add_argument(
        "--method", choices=("gls", "lasso"), default="gls", help="least squares, or the RAPPOR paper's (default: gls)"
    )
    parser.add_argument(
        "--correction",
        choices=("fdr", "bonferroni"),
        default="fdr",
        help="what alpha bounds: the share of false detections, or the chance of any (default: fdr)",
    )
    parser.add_argument("--alpha", type=float, default=0.05, help="a fraction (default: 0.05)")
    parser.add_argument(
        "--complete", action="store_true", help="the candidates are all there are: they sum to all reports"
    )
    add_hashing(parser, note="; only google-rappor-python's rounding of f matters here")
    parser.add_argument("--all", action="store_true", help="print the candidates that were not detected, too")
    parser.add_argument("--plot", metavar="FILE", help="draw the estimates into a .svg or .png file")
    add_output(parser, "folder for results.csv and metrics.json", "DIR")
    add_reporting(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.plot and not args.plot.endswith((".svg", ".png")):
        raise ParameterError(f"--plot {args.plot}: end the name in .svg or .png")
    from overstory.files.counts_csv import read_counts
    from overstory.files.results import metrics, write_results

    parameters, mechanism = read_mechanism(args)
    counts = read_counts(args.counts, parameters.m, parameters.k)
    decoded = _decode(args, parameters, counts, mechanism.channel)
    about = metrics(decoded, parameters, mechanism)
    results, _ = write_results(args.output, decoded, about)
    if args.plot:
        from overstory.cli.showing import draw

        draw(decoded, args.plot)
    if args.json:
        print(json.dumps({**about, "estimates": chosen_rows(decoded, everything=args.all)}, indent=2, allow_nan=False))
    elif not args.quiet:
        from overstory.cli.showing import show

        show(chosen_rows(decoded, everything=args.all), about, str(results))
    return 0


def _decode(
    args: argparse.Namespace, parameters: RapporParameters, counts: SupportCounts, channel: BinaryChannel
) -> Decoded:
    from overstory.analysis.decoding import decode
    from overstory.cli.progress import reading_bar
    from overstory.files.map_csv import read_map

    with reading_bar(args, "reading the map", [args.map]) as advance:
        candidates = read_map(
            args.map, num_bits=parameters.k, num_hashes=parameters.h, num_cohorts=parameters.m, advance=advance
        )
    return decode(
        counts,
        candidates,
        p_star=float(channel.keep_one),
        q_star=float(channel.raise_zero),
        method=args.method,
        correction=args.correction,
        alpha=args.alpha,
        complete=args.complete,
    )


def chosen_rows(decoded: Decoded, *, everything: bool) -> list[dict[str, Any]]:
    """Return a row per detected candidate, or per candidate, most frequent first."""
    if everything:
        return decoded.rows()
    ranks = decoded.detected()[decoded.order()].nonzero()[0]
    if not ranks.size:
        return []
    return [row for row in decoded.rows(int(ranks[-1]) + 1) if row["detected"]]
