"""``overstory audit -- COMMAND``: hold a client, in any language, against the parameters that it declares."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from overstory.cli.arguments import add_command, add_hashing, add_option, given, hashing, print_answer
from overstory.cli.progress import progress
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.analysis.decoding.candidates import CandidateMap
    from overstory.audit.answers import Declared
    from overstory.audit.clients import AuditedClient
    from overstory.protocol.kinds.base import Kind
    from overstory.protocol.metrics import Metric

MORE = """\
COMMAND reads lines of client,cohort,value on its standard input and writes a report for each: a header with client,
cohort and irr, then one line a report. Bits are text, most significant first; symbols are numbers. It runs several
times: for fresh devices, three times at once, and for devices that report two values repeatedly. Where {metric} stands
in COMMAND, the metric's id replaces it, and the devices are asked once more as --second-metric. --client audits the
library's own randomizer instead.

Exit status: 0 no fault was found, 1 the client violates or deviates from what it declares, 2 the input or COMMAND
failed. A right client is accused with probability at most 2 alpha: alpha for all checks together, and alpha for the
bound of epsilon. No audit proves an epsilon: it bounds it from below."""

EXAMPLE = """\
overstory audit --params params.csv -- overstory encode --params params.csv --values - -o -
  overstory audit --oracle oue --param domain_size=8 --param epsilon=1 --client
  overstory audit --registry metrics.toml --metric colour --own-cohorts --restart -- ./client --audit"""

FAULTY: Final = 1


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "audit",
        "test a client, in any language, against its declared parameters",
        more=MORE,
        example=EXAMPLE,
    )
    declared = parser.add_argument_group("what is declared (one of)")
    add_option(declared, "--params")
    declared.add_argument("--oracle", metavar="NAME", help="an oracle: rappor, oue, olh, ...")
    add_option(declared, "--param")
    add_option(declared, "--registry", help="a metric registry; with --metric")
    declared.add_argument("--metric", metavar="ID", help="the metric of the registry")
    declared.add_argument("--map", metavar="FILE", help="a candidate map: ask its strings, with its bits")
    add_hashing(declared, note=", with --params")
    run = parser.add_argument_group("how it is audited")
    run.add_argument("--client", action="store_true", help="audit the library's own randomizer, in this process")
    run.add_argument("--reports", type=int, default=100_000, metavar="N", help="fresh devices (default: 100,000)")
    run.add_argument(
        "--repeats", type=int, default=16, metavar="T", help="reports of a device, of each of two values (default: 16)"
    )
    run.add_argument(
        "--second-metric", default="second", metavar="ID", help="with the same parameters (default: second)"
    )
    chance = (
        "chance that a right client fails a check, and, apart from that, that its bound is too high (default: 0.001)"
    )
    run.add_argument("--alpha", type=float, default=0.001, help=chance)
    run.add_argument("--restart", action="store_true", help="COMMAND remembers its clients: run it again, and compare")
    run.add_argument("--own-cohorts", action="store_true", help="clients choose their cohorts: the column is empty")
    run.add_argument("--timeout", type=float, default=600.0, metavar="S", help="seconds of one run (default: 600)")
    add_option(parser, "--json")
    add_option(parser, "--quiet", help="show no progress")
    parser.add_argument("program", nargs="*", metavar="COMMAND", help="the client, after --")


def run(args: argparse.Namespace) -> int:
    from overstory.audit.audit import Settings, audit

    settings = Settings(args.reports, args.repeats, args.alpha, restart=args.restart, own_cohorts=args.own_cohorts)
    client = _client(args)
    declared = _declared(args)
    with progress("asking", settings.lines(takes_metric=client.takes_metric), quiet=args.quiet) as shown:
        result = audit(declared, client, settings, advance=shown.reach)
    print_answer(args, result.to_json(), result.blocks())
    return 0 if result.verdict == "no fault found" else FAULTY


def _client(args: argparse.Namespace) -> AuditedClient:
    from overstory.audit.clients import OwnClient, Program

    if args.client == bool(args.program):
        raise ParameterError("give either the client's command, after --, or --client for the library's own")
    if not args.timeout > 0:
        raise ParameterError(f"--timeout {args.timeout:g}: give a number of seconds above 0")
    return (
        OwnClient()
        if args.client
        else Program(args.program, args.timeout, (args.metric or "first", args.second_metric))
    )


def _declared(args: argparse.Namespace) -> Declared:
    """Return what is declared, from exactly one of its three forms."""
    from overstory.audit.answers import declare

    forms = [name for name in ("params", "oracle", "registry") if getattr(args, name)]
    if len(forms) != 1:
        raise ParameterError(
            "give what the client declares, in one form: --params FILE, --oracle NAME with --param NAME=VALUE, or "
            "--registry FILE with --metric ID"
        )
    for option, form in (
        ("param", "oracle"),
        ("metric", "registry"),
        ("hash_family", "params"),
        ("hash_key", "params"),
    ):
        if getattr(args, option) and form not in forms:
            raise ParameterError(f"{given(args, [option])[0]} needs --{form}")
    mechanism, metric = _mechanism(args)
    return declare(mechanism, metric=metric, candidates=_map(args, mechanism) if args.map else None)


def _mechanism(args: argparse.Namespace) -> tuple[Kind, Metric | None]:
    if args.params:
        from overstory.files.rappor import read_params

        return read_params(args.params).mechanism(**hashing(args)), None
    if args.oracle:
        from overstory.cli.registry.privacy import mechanism_from

        return mechanism_from(args.oracle, args.param), None
    from overstory.protocol.metrics import load_registry

    if not args.metric:
        raise ParameterError(f"--registry {args.registry}: give the metric, --metric ID")
    metric = load_registry(args.registry)[args.metric]
    return metric.mechanism, metric


def _map(args: argparse.Namespace, mechanism: Any) -> CandidateMap:
    from overstory.files.rappor import read_map

    encoding = mechanism.encoding
    if not encoding.decoded:
        raise ParameterError(f"--map is for RAPPOR's filters: {mechanism.name} hashes no strings into bits")
    sizes = {"num_bits": encoding.num_bits, "num_hashes": encoding.num_hashes, "num_cohorts": encoding.num_cohorts}
    return read_map(args.map, **sizes)
