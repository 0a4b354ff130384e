"""``overstory store tokens``: who may write, and who may read."""

from __future__ import annotations

import argparse
import datetime as dt
import time
from typing import TYPE_CHECKING, Any, Final

from overstory.cli.arguments import add_command, tell

if TYPE_CHECKING:
    from overstory.collector.store import Token

MORE: Final = """\
A write token is built into a program that reports: whoever has the program has it, and it only keeps strangers out.
An admin token lets its holder read counts and estimates. To rotate one, add the new one, release it, revoke the old.
The store keeps a SHA-256 of each: a token is shown once, when it is made."""


def add_tokens(actions: Any) -> None:
    """Add the action and its own."""
    example = "overstory store tokens add reports.db --role write --application my-app --expires 2027-11-21"
    tokens = add_command(actions, "tokens", "who may write and who may read", more=MORE, example=example)
    verbs = tokens.add_subparsers(dest="verb", metavar="ACTION", title="actions", required=True)
    add = _add(verbs, "add", "make a token, and show it this once", _make, example)
    add.add_argument("--role", required=True, choices=("write", "admin"), help="send reports, or read counts")
    add.add_argument("--application", required=True, metavar="NAME", help="whose it is")
    add.add_argument("--expires", metavar="DATE", help="the first day, in UTC, on which it is refused (default: never)")
    _add(verbs, "list", "what is known of all tokens", _list, "overstory store tokens list reports.db --json")
    revoke = _add(
        verbs, "revoke", "refuse a token from now on", _revoke, "overstory store tokens revoke reports.db 5f3a9c01"
    )
    revoke.add_argument("id", metavar="ID", help="the token's id, as `list` shows it")


def _add(verbs: Any, name: str, summary: str, act: Any, example: str) -> argparse.ArgumentParser:
    parser = add_command(verbs, name, summary, example=example)
    parser.add_argument("url", metavar="URL", help="the store")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")
    parser.set_defaults(act=act, quiet=False)
    return parser


def _make(args: argparse.Namespace) -> int:
    from overstory.collector.store import open_store
    from overstory.collector.store.tokens import sha256

    expires = None if args.expires is None else _midnight(args.expires)
    with open_store(args.url) as store:
        token = store.add_token(args.role, args.application, expires)
        made = store.find_token(sha256(token))
    assert made is not None
    tell(args, {"id": made.id, "token": token}, token)
    return 0


def _midnight(date: str) -> int:
    from overstory.protocol.errors import ParameterError

    try:
        day = dt.date.fromisoformat(date)
    except ValueError:
        day = None
    if day is None or day.isoformat() != date:  # a week, 2027-W47, is a date to Python
        raise ParameterError(f"--expires {date}: give a date such as 2027-11-21")
    if day <= dt.datetime.now(dt.UTC).date():
        raise ParameterError(f"--expires {date}: the token would be refused from the start; give a day that is to come")
    return int(dt.datetime.combine(day, dt.time(), dt.UTC).timestamp())


def _list(args: argparse.Namespace) -> int:
    from overstory.collector.store import open_store

    with open_store(args.url) as store:
        tokens = [_described(token) for token in store.tokens()]
    lines = [f"{one['id']}  {one['role']:5}  {one['application']}  {_life(one)}" for one in tokens]
    tell(args, {"tokens": tokens}, "\n".join(lines) or "there are no tokens")
    return 0


def _described(token: Token) -> dict[str, str | None]:
    from overstory.protocol.metrics.period import DAY

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


def _life(token: dict[str, str | None]) -> str:
    expires = "expired" if token["state"] == "expired" else "expires"
    ends = ((expires, token["expires"]), ("revoked", token["revoked"]), ("last used", token["last_used"]))
    used = [] if token["last_used"] else ["no use noted"]
    return ", ".join([f"made {token['created']}", *(f"{how} {day}" for how, day in ends if day), *used])


def _revoke(args: argparse.Namespace) -> int:
    from overstory.collector.store import open_store

    with open_store(args.url) as store:
        store.revoke_token(args.id)
    tell(args, {"revoked": args.id}, f"token {args.id} is refused from now on")
    return 0
