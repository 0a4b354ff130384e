"""``overstory store``: create, maintain, back up and read the collector's database, its tokens and its notes."""

from __future__ import annotations

import argparse
import datetime as dt
import time
from typing import TYPE_CHECKING, Any, Final

from overstory.cli.arguments import add_command, add_option, print_outcome
from overstory.presentation.document import Column, Lines, Table
from overstory.presentation.formats import thousands
from overstory.privacy.text import plural
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.collector.store import Store, Token
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
    parser = add_command(subparsers, "store", "maintain the collector's database", more=MORE, example=EXAMPLE)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    create = _add(actions, "create", "create a store", _create, "overstory store create reports.db")
    _registry(create, required=False)
    _add(actions, "summary", "show what a store contains", _summary, "overstory store summary reports.db --json")
    for name, summary, act in (
        ("compact", "count and shuffle the reports in the inbox", _compact),
        ("retain", "delete reports past retention, and counts of few", _retain),
    ):
        _registry(_add(actions, name, summary, act, f"overstory store {name} reports.db"), required=False)
    backup = _add(
        actions,
        "backup",
        "copy a store, as of one moment, into a file that opens as a store",
        _backup,
        "overstory store backup postgresql://overstory@db/reports monday.db",
    )
    backup.add_argument("file", metavar="FILE", help="the backup: a file that does not exist yet")
    _add_restore(actions)
    add_tokens(actions)
    add_notes(actions)


def run(args: argparse.Namespace) -> int:
    status: int = args.act(args)
    return status


def _add(actions: Any, name: str, summary: str, act: Any, example: str) -> argparse.ArgumentParser:
    """Add an action on a store."""
    parser = _verb(actions, name, summary, act, example)
    add_option(parser, "--quiet", help="print nothing but errors")
    return parser


def _verb(verbs: Any, name: str, summary: str, act: Any, example: str) -> argparse.ArgumentParser:
    """Add what is done with a store's tokens or notes; `act` does it."""
    parser = add_command(verbs, name, summary, example=example)
    parser.add_argument("url", metavar="URL", help="the store")
    add_option(parser, "--json")
    parser.set_defaults(act=act, quiet=False)
    return parser


def _registry(parser: argparse.ArgumentParser, *, required: bool) -> None:
    default = "" if required else " (default: the one that the store remembers)"
    parser.add_argument("--registry", required=required, metavar="FILE", help=f"the metric registry{default}")


def _add_restore(actions: Any) -> None:
    example = "overstory store restore monday.db postgresql://overstory@db/reports"
    restore = add_command(actions, "restore", "fill a new store from a backup", example=example)
    restore.add_argument("file", metavar="FILE", help="the backup")
    restore.add_argument("url", metavar="URL", help="the new store: a file that does not exist, or an empty database")
    add_option(restore, "--json")
    add_option(restore, "--quiet", help="print nothing but errors")
    restore.set_defaults(act=_restore)


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
    from overstory.collector.store.schema import SCHEMA

    database = connect(args.url, create=True)
    try:
        made = database.write(lambda connection: create_tables(database, connection))
    finally:
        database.close()
    with _opened(args) as store:  # which refuses a store of another schema
        what = "created" if made else "exists already"
        outcome = {"url": store.url, "schema": SCHEMA, "made": made}
        print_outcome(args, outcome, f"{store.url}: {what}, schema {SCHEMA}")
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
    lines = [f"{done.reports:,} reports past retention deleted, and counts of fewer than 10 together"]
    lines += [f"still in the database's files: {reason}" for reason in done.remains]
    print_outcome(args, asdict(done), Lines(*lines))
    return 0


def _backup(args: argparse.Namespace) -> int:
    with _opened(args) as store:
        reports = store.backup(args.file)
    print_outcome(args, {"file": args.file, "reports": reports}, f"{args.file}: {reports:,} reports, verified")
    return 0


def _restore(args: argparse.Namespace) -> int:
    from overstory.collector.store import restore

    reports = restore(args.file, args.url)
    with _opened(args) as store:
        print_outcome(
            args, {"url": store.url, "reports": reports}, f"{store.url}: {reports:,} reports restored, verified"
        )
    return 0


MORE_ON_TOKENS: Final = """\
A write token is part of a program that sends reports: everybody who has the program has the token, which only keeps
strangers out. An admin token lets its holder read counts. In the console (`overstory console`) a viewer
reads every page, and an analyst also decodes with candidates and writes notes. A relay token is for the operator of a
shuffling relay (`overstory relay --shuffle`): it reads nothing. A monitor token is for Prometheus: it reads /metrics
alone. To rotate a token, add a new one, release it, then revoke the old one. The store has only the SHA-256 of a token:
it is shown once, when it is made."""


def add_tokens(actions: Any) -> None:
    example = "overstory store tokens add reports.db --role write --application my-app --expires 2027-11-21"
    tokens = add_command(
        actions, "tokens", "make, list and revoke tokens for writing and reading", more=MORE_ON_TOKENS, example=example
    )
    verbs = tokens.add_subparsers(dest="verb", metavar="ACTION", title="actions", required=True)
    add = _verb(verbs, "add", "make a token and show it once", _make, example)
    add.add_argument(
        "--role",
        required=True,
        choices=("write", "viewer", "analyst", "admin", "relay", "monitor"),
        help="write: send reports; viewer: read the console; analyst: also decode and write notes there; admin: all of "
        "that, and read counts over HTTP; relay: pass on what a shuffling relay releases; monitor: read "
        "/metrics",
    )
    add.add_argument("--application", required=True, metavar="NAME", help="name of the application that uses it")
    add.add_argument("--expires", metavar="DATE", help="first day, in UTC, on which it is refused (default: never)")
    _verb(verbs, "list", "list all tokens", _list_tokens, "overstory store tokens list reports.db --json")
    revoke = _verb(verbs, "revoke", "revoke a token", _revoke, "overstory store tokens revoke reports.db 5f3a9c01")
    revoke.add_argument("id", metavar="ID", help="the token's id, as `list` shows it")


def _make(args: argparse.Namespace) -> int:
    from overstory.collector.auth import sha256

    expires = None if args.expires is None else _midnight(args.expires)
    with _opened(args) as store:
        token = store.add_token(args.role, args.application, expires)
        made = store.find_token(sha256(token))
    assert made is not None
    print_outcome(args, {"id": made.id, "token": token}, token)
    return 0


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


def _list_tokens(args: argparse.Namespace) -> int:
    with _opened(args) as store:
        tokens = [_token_json(token) for token in store.tokens()]
    columns = (
        *(Column(name, is_left=True) for name in ("id", "role", "application", "created")),
        Column("state", "expiry", _life, ("state", "expires", "revoked"), is_left=True),
        Column("last_used", "last used", lambda day: day or "no use noted", is_left=True),
    )
    print_outcome(args, {"tokens": tokens}, Table("", columns, tokens) if tokens else "there are no tokens")
    return 0


def _token_json(token: Token) -> dict[str, str | None]:
    from overstory.collector.settings import DAY

    return {
        "id": token.id,
        "role": token.role,
        "application": token.application,
        "created": _day(token.created),
        "expires": _day(token.expires),
        "revoked": _day(token.revoked),
        "last_used": None if token.used is None else _day(token.used * DAY),
        "state": "revoked" if token.revoked is not None else "valid" if token.usable(time.time()) else "expired",
    }


def _day(second: int | None) -> str | None:
    return None if second is None else dt.datetime.fromtimestamp(second, dt.UTC).date().isoformat()


def _life(state: str, expires: str | None, revoked: str | None) -> str:
    if revoked:
        return f"revoked {revoked}"
    return f"{'expired' if state == 'expired' else 'expires'} {expires}" if expires else "no expiry"


def _revoke(args: argparse.Namespace) -> int:
    with _opened(args) as store:
        store.revoke_token(args.id)
    print_outcome(args, {"revoked": args.id}, f"token {args.id} is revoked")
    return 0


MORE_ON_NOTES: Final = """\
Notes of kind release are drawn as markers on the console's charts. A note is about one metric, or about all. Everybody
who may read the store's counts can read its notes, and they stay when reports are deleted: write no names into them.
Who wrote a note, and when, is not stored."""


def add_notes(actions: Any) -> None:
    example = 'overstory store notes add reports.db --kind release --day 2026-11-21 "Version 3.1 is out"'
    notes = add_command(actions, "notes", "add, list and remove notes about a day", more=MORE_ON_NOTES, example=example)
    verbs = notes.add_subparsers(dest="verb", metavar="ACTION", title="actions", required=True)
    add = _verb(verbs, "add", "add a note", _write, example)
    add.add_argument("text", metavar="TEXT", help="one line of at most 500 characters")
    add.add_argument("--metric", metavar="ID", help="the metric that it is about (default: all metrics)")
    add.add_argument("--day", metavar="DATE", help="the day that it is about, in UTC (default: today)")
    add.add_argument("--kind", default="note", metavar="KIND", help="release, incident or note (default: note)")
    show = _verb(verbs, "list", "list notes, oldest day first", _list_notes, "overstory store notes list reports.db")
    show.add_argument("--metric", metavar="ID", help="only notes about this metric, and those about all metrics")
    example = "overstory store notes remove reports.db 5f3a9c01"
    remove = _verb(verbs, "remove", "remove a note", _remove, example)
    remove.add_argument("id", metavar="ID", help="the note's id, as `list` shows it")


def _write(args: argparse.Namespace) -> int:
    today = dt.datetime.now(dt.UTC).date().toordinal() - dt.date(1970, 1, 1).toordinal()
    day = today if args.day is None else _parsed_day(args.day)
    with _opened(args) as store:
        note = store.add_note(args.text, day, args.kind, args.metric)
    print_outcome(args, note.to_json(), note.id)
    return 0


def _parsed_day(date: str) -> int:
    from overstory.protocol.metrics import Period

    try:
        return Period.parse("day").parse_label(date)
    except ParameterError:
        raise ParameterError(f"--day {date}: give a date such as 2026-11-21") from None


def _list_notes(args: argparse.Namespace) -> int:
    with _opened(args) as store:
        notes = [note.to_json() for note in store.notes(args.metric)]
    columns = (
        *(Column(name, is_left=True) for name in ("id", "day", "kind")),
        Column("metric", text=lambda metric: metric or "all metrics", is_left=True),
        Column("text", is_left=True),
    )
    print_outcome(args, {"notes": notes}, Table("", columns, notes) if notes else "there are no notes")
    return 0


def _remove(args: argparse.Namespace) -> int:
    with _opened(args) as store:
        store.remove_note(args.id)
    print_outcome(args, {"removed": args.id}, f"note {args.id} is removed")
    return 0
