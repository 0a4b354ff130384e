"""``overstory decode`` of a registry's metric: estimates from a store, an address or folders; comparisons."""

from __future__ import annotations

import argparse
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from overstory.cli.arguments import check_pipes, token_of_environment
from overstory.cli.output import draw, show_answer
from overstory.cli.progress import progress
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from overstory.engines.places import ExportedSet
    from overstory.protocol.metrics import Metric
    from overstory.queries.counts import PeriodCounts
    from overstory.queries.groups import GroupedReading
    from overstory.queries.readings import Aggregation, EstimateOptions, Reading
    from overstory.queries.sources.exported import ExportedReports

    RangeReader = Callable[..., PeriodCounts]
    """From the labels of the first and last period, either of them None, and a group, or None: all devices."""


def run_metric(args: argparse.Namespace) -> int:
    """Read a metric of a registry, or compare two ranges or groups."""
    return run_compare(args) if args.compare or args.compare_groups else run_store(args)


def run_exported(args: argparse.Namespace) -> int:
    """Read a metric of exported folders; the only one that they hold, unless the options name one."""
    if args.metric is None:
        from overstory.queries.sources.exported import only_metric

        args.metric = only_metric(_find(args))
    return _print_exported(args) if args.dry_run else run_metric(args)


@contextmanager
def _open_exported(args: argparse.Namespace, metric: Metric) -> Iterator[ExportedReports]:
    """Yield the exported reports; what is finished is kept, where the options name a file, until they are read."""
    from overstory.cli.rappor.engine_runs import counting_jobs, engine_of
    from overstory.queries.sources.exported import ExportedReports

    engine = engine_of(args)
    with counting_jobs(args, engine, is_watched=not metric.mechanism.reads_reports) as count:
        yield ExportedReports(_find(args), count, getattr(engine, "workers", None) or 8, not args.no_verify)


def _find(args: argparse.Namespace) -> list[ExportedSet]:
    from overstory.cli.rappor.engine_runs import check_engine
    from overstory.engines.places import check_once, find_sets

    check_engine(args, args.inputs)
    sets = [one for source in args.inputs for one in find_sets(source)]
    check_once(sets)
    return sets


def _print_exported(args: argparse.Namespace) -> int:
    """Print what would be read."""
    from overstory.cli.rappor.engine_runs import CountedFiles, engine_of, print_expected
    from overstory.engines.units import Job
    from overstory.protocol.metrics import load_registry
    from overstory.queries.counts import parse_range

    metric, engine = load_registry(args.registry)[args.metric], engine_of(args)
    first, last = parse_range(metric, args.first, args.last)
    with _open_exported(args, metric) as exported:
        periods = [0, *exported.periods(metric.id)]
        files = exported.files(metric, periods[0] if first is None else first, periods[-1] if last is None else last)
    return print_expected(
        args, CountedFiles(metric.mechanism, engine, Job.of(metric.mechanism), files.places, files.units)
    )


def run_store(args: argparse.Namespace) -> int:
    metric = read_metric(args)
    kind: Aggregation = "per-period" if args.per_period else "cumulative" if args.cumulative else "total"
    check_pipes(args)
    reading = _reading(args, metric, kind)
    if args.plot:
        draw(args.plot, reading.pictures())
    show_answer(args, reading)
    return 0


def _reading(args: argparse.Namespace, metric: Metric, kind: Aggregation) -> Reading | GroupedReading:
    """Return the reading of all devices, of one group, or of each group."""
    from overstory.queries.groups import read_groups
    from overstory.queries.readings import read

    options, ends = read_options(args), (args.first, args.last)
    with open_source(args, metric) as read_range:
        if args.by_group:
            return read_groups(metric, lambda group: read_range(ends, group), kind, options, smoothing=args.smooth)
        counted = read_range(ends, args.group)
        with progress_shown(args, metric, options) as watched:
            return read(counted, kind, watched)


def read_metric(args: argparse.Namespace) -> Metric:
    """Return the metric that the options name, of the registry's file or of the collector's."""
    if args.registry:
        from overstory.protocol.metrics import load_registry

        return load_registry(args.registry)[args.metric]
    from overstory.queries.sources.remote import read_remote_metric

    metric = read_remote_metric(args.url, args.metric)
    if args.candidates:
        from overstory.files.rappor import read_candidates

        return replace(metric, candidates=tuple(read_candidates(args.candidates)))
    return metric


@contextmanager
def progress_shown(args: argparse.Namespace, metric: Metric, options: EstimateOptions) -> Iterator[EstimateOptions]:
    """Show how far long work is: yield the options, with a function that shows it where somebody watches."""
    if not metric.mechanism.reads_reports:
        yield options
        return
    with progress("reading the answers", 1.0, quiet=args.quiet) as bar:
        yield replace(options, progress=lambda what, done: bar.reach(done, what)) if bar.is_shown else options


@contextmanager
def open_source(args: argparse.Namespace, metric: Metric) -> Iterator[RangeReader]:
    """Yield what reads ranges of periods of a metric from the source that the options name, while that is open."""
    from overstory.queries.counts import parse_range

    with _open(args, metric) as read_numbers:

        def read_range(labels: tuple[str | None, str | None], group: str | None = None) -> PeriodCounts:
            return _assuming(args, read_numbers(*parse_range(metric, *labels), group))

        yield read_range


@contextmanager
def _open(args: argparse.Namespace, metric: Metric) -> Iterator[Callable[..., PeriodCounts]]:
    """Yield the same by the numbers of periods, which may be None."""
    from overstory.queries.counts import read_store

    if args.url:
        from overstory.queries.sources.remote import read_remote

        token = args.token if args.token is not None else token_of_environment("ADMIN")
        yield lambda first, last, group: read_remote(args.url, token, metric, first, last, group=group)
    elif args.store:
        from overstory.cli.stores import open_stores
        from overstory.queries.counts import with_sums

        with open_stores(args.store) as store:
            yield lambda first, last, group: with_sums(store, read_store(store, metric, first, last, group=group))
    else:
        from overstory.queries.sources.exported import read_exported

        with _open_exported(args, metric) as exported:
            yield lambda first, last, group: read_exported(exported, metric, first, last, group=group)


def _assuming(args: argparse.Namespace, counted: PeriodCounts) -> PeriodCounts:
    """Return counts whose claim about shuffled reports is made with the delta and the honest share of the options."""
    given = {name: getattr(args, name, None) for name in ("delta", "honest")}
    chosen = {name: value for name, value in given.items() if value is not None}
    if not chosen:
        return counted
    if counted.released is None:
        raise ParameterError(
            f"--delta and --honest are for reports that come through a relay: {counted.metric.id} is reported directly"
        )
    counted = replace(counted, released=replace(counted.released, **chosen))
    counted.central_json()  # numbers that do not fit are refused before anything is estimated
    return counted


def read_options(args: argparse.Namespace) -> EstimateOptions:
    """Return the options of an estimate."""
    from overstory.queries.readings import EstimateOptions

    candidates = None
    if args.candidates:
        from overstory.files.rappor import read_candidates

        candidates = tuple(read_candidates(args.candidates))
    steps = tuple(name.strip() for name in (args.steps or "").split(",") if name.strip())
    selecting = args.alpha, args.correction, args.method, args.complete
    return EstimateOptions(
        args.reports_per_device, candidates, *selecting, steps, args.interval, args.adjustment, tuple(args.range or ())
    )


NO_EFFECT: Final = (("plot", "--plot"), ("steps", "--steps"), ("delta", "--delta"), ("honest", "--honest"))


def run_compare(args: argparse.Namespace) -> int:
    """Compare two ranges of periods, or two groups."""
    from overstory.queries.comparison import check_apart, compare, parse_span

    form, what = ("--compare", "two ranges") if args.compare else ("--compare-groups", "differences of two groups")
    of_ranges = (("first", "--from"), ("last", "--to")) if args.compare else ()
    for name, option in (*of_ranges, *NO_EFFECT):
        if getattr(args, name) is not None:
            more = " and their differences" if args.compare else ""
            raise ParameterError(f"{option} has no effect with {form}, which has {what}{more}")
    if args.compare_groups and len(set(args.compare_groups)) == 1:
        raise ParameterError(f"--compare-groups {' '.join(args.compare_groups)}: give two different groups")
    check_pipes(args)
    metric = read_metric(args)
    if args.compare:
        spans = [parse_span(metric, text) for text in args.compare]
        check_apart(metric, spans[0], spans[1])
        ranges = [((metric.period.label(first), metric.period.label(last)), args.group) for first, last in spans]
    else:
        ranges = [((args.first, args.last), group) for group in args.compare_groups]
    with open_source(args, metric) as read_range:  # a search reads the answers themselves
        a, b = (read_range(*ends) for ends in ranges)
        compared = compare(a, b, read_options(args), overlap=args.overlap or 0.0)
    show_answer(args, compared)
    return 0
