"""``overstory simulate``: simulated devices report a registry's metrics to a collector."""

from __future__ import annotations

import argparse
import csv
import hashlib
import random
import shlex
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from overstory.cli.arguments import form_of, print_answer, token_of_environment
from overstory.cli.output import progress
from overstory.client.upload.http import http_transport
from overstory.files.io import writing_text
from overstory.presentation.document import Block, Column, Preformatted, Table
from overstory.presentation.formats import thousands
from overstory.presentation.streams import printable
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import Metric, MetricRegistry, load_registry
from overstory.protocol.wire.reasons import check_token
from overstory.trial.fleet import MOST_DEVICES, Fleet, Holders, Moment, ValueDistribution, moments, read_texts

NUMBERS = ("devices", "reports", "accepted", "refused")


def run(args: argparse.Namespace) -> int:
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
    begun, total = time.monotonic(), args.devices * len(when)
    with _address(args) as url, progress("simulating", total, quiet=args.quiet) as bar:
        fleet = _fleet(args, registry, url)
        fleet.run(holders.devices(args.devices), when, bar.advance if bar.is_shown else None)
    if args.truth:
        _write_truth(args.truth, when, holders)
    taken = time.monotonic() - begun
    outcomes = {name: outcome.to_json() for name, outcome in fleet.outcomes.items()}
    values = {"devices": args.devices, "seconds": round(taken, 3), "metrics": outcomes}
    print_answer(args, values, _blocks(args, fleet, metrics, taken))
    return 0


def _check(args: argparse.Namespace, most: int) -> None:
    if not 1 <= args.devices <= most:
        raise ParameterError(f"--devices {args.devices}: give a whole number from 1 to {most:,}")


def _populations(args: argparse.Namespace, metrics: Sequence[Metric]) -> dict[str, ValueDistribution]:
    if args.data is not None:
        if len(metrics) > 1:
            named = ", ".join(metric.id for metric in metrics)
            raise ParameterError(f"--data gives the values of one metric: choose one of {named} with --metric ID")
        return {
            metrics[0].id: ValueDistribution.of_texts(metrics[0], read_texts(args.data, args.column, form_of(args.csv)))
        }
    candidates = None
    if args.candidates is not None:
        from overstory.files.rappor import read_candidates  # which loads NumPy

        candidates = list(read_candidates(args.candidates))
    return {metric.id: ValueDistribution.of_values(metric, candidates) for metric in metrics}


def _random(seed: int | None) -> random.Random:
    return random.SystemRandom() if seed is None else random.Random(f"population {seed}")  # noqa: S311 - no secret


def _fleet(args: argparse.Namespace, registry: MetricRegistry, url: str) -> Fleet:
    token = check_token(token_of_environment("WRITE"))
    roots = None
    if args.seed is not None:
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
    from overstory.trial.service import CollectorService, ServiceError  # devices alone need no server

    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        try:
            with CollectorService(Path(args.registry), args.store, log) as service:
                yield service.url()
        except ServiceError as error:
            lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
            last = lines[-1].removeprefix("overstory: error: ") if lines else str(error)
            raise ServiceError(f"the collector did not run: {last}") from error


def _write_truth(path: str, when: Sequence[Moment], holders: Holders) -> None:
    with writing_text(path) as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("metric", "period", "string", "count", "proportion"))
        for moment, truth in zip(when, holders.truth, strict=True):
            period = moment.metric.period.label(moment.period)
            for label, number in truth.most_common():
                writer.writerow((moment.metric.id, period, label, number, number / truth.total()))


def _blocks(args: argparse.Namespace, fleet: Fleet, metrics: Sequence[Metric], taken: float) -> Iterator[Block]:
    rows, reasons = [], Counter[str]()
    for name, outcome in fleet.outcomes.items():
        numbers = {"reports": outcome.made, "accepted": outcome.accepted, "refused": outcome.dropped.total()}
        rows.append({"metric": name, "devices": args.devices} | numbers)
        reasons.update({f"refused, {reason}": number for reason, number in outcome.dropped.items()})
        reasons.update({f"not made, {reason}": number for reason, number in outcome.not_made.items()})
    yield Table("", (Column("metric", is_left=True), *(Column(name, text=thousands) for name in NUMBERS)), rows)
    said = [f"{reason}: {number:,}" for reason, number in reasons.items()]
    if said or not args.quiet:
        yield Preformatted("\n".join([*said, *([] if args.quiet else _closing(args, metrics, taken))]))


def _shown(store: str) -> str:
    from overstory.collector.store.databases.urls import shown_text

    return shown_text(store)


def _closing(args: argparse.Namespace, metrics: Sequence[Metric], taken: float) -> list[str]:
    lines = [f"{taken:.1f} s" + (f"; the true values are in {printable(args.truth)}" if args.truth else "")]
    where = ["--store", args.url if args.store is None else _shown(args.store)]
    for metric in metrics:
        command = ["overstory", "decode", *where, "--registry", args.registry, "--metric", metric.id]
        command += ["--candidates", args.candidates] if args.candidates and not metric.labels else []
        lines.append(printable(shlex.join(command)))
    return lines
