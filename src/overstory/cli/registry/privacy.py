"""``overstory privacy``: every epsilon of a metric or an oracle, in plain words, with what each number rests on."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from overstory.cli.command import Answer
from overstory.cli.own_files import makers, mechanism_from, oracle_named
from overstory.presentation.document import Block, Lines, Paragraph
from overstory.presentation.formats import parameter_words, printable
from overstory.privacy import Claim, PrivacyStatement, statement
from overstory.privacy.approximate import DELTA
from overstory.privacy.registry.cost import yearly
from overstory.privacy.registry.page import metric_statement
from overstory.privacy.statements import claims_blocks
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Kind, check_count
from overstory.protocol.metrics import Metric, load_registry

if TYPE_CHECKING:
    from overstory.privacy import CentralPrivacy


def headline(metric: Metric) -> str:
    """Return the metric in a line, above what its oracle reveals."""
    capped = "" if metric.max_values is None else f", of at most {metric.max_values} values"
    often = f"one report every {metric.period}{capped}" if metric.panel is None else str(metric.panel)
    return f"{metric.id}: {printable(metric.title)}, {often}, until {metric.expires}"


SHOWN: Final = (1, 2, 3, 5, 10)
MOST_REPORTS: Final = 1000


def run(args: argparse.Namespace) -> Answer:
    if args.reports is not None:
        check_count("reports", args.reports, 1, MOST_REPORTS)
    extra = () if args.reports is None else (args.reports,)
    delta = DELTA if args.delta is None else args.delta
    args.oracle = oracle_named(args.oracle)
    metric = year = None
    if args.registry is not None:
        if args.oracle is None or args.params or args.param:
            raise ParameterError("with --registry FILE, give the id of one metric, and neither --param nor --params")
        registry = load_registry(args.registry, read_candidates=False)
        metric = registry[args.oracle]
        year = yearly([metric], registry.budget)
    if metric is None:
        reports = tuple(sorted({*SHOWN, *extra}))
        mechanism = _mechanism(args)
        stated = statement(mechanism, reports=reports, delta=delta)
    else:
        mechanism = metric.mechanism
        stated = metric_statement(metric, reports=extra, delta=delta)
    shuffled = None if args.shuffled is None else _shuffled(mechanism, args, metric)
    named = {} if metric is None or year is None else {"metric": metric.id, "headline": year.to_json()}
    others = {} if shuffled is None else {"central": shuffled.to_json()}
    return Answer(named | stated.to_json() | others, _blocks(metric, year, stated, shuffled))


def _shuffled(mechanism: Kind, args: argparse.Namespace, metric: Metric | None) -> CentralPrivacy:
    from overstory.privacy.payloads import shuffle as central  # alone --shuffled needs it

    if metric is not None and metric.groups is not None:
        raise ParameterError(f"{metric.id}: {central.GROUPED}")
    delta = central.DELTA if args.delta is None else args.delta
    return central.shuffled(mechanism, args.shuffled, delta, honest=args.honest)


def _mechanism(args: argparse.Namespace) -> Kind:
    if args.params:
        from overstory.files.rappor import read_params  # which loads NumPy

        if args.oracle not in {None, "rappor"} or args.param:
            raise ParameterError(
                "--params is for rappor: give either --params, or an oracle and its --param NAME=VALUE"
            )
        return read_params(args.params).mechanism()
    if args.oracle is None:
        raise ParameterError(f"give --params FILE, or an oracle: {', '.join(sorted(makers()))}")
    return mechanism_from(args.oracle, args.param)


def _blocks(
    metric: Metric | None,
    year: Claim | None,
    statement: PrivacyStatement,
    shuffled: CentralPrivacy | None,
) -> Iterator[Block]:
    if metric is not None and year is not None:
        yield Paragraph(headline(metric))
        yield Paragraph(year.sentence)
    given = {key: value for key, value in statement.parameters.items() if value not in (None, "")}
    yield Paragraph(f"{statement.mechanism}: {parameter_words(given)}")
    yield from claims_blocks(statement.claims)
    votes = statement.influence
    liars = f"A liar's report counts for up to {votes.up:.1f} honest ones of a value." if votes else ""
    yield Lines(statement.plain_words(), f"Linkable: {statement.linkable.words()}.", *([liars] if liars else []))
    if shuffled is not None:
        words = shuffled.words()
        yield Lines(f"{words[:1].upper()}{words[1:]}. It rests on this:", *shuffled.rests_on)
