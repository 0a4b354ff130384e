"""``overstory store notes``: what an operator or analyst writes down about a day: releases, incidents, notes."""

from __future__ import annotations

import argparse
import datetime as dt
from typing import Any, Final

from overstory.cli.arguments import add_command, add_verb, print_outcome
from overstory.presentation.document import Column, Table

MORE: Final = """\
Notes of kind release are drawn as markers on the console's charts. A note is about one metric, or about all. Everybody
who may read the store's counts can read its notes, and they stay when reports are deleted: write no names into them.
Who wrote a note, and when, is not stored."""


def add_notes(actions: Any) -> None:
    """Add the action and its own."""
    example = 'overstory store notes add reports.db --kind release --day 2026-11-21 "Version 3.1 is out"'
    notes = add_command(actions, "notes", "add, list and remove notes about a day", more=MORE, example=example)
    verbs = notes.add_subparsers(dest="verb", metavar="ACTION", title="actions", required=True)
    add = add_verb(verbs, "add", "add a note", _write, example)
    add.add_argument("text", metavar="TEXT", help="one line of at most 500 characters")
    add.add_argument("--metric", metavar="ID", help="the metric that it is about (default: all metrics)")
    add.add_argument("--day", metavar="DATE", help="the day that it is about, in UTC (default: today)")
    add.add_argument("--kind", default="note", metavar="KIND", help="release, incident or note (default: note)")
    show = add_verb(verbs, "list", "list notes, the oldest day first", _list, "overstory store notes list reports.db")
    show.add_argument("--metric", metavar="ID", help="only notes about this metric, and those about all metrics")
    example = "overstory store notes remove reports.db 5f3a9c01"
    remove = add_verb(verbs, "remove", "remove a note", _remove, example)
    remove.add_argument("id", metavar="ID", help="the note's id, as `list` shows it")


def _write(args: argparse.Namespace) -> int:
    from overstory.collector.store import open_store

    day = _today() if args.day is None else _parsed_day(args.day)
    with open_store(args.url) as store:
        note = store.add_note(args.text, day, args.kind, args.metric)
    print_outcome(args, note.to_json(), note.id)
    return 0


def _today() -> int:
    return dt.datetime.now(dt.UTC).date().toordinal() - dt.date(1970, 1, 1).toordinal()


def _parsed_day(date: str) -> int:
    from overstory.protocol.errors import ParameterError
    from overstory.protocol.metrics import Period

    try:
        return Period.parse("day").parse_label(date)
    except ParameterError:
        raise ParameterError(f"--day {date}: give a date such as 2026-11-21") from None


def _list(args: argparse.Namespace) -> int:
    from overstory.collector.store import open_store

    with open_store(args.url) as store:
        notes = [note.to_json() for note in store.notes(args.metric)]
    columns = (
        Column("id", is_left=True),
        Column("day", is_left=True),
        Column("kind", is_left=True),
        Column("metric", text=lambda metric: metric or "all metrics", is_left=True),
        Column("text", is_left=True),
    )
    print_outcome(args, {"notes": notes}, Table("", columns, notes) if notes else "there are no notes")
    return 0


def _remove(args: argparse.Namespace) -> int:
    from overstory.collector.store import open_store

    with open_store(args.url) as store:
        store.remove_note(args.id)
    print_outcome(args, {"removed": args.id}, f"note {args.id} is removed")
    return 0
