"""``overstory decode``: counts in, estimates out; of files here, of a registry's metric in `decode_store`."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from overstory.cli.arguments import (
    ENGINE_ALONE,
    add_command,
    add_engines,
    add_hashing,
    add_interval,
    add_option,
    add_options,
    add_pair,
    add_reporting,
    check_pipes,
    check_plot,
    given,
    read_mechanism,
)
from overstory.cli.progress import reading_bar
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overstory.analysis.decoding import Decoded
    from overstory.analysis.reports import SupportCounts
    from overstory.files.rappor import RapporParameters
    from overstory.presentation.document import Block
    from overstory.protocol.channels import Rounds


MORE = """\
From files: writes results.csv (every candidate, most frequent first) and metrics.json into DIR, and prints the
detected candidates. The map is not checked: make it with the hash family and key of the devices.

From files with a label, of any oracle: counts of `overstory sum -o NAME.json`, by --counts, or the reports themselves,
which an engine counts first. The label says what made the reports; --candidates are the strings to look for.

With --pair, from counts of `overstory sum --pair`: the table of two variables that were reported together.

From a store, or from a collector by its address: estimates a metric of the registry over a range of periods: in total,
per period, or cumulative (over all reports so far); or compares two ranges. A device reports once a period and its
reports share permanent responses. Standard errors assume that every device reported in every period, unless
--reports-per-device is given. From folders of `overstory export`, with --registry: the same, by counts of an engine."""

OF_FILES = ("params", "counts", "map")
OF_STORES = ("metric", "registry")


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "decode",
        "estimate how often each candidate was reported",
        more=MORE,
        example="overstory decode --params params.csv --counts counts.csv --map map.csv -o results\n"
        "  overstory decode monday.parquet --candidates names.txt\n"
        "  overstory decode exported/metric=colour --registry metrics.toml --per-period\n"
        "  overstory decode --store reports.db --registry metrics.toml --metric colour --from 2026-11-01",
    )
    parser.add_argument("inputs", nargs="*", metavar="INPUT", help="files of reports, folders, globs or addresses")
    _add_files(parser)
    add_engines(parser, with_candidates=False, unfinished=False)
    _add_stores(parser)
    parser.add_argument(
        "--method",
        choices=("gls", "lasso", "likelihood"),
        default="gls",
        help="least squares, the RAPPOR paper's Lasso or, of --pair, the likelihood of whole reports (default: gls)",
    )
    add_options(parser, "--correction", "--alpha")
    parser.add_argument(
        "--complete",
        action="store_true",
        help="there are no other values: the candidates' counts add up to all reports",
    )
    parser.add_argument(
        "--reports-per-device",
        type=float,
        metavar="R",
        help="reports of one device (if uneven: sum of squares over sum; default: 1 for files, else the number of "
        "periods with reports)",
    )
    add_interval(parser, "reports; population with --per-period, --cumulative or --compare")
    parser.add_argument(
        "--all",
        action="store_true",
        help="also show what was not detected, or did not change (CSV files always have it)",
    )
    meaning = "folder for the results, required for files; -: only the CSV, to standard output"
    parser.add_argument("-o", "--output", metavar="DIR", help=meaning)
    add_options(parser, "--plot", "--spreadsheet")
    add_reporting(parser)


def _add_files(parser: argparse.ArgumentParser) -> None:
    files = parser.add_argument_group("from files")
    add_option(files, "--params")
    files.add_argument("--counts", metavar="FILE", help="counts, from `overstory sum`; .json: with their label")
    files.add_argument("--map", metavar="FILE", help="candidate map, from `overstory map`")
    add_pair(files)
    files.add_argument("--map2", metavar="FILE", help="with --pair: the map of the second variable's strings")
    files.add_argument("--reports", metavar="FILE", help="with --pair and --method likelihood: the reports themselves")
    add_hashing(files, note="; google-rappor-python rounds f")


def _add_stores(parser: argparse.ArgumentParser) -> None:
    stored = parser.add_argument_group("from a store, a collector, or exported folders")
    store_help = "a file, or postgresql://...; of a registry with shards, once for each shard's store"
    stored.add_argument("--store", action="append", metavar="URL", help=store_help)
    stored.add_argument("--url", metavar="URL", help="a collector's address; it needs an admin token")
    stored.add_argument("--token", help="an admin token (default: the variable OVERSTORY_ADMIN_TOKEN)")
    stored.add_argument("--metric", metavar="ID", help="the metric's id (not needed where folders hold one)")
    stored.add_argument("--registry", metavar="FILE", help="the metric registry (not needed with --url)")
    add_options(stored, "--from", "--to", "--group")
    stored.add_argument("--by-group", action="store_true", help="estimate each group separately")
    stored.add_argument(
        "--smooth", action="store_true", help="with --by-group: also shares that are smoothed over the groups"
    )
    _add_readings(stored)
    stored.add_argument(
        "--delta", type=float, metavar="D", help="of reports through a relay: the claim's delta (default: 1e-9)"
    )
    stored.add_argument(
        "--honest", type=float, metavar="SHARE", help="of reports through a relay: the honest share (default: 1)"
    )
    stored.add_argument("--candidates", metavar="FILE", help="strings to look for, instead of the registry's list")
    stored.add_argument(
        "--range",
        action="append",
        metavar="A:B",
        help="of a metric of ranges: also the share from A to B, both included",
    )
    stored.add_argument("--steps", metavar="NAMES", help="post-processing steps, in order: norm-sub, base-cut, ...")


def _add_readings(stored: Any) -> None:
    """Add how the periods, or the groups, are read together."""
    reading = stored.add_mutually_exclusive_group()
    reading.add_argument("--per-period", action="store_true", help="estimate each period separately")
    reading.add_argument(
        "--cumulative", action="store_true", help="estimate each period together with all earlier ones"
    )
    reading.add_argument(
        "--compare",
        nargs=2,
        metavar="A..B",
        help="two ranges of periods, such as 2026-W45..2026-W47 2026-W41..2026-W44: the shares of the first less those "
        "of the second",
    )
    reading.add_argument(
        "--compare-groups", nargs=2, metavar="NAME", help="two groups: the shares of the first less those of the second"
    )
    stored.add_argument(
        "--overlap",
        type=float,
        metavar="SHARE",
        help="with --compare: share of the smaller range's devices that reported in both and kept their values, 0 to 1 "
        "(default: 0, which is always safe)",
    )


def run(args: argparse.Namespace) -> int:
    check_plot(args.plot)
    if args.inputs and args.registry and _is_exported_form(args):
        from overstory.cli.analysis.decode_store import run_exported

        _check_single(args)
        _check_ranges(args)
        return run_exported(args)
    if _is_labelled_form(args):
        from overstory.cli.rappor.decode_files import run_labelled

        return run_labelled(args)
    if args.pair:
        from overstory.cli.rappor.decode_files import run_pairs

        return run_pairs(args)
    _check_single(args)
    if _is_of_a_store(args):
        from overstory.cli.analysis.decode_store import run_metric

        return run_metric(args)
    return _run_files(args)


OTHER_FORMS = (
    *("map", "pair", "boolean", "map2", "reports", "store", "url", "token", "first", "last", "group", "by_group"),
    *("smooth", "per_period", "cumulative", "compare", "compare_groups", "overlap", "delta", "honest", "range"),
)
OF_NO_FOLDER = ("params", "hash_family", "hash_key", "counts", "map", "boolean", "map2", "reports", "pair", "token")


def _is_exported_form(args: argparse.Namespace) -> bool:
    """Whether the inputs are exported folders alone; an error where the options are of another form too."""
    from overstory.engines.places import is_exported

    if not all(map(is_exported, args.inputs)):
        return False
    for name in ("store", "url"):
        if getattr(args, name):
            raise ParameterError(f"--{name} and {args.inputs[0]} are two sources: give one")
    if wrong := given(args, OF_NO_FOLDER):
        raise ParameterError(f"{wrong[0]} has no effect on exported folders: their manifests say what made the reports")
    return True


def _is_labelled_form(args: argparse.Namespace) -> bool:
    """Whether the options name reports, or counts with a label; an error where they are of another form too."""
    if args.inputs and args.counts:
        raise ParameterError(f"{args.inputs[0]} and --counts are two sources: give one")
    if not args.inputs and not (args.counts and args.counts.endswith(".json")):
        if wrong := given(args, ENGINE_ALONE):
            raise ParameterError(f"{wrong[0]} has no effect unless files of reports are named")
        return False
    if args.inputs and (wrong := given(args, OTHER_FORMS)):
        raise ParameterError(f"{wrong[0]} has no effect on files of reports: `overstory decode --help` shows the forms")
    if not args.inputs and (wrong := given(args, (*OTHER_FORMS, *ENGINE_ALONE, "params"))):
        raise ParameterError(f"{wrong[0]} has no effect on counts with a label")
    return True


FILES_ALONE = ("params", "counts", "map", "hash_family", "hash_key")
STORE_ALONE = (
    *("metric", "registry", "token", "first", "last", "per_period", "cumulative", "compare", "compare_groups"),
    *("group", "by_group", "smooth", "overlap", "candidates", "range", "delta", "honest", "steps"),
)


def _check_single(args: argparse.Namespace) -> None:
    for name in ("boolean", "map2", "reports"):
        if getattr(args, name):
            raise ParameterError(f"--{name} has no effect without --pair, which names the two variables")
    if args.method == "likelihood":
        raise ParameterError("--method likelihood is for --pair: of one variable, gls is as accurate")


def _is_of_a_store(args: argparse.Namespace) -> bool:
    """Tell the two forms apart, and refuse a mixture of them."""
    source = next((name for name in ("store", "url") if getattr(args, name)), None)
    if args.store and args.url:
        raise ParameterError("--store and --url are two sources: give one")
    useless = {None: STORE_ALONE, "store": (*FILES_ALONE, "token"), "url": FILES_ALONE}
    mixed = [name for name in useless[source] if getattr(args, name)]
    if mixed:
        what = f"with --{source}" if source else "without --store or --url"
        raise ParameterError(f"{_option(mixed[0])} has no effect {what}: `overstory decode --help` shows both forms")
    needed: tuple[str, ...] = OF_STORES if source else (*OF_FILES, "output")
    if args.url:
        needed = ("metric",)  # the collector says what it is
    missing = [_option(name) for name in needed if not getattr(args, name)]
    if missing and not source:
        raise ParameterError(
            f"{', '.join(missing)} must be given, or --url with --metric, or --store with --metric and --registry"
        )
    if missing:
        raise ParameterError(f"--{source} needs {', '.join(missing)}")
    _check_ranges(args)
    return source is not None


def _check_ranges(args: argparse.Namespace) -> None:
    """Refuse options on ranges and groups that contradict each other, or have no effect."""
    if args.overlap is not None and not args.compare:
        raise ParameterError("--overlap has no effect without --compare: it is how many devices two ranges share")
    if args.smooth and not args.by_group:
        raise ParameterError("--smooth has no effect without --by-group: it moves the shares of groups to their mean")
    chosen = [name for name in ("group", "by_group", "compare_groups") if getattr(args, name)]
    chosen += ["compare"] if args.by_group and args.compare else []
    if len(chosen) > 1:
        raise ParameterError(f"{' and '.join(map(_option, chosen))} are two choices of groups: give one")


def _option(name: str) -> str:
    return "--" + {"first": "from", "last": "to"}.get(name, name).replace("_", "-")


def _run_files(args: argparse.Namespace) -> int:
    check_pipes(args, "params", "counts", "map")
    from dataclasses import replace

    from overstory.analysis.alarms.crafted import alarm_notes, check_collection
    from overstory.files.io import writing_csv
    from overstory.files.rappor import metrics, read_counts, write_results

    parameters, mechanism = read_mechanism(args)
    notes: list[str] = []
    counts = read_counts(args.counts, parameters.m, parameters.k, notes)
    decoded = _decode(args, parameters, counts, mechanism.rounds, notes)
    # The sizes of cohorts and sums of bits are checked where every device reported once.
    once = args.reports_per_device in {None, 1.0}
    checks = check_collection(mechanism, counts, decoded) if once else ()
    alarms = alarm_notes(checks, decoded=True)
    decoded = replace(decoded, notes=(*notes, *decoded.notes, *alarms), adjustment=args.adjustment)
    about = {**metrics(decoded, parameters, mechanism), "checks": [check.to_json() for check in checks]}
    to_pipe = args.output == "-"
    if to_pipe:
        with writing_csv(args.output, spreadsheet=args.spreadsheet) as text:
            decoded.to_csv(text)
    sheet = {"spreadsheet": args.spreadsheet}
    results = "-" if to_pipe else str(write_results(args.output, decoded, about, **sheet)[0])
    if args.plot:
        from overstory.cli.output import draw

        draw(args.plot, [decoded.plot()])
    if args.json:
        shown = {**about, "estimates": decoded.rows(everything=args.all)}
        print(json.dumps(shown, separators=(",", ":"), allow_nan=False))
    elif not to_pipe:
        from overstory.presentation.render_text import print_document

        rows = decoded.rows(everything=args.all)
        print_document(estimate_blocks(rows, about, None if args.quiet else results))
    return 0


def _decode(
    args: argparse.Namespace, parameters: RapporParameters, counts: SupportCounts, rounds: Rounds, notes: list[str]
) -> Decoded:
    from overstory.analysis.decoding import decode
    from overstory.files.rappor import read_map

    with reading_bar(args, "reading the map", [args.map]) as advance:
        candidates = read_map(
            args.map,
            num_bits=parameters.k,
            num_hashes=parameters.h,
            num_cohorts=parameters.m,
            notes=notes,
            advance=advance,
        )
    return decode(
        counts,
        candidates,
        p_star=float(rounds.combined.keep_one),
        q_star=float(rounds.combined.raise_zero),
        method=args.method,
        correction=args.correction,
        alpha=args.alpha,
        complete=args.complete,
        permanent=rounds.permanent,
        reports_per_device=1.0 if args.reports_per_device is None else args.reports_per_device,
        interval_kind=args.interval or "reports",
    )


def estimate_blocks(rows: list[dict[str, Any]], about: dict[str, Any], results: str | None) -> Iterator[Block]:
    """Return the rows of a decoding, and what must be known to read them."""
    from overstory.analysis.selection import bound_text, interval_words
    from overstory.analysis.tables.output import estimate_table
    from overstory.presentation.document import Lines, Paragraph
    from overstory.privacy.text import epsilons_text, plural

    yield estimate_table(rows) if rows else Paragraph("nothing was detected")
    detected = f"{about['detected']:,} of {plural(about['candidates'], 'candidate')} detected"
    yield Lines(
        f"{detected} in {plural(about['reports'], 'report')} ({bound_text(about['correction'], about['alpha'])})",
        f"{about['allocated_mass']:.1%} of the reports allocated to candidates; goodness of fit "
        f"{about['residual_dispersion']:.2f} (1 = as expected); method {about['method']}",
        f"intervals: {interval_words(about['interval'], about['adjustment'])}",
        f"privacy: {epsilons_text(about)}",
        *(f"note: {note}" for note in about["notes"]),
        *([] if results is None else [f"every candidate: {results}"]),
    )
