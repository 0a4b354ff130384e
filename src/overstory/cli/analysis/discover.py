"""``overstory discover``: find frequent values without a list, in reports of simulated devices."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from overstory.cli.arguments import (
    ENGINE_ALONE,
    add_command,
    add_engines,
    add_form,
    add_interval,
    add_option,
    add_options,
    add_reporting,
    check_plot,
    check_seed,
    form_of,
    given,
    print_answer,
    seekable,
)
from overstory.cli.progress import progress, reading_bar
from overstory.presentation.document import Lines
from overstory.privacy.text import plural
from overstory.protocol.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from overstory.discovery import CodedDomain, Discovered, Plan
    from overstory.presentation.document import Block


MORE = """\
Each row of the column is one person's value. A simulated device per row answers one question about its value, with the
full epsilon, and the search sees only the answers. So this is what a real collection would find. --known names expected
values: some devices are asked about those, the others about the rest.

With --store, the answers are those of real devices: of a metric whose domain is unknown strings or integers. With
--reports, they are in files, and an engine counts what each level asks; --resume keeps the finished levels."""


def add_parser(commands: Any) -> None:
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
    add_option(parser, "--spreadsheet")
    add_option(parser, "--plot", help="draw the detected values with their intervals into this file, an .svg")
    add_store_options(parser)
    add_engines(parser, with_candidates=False, unfinished=False)
    add_reporting(parser)


def run(args: argparse.Namespace) -> int:
    check_plot(args.plot)
    check_seed(args.seed)
    if is_of_a_store(args):
        return run_store(args)
    searched = search_files(args) if args.reports else _discover(args)
    if searched is None:
        return 0
    plan, found = searched
    asked = f"each device answered one of {plural(len(plan.questions), 'question')}"
    sentences = found.sentences(plural(found.num_reports, "report"), "reports", asked)
    answer = {**found.to_json(everything=True), "plan": _about(plan)}
    return _show(args, found, answer, found.blocks([*sentences, *found.notes]))


def _show(args: argparse.Namespace, found: Discovered, answer: dict[str, Any], blocks: Iterable[Block]) -> int:
    """Write the files that are asked for, and print the answer."""
    if args.csv:
        from overstory.files.io import writing_csv

        with writing_csv(args.csv, spreadsheet=args.spreadsheet) as text:
            found.to_csv(text)
    if args.plot:
        from overstory.cli.output import draw

        draw(args.plot, [found.plot()] if found.num_reports else [])
    offered = offer_candidates(args.candidates_out, found) if args.candidates_out else []
    print_answer(args, answer, chain(blocks, offered))
    return 0


def _discover(args: argparse.Namespace) -> tuple[Plan, Discovered]:
    """Read the column, simulate its devices, search their answers."""
    import numpy as np

    from overstory.cli.analysis.discover_input import domain_of, read_column
    from overstory.discovery import discover, find, simulate

    domain = domain_of(args)
    known = _known(args.known, domain) if args.known else ()
    key = args.column[:12]  # a hash key has at most 64 bytes, and every level adds to it
    plan = discover(epsilon=args.epsilon, domain=domain, known=known, step=args.step, beam=args.beam, key=key)
    with seekable(args.file) as path, reading_bar(args, "reading the column", [path]) as advance:
        values = read_column(path, args, domain, form_of(args), advance)
    with progress("devices report", 2.0, quiet=args.quiet) as bar:
        first = (lambda what, done: bar.reach(done, what)) if bar.is_shown else None
        second = (lambda what, done: bar.reach(1 + done, what)) if bar.is_shown else None
        reports = simulate(plan, values, np.random.default_rng(args.seed), progress=first)
        how = {"alpha": args.alpha, "correction": args.correction, "interval_kind": args.interval or "reports"}
        return plan, replace(find(plan, reports, **how, progress=second), adjustment=args.adjustment)


def _known(path: str, domain: CodedDomain) -> list[Any]:
    from overstory.files.rappor import read_candidates

    try:
        return [domain.parse(text) for text in read_candidates(path)]
    except ParameterError as error:
        raise FormatError(str(error), source=path) from error


def _about(plan: Plan) -> dict[str, Any]:
    return {
        **plan.domain.canonical(),
        "beam": plan.beam,
        "levels": [level.num_bits for level in plan.levels],
        "shares": list(plan.shares),
        "known": len(plan.known),
    }


OF_STORES: Final = ("store", "registry", "metric")
OF_REPORTS: Final = ("reports", "registry", "metric")
OF_COLUMNS: Final = ("file", "column", "epsilon")


def add_store_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command's second form."""
    stored = parser.add_argument_group("from a store, or from files of its reports")
    store_help = "a file, or postgresql://...: search the reports that it holds; once for each shard's store"
    stored.add_argument("--store", action="append", metavar="URL", help=store_help)
    stored.add_argument(
        "--reports",
        metavar="INPUT",
        nargs="+",
        help="files of reports, folders, globs or addresses, instead of a store",
    )
    stored.add_argument("--metric", metavar="ID", help="the metric's id: its domain is unknown strings or integers")
    add_options(stored, "--registry", "--from", "--to")
    out = "add the detected values to this file of candidates, one per line; values that it has stay"
    stored.add_argument("--candidates-out", metavar="FILE", help=out)


def is_of_a_store(args: argparse.Namespace) -> bool:
    """Whether the options are of the second form; an error where they are of both, or of neither."""
    of_reports = args.reports is not None
    of_store = [
        name
        for name in (*OF_REPORTS[:1], *OF_STORES, "first", "last", "candidates_out")
        if getattr(args, name) is not None
    ]
    of_column = [name for name in OF_COLUMNS if getattr(args, name) is not None]
    if of_store and of_column:
        raise ParameterError(
            f"{_option(of_store[0])} is about stored reports, and {_option(of_column[0])} about a file: give one form"
        )
    in_store = [name for name in ("store", "first", "last") if getattr(args, name) is not None]
    if of_reports and in_store:
        raise ParameterError(f"{_option(in_store[0])} has no effect with --reports: files have no periods of a store")
    if not of_reports and (engine := given(args, ENGINE_ALONE)):
        raise ParameterError(f"{engine[0]} has no effect without --reports: an engine counts files")
    needed = OF_REPORTS if of_reports else OF_STORES if of_store else OF_COLUMNS
    missing = [name for name in needed if getattr(args, name) is None]
    if missing:
        forms = "FILE, --column and --epsilon, or --store (or --reports), --registry and --metric"
        raise ParameterError(f"{', '.join(map(_option, missing))} missing: give {forms}")
    return bool(of_store) and not of_reports


def _option(name: str) -> str:
    return "FILE" if name == "file" else {"first": "--from", "last": "--to"}.get(name, f"--{name.replace('_', '-')}")


def run_store(args: argparse.Namespace) -> int:
    from overstory.cli.analysis.decode_store import open_source, progress_shown, read_metric
    from overstory.queries.readings import EstimateOptions
    from overstory.queries.searches import read_search

    args.url = None
    metric = read_metric(args)
    if metric.reading != "search":
        raise ParameterError(
            f"{metric.id} is no metric of unknown values: overstory decode estimates its values, which are listed"
        )
    options = EstimateOptions(
        alpha=args.alpha, correction=args.correction, interval_kind=args.interval, adjustment=args.adjustment
    )
    with open_source(args, metric) as read_range, progress_shown(args, metric, options) as told:
        reading = read_search(read_range((args.first, args.last)), "total", told)
    return _show(args, reading.discovered, reading.to_json(), reading.blocks())


def search_files(args: argparse.Namespace) -> tuple[Any, Any] | None:
    """Search the answers in files by an engine; return the plan and what was found, None where nothing was to be read.

    What each level asks is counted by one pass over the files; see `overstory.engines.searches`.
    """
    from overstory.cli.rappor.engine_runs import counting_jobs, find_units, print_expected
    from overstory.discovery import find
    from overstory.engines.searches import search_answers
    from overstory.queries.sources.exported import Files

    args.params = args.hash_family = args.hash_key = args.candidates = None
    files = find_units(args, args.reports)
    search: Any = files.mechanism
    if search.reading != "search":
        raise ParameterError(f"{args.metric} is no metric of unknown values: overstory decode estimates its values")
    if args.dry_run:
        print_expected(args, files)
        return None
    read = Files(files.places, files.units)
    with (
        progress("searching", 1.0, quiet=args.quiet) as bar,
        counting_jobs(args, files.engine, is_watched=False) as count,
    ):
        found = find(
            search.plan,
            search_answers(lambda asked: count(asked, read).counts, files.job),
            alpha=args.alpha,
            correction=args.correction,
            interval_kind=args.interval or "reports",
            progress=(lambda what, done: bar.reach(done, what)) if bar.is_shown else None,
        )
    return search.plan, replace(found, adjustment=args.adjustment, epsilon=search.epsilon)


def offer_candidates(path: str, discovered: Discovered) -> list[Block]:
    """Write the candidates that a file has, and the detected values after them; return what to say of it."""
    from overstory.files.rappor import read_candidates, write_candidates
    from overstory.queries.searches import merged_candidates

    before = read_candidates(path) if Path(path).exists() and Path(path).stat().st_size else []
    after = merged_candidates(before, discovered)
    if not after:
        print(f"overstory: nothing was detected: {path} is not written", file=sys.stderr)
        return []
    write_candidates(path, after)
    more = f", {len(after) - len(before):,} of them new" if before else ""
    return [Lines(f"{plural(len(after), 'candidate')} in {path}{more}")]
