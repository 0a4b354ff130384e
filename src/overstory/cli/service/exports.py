"""``overstory export``: reports out of a store, for an engine to count."""

from __future__ import annotations

import argparse
import datetime as dt
import time
from typing import Any

from overstory.cli.arguments import print_answer, print_outcome
from overstory.cli.output import progress
from overstory.collector.store import open_store
from overstory.collector.store.copies.export import Exported, retained_too_briefly
from overstory.engines.folders import Folder
from overstory.files.labels import Manifest
from overstory.presentation.document import Lines
from overstory.presentation.formats import in_bytes, plural
from overstory.protocol.metrics import MetricRegistry, load_registry


def run(args: argparse.Namespace) -> int:
    registry = load_registry(args.registry)
    metric, folder = None if args.metric is None else registry[args.metric].id, Folder(args.destination)
    with open_store(args.store, registry) as store:
        if args.verify:
            return _print_verified(args, *store.verify_export(registry, folder, now=time.time()), folder.identity)
        with progress("exporting", None, quiet=args.quiet, in_bytes=True) as bar:
            done = store.export_closed(registry, folder, metric, now=time.time(), advance=bar.advance)
    _print_exported(args, folder.identity, registry, done)
    return 0


def _print_verified(args: argparse.Namespace, sets: int, wrong: list[str], destination: str) -> int:
    what = plural(sets, "manifest")
    lines = [f"{destination}: {what} compared with the store, {plural(len(wrong), 'error')}", *wrong]
    print_answer(args, {"destination": destination, "manifests": sets, "wrong": wrong}, [Lines(*lines)])
    return 1 if wrong else 0


def _print_exported(args: argparse.Namespace, destination: str, registry: MetricRegistry, done: Exported) -> None:
    reports, size = (sum(getattr(one, name) for one in done.manifests) for name in ("num_reports", "num_bytes"))
    brief = [name for name in retained_too_briefly(registry) if args.metric in {None, name}]
    lines = [
        f"{reports:,} reports in {plural(len(done.manifests), 'manifest')} written into {destination}: {in_bytes(size)}"
        + (f"; {done.earlier:,} were there" if done.earlier else "")
    ]
    if done.removed:
        lines.append(f"{plural(done.removed, 'file')} of an export that was killed removed")
    for metric, periods in sorted(done.open.items()):
        label, until = min(periods, key=lambda one: one[1])
        lines.append(f"{metric}: {plural(len(periods), 'period')} still open, {label} until {_day(until)}")
    lines += [f"not exported: {reason}" for reason in done.waiting]
    lines += [
        f"not exported: {name}: its reports are deleted before its periods are closed: raise retention_days above "
        "grace_days"
        for name in brief
    ]
    lines += [
        f"outside of retention: {plural(one.manifests, 'manifest')} of {one.metric} up to {one.last}: delete their "
        f"folders in {destination}"
        for one in done.outside
    ]
    outcome = {
        "destination": destination,
        "reports": reports,
        "bytes": size,
        "manifests": [_manifest_json(one) for one in done.manifests],
        "earlier": done.earlier,
        "removed": done.removed,
        "open": {metric: sorted(label for label, _ in periods) for metric, periods in sorted(done.open.items())},
        "waiting": done.waiting,
        "retained_too_briefly": brief,
        "outside_retention": [vars(one) for one in done.outside],
    }
    print_outcome(args, outcome, Lines(*lines))


def _manifest_json(one: Manifest) -> dict[str, Any]:
    return {
        "id": one.id,
        "metric": one.metric,
        "period": one.period_label,
        "group": one.group,
        "digest": one.label.digest.hex(),
        "reports": one.num_reports,
        "parts": len(one.parts),
        "bytes": one.num_bytes,
    }


def _day(unix_time: int) -> str:
    return dt.datetime.fromtimestamp(unix_time, dt.UTC).date().isoformat()
