"""``overstory decode`` of a registry's metric: estimates from a store, an address or folders; searches; comparisons."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overstory.cli.arguments import is_address, token_of_environment
from overstory.cli.output import draw, progress, show_answer
from overstory.presentation.document import Lines
from overstory.presentation.formats import plural
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from overstory.cli.analysis.decode import DecodeRequest
    from overstory.discovery import Discovered
    from overstory.engines.places import ExportedSet
    from overstory.presentation.document import Block
    from overstory.protocol.metrics import Metric
    from overstory.queries.counts import PeriodCounts
    from overstory.queries.groups import GroupedReading
    from overstory.queries.readings import Aggregation, Reading

    RangeReader = Callable[..., PeriodCounts]
    """From the labels of the first and last period, either of them None, and a group, or None: all devices."""
    PartOfReports = tuple[tuple[str | None, str | None], str | None]
    """The labels of the first and last period, and a group; None: no bound, and all devices."""


def run(request: DecodeRequest) -> int:
    """Read a metric of a registry, or compare two ranges or groups."""
    if request.inputs and request.metric is None:
        from overstory.queries.sources.exported import only_metric

        request = replace(request, metric=only_metric(_find(request)))
    metric = read_metric(request)
    if request.candidates_out and metric.reading != "search":
        raise ParameterError(f"--candidates-out is of a search: the values of {metric.id} are listed")
    if request.compare:
        show_answer(request.printing, _compared(request, metric, request.compare))
        return 0
    kind: Aggregation = "per-period" if request.options.pool > 1 else request.aggregate
    reading: Any = _reading(request, metric, kind)
    if request.plot:
        draw(request.plot, reading.pictures())
    more = offer_candidates(request.candidates_out, reading.discovered) if request.candidates_out else []
    show_answer(request.printing, reading, more)
    return 0


def _reading(request: DecodeRequest, metric: Metric, kind: Aggregation) -> Reading | GroupedReading:
    """Return the reading of all devices, of one group, or of each group."""
    from overstory.queries.groups import read_groups
    from overstory.queries.readings import read

    options = request.read_options()
    with open_source(request, metric) as read_range:
        if request.by_group:
            return read_groups(metric, lambda group: read_range(request.periods, group), kind, options)
        counted = read_range(request.periods, request.group)
        if not metric.mechanism.reads_reports:
            return read(counted, kind, options)
        with progress("reading the answers", 1.0, quiet=request.printing.quiet) as bar:
            watched = replace(options, progress=lambda what, done: bar.reach(done, what)) if bar.is_shown else options
            return read(counted, kind, watched)


def _compared(request: DecodeRequest, metric: Metric, two: tuple[str, str]) -> Any:
    """Compare two ranges of periods, or two groups."""
    from overstory.queries.comparison import compare

    are_groups = metric.groups is not None and set(two) <= set(metric.groups.names)
    ranges = _groups(request, two) if are_groups else _spans(request, metric, two)
    with open_source(request, metric) as read_range:  # a search reads the answers themselves
        a, b = (read_range(*ends) for ends in ranges)
        return compare(a, b, request.read_options())


def _groups(request: DecodeRequest, two: tuple[str, str]) -> list[PartOfReports]:
    """Return two groups, in one range of periods."""
    if two[0] == two[1]:
        raise ParameterError(f"--compare {' '.join(two)}: give two different groups")
    if request.group is not None:
        raise ParameterError(f"--group has no effect with --compare {' '.join(two)}: these are groups")
    return [(request.periods, group) for group in two]


def _spans(request: DecodeRequest, metric: Metric, two: tuple[str, str]) -> list[PartOfReports]:
    """Return two ranges of periods."""
    from overstory.queries.comparison import check_apart, parse_span
    from overstory.queries.counts import check_group

    for option, label in zip(("--from", "--to"), request.periods, strict=True):
        if label is not None:
            raise ParameterError(f"{option} has no effect with --compare {' '.join(two)}: these are ranges of periods")
    try:
        spans = [parse_span(metric, text) for text in two]
    except ParameterError:
        names = set() if metric.groups is None else set(metric.groups.names)
        for other in set(two) - names if names.intersection(two) else ():
            check_group(metric, other)
        raise
    check_apart(metric, spans[0], spans[1])
    return [((metric.period.label(first), metric.period.label(last)), request.group) for first, last in spans]


def offer_candidates(path: str, discovered: Discovered) -> list[Block]:
    """Write the candidates that a file has, and the detected values after them; return what to say of it."""
    from overstory.files.rappor import read_candidates, write_candidates
    from overstory.queries.searches import as_line

    before = read_candidates(path) if Path(path).exists() and Path(path).stat().st_size else []
    # Earlier ones stay: whether a later plan detects a value again is chance.
    after = list(dict.fromkeys([*before, *filter(None, map(as_line, discovered.found()))]))
    if not after:
        print(f"overstory: nothing was detected: {path} is not written", file=sys.stderr)
        return []
    write_candidates(path, after)
    more = f", {len(after) - len(before):,} of them new" if before else ""
    return [Lines(f"{plural(len(after), 'candidate')} in {path}{more}")]


def read_metric(request: DecodeRequest) -> Metric:
    """Return the metric that is named, of the registry's file or of the collector's."""
    assert request.metric is not None
    if request.registry:
        from overstory.protocol.metrics import load_registry

        return load_registry(request.registry)[request.metric]
    if (url := _address(request)) is None:
        raise ParameterError("--store needs --registry, unless it is a collector's address")
    from overstory.queries.sources.remote import read_remote_metric

    metric = read_remote_metric(url, request.metric)
    if request.candidates:
        from overstory.files.rappor import read_candidates

        return replace(metric, candidates=tuple(read_candidates(request.candidates)))
    return metric


def _address(request: DecodeRequest) -> str | None:
    """Return the collector's address, where the store is one."""
    return request.store if request.store and is_address(request.store) else None


@contextmanager
def open_source(request: DecodeRequest, metric: Metric) -> Iterator[RangeReader]:
    """Yield what reads ranges of periods of a metric from its source, while that is open."""
    from overstory.queries.counts import parse_range, read_store, with_sums

    if (url := _address(request)) is not None:
        from overstory.queries.sources.remote import read_remote

        token = token_of_environment("ADMIN")
        yield lambda ends, group=None: read_remote(url, token, metric, *parse_range(metric, *ends), group=group)
        return
    with _open_store(request) as store:

        def read_range(ends: tuple[str | None, str | None], group: str | None = None) -> PeriodCounts:
            return with_sums(store, read_store(store, metric, *parse_range(metric, *ends), group=group))

        yield read_range


@contextmanager
def _open_store(request: DecodeRequest) -> Iterator[Any]:
    """Yield the store, or exported reports, which an engine counts and which have the methods of a store."""
    if request.store:
        from overstory.collector.store import open_store

        with open_store(request.store) as store:
            yield store
        return
    from overstory.cli.rappor.engine_runs import counting_jobs, engine_of
    from overstory.queries.sources.exported import ExportedReports

    engine = engine_of(request.engine)
    with counting_jobs(request.engine, engine, quiet=request.printing.quiet) as count:
        yield ExportedReports(_find(request), count, getattr(engine, "workers", None) or 8)


def _find(request: DecodeRequest) -> list[ExportedSet]:
    from overstory.engines.places import check_once, find_sets

    sets = [one for source in request.inputs for one in find_sets(source)]
    check_once(sets)
    return sets
