"""``overstory store`` and ``export``: the collector's database, its tokens, and reports out of it."""

from __future__ import annotations

import argparse
import datetime as dt
import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from overstory.cli.command import Answer, Outcome, progress
from overstory.collector.auth import Token, sha256
from overstory.collector.store import open_store
from overstory.collector.store.copies.backup import restore
from overstory.collector.store.databases.connection import connect, create_tables
from overstory.collector.store.schema import SCHEMA
from overstory.presentation.document import Column, Lines, Table
from overstory.presentation.formats import in_bytes, plural, thousands
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.collector.store.copies.export import Exported
    from overstory.files.labels import Manifest
    from overstory.protocol.metrics import MetricRegistry


def create(args: argparse.Namespace) -> Answer:
    database = connect(args.url, create=True)
    try:
        made = database.write(lambda connection: create_tables(database, connection))
    finally:
        database.close()
    with open_store(args.url) as store:  # which refuses a store of another schema
        what = "created" if made else "exists already"
        outcome = {"url": store.url, "schema": SCHEMA, "made": made}
    return Outcome(outcome, f"{store.url}: {what}, schema {SCHEMA}")


def summarize(args: argparse.Namespace) -> Answer:
    with open_store(args.url) as store:
        summary = store.summary()
    about = [f"{summary.url}: schema {summary.schema}, {summary.size:,} bytes, {summary.batch_ids:,} batch ids"]
    if summary.refused:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(summary.refused.items()))
        about.append(f"refused: {reasons}")
    if summary.collectors or summary.notes:
        about.append(f"{plural(summary.collectors, 'collector')} seen within a week, {plural(summary.notes, 'note')}")
    if summary.releases:
        about.append(f"{plural(summary.releases, 'release')} of shuffling relays")
    outcome = asdict(summary)
    columns = (
        Column("metric", is_left=True),
        Column("mechanism", "oracle", lambda name: name or "unknown", is_left=True),
        Column("digest", "parameters", lambda digest: digest[:8], is_left=True),
        Column("first", is_left=True),
        Column("last", is_left=True),
        Column("counted", "reports counted", thousands),
        Column("kept", "still stored", thousands),
        Column("waiting", "in the inbox", thousands),
    )
    tables = [Table("", columns, outcome["metrics"])] if summary.metrics else []
    return Answer(outcome, [Lines(*about), *tables])


def compact(args: argparse.Namespace) -> Answer:
    with open_store(args.url) as store:
        done, kept = store.compact(time.time()), store.retain(time.time())
    lines = [f"{done.reports:,} reports counted and shuffled, {done.forgotten:,} expired batch ids deleted"]
    lines += [f"{kept.reports:,} reports past retention deleted, and counts of fewer than 10 together"]
    lines += [f"waiting: {reason}" for reason in done.waiting]
    lines += [f"still in the database's files: {reason}" for reason in dict.fromkeys((*done.remains, *kept.remains))]
    return Outcome({**asdict(done), "retained": asdict(kept)}, Lines(*lines))


def back_up(args: argparse.Namespace) -> Answer:
    with open_store(args.url) as store:
        reports = store.backup(args.file)
    return Outcome({"file": args.file, "reports": reports}, f"{args.file}: {reports:,} reports, verified")


def fill(args: argparse.Namespace) -> Answer:
    reports = restore(args.file, args.url)
    with open_store(args.url) as store:
        url = store.url
    return Outcome({"url": url, "reports": reports}, f"{url}: {reports:,} reports restored, verified")


def tokens(args: argparse.Namespace) -> Answer:
    if args.add is not None:
        return _add_token(args)
    with open_store(args.url) as store:
        if args.revoke is None:
            return _list_tokens(store.tokens())
        store.revoke_token(args.revoke)
    return Outcome({"revoked": args.revoke}, f"token {args.revoke} is revoked")


def _add_token(args: argparse.Namespace) -> Answer:
    expires = None if args.expires is None else _midnight(args.expires)
    with open_store(args.url) as store:
        token = store.add_token(args.add, args.application, expires)
        made = store.find_token(sha256(token))
    assert made is not None
    return Answer({"id": made.id, "token": token}, [Lines(token)])


def _midnight(date: str) -> int:
    try:
        day = dt.date.fromisoformat(date)
    except ValueError:
        day = None
    if day is None or day.isoformat() != date:  # Python also takes a week, 2027-W47, for a date
        raise ParameterError(f"--expires {date}: give a date such as 2027-11-21")
    if day <= dt.datetime.now(dt.UTC).date():
        raise ParameterError(f"--expires {date}: the token would be refused at once; give a later day")
    return int(dt.datetime.combine(day, dt.time(), dt.UTC).timestamp())


def _list_tokens(stored: Iterable[Token]) -> Answer:
    tokens = [_token_json(token) for token in stored]
    columns = (
        *(Column(name, is_left=True) for name in ("id", "role", "application", "created")),
        Column("state", "expiry", _life, ("state", "expires", "revoked"), is_left=True),
    )
    return Answer({"tokens": tokens}, [Table("", columns, tokens) if tokens else Lines("there are no tokens")])


def _token_json(token: Token) -> dict[str, str | None]:
    return {
        "id": token.id,
        "role": token.role,
        "application": token.application,
        "created": _day(token.created),
        "expires": _day(token.expires),
        "revoked": _day(token.revoked),
        "state": "revoked" if token.revoked is not None else "valid" if token.usable(time.time()) else "expired",
    }


def _day(second: int | None) -> str | None:
    return None if second is None else dt.datetime.fromtimestamp(second, dt.UTC).date().isoformat()


def _life(state: str, expires: str | None, revoked: str | None) -> str:
    if revoked:
        return f"revoked {revoked}"
    return f"{'expired' if state == 'expired' else 'expires'} {expires}" if expires else "no expiry"


def export(args: argparse.Namespace) -> Outcome:
    from overstory.engines.folders import Folder  # which loads more than a store
    from overstory.protocol.metrics import load_registry

    registry = load_registry(args.registry)
    metric, folder = None if args.metric is None else registry[args.metric].id, Folder(args.destination)
    exporting = progress("exporting", None, quiet=args.quiet, in_bytes=True)
    with open_store(args.store, registry) as store, exporting as bar:
        done = store.export_closed(registry, folder, metric, now=time.time(), advance=bar.advance)
    return _exported(args, folder.identity, registry, done)


def _exported(args: argparse.Namespace, destination: str, registry: MetricRegistry, done: Exported) -> Outcome:
    reports, size = (sum(getattr(one, name) for one in done.manifests) for name in ("num_reports", "num_bytes"))
    named = registry.values() if args.metric is None else [registry[args.metric]]
    brief = [metric.id for metric in named if metric.retention_days <= metric.grace_days]
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
    return Outcome(outcome, Lines(*lines))


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
