"""``overstory simulate``: simulated devices report a registry's metrics to a collector."""

from __future__ import annotations

import argparse
import json
import random
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overstory.cli.arguments import add_command, add_form, add_reporting, check_seed, form_of, token_of_environment
from overstory.presentation.streams import printable
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    import random

    from overstory.protocol.metrics import Metric, MetricRegistry
    from overstory.trial.fleet import Fleet, Holders, Moment, ValueDistribution

MORE = """\
Each device has its own secret, state and outbox, and randomizes like a real one. Only three things differ: its clock is
simulated, its state is in memory, and it sends without a delay. Reports are for the last T periods, the current one
included. Give the --url of a collector, or a --store: a collector then runs on it until the command ends."""

EXAMPLE = """\
overstory simulate --registry metrics.toml --devices 10000 --store trial.db --truth truth.csv
  overstory simulate --registry metrics.toml --devices 500 --periods 4 --url http://127.0.0.1:8000 --token TOKEN"""


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands, "simulate", "let simulated devices report to a collector", more=MORE, example=EXAMPLE
    )
    parser.add_argument("--registry", required=True, metavar="FILE", help="the metric registry")
    parser.add_argument("--devices", type=int, required=True, metavar="N", help="number of devices")
    parser.add_argument(
        "--periods", type=int, default=1, metavar="T", help="number of periods that each device reports (default: 1)"
    )
    parser.add_argument(
        "--metric", action="append", metavar="ID", help="only this metric; may be repeated (default: all)"
    )
    where = parser.add_argument_group("where reports go")
    where.add_argument("--url", metavar="URL", help="address of a running collector")
    where.add_argument(
        "--token", help="write token of the collector (default: OVERSTORY_WRITE_TOKEN in the environment)"
    )
    where.add_argument("--store", metavar="STORE", help="a store; a collector runs on it until the command ends")
    held = parser.add_argument_group("what devices hold")
    held.add_argument(
        "--population",
        choices=("uniform", "zipf"),
        default="zipf",
        help="distribution of values; zipf: the n-th value is 1/n as frequent as the first (default: zipf)",
    )
    held.add_argument("--candidates", metavar="FILE", help="values of a metric of strings, one per line")
    held.add_argument("--data", metavar="FILE", help="draw the values from a column of a CSV or Parquet file")
    held.add_argument("--column", metavar="C", help="column of the values")
    add_form(parser)
    held.add_argument(
        "--change",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="share of devices that draw another value each period (default: 0)",
    )
    held.add_argument(
        "--group", metavar="NAME", help="group of every device (default: drawn by the registry's public shares)"
    )
    held.add_argument(
        "--seed",
        type=int,
        metavar="S",
        help="seed: the same devices and values again; a collector counts their reports once",
    )
    parser.add_argument("--truth", metavar="FILE", help="write the devices' true values to this file, as CSV")
    add_reporting(parser)


def run(args: argparse.Namespace) -> int:
    from overstory.protocol.metrics import load_registry
    from overstory.trial.fleet import MOST_DEVICES, Holders, moments

    _check(args, MOST_DEVICES)
    registry = load_registry(args.registry)
    if args.store and registry.shards is not None:
        raise ParameterError(
            f"--store {_shown(args.store)}: the registry divides uploads over shards, each with a store of its own; "
            "give the --url of what is in front of their collectors, or a registry without [shards]"
        )
    metrics = [registry[name] for name in dict.fromkeys(args.metric or registry)]
    when = moments(metrics, args.periods, time.time())
    holders = Holders(_populations(args, metrics), when, args.change, _random(args.seed))
    begun = time.monotonic()
    with _address(args) as url, _progress(args, args.devices * len(when)) as advance:
        fleet = _fleet(args, registry, url)
        fleet.run(holders.devices(args.devices), when, advance)
    if args.truth:
        _write_truth(args.truth, when, holders)
    taken = time.monotonic() - begun
    if args.json:
        outcomes = {name: outcome.to_json() for name, outcome in fleet.outcomes.items()}
        print(json.dumps({"devices": args.devices, "seconds": round(taken, 3), "metrics": outcomes}, indent=2))
    else:
        print("\n".join([*_table(args, fleet), *([] if args.quiet else _closing(args, metrics, taken))]))
    return 0


def _check(args: argparse.Namespace, most: int) -> None:
    if (args.url is None) == (args.store is None):
        raise ParameterError("give either --url URL of a running collector, or --store FILE to start one on")
    if not 1 <= args.devices <= most:
        raise ParameterError(f"--devices {args.devices}: give a whole number from 1 to {most:,}")
    if (args.data is None) != (args.column is None):
        raise ParameterError("--data FILE and --column C go together")
    check_seed(args.seed)


def _populations(args: argparse.Namespace, metrics: Sequence[Metric]) -> dict[str, ValueDistribution]:
    from overstory.trial.fleet import ValueDistribution, read_texts

    if args.data is not None:
        if len(metrics) > 1:
            named = ", ".join(metric.id for metric in metrics)
            raise ParameterError(f"--data gives the values of one metric: choose one of {named} with --metric ID")
        return {
            metrics[0].id: ValueDistribution.of_texts(metrics[0], read_texts(args.data, args.column, form_of(args)))
        }
    candidates = None
    if args.candidates is not None:
        from overstory.files.rappor import read_candidates

        candidates = list(read_candidates(args.candidates))
    return {metric.id: ValueDistribution.of_shape(metric, args.population, candidates) for metric in metrics}


def _random(seed: int | None) -> random.Random:
    import random

    return random.SystemRandom() if seed is None else random.Random(f"population {seed}")  # noqa: S311 - no secret


def _fleet(args: argparse.Namespace, registry: MetricRegistry, url: str) -> Fleet:
    from overstory.client.upload.http import http_transport
    from overstory.protocol.wire.reasons import check_token
    from overstory.trial.fleet import Fleet

    token = check_token(args.token if args.token is not None else token_of_environment("WRITE"))
    roots = None
    if args.seed is not None:
        import hashlib

        numbers = count()

        def roots() -> bytes:
            return hashlib.blake2b(f"{args.seed} {next(numbers)}".encode(), digest_size=32, person=b"simulate").digest()

    groups = _groups(args, registry)
    return Fleet(registry, url, http_transport(), token="" if args.store else token, roots=roots, groups=groups)


def _groups(args: argparse.Namespace, registry: MetricRegistry) -> Callable[[], Mapping[str, str]]:
    """Return what gives each device its group: the one that is asked for, or one drawn by the public shares."""
    listed = next((metric.groups for metric in registry.values() if metric.groups is not None), None)
    if listed is None:
        if args.group is not None:
            raise ParameterError("--group: no metric of this registry has groups")
        return dict
    names = listed.names if args.group is None else (args.group,)
    shares, rng = [listed.share(name) for name in names], _random(args.seed)
    if args.group is not None:
        return lambda: {listed.by: args.group}
    return lambda: {listed.by: rng.choices(names, shares)[0]}


@contextmanager
def _address(args: argparse.Namespace) -> Iterator[str]:
    """Give the collector's address; with --store, run one meanwhile."""
    if args.url is not None:
        yield args.url
        return
    import tempfile

    from overstory.trial.service import CollectorService, ServiceError

    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        try:
            with CollectorService(Path(args.registry), args.store, log) as service:
                yield service.url()
        except ServiceError as error:
            lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
            last = lines[-1].removeprefix("overstory: error: ") if lines else str(error)
            raise ServiceError(f"the collector did not run: {last}") from error


@contextmanager
def _progress(args: argparse.Namespace, total: int) -> Iterator[Callable[[int], object] | None]:
    """Show the number of finished reports on the error stream, if it is a terminal."""
    if args.quiet or not sys.stderr.isatty():
        yield None
        return
    done = 0

    def advance(number: int) -> None:
        nonlocal done
        done += number
        print(f"\r{done:,} of {total:,} reports", end="", file=sys.stderr, flush=True)

    try:
        yield advance
    finally:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _write_truth(path: str, when: Sequence[Moment], holders: Holders) -> None:
    import csv

    from overstory.files.io import writing_text

    with writing_text(path) as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("metric", "period", "string", "count", "proportion"))
        for moment, truth in zip(when, holders.truth, strict=True):
            period = moment.metric.period.label(moment.period)
            for label, number in truth.most_common():
                writer.writerow((moment.metric.id, period, label, number, number / truth.total()))


def _table(args: argparse.Namespace, fleet: Fleet) -> list[str]:
    from collections import Counter

    rows: list[tuple[str, ...]] = [("metric", "devices", "reports", "accepted", "refused")]
    reasons: Counter[str] = Counter()
    for name, outcome in fleet.outcomes.items():
        numbers = (args.devices, outcome.made, outcome.accepted, outcome.dropped.total())
        rows.append((name, *(f"{number:,}" for number in numbers)))
        reasons.update({f"refused, {reason}": number for reason, number in outcome.dropped.items()})
        reasons.update({f"not made, {reason}": number for reason, number in outcome.not_made.items()})
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        f"{row[0]:<{widths[0]}}  "
        + "  ".join(f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        for row in rows
    ]
    return [*lines, *(f"{reason}: {number:,}" for reason, number in reasons.items())]


def _shown(store: str) -> str:
    from overstory.collector.store.databases.urls import shown_text

    return shown_text(store)


def _closing(args: argparse.Namespace, metrics: Sequence[Metric], taken: float) -> list[str]:
    lines = [f"{taken:.1f} s" + (f"; the true values are in {printable(args.truth)}" if args.truth else "")]
    where = ["--url", args.url] if args.store is None else ["--store", _shown(args.store)]
    for metric in metrics:
        command = ["overstory", "decode", *where, "--registry", args.registry, "--metric", metric.id]
        command += ["--candidates", args.candidates] if args.candidates and not metric.labels else []
        lines.append(printable(shlex.join(command)))
    return lines
