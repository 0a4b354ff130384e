"""``overstory privacy``: every epsilon of a metric or an oracle, in plain words, with what each number rests on."""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from overstory.cli.arguments import (
    add_command,
    add_hashing,
    add_option,
    check_plot,
    given,
    hashing,
    print_answer,
)
from overstory.presentation.document import Lines, Paragraph, Preformatted
from overstory.privacy.text import epsilon_text, parameter_words
from overstory.protocol.errors import OverstoryError, ParameterError

if TYPE_CHECKING:
    from overstory.presentation.document import Block
    from overstory.privacy import CentralPrivacy, Claim, PrivacyStatement
    from overstory.privacy.terms import Terms
    from overstory.protocol.kinds.base import Kind
    from overstory.protocol.kinds.registry import Builders
    from overstory.protocol.metrics import Metric


REGISTRY_FILE: Final = "metrics.toml"


def find_metric(args: argparse.Namespace) -> Metric | None:
    """Return the metric that is meant; None for an oracle, or RAPPOR's file of parameters.

    With ``--registry`` a name is a metric's. Without, it is an oracle's, if an oracle has that name; else a metric's of
    the registry in this folder.
    """
    from overstory.protocol.metrics import load_registry

    others = args.oracle is None or args.params or args.param
    if args.registry is not None:
        if others:
            raise ParameterError("with --registry FILE, give the id of one metric, and neither --param nor --params")
        return load_registry(args.registry, read_candidates=False)[args.oracle]
    if others or not Path(REGISTRY_FILE).exists():
        return None
    oracles = _oracles()
    if args.oracle in oracles:
        _warn_of_namesake(args.oracle)
        return None
    registry = load_registry(REGISTRY_FILE, read_candidates=False)
    if args.oracle not in registry:
        names = f"a metric of {REGISTRY_FILE} ({', '.join(registry)}) nor an oracle ({', '.join(oracles)})"
        raise ParameterError(f"{args.oracle!r} is neither {names}")
    return registry[args.oracle]


def _oracles() -> list[str]:
    return sorted(_makers())


def _makers() -> Builders[Kind]:
    from overstory.protocol.kinds.registry import BUILDERS, Builders, names_for

    names = names_for(("symbols", "strings", "ordered", "numbers", "sets"))
    return Builders({name: BUILDERS.places[name] for name in names})


def _warn_of_namesake(name: str) -> None:
    """Print a note if a metric of the registry in this folder has the oracle's name."""
    from overstory.protocol.metrics import load_registry

    with contextlib.suppress(OverstoryError, OSError):
        if name in load_registry(REGISTRY_FILE, read_candidates=False):
            both = f"{name} is an oracle, and a metric of {REGISTRY_FILE}: this is the oracle"
            print(f"overstory: note: {both}; give --registry {REGISTRY_FILE} for the metric", file=sys.stderr)


def headline(metric: Metric) -> str:
    """Return the metric in a line, above what its oracle reveals."""
    from overstory.presentation.streams import printable

    capped = "" if metric.max_values is None else f", of at most {metric.max_values} values"
    often = f"one report every {metric.period}{capped}, until {metric.expires}"
    return f"{metric.id}: {printable(metric.title)}, {often}"


MORE = """\
Give a metric of a registry (--registry FILE, or ./metrics.toml if it exists), an oracle with its parameters, or
--params for RAPPOR. A name that is both a metric and an oracle means the oracle, unless --registry is given.
Epsilon is the privacy loss (smaller is more private): exact, and rounded up. The odds say what it means: how far a
report can move the odds between any two values."""

EXAMPLE = """\
overstory privacy search-engine --registry metrics.toml
  overstory privacy loloha --param epsilon_permanent=2 --param epsilon_report=1
  overstory privacy --params params.csv --reports 20 --values 3 --plot epsilons.svg"""

SHOWN: Final = (1, 2, 3, 5, 10)
DRAWN: Final = (1, 2, 3, 5, 10, 20, 50, 100)
BAR: Final = 24
MOST_REPORTS: Final = 1000


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers, "privacy", "state what a metric or an oracle reveals, and why", more=MORE, example=EXAMPLE
    )
    parser.add_argument(
        "oracle",
        nargs="?",
        metavar="METRIC|ORACLE",
        help="a metric's id, or an oracle: rappor, loloha, square-wave, ...",
    )
    add_option(parser, "--registry", help=f"the metric's registry (default: {REGISTRY_FILE}, if it exists)")
    add_option(parser, "--param")
    add_option(parser, "--params")
    parser.add_argument("--reports", type=int, metavar="N", help="also state epsilon for N reports of a device")
    parser.add_argument("--values", type=int, metavar="D", help="also state epsilon for D distinct values of a device")
    parser.add_argument(
        "--delta",
        type=float,
        help="the chance by which an epsilon may be exceeded, where noise is fresh (default: 1e-6) or with --shuffled "
        "(default: 1e-9)",
    )
    parser.add_argument(
        "--shuffled", type=int, metavar="N", help="also state what reports reveal that arrive shuffled among N others'"
    )
    honest, periods = "with --shuffled: the honest share (default: 1)", "with --shuffled: reports of one value"
    parser.add_argument("--honest", type=float, default=1.0, metavar="SHARE", help=honest)
    parser.add_argument("--periods", type=int, metavar="T", help=f"{periods} (default: any number)")
    add_option(parser, "--plot", help="draw epsilon against the number of reports into this file, an .svg")
    add_hashing(parser, note=", with --params")
    add_option(parser, "--json", help="print the statement as JSON")


def run(args: argparse.Namespace) -> int:
    from overstory.presentation.formats import finite
    from overstory.privacy import statement
    from overstory.privacy.approximate import DELTA
    from overstory.privacy.histories.pairs import check_reports
    from overstory.privacy.registry.page import metric_statement

    check_plot(args.plot)
    idle = [] if args.params else given(args, ("hash_family", "hash_key"))
    if idle:
        parameter = idle[0].removeprefix("--").replace("-", "_")
        raise ParameterError(f"{idle[0]} needs --params; for an oracle give --param {parameter}=...")
    if args.shuffled is None and (args.honest != 1 or args.periods is not None):
        raise ParameterError("--honest and --periods are about shuffled reports: give --shuffled N")
    extra = () if args.reports is None else (check_reports(args.reports, 1, MOST_REPORTS),)
    delta = DELTA if args.delta is None else args.delta
    metric = find_metric(args)
    if metric is None:
        reports = tuple(sorted({*SHOWN, *extra}))
        changes = tuple(sorted({2, *(n for n in extra if n > 1)}))
        mechanism = _mechanism(args)
        stated = statement(mechanism, reports=reports, change_reports=changes, delta=delta)
    else:
        mechanism = metric.mechanism
        stated = metric_statement(metric, reports=extra, delta=delta)
        args.values = metric.max_values if args.values is None else args.values
    values = None if args.values is None else stated.values_claim(args.values, reports=args.reports)
    central = None if args.shuffled is None else _shuffled(mechanism, args, metric)
    if args.plot:
        from overstory.cli.output import draw
        from overstory.presentation.charts.curves import loss_of_a_device

        draw(args.plot, [loss_of_a_device(stated.mechanism, stated.terms.epsilon_n, stated.terms.epsilon_any)])
    named = {} if metric is None else {"metric": metric.id}
    of_values = {} if values is None else {"values": args.values, "epsilon_values": finite(values.epsilon)}
    shuffled = {} if central is None else {"central": central.to_json()}
    print_answer(args, named | stated.to_json() | of_values | shuffled, _blocks(metric, stated, values, central))
    return 0


def _shuffled(mechanism: Kind, args: argparse.Namespace, metric: Metric | None) -> CentralPrivacy:
    from overstory.privacy.shuffle.central import DELTA, GROUPED, shuffled

    if metric is not None and metric.groups is not None:
        raise ParameterError(f"{metric.id}: {GROUPED}")
    delta = DELTA if args.delta is None else args.delta
    return shuffled(mechanism, args.shuffled, delta, periods=args.periods, honest=args.honest)


def _mechanism(args: argparse.Namespace) -> Kind:
    if args.params:
        from overstory.files.rappor import read_params

        if args.oracle not in {None, "rappor"} or args.param:
            raise ParameterError(
                "--params is for rappor: give either --params, or an oracle and its --param NAME=VALUE"
            )
        return read_params(args.params).mechanism(**hashing(args))
    if args.oracle is None:
        raise ParameterError(f"give --params FILE, or an oracle: {', '.join(_oracles())}")
    return mechanism_from(args.oracle, args.param)


def mechanism_from(name: str, texts: list[str]) -> Kind:
    """Build a mechanism from texts, each read by the annotation of its parameter."""
    import inspect

    from overstory.protocol.kinds.registry import build_from

    makers = _makers()
    accepted = inspect.signature(makers[name]).parameters if name in makers else {}
    parameters: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or key in parameters:
            raise ParameterError(f"--param {text}: give NAME=VALUE, once for each name")
        parameters[key] = _read(key, value, str(accepted[key].annotation)) if key in accepted else value
    return build_from(makers, name, parameters)


def _read(name: str, text: str, kind: str) -> Any:
    try:
        if kind.startswith("bool"):
            return {"true": True, "false": False}[text.lower()]
        return int(text) if kind.startswith("int") else float(text) if kind.startswith("float") else text
    except (KeyError, ValueError):
        wanted = {"bool": "true or false", "int": "a whole number"}.get(kind.partition(" ")[0], "a number")
        raise ParameterError(f"--param {name}={text}: give {wanted}") from None


def _blocks(
    metric: Metric | None, statement: PrivacyStatement, values: Claim | None, central: CentralPrivacy | None
) -> Iterator[Block]:
    from overstory.privacy.statements import claims_blocks

    if metric is not None:
        yield Paragraph(headline(metric))
    given = {key: value for key, value in statement.parameters.items() if value not in (None, "")}
    yield Paragraph(f"{statement.mechanism}: {parameter_words(given)}")
    yield from claims_blocks(statement.claims if values is None else (*statement.claims, values))
    if not statement.terms.once:
        yield Preformatted("\n".join(_picture(statement.terms)))
    votes = statement.influence
    liars = f"A liar's report counts for up to {votes.up:.1f} honest ones of a value." if votes else ""
    yield Lines(statement.plain_words(), f"Linkable: {statement.linkable.words()}.", *([liars] if liars else []))
    if central is not None:
        yield from central.blocks()


def _picture(terms: Terms) -> Iterator[str]:
    """Draw epsilon against the number of reports, in the terminal; each column on a scale of its own."""
    one = [terms.epsilon_n(n) for n in DRAWN]
    change = [terms.change_leak(n) if n > 1 else 0.0 for n in DRAWN]
    tops = [max((e for e in column if math.isfinite(e)), default=0.0) or 1.0 for column in (one, change)]
    yield f"reports  {'of one unchanged value':<{BAR + 11}}in which the value changed once"
    for n, *both in zip(DRAWN, one, change, strict=True):
        bars = (f"{_bar(e, top)} {epsilon_text(e):<10}" for e, top in zip(both, tops, strict=True))
        yield f"{n:>7}  {''.join(bars)}".rstrip()


def _bar(epsilon: float, top: float) -> str:
    cells = BAR if math.isinf(epsilon) else round(BAR * epsilon / top)
    return f"{'█' * cells:<{BAR}}"
