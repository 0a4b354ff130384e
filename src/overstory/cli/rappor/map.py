"""``overstory map``: candidates in, the bits that each sets in each cohort out."""

from __future__ import annotations

import argparse
from typing import Any

from overstory.cli.arguments import (
    add_command,
    add_hashing,
    add_option,
    add_output,
    add_reporting,
    check_pipes,
    print_outcome,
    read_mechanism,
    shown,
)
from overstory.cli.progress import reading_bar

MORE = """\
The file has one candidate per line. A file named .csv has them as its only column, quoted where needed. Give the hash
family (and key) that the devices used."""


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "map",
        "hash candidates into a candidate map",
        more=MORE,
        example="overstory map --params params.csv --candidates candidates.txt -o map.csv",
    )
    add_option(parser, "--params", required=True)
    parser.add_argument("--candidates", required=True, metavar="FILE", help="the strings that may have been reported")
    add_hashing(parser)
    add_output(parser, "file for the map: a row per candidate, then m * h integers cohort * k + bit + 1")
    add_reporting(parser)


def run(args: argparse.Namespace) -> int:
    check_pipes(args, "params", "candidates")
    from overstory.analysis.decoding.candidates import colliding
    from overstory.files.candidates import hash_candidates, read_candidates, write_map

    parameters, mechanism = read_mechanism(args)
    with reading_bar(args, "reading candidates", [args.candidates]) as advance:
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
