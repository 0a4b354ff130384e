"""``overstory decode`` of exported folders: the reading of a store, from counts of an engine."""

from __future__ import annotations

import argparse
from contextlib import contextmanager
from typing import TYPE_CHECKING

from overstory.cli.arguments import given
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from overstory.engines.exported import ExportedSet
    from overstory.protocol.metrics import Metric
    from overstory.queries.sources.exported import ExportedReports

OTHER_FORMS = ("params", "hash_family", "hash_key", "counts", "map", "boolean", "map2", "reports", "pair", "token")


def is_exported_form(args: argparse.Namespace) -> bool:
    """Whether the inputs are exported folders alone; an error where the options are of another form too."""
    from overstory.engines.exported import is_exported

    if not all(map(is_exported, args.inputs)):
        return False
    for name in ("store", "url"):
        if getattr(args, name):
            raise ParameterError(f"--{name} and {args.inputs[0]} are two sources: give one")
    if wrong := given(args, OTHER_FORMS):
        raise ParameterError(f"{wrong[0]} has no effect on exported folders: their manifests say what made the reports")
    return True


def run_exported(args: argparse.Namespace, run_metric: Callable[[argparse.Namespace], int]) -> int:
    """Run the command in this form; `run_metric` reads the metric that the options name."""
    if args.metric is None:
        from overstory.queries.sources.exported import only_metric

        args.metric = only_metric(_find(args))
    return _print_expected(args) if args.dry_run else run_metric(args)


@contextmanager
def open_exported(args: argparse.Namespace, metric: Metric) -> Iterator[ExportedReports]:
    """Yield the exported reports; what is finished is kept, where the options name a file, until they are read."""
    from overstory.cli.rappor.engine_runs import counting_jobs
    from overstory.cli.rappor.sum_engine import engine_of
    from overstory.queries.sources.exported import ExportedReports

    engine = engine_of(args)
    with counting_jobs(args, engine, is_watched=not metric.mechanism.reads_reports) as count:
        yield ExportedReports(_find(args), count, getattr(engine, "workers", None) or 8, args.verify)


def _find(args: argparse.Namespace) -> list[ExportedSet]:
    from overstory.cli.rappor.sum_engine import check_engine
    from overstory.engines.exported import check_once, find_sets

    check_engine(args, args.inputs)
    sets = [one for source in args.inputs for one in find_sets(source)]
    check_once(sets)
    return sets


def _print_expected(args: argparse.Namespace) -> int:
    """Print what would be read."""
    from overstory.cli.rappor.sum_engine import CountedFiles, engine_of, print_expected
    from overstory.protocol.metrics import load_registry
    from overstory.queries.counts import parse_range
    from overstory.queries.sources.exported import job_of

    metric, engine = load_registry(args.registry)[args.metric], engine_of(args)
    first, last = parse_range(metric, args.first, args.last)
    with open_exported(args, metric) as exported:
        periods = [0, *exported.periods(metric.id)]
        files = exported.files(metric, periods[0] if first is None else first, periods[-1] if last is None else last)
    return print_expected(args, CountedFiles(metric.mechanism, engine, job_of(metric), files.places, files.units))
