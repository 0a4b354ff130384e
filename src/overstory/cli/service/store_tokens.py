"""``overstory store tokens``: make, list and revoke tokens."""

from __future__ import annotations

import argparse
import datetime as dt
import time
from typing import TYPE_CHECKING, Any, Final

from overstory.cli.arguments import add_command, add_verb, print_outcome
from overstory.presentation.document import Column, Table

if TYPE_CHECKING:
    from overstory.collector.store import Token

MORE: Final = """\
A write token is part of a program that sends reports: everybody who has the program has the token, which only keeps
strangers out. An admin token lets its holder read counts and estimates. In the console (`overstory console`) a viewer
reads every page, and an analyst also decodes with candidates and writes notes. A relay token is for the operator of a
shuffling relay (`overstory relay --shuffle`): it reads nothing. To rotate a token, add a new one,
release it, then revoke the old one. The store has only the SHA-256 of a token: it is shown once, when it is made."""


def add_tokens(actions: Any) -> None:
    """Add the action and its own."""
    example = "overstory store tokens add reports.db --role write --application my-app --expires 2027-11-21"
    tokens = add_command(
        actions, "tokens", "make, list and revoke tokens for writing and reading", more=MORE, example=example
    )
    verbs = tokens.add_subparsers(dest="verb", metavar="ACTION", title="actions", required=True)
    add = add_verb(verbs, "add", "make a token and show it once", _make, example)
    add.add_argument(
        "--role",
        required=True,
        choices=("write", "viewer", "analyst", "admin", "relay"),
        help="write: send reports; viewer: read the console; analyst: also decode and write notes there; admin: all of "
        "that, and read counts and estimates over HTTP; relay: pass on what a shuffling relay releases",
    )
    add.add_argument("--application", required=True, metavar="NAME", help="name of the application that uses it")
    add.add_argument("--expires", metavar="DATE", help="first day, in UTC, on which it is refused (default: never)")
    add_verb(verbs, "list", "list all tokens", _list, "overstory store tokens list reports.db --json")
    revoke = add_verb(verbs, "revoke", "revoke a token", _revoke, "overstory store tokens revoke reports.db 5f3a9c01")
    revoke.add_argument("id", metavar="ID", help="the token's id, as `list` shows it")


def _make(args: argparse.Namespace) -> int:
    from overstory.collector.auth import sha256
    from overstory.collector.store import open_store

    expires = None if args.expires is None else _midnight(args.expires)
    with open_store(args.url) as store:
        token = store.add_token(args.role, args.application, expires)
        made = store.find_token(sha256(token))
    assert made is not None
    print_outcome(args, {"id": made.id, "token": token}, token)
    return 0


def _midnight(date: str) -> int:
    from overstory.protocol.errors import ParameterError

    try:
        day = dt.date.fromisoformat(date)
    except ValueError:
        day = None
    if day is None or day.isoformat() != date:  # Python also takes a week, 2027-W47, for a date
        raise ParameterError(f"--expires {date}: give a date such as 2027-11-21")
    if day <= dt.datetime.now(dt.UTC).date():
        raise ParameterError(f"--expires {date}: the token would be refused at once; give a later day")
    return int(dt.datetime.combine(day, dt.time(), dt.UTC).timestamp())


def _list(args: argparse.Namespace) -> int:
    from overstory.collector.store import open_store

    with open_store(args.url) as store:
        tokens = [_token_json(token) for token in store.tokens()]
    columns = (
        Column("id", is_left=True),
        Column("role", is_left=True),
        Column("application", is_left=True),
        Column("created", is_left=True),
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
    """Say until when a token is valid, or was."""
    if revoked:
        return f"revoked {revoked}"
    return f"{'expired' if state == 'expired' else 'expires'} {expires}" if expires else "no expiry"


def _revoke(args: argparse.Namespace) -> int:
    from overstory.collector.store import open_store

    with open_store(args.url) as store:
        store.revoke_token(args.id)
    print_outcome(args, {"revoked": args.id}, f"token {args.id} is revoked")
    return 0
