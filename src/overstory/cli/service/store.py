"""``overstory store``: create, maintain, back up and read the collector's database.

`store_tokens` and `store_notes` have its actions on tokens and notes.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any, Final

from overstory.cli.arguments import add_command, print_outcome
from overstory.cli.service.store_notes import add_notes
from overstory.cli.service.store_tokens import add_tokens
from overstory.presentation.document import Column, Lines, Table
from overstory.presentation.formats import thousands
from overstory.privacy.text import plural

if TYPE_CHECKING:
    from overstory.collector.store import Store
    from overstory.protocol.metrics import MetricRegistry


MORE: Final = """\
URL names the store: a file (reports.db, sqlite:///reports.db), or postgresql://USER:PASSWORD@HOST/DATABASE.
A collector (`overstory serve`) compacts and retains by itself. docs/how-to/stores.md describes what is stored."""

EXAMPLE: Final = """\
overstory store create reports.db
  overstory store summary reports.db
  overstory store tokens add reports.db --role write --application my-app
  overstory store backup reports.db monday.db"""


def add_parser(subparsers: Any) -> None:
    """Add the command and its actions."""
    parser = add_command(subparsers, "store", "maintain the collector's database", more=MORE, example=EXAMPLE)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    create = _add(actions, "create", "create a store", _create, "overstory store create reports.db")
    _registry(create, required=False)
    _add(actions, "migrate", "upgrade a store to this program's schema", _migrate, "overstory store migrate reports.db")
    _add(actions, "summary", "show what a store contains", _summary, "overstory store summary reports.db --json")
    compact = _add(
        actions, "compact", "count and shuffle the reports in the inbox", _compact, "overstory store compact reports.db"
    )
    _registry(compact, required=False)
    retain = _add(
        actions, "retain", "delete reports past retention; counts stay", _retain, "overstory store retain reports.db"
    )
    _registry(retain, required=False)
    backup = _add(
        actions,
        "backup",
        "copy a store, as of one moment, into a file that opens as a store",
        _backup,
        "overstory store backup postgresql://overstory@db/reports monday.db",
    )
    backup.add_argument("file", metavar="FILE", help="the backup: a file that does not exist yet")
    _add_restore(actions)
    _add_export(actions)
    add_tokens(actions)
    add_notes(actions)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    status: int = args.act(args)
    return status


def _add(actions: Any, name: str, summary: str, act: Any, example: str) -> argparse.ArgumentParser:
    parser = add_command(actions, name, summary, example=example)
    parser.add_argument("url", metavar="URL", help="the store")
    parser.set_defaults(act=act)
    _reporting(parser)
    return parser


def _reporting(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")


def _registry(parser: argparse.ArgumentParser, *, required: bool) -> None:
    default = "" if required else " (default: the one that the store remembers)"
    parser.add_argument("--registry", required=required, metavar="FILE", help=f"the metric registry{default}")


def _add_restore(actions: Any) -> None:
    example = "overstory store restore monday.db postgresql://overstory@db/reports"
    restore = add_command(actions, "restore", "fill a new store from a backup", example=example)
    restore.add_argument("file", metavar="FILE", help="the backup")
    restore.add_argument("url", metavar="URL", help="the new store: a file that does not exist, or an empty database")
    restore.set_defaults(act=_restore)
    _reporting(restore)


def _add_export(actions: Any) -> None:
    export = _add(
        actions,
        "export",
        "write stored reports as Parquet",
        _export,
        "overstory store export reports.db --registry metrics.toml --metric colour --from 2026-W40 -o colour.parquet",
    )
    _registry(export, required=True)
    export.add_argument("--metric", required=True, metavar="ID", help="a metric of the registry")
    export.add_argument(
        "--from", dest="first", metavar="PERIOD", help="the first period, such as 2026-11-21 or 2026-W47"
    )
    export.add_argument("--to", dest="last", metavar="PERIOD", help="the last period")
    export.add_argument("--group", metavar="NAME", help="only the devices of this group, of a metric with groups")
    export.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help="the Parquet file; of several shards, one of each store: `overstory sum` adds files and folders",
    )


def _opened(args: argparse.Namespace) -> Store:
    from overstory.collector.store import open_store

    return open_store(args.url, _registry_of(args))


def _registry_of(args: argparse.Namespace) -> MetricRegistry | None:
    if not getattr(args, "registry", None):
        return None
    from overstory.protocol.metrics import load_registry

    return load_registry(args.registry)


def _create(args: argparse.Namespace) -> int:
    from overstory.collector.store.databases.connection import connect, create_tables
    from overstory.collector.store.schema import REVISION

    database = connect(args.url, create=True)
    try:
        made = create_tables(database)
    finally:
        database.close()
    with _opened(args) as store:  # which refuses a store of another schema
        what = "created" if made else "exists already"
        outcome = {"url": store.url, "schema": REVISION, "made": made}
        print_outcome(args, outcome, f"{store.url}: {what}, schema {REVISION}")
    return 0


def _migrate(args: argparse.Namespace) -> int:
    from overstory.collector.store.databases.connection import connect, migrate

    database = connect(args.url)
    try:
        before, after = migrate(database)
    finally:
        database.close()
    change = f"schema {after} already" if before == after else f"from schema {before} to {after}"
    print_outcome(args, {"url": database.url, "from": before, "to": after}, f"{database.url}: {change}")
    return 0


def _summary(args: argparse.Namespace) -> int:
    with _opened(args) as store:
        summary = store.summary()
    about = [f"{summary.url}: schema {summary.schema}, {summary.size:,} bytes, {summary.batch_ids:,} batch ids"]
    if summary.refused:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(summary.refused.items()))
        about.append(f"refused: {reasons}")
    if summary.collectors or summary.notes:
        about.append(f"{plural(summary.collectors, 'collector')} seen within a week, {plural(summary.notes, 'note')}")
    if summary.releases:
        about.append(f"{plural(summary.releases, 'release')} of shuffling relays")
    outcome = summary.to_json()
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
    print_outcome(args, outcome, Lines(*about), *([Table("", columns, outcome["metrics"])] if summary.metrics else []))
    return 0


def _compact(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    with _opened(args) as store:
        done = store.compact(time.time())
    lines = [f"{done.reports:,} reports counted and shuffled, {done.forgotten:,} expired batch ids deleted"]
    lines += [f"waiting: {reason}" for reason in done.waiting]
    lines += [f"still in the database's files: {reason}" for reason in done.remains]
    print_outcome(args, asdict(done), Lines(*lines))
    return 0


def _retain(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    with _opened(args) as store:
        done = store.retain(time.time())
    lines = [f"{done.reports:,} reports past retention deleted; their counts stay"]
    lines += [f"still in the database's files: {reason}" for reason in done.remains]
    print_outcome(args, asdict(done), Lines(*lines))
    return 0


def _backup(args: argparse.Namespace) -> int:
    with _opened(args) as store:
        reports = store.backup(args.file)
    print_outcome(args, {"file": args.file, "reports": reports}, f"{args.file}: {reports:,} reports, verified")
    return 0


def _restore(args: argparse.Namespace) -> int:
    from overstory.collector.store import open_store, restore

    reports = restore(args.file, args.url)
    with open_store(args.url) as store:
        print_outcome(
            args, {"url": store.url, "reports": reports}, f"{store.url}: {reports:,} reports restored, verified"
        )
    return 0


def _export(args: argparse.Namespace) -> int:
    from overstory.collector.store import open_store
    from overstory.protocol.metrics import load_registry
    from overstory.queries.counts import parse_range, stored_groups

    metric = load_registry(args.registry)[args.metric]
    first, last = parse_range(metric, args.first, args.last)
    numbers = metric.period.numbers
    with open_store(args.url) as store:
        groups = None if args.group is None else stored_groups(store, metric, args.group)
        ends = numbers[0] if first is None else first, numbers[-1] if last is None else last
        reports = store.export(metric, *ends, args.output, groups)
    print_outcome(args, {"output": args.output, "reports": reports}, f"{reports:,} reports in {args.output}")
    return 0
