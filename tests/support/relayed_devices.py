"""A real collector that opens sealed reports, and devices of one oblivious metric that report to it through a relay.

Every value is reported as it is (epsilon 30), so that counts can be compared exactly: a report differs from its value
about once in 10^13.
"""

from __future__ import annotations

import http.client
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overstory.client import Client
from overstory.protocol.metrics import parse_registry
from support.collector_processes import CollectorProcess
from support.running import within

NAMES = ("amber-lantern", "birch-meadow", "copper-canyon", "dusk-harbour")
METRIC = "secret-theme"
REGISTRY = """
registry = "2026-11-23"
[oblivious]
relay = "RELAY"
operator = "Example Relays"
keys = "{keys}"
[metrics.{metric}]
title = "T"
description = "D"
owner = "O"
purpose = "https://example.org/issues/1"
retention_days = 90
expires = 2099-01-01
domain = {{kind = "categories", names = {names}}}
oracle = "grr"
parameters = {{epsilon = 30.0}}
period = "day"
transport = "oblivious"
"""


@dataclass
class Site:
    """A collector that runs, in a folder of its own.

    Attributes
    ----------
    registry
        Its text, with RELAY for the relay's address.
    tokens
        By their roles.
    """

    folder: Path
    registry: str
    tokens: dict[str, str]
    collector: CollectorProcess

    @property
    def store(self) -> Path:
        """The file of the store."""
        return self.folder / "reports.db"

    def page(self, path: str) -> dict[str, Any]:
        """Return a page of results."""
        assert self.collector.address is not None
        connection = http.client.HTTPConnection(*self.collector.address, timeout=20)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self.tokens['admin']}"})
            content: dict[str, Any] = json.loads(connection.getresponse().read())
            return content
        finally:
            connection.close()

    def counts(self) -> Counter[str]:
        """Return how often each value has been counted."""
        counted: Counter[str] = Counter()
        for period in self.page(f"/v1/metrics/{METRIC}/counts")["periods"]:
            counted.update(dict(zip(NAMES, period["ones"][0], strict=True)))
        return +counted

    def report(self, number: int, relay: str, server: str) -> str:
        """Let one device report through a relay; return its value."""
        value = NAMES[(number * number % 7 + number) % len(NAMES)]
        state = self.folder.parent / f"device-{number}"
        settings: dict[str, Any] = {"environ": {}, "policy": self.folder / "no-policy.json", "spread": 0.0}
        registry = parse_registry(self.registry.replace("RELAY", relay))
        client = Client("t", registry=registry, state=state, server=server, token=self.tokens["write"], **settings)
        client.consent("on")
        client.record(METRIC, value)
        client.flush()
        client.close()
        return value


@contextmanager
def collecting(folder: Path) -> Iterator[Site]:
    """Run a collector with keys and tokens of its own."""
    folder.mkdir()
    keys = json.loads(within("keys", "new", "oblivious.keys", "--json", cwd=folder).stdout)["keys"]
    within("store", "create", "reports.db", cwd=folder)
    tokens = {role: _token(folder, role) for role in ("write", "relay", "admin")}
    text = REGISTRY.format(keys=keys, metric=METRIC, names=json.dumps(NAMES))
    (folder / "metrics.toml").write_text(text.replace("RELAY", "https://relay.example.net/"))
    options = ("--oblivious-keys", str(folder / "oblivious.keys"), "--compact-every", "0.2")
    collector = CollectorProcess(folder / "metrics.toml", f"sqlite:///{folder / 'reports.db'}", options)
    collector.start()
    try:
        yield Site(folder, text, tokens, collector)
    finally:
        collector.stop()


def _token(folder: Path, role: str) -> str:
    ran = within("store", "tokens", "add", "reports.db", "--role", role, "--application", "t", "--json", cwd=folder)
    token: str = json.loads(ran.stdout)["token"]
    return token
