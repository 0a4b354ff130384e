"""``overstory keys``: the private keys with which a collector opens what came by Oblivious HTTP."""

from __future__ import annotations

import argparse

from overstory.cli.command import Answer
from overstory.collector.oblivious.keys import add_key, public_line, read_private_keys, remove_key
from overstory.presentation.document import Column, Lines, Table
from overstory.protocol.oblivious.messages import fingerprint


def run(args: argparse.Namespace) -> Answer:
    if args.new:
        keys = add_key(args.file)
    else:
        keys = read_private_keys(args.file) if args.remove is None else remove_key(args.file, args.remove)
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
    return Answer({"keys": line, "listed": listed}, [Table("", columns, listed), Lines(f'keys = "{line}"')])
