"""``overstory discover``: find frequent values without a list, in reports of simulated devices."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from overstory.cli.arguments import ENGINE_ALONE, check_plot, check_seed, form_of, given, print_answer, seekable
from overstory.cli.progress import progress, reading_bar
from overstory.presentation.document import Lines
from overstory.presentation.formats import plural
from overstory.protocol.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from overstory.discovery import CodedDomain, Discovered, Plan
    from overstory.presentation.document import Block


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
