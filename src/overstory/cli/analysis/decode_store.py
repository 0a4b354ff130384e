"""``overstory decode`` of a registry's metric: estimates from a store, an address or folders; comparisons."""

from __future__ import annotations

import argparse
import json
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from overstory.cli.arguments import check_pipes, token_of_environment
from overstory.cli.progress import progress
from overstory.presentation.document import Lines
from overstory.privacy.text import plural
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from overstory.cli.rappor.decode_counts import CountedEstimate
    from overstory.cli.rappor.decode_pairs import PairAnswer
    from overstory.presentation.document import Block
    from overstory.protocol.metrics import Metric
    from overstory.queries.comparison import Comparison
    from overstory.queries.counts import PeriodCounts
    from overstory.queries.readings import Aggregation, EstimateOptions, Reading

    Answer = Reading | Comparison | CountedEstimate | PairAnswer
    RangeReader = Callable[..., PeriodCounts]
    """From the labels of the first and last period, either of them None, and a group, or None: all devices."""


def run_store(args: argparse.Namespace) -> int:
    metric = read_metric(args)
    kind: Aggregation = "per-period" if args.per_period else "cumulative" if args.cumulative else "total"
    check_pipes(args)
    reading = _reading(args, metric, kind)
    if args.plot:
        from overstory.cli.output import draw_panels

        draw_panels(args.plot, *reading.panels())

    def blocks(written: Path | None) -> Iterable[Block]:
        return reading.blocks(everything=args.all, written=None if written is None else str(written))

    show_answer(args, reading, reading.name, blocks)
    return 0


def _reading(args: argparse.Namespace, metric: Metric, kind: Aggregation) -> Reading:
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


def show_answer(
    args: argparse.Namespace, answer: Answer, name: str, blocks: Callable[[Path | None], Iterable[Block]]
) -> None:
    """Write an answer to the files that the options ask for, and print it as JSON or as blocks that name the file."""
    if args.output == "-":
        from overstory.files.io import writing_csv

        with writing_csv(args.output, spreadsheet=args.spreadsheet) as text:
            text.writelines(answer.csv_lines())
        return
    written = _write(args, answer, name) if args.output else None
    if args.json:
        print(_json(args, answer))
    else:
        from overstory.presentation.render_text import print_document

        print_document(blocks(None if args.quiet else written))


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
        from overstory.cli.rappor.decode_counts import open_exported
        from overstory.queries.sources.exported import read_exported

        with open_exported(args, metric) as exported:
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


def _json(args: argparse.Namespace, answer: Answer) -> str:
    """Return the facts and what was detected, or all values where the options say so."""
    return json.dumps(answer.to_json(everything=args.all), separators=(",", ":"), allow_nan=False)


def _write(args: argparse.Namespace, answer: Answer, name: str) -> Path:
    """Write NAME.csv (every value) and NAME.json (what was detected, and the facts to read it by)."""
    from overstory.files.io import writing_csv, writing_text

    folder = Path(args.output)
    folder.mkdir(parents=True, exist_ok=True)
    with writing_csv(folder / f"{name}.csv", spreadsheet=args.spreadsheet) as text:
        text.writelines(answer.csv_lines())
    with writing_text(folder / f"{name}.json") as text:
        text.write(_json(args, answer) + "\n")
    return folder / f"{name}.csv"


MOST_ROWS: Final = 20
"""Values in the text, and those that changed."""


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
    show_answer(args, compared, "comparison", lambda written: _compared_blocks(compared, written, everything=args.all))
    return 0


def _compared_blocks(compared: Comparison, written: Path | None, *, everything: bool) -> Iterator[Block]:
    yield from compared.blocks(None if everything else MOST_ROWS)
    ranges = [
        f"{name}: {'' if counted.group is None else f'group {counted.group}, '}"
        f"{plural(counted.num_reports, 'report')} from {counted.label(counted.first)} to {counted.label(counted.last)}"
        for name, counted in (("a", compared.a), ("b", compared.b))
    ]
    yield Lines(*ranges, *([] if written is None else [f"every value: {written}"]))
