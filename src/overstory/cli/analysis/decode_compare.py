"""``overstory decode --compare A..B C..D``: what changed between two ranges of periods."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from overstory.cli.arguments import check_pipes
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from overstory.presentation.document import Block
    from overstory.queries.readings import RangeComparison

MOST_ROWS: Final = 20
"""Values in the text, and those that changed."""


NO_EFFECT: Final = (("plot", "--plot"), ("steps", "--steps"), ("delta", "--delta"), ("honest", "--honest"))


def run_compare(args: argparse.Namespace) -> int:
    """Run the command for two ranges."""
    from overstory.cli.analysis.decode_store import open_source, read_metric, read_options, show_answer
    from overstory.queries.comparison import check_apart, parse_span
    from overstory.queries.readings import compare

    for name, option in (("first", "--from"), ("last", "--to"), *NO_EFFECT):
        if getattr(args, name) is not None:
            raise ParameterError(f"{option} has no effect with --compare, which has two ranges and their differences")
    check_pipes(args)
    metric = read_metric(args)
    spans = [parse_span(metric, text) for text in args.compare]
    check_apart(metric, spans[0], spans[1])
    label = metric.period.label
    with open_source(args, metric) as read_range:  # a search reads the answers themselves
        a, b = (read_range((label(first), label(last)), args.group) for first, last in spans)
        compared = compare(a, b, read_options(args), overlap=args.overlap or 0.0)
    show_answer(args, compared, "comparison", lambda written: _blocks(compared, written, everything=args.all))
    return 0


def run_compare_groups(args: argparse.Namespace) -> int:
    """Run the command for two groups."""
    from overstory.cli.analysis.decode_store import open_source, read_metric, read_options, show_answer
    from overstory.queries.readings import compare

    for name, option in NO_EFFECT:
        if getattr(args, name) is not None:
            raise ParameterError(f"{option} has no effect with --compare-groups, which has differences of two groups")
    first, second = args.compare_groups
    if first == second:
        raise ParameterError(f"--compare-groups {first} {second}: give two different groups")
    check_pipes(args)
    metric = read_metric(args)
    with open_source(args, metric) as read_range:
        a, b = (read_range((args.first, args.last), group) for group in (first, second))
        compared = compare(a, b, read_options(args))
    show_answer(args, compared, "comparison", lambda written: _blocks(compared, written, everything=args.all))
    return 0


def _blocks(compared: RangeComparison, written: Path | None, *, everything: bool) -> Iterator[Block]:
    from overstory.presentation.document import Lines
    from overstory.privacy.text import plural

    yield from compared.blocks(None if everything else MOST_ROWS)
    ranges = [
        f"{name}: {'' if counted.group is None else f'group {counted.group}, '}"
        f"{plural(counted.num_reports, 'report')} from {counted.label(counted.first)} to {counted.label(counted.last)}"
        for name, counted in (("a", compared.a), ("b", compared.b))
    ]
    yield Lines(*ranges, *([] if written is None else [f"every value: {written}"]))
