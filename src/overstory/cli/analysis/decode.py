"""``overstory decode``: estimates from RAPPOR's files, or of a registry's metric in a store, an address or folders."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overstory.analysis.alarms.crafted import alarm_notes, check_collection
from overstory.analysis.decoding import decode
from overstory.analysis.selection import bound_text, interval_words
from overstory.analysis.tables.output import estimate_table
from overstory.cli.command import (
    Answer,
    answer_of,
    check_pipes,
    count_units,
    draw,
    is_address,
    is_table,
    progress,
    reading_bar,
    token_of_environment,
)
from overstory.files.rappor import (
    metrics,
    read_candidates,
    read_counts,
    read_map,
    read_params,
    write_candidates,
    write_results,
)
from overstory.presentation.document import Lines, Paragraph
from overstory.presentation.formats import epsilons_text, plural
from overstory.protocol.errors import ParameterError
from overstory.queries.readings import EstimateOptions

if TYPE_CHECKING:
    from overstory.discovery import Discovered
    from overstory.engines.driver import Engine, Run
    from overstory.engines.places import ExportedSet
    from overstory.engines.units import Job, Unit
    from overstory.presentation.document import Block
    from overstory.protocol.metrics import Metric
    from overstory.queries.comparison import Comparison
    from overstory.queries.counts import PeriodCounts
    from overstory.queries.readings import Aggregation, GroupedReading, Reading

    PartOfReports = tuple[tuple[str | None, str | None], str | None]
    """The labels of the first and last period, and a group; None: no bound, and all devices."""
    RangeReader = Callable[..., PeriodCounts]
    """From a `PartOfReports`, which may end before its group, to its counts."""


def run(args: argparse.Namespace) -> Answer:
    check_pipes(args, "params", "counts", "map", "inputs")
    if not args.inputs and not args.store:
        return _decode_files(args)
    options = EstimateOptions(
        reports_per_device=args.reports_per_device,
        alpha=args.alpha,
        correction=args.correction,
        method=args.method,
        complete=args.complete,
        steps=tuple(name.strip() for name in (args.steps or "").split(",") if name.strip()),
        interval_kind=args.interval,
        ranges=tuple(args.range or ()),
        pool=args.pool or 1,
    )
    if args.inputs and args.metric is None:
        from overstory.queries.sources import only_metric

        args.metric = only_metric(_find(args.inputs))
    if args.candidates:
        options = replace(options, candidates=tuple(read_candidates(args.candidates)))
    metric = _read_metric(args, options)
    if args.candidates_out and metric.reading != "search":
        raise ParameterError(f"--candidates-out is of a search: the values of {metric.id} are listed")
    if args.compare:
        return answer_of(args, _compared(args, metric, options))
    reading: Any = _reading(args, metric, options)
    if args.plot:
        draw(args.plot, reading.pictures())
    more = _offer_candidates(args.candidates_out, reading.discovered) if args.candidates_out else []
    return answer_of(args, reading, more)


def _read_metric(args: argparse.Namespace, options: EstimateOptions) -> Metric:
    """Return the metric that is named, of the registry's file or of the collector's."""
    if args.registry:
        from overstory.protocol.metrics import load_registry

        return load_registry(args.registry)[args.metric]
    if not is_address(args.store):
        raise ParameterError("--store needs --registry, unless it is a collector's address")
    from overstory.queries.sources import read_remote_metric

    metric = read_remote_metric(args.store, args.metric)
    return metric if options.candidates is None else replace(metric, candidates=options.candidates)


def _reading(args: argparse.Namespace, metric: Metric, options: EstimateOptions) -> Reading | GroupedReading:
    """Return the reading of all devices, of one group, or of each group."""
    from overstory.queries.readings import read, read_groups

    kind: Aggregation = "per-period" if options.pool > 1 else args.aggregate
    periods = args.first, args.last
    with _open_source(args, metric) as read_range:
        if args.by_group:
            return read_groups(metric, lambda group: read_range(periods, group), kind, options)
        counted = read_range(periods, args.group)
        if not metric.mechanism.reads_reports:
            return read(counted, kind, options)
        with progress("reading the answers", 1.0, quiet=args.quiet) as bar:
            watched = replace(options, progress=lambda what, done: bar.reach(done, what)) if bar.is_shown else options
            return read(counted, kind, watched)


def _compared(args: argparse.Namespace, metric: Metric, options: EstimateOptions) -> Comparison:
    """Compare two ranges of periods, or two groups."""
    from overstory.queries.comparison import compare

    are_groups = metric.groups is not None and set(args.compare) <= set(metric.groups.names)
    ranges = _groups(args) if are_groups else _spans(args, metric)
    with _open_source(args, metric) as read_range:  # a search reads the answers themselves
        a, b = (read_range(*ends) for ends in ranges)
        return compare(a, b, options)


def _groups(args: argparse.Namespace) -> list[PartOfReports]:
    """Return two groups, in one range of periods."""
    asked = f"--compare {' '.join(args.compare)}"
    if args.compare[0] == args.compare[1]:
        raise ParameterError(f"{asked}: give two different groups")
    if args.group is not None:
        raise ParameterError(f"--group has no effect with {asked}: these are groups")
    return [((args.first, args.last), group) for group in args.compare]


def _spans(args: argparse.Namespace, metric: Metric) -> list[PartOfReports]:
    """Return two ranges of periods."""
    from overstory.queries.comparison import check_apart, parse_span
    from overstory.queries.counts import check_group

    asked = f"--compare {' '.join(args.compare)}"
    for option, label in (("--from", args.first), ("--to", args.last)):
        if label is not None:
            raise ParameterError(f"{option} has no effect with {asked}: these are ranges of periods")
    try:
        spans = [parse_span(metric, text) for text in args.compare]
    except ParameterError:
        names = set() if metric.groups is None else set(metric.groups.names)
        for other in set(args.compare) - names if names.intersection(args.compare) else ():
            check_group(metric, other)
        raise
    check_apart(metric, spans[0], spans[1])
    return [((metric.period.label(first), metric.period.label(last)), args.group) for first, last in spans]


def _offer_candidates(path: str, discovered: Discovered) -> list[Block]:
    """Write the candidates that a file has, and the detected values after them; return what to say of it."""
    before = read_candidates(path) if Path(path).exists() and Path(path).stat().st_size else []
    # Earlier ones stay: whether a later plan detects a value again is chance.
    after = list(dict.fromkeys([*before, *filter(None, map(_as_line, discovered.found()))]))
    if not after:
        print(f"overstory: nothing was detected: {path} is not written", file=sys.stderr)
        return []
    write_candidates(path, after)
    more = f", {len(after) - len(before):,} of them new" if before else ""
    return [Lines(f"{plural(len(after), 'candidate')} in {path}{more}")]


def _as_line(value: Any) -> str | None:
    """Return a value as a line of a file of candidates; None for bytes that are none."""
    if not isinstance(value, bytes):
        return str(value)
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return None if "\n" in text or "\r" in text else text


@contextmanager
def _open_source(args: argparse.Namespace, metric: Metric) -> Iterator[RangeReader]:
    """Yield what reads ranges of periods of a metric from its source, while that is open."""
    from overstory.queries.counts import parse_range, read_store

    if args.store and is_address(args.store):
        from overstory.queries.sources import read_remote

        token = token_of_environment("ADMIN")
        yield lambda ends, group=None: read_remote(args.store, token, metric, *parse_range(metric, *ends), group=group)
        return
    with _open_store(args) as store:

        def read_range(ends: tuple[str | None, str | None], group: str | None = None) -> PeriodCounts:
            return read_store(store, metric, *parse_range(metric, *ends), group=group, has_sums=True)

        yield read_range


@contextmanager
def _open_store(args: argparse.Namespace) -> Iterator[Any]:
    """Yield the store, or exported reports, which an engine counts and which have the methods of a store."""
    if args.store:
        from overstory.collector.store import open_store

        with open_store(args.store) as store:
            yield store
        return
    from overstory.engines.clusters import engine_of
    from overstory.queries.sources import ExportedReports

    engine = engine_of(args.engine)
    with _counting_jobs(args.engine, engine, quiet=args.quiet) as count:
        yield ExportedReports(_find(args.inputs), count, getattr(engine, "workers", None) or 8)


@contextmanager
def _counting_jobs(asked: str | None, engine: Engine, *, quiet: bool) -> Iterator[Callable[[Job, Sequence[Unit]], Run]]:
    """Yield what counts one job after the other; at the end the error stream has how that went."""
    from overstory.engines.driver import Run

    runs: list[Run] = []

    def count_next(job: Job, units: Sequence[Unit]) -> Run:
        runs.append(count_units(engine, job, units, quiet=quiet))
        return runs[-1]

    yield count_next
    if quiet or not runs:
        return
    names = ("num_reports", "num_bytes", "num_units", "repeats", "seconds")
    whole = Run({}, **{name: sum(getattr(run, name) for run in runs) for name in names})
    for note in whole.sentences(engine.name)[0 if asked else 1 :]:
        print(f"overstory: {note}", file=sys.stderr)


def _find(inputs: Sequence[str]) -> list[ExportedSet]:
    from overstory.engines.places import check_once, find_sets

    sets = [one for source in inputs for one in find_sets(source)]
    check_once(sets)
    return sets


def _decode_files(args: argparse.Namespace) -> Answer:
    """Answer by counts and a candidate map, the files of RAPPOR's public tools."""
    notes, repeats = list[str](), 1.0 if args.reports_per_device is None else args.reports_per_device
    parameters = read_params(args.params)
    mechanism, shape = parameters.mechanism(), {"num_bits": parameters.k, "num_cohorts": parameters.m}
    counts = read_counts(args.counts, notes=notes, **shape)
    with reading_bar("reading the map", [args.map], quiet=args.quiet) as advance:
        candidates = read_map(args.map, num_hashes=parameters.h, notes=notes, advance=advance, **shape)
    decoded = decode(
        counts,
        candidates,
        p_star=float(mechanism.p_star),
        q_star=float(mechanism.q_star),
        permanent=mechanism.rounds.permanent,
        method=args.method,
        correction=args.correction,
        alpha=args.alpha,
        complete=args.complete,
        reports_per_device=repeats,
        interval_kind=args.interval or "reports",
    )
    # The sizes of cohorts and sums of bits are checked where every device reported once.
    checks = check_collection(mechanism, counts, decoded) if repeats == 1.0 else ()
    decoded = replace(decoded, notes=(*notes, *decoded.notes, *alarm_notes(checks)))
    about = {**metrics(decoded, parameters, mechanism), "checks": [check.to_json() for check in checks]}
    rows, results = decoded.rows(everything=args.all), str(args.output)
    if args.output != "-" and not is_table(args.output):
        results = str(write_results(results, decoded, about, spreadsheet=args.spreadsheet)[0])
    if args.plot:
        draw(args.plot, [decoded.plot()])
    return Answer(
        {**about, "estimates": rows},
        _estimate_blocks(rows, about, None if args.quiet else results),
        write_csv=decoded.to_csv,
        tables=_estimate_blocks(rows, about, None),
        indent=None,
    )


def _estimate_blocks(rows: list[dict[str, Any]], about: dict[str, Any], results: str | None) -> Iterator[Block]:
    """Return the rows of a decoding, and what must be known to read them."""
    yield estimate_table(rows) if rows else Paragraph("nothing was detected")
    detected = f"{about['detected']:,} of {plural(about['candidates'], 'candidate')} detected"
    yield Lines(
        f"{detected} in {plural(about['reports'], 'report')} ({bound_text(about['correction'], about['alpha'])})",
        f"{about['allocated_mass']:.1%} of the reports allocated to candidates; goodness of fit "
        f"{about['residual_dispersion']:.2f} (1 = as expected); method {about['method']}",
        f"intervals: {interval_words(about['interval'])}",
        f"privacy: {epsilons_text(about)}",
        *(f"note: {note}" for note in about["notes"]),
        *([] if results is None else [f"every candidate: {results}"]),
    )
