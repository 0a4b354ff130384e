"""``overstory discover``: find frequent values without a list, in reports of simulated devices."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.cli.analysis.discover_input import domain_of, read_column
from overstory.cli.analysis.found import FoundValues
from overstory.cli.arguments import form_of, print_answer, seekable
from overstory.cli.output import draw, progress, reading_bar
from overstory.discovery import discover, find, simulate
from overstory.files.io import writing_csv
from overstory.files.rappor import read_candidates
from overstory.protocol.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from overstory.discovery import CodedDomain


def run(args: argparse.Namespace) -> int:
    answer = _discover(args)
    if args.output:
        with writing_csv(args.output, spreadsheet=args.spreadsheet) as text:
            text.writelines(answer.csv_lines())
    if args.plot:
        draw(args.plot, [answer.found.plot()] if answer.found.num_reports else [])
    if args.output != "-":
        print_answer(args, answer.to_json(), answer.blocks())
    return 0


def _discover(args: argparse.Namespace) -> FoundValues:
    """Read the column, simulate its devices, search their answers."""
    domain, form = domain_of(args.bits, args.bytes, args.alphabet, args.model), form_of(args.csv)
    known = _known(args.known, domain) if args.known else ()
    key = args.column[:12]  # a hash key has at most 64 bytes, and every level adds to it
    plan = discover(epsilon=args.epsilon, domain=domain, known=known, step=args.step, beam=args.beam, key=key)
    with seekable(args.file) as path, reading_bar("reading the column", [path], quiet=args.quiet) as advance:
        has_elsewhere = args.alphabet is not None or args.model is not None
        values = read_column(path, args.column, domain, form, args.bytes, advance, has_elsewhere=has_elsewhere)
    with progress("devices report", 2.0, quiet=args.quiet) as bar:
        first = (lambda what, done: bar.reach(done, what)) if bar.is_shown else None
        second = (lambda what, done: bar.reach(1 + done, what)) if bar.is_shown else None
        reports = simulate(plan, values, np.random.default_rng(args.seed), progress=first)
        how = {"alpha": args.alpha, "correction": args.correction, "interval_kind": args.interval or "reports"}
        found = find(plan, reports, **how, progress=second)
        return FoundValues(plan, replace(found, adjustment=args.adjustment))


def _known(path: str, domain: CodedDomain) -> list[Any]:
    try:
        return [domain.parse(text) for text in read_candidates(path)]
    except ParameterError as error:
        raise FormatError(str(error), source=path) from error
