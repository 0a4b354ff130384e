"""``overstory on``, ``local``, ``off``, ``forget``, ``status``, ``view``: the person's side.

The commands themselves belong to the client, so that a device has them with the standard library alone
(``python -m overstory.client``).
"""

from __future__ import annotations

import argparse
from typing import Any


def add_parser(subparsers: Any) -> None:
    """Add the six commands."""
    from overstory.client.person.command_line import add_commands

    add_commands(subparsers)


def run(args: argparse.Namespace) -> int:
    from overstory.client.person import commands

    return commands.run(args)
