"""``overstory simulate``: simulated devices report a registry's metrics to a collector."""

from __future__ import annotations

import argparse
import csv
import hashlib
import random
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Final

from overstory.cli.command import Answer, form_of, is_address, progress, token_of_environment
from overstory.client.upload.http import Request, Response, Transport, http_transport
from overstory.files.io import writing_text
from overstory.presentation.document import Block, Column, Preformatted, Table
from overstory.presentation.formats import plural, printable, thousands
from overstory.privacy.registry.cost import yearly
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import Metric, MetricRegistry, load_registry
from overstory.protocol.wire.reasons import check_token
from overstory.trial.fleet import MOST_DEVICES, Fleet, Holders, Moment, ValueDistribution, moments, read_texts

UPLOADS: Final = 10_000  # uploads that a store takes in one commit

NUMBERS: Final = ("devices", "reports", "accepted", "refused")


def run(args: argparse.Namespace) -> Answer:
    if not 1 <= args.devices <= MOST_DEVICES:
        raise ParameterError(f"--devices {args.devices}: give a whole number from 1 to {MOST_DEVICES:,}")
    if args.years is not None and is_address(args.store):
        raise ParameterError(f"--years {args.years}: a running collector takes no reports of years past: give a store")
    registry = load_registry(args.registry)
    metrics = [registry[name] for name in dict.fromkeys(args.metric or registry)]
    when = moments(metrics, args.periods, time.time(), args.years)
    holders = Holders(_populations(args, metrics), when, args.change, _random(args.seed))
    begun, total = time.monotonic(), args.devices * len(when)
    with _collector(args, registry) as post, progress("simulating", total, quiet=args.quiet) as bar:
        fleet = _fleet(args, registry, lambda request: post(request, fleet.clock()))
        fleet.run(holders.devices(args.devices), when, bar.advance)
    if args.truth:
        _write_truth(args.truth, when, holders)
    taken = time.monotonic() - begun
    outcomes = {name: outcome.to_json() for name, outcome in fleet.outcomes.items()}
    values = {"devices": args.devices, "seconds": round(taken, 3), "metrics": outcomes}
    if args.years:
        headline = yearly(metrics, registry.budget).to_json()
        values["year"] = {"most_reports": fleet.most_in_a_year, "headline": headline}
    return Answer(values, _blocks(args, fleet, registry, metrics, taken))


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


def _fleet(args: argparse.Namespace, registry: MetricRegistry, transport: Transport) -> Fleet:
    is_running = is_address(args.store)
    token = check_token(token_of_environment("WRITE")) if is_running else ""
    roots = None
    if args.seed is not None:
        numbers = count()

        def roots() -> bytes:
            return hashlib.blake2b(f"{args.seed} {next(numbers)}".encode(), digest_size=32, person=b"simulate").digest()

    groups = _groups(args, registry)
    server = args.store if is_running else "http://store"
    return Fleet(registry, server, transport, token=token, roots=roots, groups=groups)


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
def _collector(args: argparse.Namespace, registry: MetricRegistry) -> Iterator[Callable[[Request, float], Response]]:
    """Give what posts a request at the devices' time: into a store, or to a running collector, of its own clock."""
    if is_address(args.store):
        transport = http_transport()
        yield lambda request, _: transport(request)
        return
    # Devices alone need no server.
    from overstory.collector.checkup import check_promises
    from overstory.collector.http.endpoint import answer_to
    from overstory.collector.ingest import Ingest, Received
    from overstory.collector.service import open_to_serve
    from overstory.supervision.answers import refusal

    check_promises(args.store, registry, allow_weaker=False, warn=print)
    ingest, waiting = Ingest(registry), list[Received]()  # a commit for each request would take most of the time
    with open_to_serve(args.store, registry) as store:

        def post(request: Request, now: float) -> Response:
            decision = ingest.decide(request.body, request.media_type, now)
            if decision.refused is not None:
                return Response(decision.refused.status, {}, refusal(decision.refused, where=decision.where).body)
            waiting.extend(decision.received)
            if len(waiting) >= UPLOADS:
                store.add(waiting)
                waiting.clear()
            answer = answer_to(decision, [True] * len(decision.received))
            return Response(answer.status, {}, answer.body)

        yield post
        store.add(waiting)
        store.compact(time.time(), forgetting=False)  # with the same --seed, the same reports come again


def _write_truth(path: str, when: Sequence[Moment], holders: Holders) -> None:
    with writing_text(path) as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("metric", "period", "string", "count", "proportion"))
        for moment, truth in zip(when, holders.truth, strict=True):
            period = moment.metric.period.label(moment.period)
            for label, number in truth.most_common():
                writer.writerow((moment.metric.id, period, label, number, number / truth.total()))


def _blocks(
    args: argparse.Namespace, fleet: Fleet, registry: MetricRegistry, metrics: Sequence[Metric], taken: float
) -> Iterator[Block]:
    rows, reasons = [], Counter[str]()
    for name, outcome in fleet.outcomes.items():
        numbers = {"reports": outcome.made, "accepted": outcome.accepted, "refused": outcome.dropped.total()}
        rows.append({"metric": name, "devices": args.devices} | numbers)
        reasons.update({f"refused, {reason}": number for reason, number in outcome.dropped.items()})
        reasons.update({f"not made, {reason}": number for reason, number in outcome.not_made.items()})
    yield Table("", (Column("metric", is_left=True), *(Column(name, text=thousands) for name in NUMBERS)), rows)
    said = [f"{reason}: {number:,}" for reason, number in reasons.items()]
    if args.years:
        mean = sum(outcome.made for outcome in fleet.outcomes.values()) / args.devices / args.years
        most = plural(fleet.most_in_a_year, "report")
        said += [
            f"one device: {mean:.2f} reports a year, at most {most} in any 366 days",
            yearly(metrics, registry.budget).sentence,
        ]
    if said or not args.quiet:
        yield Preformatted("\n".join([*said, *([] if args.quiet else _closing(args, metrics, taken))]))


def _shown(store: str) -> str:
    from overstory.collector.store.databases.database import shown_text

    return shown_text(store)


def _closing(args: argparse.Namespace, metrics: Sequence[Metric], taken: float) -> list[str]:
    lines = [f"{taken:.1f} s" + (f"; the true values are in {printable(args.truth)}" if args.truth else "")]
    where = ["--store", args.store if is_address(args.store) else _shown(args.store)]
    for metric in metrics:
        command = ["overstory", "decode", *where, "--registry", args.registry, "--metric", metric.id]
        command += ["--candidates", args.candidates] if args.candidates and not metric.labels else []
        lines.append(printable(shlex.join(command)))
    return lines
