"""``overstory discover`` of a metric's answers, in a store or in files, which offers what it found as candidates."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from overstory.cli.arguments import given
from overstory.cli.rappor.decode_counts import ENGINE_ALONE
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.discovery import Discovered
    from overstory.queries.searches import SearchReading

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
    stored.add_argument("--registry", metavar="FILE", help="the metric registry")
    stored.add_argument("--metric", metavar="ID", help="the metric's id: its domain is unknown strings or integers")
    stored.add_argument("--from", dest="first", metavar="LABEL", help="the first period, such as 2026-11-21")
    stored.add_argument("--to", dest="last", metavar="LABEL", help="the last period, included")
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
    """Run the command in its second form."""
    from overstory.cli.analysis.decode_store import open_source, progress_shown, read_metric
    from overstory.queries.estimates import EstimateOptions
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
    _write(args, reading)
    return 0


def search_files(args: argparse.Namespace) -> tuple[Any, Any] | None:
    """Search the answers in files by an engine; return the plan and what was found, None where nothing was to be read.

    What each level asks is counted by one pass over the files; see `overstory.engines.searches`.
    """
    from dataclasses import replace

    from overstory.cli.progress import progress
    from overstory.cli.rappor.engine_runs import counting_jobs
    from overstory.cli.rappor.sum_engine import find_units, print_expected
    from overstory.discovery import find
    from overstory.engines.searches import search_answers
    from overstory.protocol.search.mechanism import SearchMechanism
    from overstory.queries.sources.exported import Files

    args.params = args.hash_family = args.hash_key = args.candidates = None
    files = find_units(args, args.reports)
    search = files.mechanism
    if not isinstance(search, SearchMechanism):
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


def _write(args: argparse.Namespace, reading: SearchReading) -> None:
    from overstory.cli.output import picture

    if args.csv:
        from overstory.files.io import writing_csv

        with writing_csv(args.csv, spreadsheet=args.spreadsheet) as text:
            text.writelines(reading.csv_lines())
    if args.plot:
        panels, _ = reading.panels()
        if not panels:
            raise ParameterError(f"--plot {args.plot}: there are no answers to draw")
        with picture(args.plot, height=sum(panel.height for panel in panels)) as figure:
            heights = [panel.height for panel in panels]
            axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
            for panel, ax in zip(panels, axes, strict=True):
                panel.draw(ax)
    offered = offer_candidates(args.candidates_out, reading.discovered) if args.candidates_out else None
    if args.json:
        import json

        print(json.dumps(reading.to_json(), indent=2, allow_nan=False))
        return
    from overstory.presentation.render_text import print_document

    print_document([*reading.blocks(), *([] if offered is None else [offered])])


def offer_candidates(path: str, discovered: Discovered) -> Any:
    """Write the candidates that a file has, and the detected values after them; return what to say of it."""
    from overstory.files.candidates import read_candidates, write_candidates
    from overstory.presentation.document import Lines
    from overstory.privacy.text import plural
    from overstory.queries.searches import merged_candidates

    before = read_candidates(path) if Path(path).exists() and Path(path).stat().st_size else []
    after = merged_candidates(before, discovered)
    if not after:
        print(f"overstory: nothing was detected: {path} is not written", file=sys.stderr)
        return None
    write_candidates(path, after)
    more = f", {len(after) - len(before):,} of them new" if before else ""
    return Lines(f"{plural(len(after), 'candidate')} in {path}{more}")
