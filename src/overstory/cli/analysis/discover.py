"""``overstory discover``: find frequent values without a list, in reports of simulated devices."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from overstory.cli.analysis.discover_store import (
    add_store_options,
    is_of_a_store,
    offer_candidates,
    run_store,
    search_files,
)
from overstory.cli.arguments import (
    add_command,
    add_form,
    add_interval,
    add_option,
    add_options,
    add_reporting,
    add_spreadsheet,
    check_plot,
    check_seed,
    form_of,
    seekable,
)
from overstory.cli.progress import progress, reading_bar
from overstory.cli.rappor.sum_engine import add_engines
from overstory.protocol.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from overstory.discovery import CodedDomain, Discovered, PrefixPlan
    from overstory.presentation.document import Block

MORE = """\
Each row of the column is one person's value. A simulated device per row answers one question about its value, with the
full epsilon, and the search sees only the answers. So this is what a real collection would find. --known names expected
values: some devices are asked about those, the others about the rest.

With --store, the answers are those of real devices: of a metric whose domain is unknown strings or integers. With
--reports, they are in files, and an engine counts what each level asks; --resume keeps the finished levels."""


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "discover",
        "find frequent values without a list of candidates",
        more=MORE,
        example="overstory discover crashes.csv --column address --epsilon 4 --bits 64\n"
        "  overstory discover --store reports.db --registry metrics.toml --metric address --candidates-out found.txt",
    )
    source = "CSV (also .gz), JSON lines or Parquet; -: standard input"
    parser.add_argument("file", metavar="FILE", nargs="?", help=source)
    add_option(parser, "--column")
    add_form(parser)
    loss = "privacy loss of each device (epsilon; smaller is more private)"
    add_option(parser, "--epsilon", help=loss)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--bits", type=int, metavar="B", help="values are integers of B bits (default: 64)")
    kind.add_argument(
        "--bytes",
        type=int,
        metavar="B",
        help="values are texts of at most B bytes in UTF-8 (at most 32; with --alphabet, B characters, at most 64)",
    )
    kind.add_argument("--model", metavar="FILE", help="values are texts like the lines of FILE, a public list")
    parser.add_argument("--alphabet", metavar="CHARACTERS", help="values are texts of these characters alone")
    parser.add_argument("--order", type=int, metavar="K", help="--model looks at K characters before (default: 2)")
    parser.add_argument("--width", type=int, metavar="W", help="--model codes in W bits (default: 96)")
    parser.add_argument("--known", metavar="FILE", help="expected values, one per line")
    parser.add_argument("--step", type=int, default=14, metavar="S", help="bits that each level adds (default: 14)")
    parser.add_argument("--beam", type=int, default=192, metavar="N", help="prefixes per level (default: 192)")
    add_options(parser, "--correction", "--alpha")
    add_interval(parser, "reports")
    add_option(parser, "--seed")
    parser.add_argument("--csv", metavar="FILE", help="write every value of the last level into this file")
    add_spreadsheet(parser)
    drawn = "draw the search and the detected values, with their intervals: .svg, .pdf or .png"
    add_option(parser, "--plot", help=drawn)
    add_store_options(parser)
    add_engines(parser, with_candidates=False, unfinished=False)
    add_reporting(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    check_plot(args.plot)
    check_seed(args.seed)
    if is_of_a_store(args):
        return run_store(args)
    searched = search_files(args) if args.reports else _discover(args)
    if searched is None:
        return 0
    plan, found = searched
    if args.csv:
        from overstory.files.io import writing_csv

        with writing_csv(args.csv, spreadsheet=args.spreadsheet) as text:
            found.to_csv(text)
    if args.plot:
        _draw(found, args.plot)
    offered = offer_candidates(args.candidates_out, found) if args.candidates_out else None
    if args.json:
        print(json.dumps({**found.to_json(everything=True), "plan": _about(plan)}, indent=2, allow_nan=False))
    else:
        from overstory.presentation.render_text import print_document

        print_document([*_blocks(found, plan), *([] if offered is None else [offered])])
    return 0


def _blocks(discovered: Discovered, plan: PrefixPlan) -> Iterator[Block]:
    """Return the detected values, and what must be known to read them."""
    from overstory.discovery.result import discovery_table
    from overstory.presentation.document import Lines, Paragraph

    rows = discovered.rows()
    yield discovery_table(rows) if rows else Paragraph("nothing was detected")
    yield Lines(*sentences(discovered, plan))


def sentences(discovered: Discovered, plan: PrefixPlan) -> list[str]:
    """Return the discovery as a whole in sentences."""
    from overstory.analysis.selection import bound_text, interval_words
    from overstory.privacy.text import epsilon_text, plural

    values = f"{plural(len(discovered.found()), 'value')} detected in {plural(discovered.num_reports, 'report')}"
    questions = f"each device answered one of {plural(len(plan.groups), 'question')}, once"
    bound, threshold = bound_text(discovered.correction, discovered.alpha), discovered.threshold
    least = [] if threshold is None else [f"a value had to reach {threshold:.3%} of the reports at the last level"]
    return [
        f"{values}, out of {discovered.tried:,} that were tried ({bound})",
        f"intervals: {interval_words(discovered.interval_kind, discovered.adjustment)}",
        f"privacy: {questions}: epsilon {epsilon_text(discovered.epsilon)} in all",
        *least,
        *discovered.notes,
    ]


def _draw(found: Discovered, path: str) -> None:
    """Draw the search, and the detected values with their intervals."""
    from overstory.analysis.tables.output import plot_height
    from overstory.cli.output import picture
    from overstory.discovery.result import rows_drawn

    with picture(path, width=14, height=max(5.0, plot_height(found, rows_drawn(found)))) as figure:
        search, values = figure.subplots(1, 2)
        found.plot(search)
        found.plot_values(values)


def _discover(args: argparse.Namespace) -> tuple[PrefixPlan, Discovered]:
    """Read the column, simulate its devices, search their answers."""
    import numpy as np

    from overstory.cli.analysis.discover_input import domain_of, read_column
    from overstory.discovery import discover, find, simulate

    domain = domain_of(args)
    known = _known(args.known, domain) if args.known else ()
    key = args.column[:12]  # a hash key has at most 64 bytes, and every level adds to it
    plan = discover(epsilon=args.epsilon, domain=domain, known=known, step=args.step, beam=args.beam, key=key)
    with seekable(args.file) as path, reading_bar(args, "reading the column", [path]) as advance:
        values = read_column(path, args.column, domain, form_of(args), advance)
    with progress("devices report", 2.0, quiet=args.quiet) as bar:
        first = (lambda what, done: bar.reach(done, what)) if bar.is_shown else None
        second = (lambda what, done: bar.reach(1 + done, what)) if bar.is_shown else None
        reports = simulate(plan, values, np.random.default_rng(args.seed), progress=first)
        how = {"alpha": args.alpha, "correction": args.correction, "interval_kind": args.interval or "reports"}
        return plan, replace(find(plan, reports, **how, progress=second), adjustment=args.adjustment)


def _known(path: str, domain: CodedDomain) -> list[Any]:
    from overstory.files.candidates import read_candidates

    try:
        return [domain.parse(text) for text in read_candidates(path)]
    except ParameterError as error:
        raise FormatError(str(error), source=path) from error


def _about(plan: PrefixPlan) -> dict[str, Any]:
    return {
        **plan.domain.canonical(),
        "beam": plan.beam,
        "levels": [level.num_bits for level in plan.levels],
        "shares": [plan.share(group) for group in plan.level_groups],
        "known": len(plan.known),
    }
