"""Devices to test with: a registry, a clock that is set by hand, clients that share a folder."""

import sqlite3
from contextlib import closing

from overstory.client import Client
from overstory.client.state.state import State
from overstory.protocol.metrics import parse_registry

DAY = 86_400
NOON = 1_795_262_400.0  # 2026-11-21 12:00 UTC

HEAD = 'registry = "{version}"\n'
ENTRY = """
[metrics.{name}]
title = "T"
description = "D"
owner = "O"
purpose = "https://example.org/issues/1"
retention_days = 90
expires = {expires}
{rest}
"""
BINS = 'domain = {kind = "integers", min = 0, max = 99}\noracle = "basic-rappor"\nperiod = "day"\n'
STRINGS = 'domain = {kind = "strings"}\noracle = "rappor"\nperiod = "hour"\n'
DEFAULT = {
    "colour": 'domain = {kind = "categories", names = ["red", "green", "blue"]}\noracle = "grr"\n'
    'parameters = {epsilon = 1.0}\nperiod = "day"\n',
    "engine": STRINGS,
    "dropping": BINS + 'max_values = 3\nover_cap = "drop"\n',
    "first": BINS + 'max_values = 2\nover_cap = "first"\n',
    "nearest": BINS + 'max_values = 2\nover_cap = "nearest"\n',
}


def registry(version="2026-11-21", expires="2099-01-01", more="", **entries):
    entries = entries or DEFAULT
    text = HEAD.format(version=version) + "".join(
        ENTRY.format(name=name, rest=rest, expires=expires) for name, rest in entries.items()
    )
    return parse_registry(text + more)


OBLIVIOUS = 'transport = "oblivious"\n'


def oblivious_registry(relay, keys, operator="Example Relays", **entries):
    """A registry of an oblivious metric, colour, and a direct one, first, unless others are given."""
    entries = entries or {"colour": DEFAULT["colour"] + OBLIVIOUS, "first": DEFAULT["first"]}
    table = f'[oblivious]\nrelay = "{relay}"\noperator = "{operator}"\nkeys = "{keys.hex()}"\n'
    return registry(more=table, **entries)


REGISTRY = registry()


class Clock:  # a clock that stands still until it is moved
    def __init__(self, now: float = NOON) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def tomorrow(self, days: int = 1) -> None:
        self.now += days * DAY


def device(folder, *, clock=None, choice="on", registry=REGISTRY, **settings):
    """A client on `folder`, with consent unless `choice` is None."""
    settings = {"environ": {}, "policy": folder / "no-policy.json"} | settings
    client = Client("test", registry=registry, state=folder / "state", clock=clock or Clock(), **settings)
    if choice is not None:
        client.consent(choice)
    return client


def queue_report(client, metric="colour", value="red"):
    """Record a value and write its report to the outbox; return what the flush answers."""
    client.record(metric, value)
    return client.flush()


def tamper(paths, statement, *values):
    """Change a state's database behind its back."""
    with closing(sqlite3.connect(paths.database, isolation_level=None)) as connection:
        connection.execute(statement, values)


def rows_of(client, **wanted):
    """What is in a device's outbox."""
    with State(client.paths).snapshot() as rows:
        return rows.outbox.rows(**wanted)
