"""``overstory keys``: the private keys with which a collector opens what came by Oblivious HTTP."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from overstory.cli.arguments import add_command, add_option, print_outcome
from overstory.presentation.document import Column, Lines, Table

MORE = """\
A device seals the reports of an oblivious metric for a public key of the registry; only `overstory serve
--oblivious-keys FILE` opens them. `new` and `show` print the line `keys` of the registry's table [oblivious]. All
devices must have the same keys: a key that one device alone gets would single it out. So they come with the registry,
and no address serves them.

To rotate: add a new key, send the collector SIGHUP, put the new line into the registry and release it; remove the old
key when no message comes for it any more."""

EXAMPLE = "overstory keys new oblivious.keys"


def add_parser(commands: Any) -> None:
    parser = add_command(commands, "keys", "make and show the keys of Oblivious HTTP", more=MORE, example=EXAMPLE)
    verbs = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    new = _add(verbs, "new", "draw a key and add it to a file, which is made where it is missing")
    new.add_argument("--id", type=int, metavar="N", help="its number, 0 to 255 (default: the next free one)")
    _add(verbs, "show", "print the public keys, as the registry lists them")
    remove = _add(verbs, "remove", "remove an earlier key from a file", " --id 1")
    remove.add_argument("--id", type=int, metavar="N", required=True, help="its number")


def _add(verbs: Any, name: str, summary: str, more: str = "") -> Any:
    verb = add_command(verbs, name, summary, example=f"overstory keys {name} oblivious.keys{more}")
    verb.add_argument("file", metavar="FILE", type=Path, help="the file of private keys")
    add_option(verb, "--json")
    return verb


def run(args: argparse.Namespace) -> int:
    from overstory.collector.oblivious.keys import add_key, public_line, read_private_keys, remove_key
    from overstory.protocol.oblivious.messages import fingerprint

    if args.action == "show":
        keys = read_private_keys(args.file)
    else:
        keys = (add_key if args.action == "new" else remove_key)(args.file, args.id)
    listed = [
        {
            "id": key.key_id,
            "created": key.created.isoformat(),
            "fingerprint": fingerprint(key.public.public),
            "current": key is keys[-1],
        }
        for key in reversed(keys)
    ]
    columns = (
        Column("id"),
        Column("created", is_left=True),
        Column("fingerprint", is_left=True),
        Column("current", "use", lambda current: "current" if current else "earlier", is_left=True),
    )
    line = public_line(keys)
    print_outcome(args, {"keys": line, "listed": listed}, Table("", columns, listed), Lines(f'keys = "{line}"'))
    return 0
