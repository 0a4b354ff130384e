"""``overstory decode``: counts in, estimates out; of files here, of a registry's metric in `decode_store`."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from overstory.cli.arguments import ENGINE_ALONE, check_pipes, check_plot, given, read_mechanism
from overstory.cli.progress import reading_bar
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overstory.analysis.decoding import Decoded
    from overstory.analysis.reports import SupportCounts
    from overstory.files.rappor import RapporParameters
    from overstory.presentation.document import Block
    from overstory.protocol.channels import Rounds


OF_FILES = ("params", "counts", "map")
OF_STORES = ("metric", "registry")


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
    from overstory.presentation.formats import epsilons_text, plural

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
