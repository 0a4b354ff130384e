"""``overstory store``: make, keep up, back up and read the collector's database."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from overstory.cli.arguments import add_command, tell
from overstory.cli.store_tokens import add_tokens

if TYPE_CHECKING:
    from overstory.collector.store import Store
    from overstory.protocol.metrics import MetricRegistry

MORE: Final = """\
URL names the store: a file (reports.db, sqlite:///reports.db), or postgresql://USER:PASSWORD@HOST/DATABASE.
A collector (`overstory serve`) compacts and retains by itself. docs/how-to/stores.md says what is stored and
what is not."""

EXAMPLE: Final = """\
overstory store create reports.db
  overstory store summary reports.db
  overstory store tokens add reports.db --role write --application my-app
  overstory store backup reports.db monday.db"""


def add_parser(subparsers: Any) -> None:
    """Add the command and its actions."""
    parser = add_command(subparsers, "store", "look after the collector's database", more=MORE, example=EXAMPLE)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    create = _add(actions, "create", "make a store", _create, "overstory store create reports.db")
    _registry(create, required=False)
    _add(actions, "migrate", "bring a store to this program's schema", _migrate, "overstory store migrate reports.db")
    _add(actions, "summary", "what a store holds", _summary, "overstory store summary reports.db --json")
    compact = _add(
        actions, "compact", "count and shuffle what is in the inbox", _compact, "overstory store compact reports.db"
    )
    _registry(compact, required=False)
    retain = _add(
        actions, "retain", "delete reports past retention; counts stay", _retain, "overstory store retain reports.db"
    )
    _registry(retain, required=False)
    backup = _add(
        actions,
        "backup",
        "copy a store, as of one moment, into a file that is a store",
        _backup,
        "overstory store backup postgresql://overstory@db/reports monday.db",
    )
    backup.add_argument("file", metavar="FILE", help="the backup: a file that does not exist yet")
    _add_restore(actions)
    _add_export(actions)
    add_tokens(actions)


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
    known = "" if required else " (default: what the store remembers of the collector's)"
    parser.add_argument("--registry", required=required, metavar="FILE", help=f"the metrics{known}")


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
        "write kept reports as Parquet",
        _export,
        "overstory store export reports.db --registry metrics.toml --metric colour --from 2026-W40 -o colour.parquet",
    )
    _registry(export, required=True)
    export.add_argument("--metric", required=True, metavar="ID", help="whose reports")
    export.add_argument(
        "--from", dest="first", metavar="PERIOD", help="the first period, such as 2026-11-21 or 2026-W47"
    )
    export.add_argument("--to", dest="last", metavar="PERIOD", help="the last period")
    export.add_argument("-o", "--output", required=True, metavar="FILE", help="the Parquet file")


def _opened(args: argparse.Namespace) -> Store:
    from overstory.collector.store import open_store

    return open_store(args.url, _registry_of(args))


def _registry_of(args: argparse.Namespace) -> MetricRegistry | None:
    if not getattr(args, "registry", None):
        return None
    from overstory.protocol.metrics import load_registry

    return load_registry(args.registry)


def _create(args: argparse.Namespace) -> int:
    from overstory.collector.store.opening import connect, migrate

    database = connect(args.url, create=True)
    try:
        before, schema = migrate(database, create=True)
    finally:
        database.close()
    with _opened(args) as store:
        outcome = {"url": store.url, "schema": schema, "made": before is None}
        tell(args, outcome, f"{store.url}: {'made' if before is None else 'was there already'}, schema {schema}")
    return 0


def _migrate(args: argparse.Namespace) -> int:
    from overstory.collector.store.opening import connect, migrate

    database = connect(args.url)
    try:
        before, after = migrate(database)
    finally:
        database.close()
    said = f"schema {after} already" if before == after else f"from schema {before} to {after}"
    tell(args, {"url": database.url, "from": before, "to": after}, f"{database.url}: {said}")
    return 0


def _summary(args: argparse.Namespace) -> int:
    with _opened(args) as store:
        summary = store.summary()
    lines = [f"{summary.url}: schema {summary.schema}, {summary.size:,} bytes, {summary.batch_ids:,} batch ids"]
    for one in summary.metrics:
        span = one.first if one.first == one.last else f"{one.first} .. {one.last}"
        lines.append(
            f"  {one.metric} ({one.mechanism or 'unknown mechanism'} {one.digest[:8]}), {span}: "
            f"{one.counted:,} reports counted, {one.kept:,} of them kept, {one.waiting:,} in the inbox"
        )
    tell(args, summary.to_json(), "\n".join(lines))
    return 0


def _compact(args: argparse.Namespace) -> int:
    import time
    from dataclasses import asdict

    with _opened(args) as store:
        done = store.compact(time.time())
    lines = [f"{done.reports:,} reports counted and shuffled, {done.forgotten:,} batch ids forgotten"]
    lines += [f"waiting: {one}" for one in done.waiting]
    lines += [f"still in the database's files: {one}" for one in done.remains]
    tell(args, asdict(done), "\n".join(lines))
    return 0


def _retain(args: argparse.Namespace) -> int:
    import time
    from dataclasses import asdict

    with _opened(args) as store:
        done = store.retain(time.time())
    lines = [f"{done.reports:,} reports past retention deleted; their counts stay"]
    lines += [f"still in the database's files: {one}" for one in done.remains]
    tell(args, asdict(done), "\n".join(lines))
    return 0


def _backup(args: argparse.Namespace) -> int:
    with _opened(args) as store:
        reports = store.backup(args.file)
    tell(args, {"file": args.file, "reports": reports}, f"{args.file}: {reports:,} reports, verified")
    return 0


def _restore(args: argparse.Namespace) -> int:
    from overstory.collector.store import open_store, restore

    reports = restore(args.file, args.url)
    with open_store(args.url) as store:
        tell(args, {"url": store.url, "reports": reports}, f"{store.url}: {reports:,} reports restored, verified")
    return 0


def _export(args: argparse.Namespace) -> int:
    from overstory.collector.counted import parse_range
    from overstory.collector.store import open_store
    from overstory.protocol.metrics import load_registry

    metric = load_registry(args.registry)[args.metric]
    first, last = parse_range(metric, args.first, args.last)
    numbers = metric.period.numbers
    with open_store(args.url) as store:
        reports = store.export(
            metric, numbers[0] if first is None else first, numbers[-1] if last is None else last, args.output
        )
    tell(args, {"output": args.output, "reports": reports}, f"{reports:,} reports in {args.output}")
    return 0
