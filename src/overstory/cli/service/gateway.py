"""``overstory gateway``: reports a meter's readings, one randomized report per period."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from overstory.cli.arguments import add_command, add_reporting, print_outcome, token_of_environment
from overstory.privacy.text import epsilon_text, plural
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.client.upload.delivery import Sink
    from overstory.gateway.gateway import Gateway, Lines
    from overstory.gateway.readings import BadLine, Format, Layout, Reading

MORE = """\
Readings are lines with a time and a value. Each period of the metric is reported once, after its end: the state folder
remembers this through restarts and crashes. One state folder is one device. For a file, the times in it are the clock,
so that a year takes seconds; a stream (-) is followed in real time."""


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "gateway",
        "report a meter's readings once per period",
        more=MORE,
        example="overstory gateway --metric energy --registry metrics.toml --readings - --server https://collector.test",
    )
    parser.add_argument("--metric", required=True, metavar="ID", help="a metric of the registry")
    parser.add_argument("--registry", required=True, metavar="FILE", help="the metric registry")
    _add_readings(parser)
    _add_periods(parser)
    device = parser.add_argument_group("the device and where its reports go")
    device.add_argument("--state", metavar="DIR", help="the device's state (default: the platform's folder)")
    device.add_argument(
        "--agree", choices=("on", "local"), help="consent to this registry's metrics; local: nothing is sent"
    )
    device.add_argument("--group", metavar="NAME", help="public group of the device, sent in clear (default: other)")
    device.add_argument("--server", metavar="URL", help="address of the collector")
    device.add_argument(
        "--token", help="write token of the collector (default: OVERSTORY_WRITE_TOKEN in the environment)"
    )
    device.add_argument("--output", metavar="FILE", help="write the uploads to this file instead of sending them")
    device.add_argument("--spread", type=float, metavar="SECONDS", help="longest random delay before sending")
    add_reporting(parser)


def _add_readings(parser: argparse.ArgumentParser) -> None:
    readings = parser.add_argument_group("readings")
    readings.add_argument("--readings", required=True, metavar="FILE", help="file of readings; -: standard input")
    readings.add_argument("--format", choices=("csv", "jsonl"), help="default: from the file's name, else csv")
    readings.add_argument(
        "--time-column", default="time", metavar="NAME", help="column of times: a name, or a number from 1"
    )
    readings.add_argument(
        "--value-column", default="value", metavar="NAME", help="column of values: a name, or a number from 1"
    )
    readings.add_argument(
        "--timezone", default="UTC", metavar="ZONE", help="time zone of times without an offset (default: UTC)"
    )
    readings.add_argument("--strict", action="store_true", help="stop at the first bad line instead of counting it")


def _add_periods(parser: argparse.ArgumentParser) -> None:
    periods = parser.add_argument_group("periods")
    periods.add_argument(
        "--pick",
        choices=("last", "mean", "sum"),
        default="last",
        help="value of a period with several readings (default: last)",
    )
    periods.add_argument(
        "--missing",
        choices=("skip", "repeat", "zero"),
        default="skip",
        help="value of a period without readings (default: skip)",
    )
    periods.add_argument(
        "--clock",
        choices=("real", "readings"),
        help="clock that ends periods (default: real for a stream, readings for a file)",
    )
    periods.add_argument(
        "--wait",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="how long a stream waits for late readings after a period (default: 60)",
    )


def run(args: argparse.Namespace) -> int:
    from overstory.client.client import WEEK, seconds
    from overstory.gateway.gateway import Gateway, Lines, Settings, bounded_lines
    from overstory.gateway.readings import read_lines
    from overstory.protocol.metrics import load_registry

    if args.server and args.output:
        raise ParameterError("--server and --output exclude each other: give one")
    wait = seconds("--wait", args.wait, 0.0, WEEK)
    streamed = args.readings == "-"
    settings = Settings(
        metric=args.metric,
        state=args.state,
        pick=args.pick,
        missing=args.missing,
        clock=args.clock or ("real" if streamed else "readings"),
        spread=args.spread,
        agree=args.agree,
        group=args.group,
    )
    registry, layout = load_registry(args.registry, read_candidates=False), _layout(args)
    lines = Lines("standard input" if streamed else args.readings, args.strict)
    with ExitStack() as opened:
        stream: BinaryIO = sys.stdin.buffer if streamed else opened.enter_context(Path(args.readings).open("rb"))
        gateway = Gateway(registry, settings, _sink(args, opened))
        opened.callback(gateway.close)
        _run(gateway, read_lines(bounded_lines(stream), layout, gateway.metric, lines.source), lines, wait)
        outcome = {"lines": lines.to_json(), **gateway.summary()}
    for bad in lines.shown[:5]:
        print(f"overstory: {bad.error(lines.source)}", file=sys.stderr)
    print_outcome(args, outcome, *outcome_lines(outcome))
    return 0


def _run(gateway: Gateway, items: Iterator[Reading | BadLine], lines: Lines, wait: float) -> None:
    from overstory.gateway.gateway import LOG, follow, replay
    from overstory.supervision.log import begin_log

    if gateway.settings.clock == "real":
        begin_log(LOG)
        follow(gateway, items, lines, wait=wait)
    else:
        replay(gateway, items, lines)


def _layout(args: argparse.Namespace) -> Layout:
    from overstory.gateway.readings import Layout, zone_named

    by_name: Format = "jsonl" if args.readings.endswith((".jsonl", ".ndjson")) else "csv"
    return Layout(args.format or by_name, args.time_column, args.value_column, zone_named(args.timezone))


def _sink(args: argparse.Namespace, opened: ExitStack) -> Sink | None:
    if args.output:
        from overstory.gateway.sinks import FileSink

        file = FileSink(args.output)
        opened.callback(file.close)
        return file
    if args.server:
        from overstory.client.upload.http import endpoint, http_transport
        from overstory.gateway.sinks import CollectorSink
        from overstory.protocol.wire.reasons import check_token

        endpoint(args.server)
        token = check_token(args.token if args.token is not None else token_of_environment("WRITE"))
        return CollectorSink(args.server, http_transport(), token)
    return None


def outcome_lines(outcome: dict[str, Any]) -> list[str]:
    """Return the outcome in sentences."""
    from overstory.client.outcomes import MADE
    from overstory.privacy.registry.cost import PATTERN

    lines, seen, spent = outcome["lines"], outcome["readings"], outcome["privacy"]
    dropped = sum(outcome["dropped"].values())
    made = sum(n for word, n in outcome["reports"].items() if word in MADE)
    refused = ", ".join(f"{n:,} {word}" for word, n in outcome["reports"].items() if word != "recorded")
    readings = (
        f"{plural(lines['read'], 'line')}, {lines['bad']:,} bad; readings: {seen['used']:,} used, "
        f"{seen['late']:,} late, {seen['duplicate']:,} duplicate, {seen['already']:,} reported before"
    )
    reports = (
        f"{plural(made, 'period')} reported{f' ({refused})' if refused else ''}, {seen['missing']:,} missing, "
        f"of which {seen['filled']:,} filled; {outcome['handed_over']:,} handed over, {dropped:,} refused, "
        f"{outcome['waiting']:,} waiting" + (f" ({outcome['trouble']})" if outcome["trouble"] else "")
    )
    window = ""
    if spent["window"] is not None:
        window = f", {_epsilon(spent['epsilon_window'])} for any {spent['window']} reports in a row"
    total = f"{_epsilon(spent['epsilon_any'])} for all {spent['reports']:,} so far, for any values"
    if spent["epsilon_at_delta"] != spent["epsilon_any"]:
        total += f" ({_epsilon(spent['epsilon_at_delta'])} at delta {spent['delta']:g})"
    if spent["epsilon_total"] != spent["epsilon_any"]:
        total += f", {_epsilon(spent['epsilon_total'])} {PATTERN}"
    return [readings, reports, f"privacy: epsilon {_epsilon(spent['epsilon_report'])} for one report{window}, {total}"]


def _epsilon(number: float | None) -> str:
    return epsilon_text(math.inf if number is None else number, "without bound")
