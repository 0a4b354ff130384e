"""A real collector that opens sealed reports, and devices of one oblivious metric that report to it through a relay.

Every value is reported as it is (epsilon 30), so that counts can be compared exactly: a report differs from its value
about once in 10^13.
"""

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
from support.registry_texts import registry_of
from support.relays import page
from support.running import within

NAMES = ("amber-lantern", "birch-meadow", "copper-canyon", "dusk-harbour")
METRIC = "secret-theme"
SECRET_THEME = {
    "domain": f'{{kind = "categories", names = {json.dumps(NAMES)}}}',
    "parameters": "{epsilon = 30.0}",
    "transport": '"oblivious"',
}
ROUTE = '[oblivious]\nrelay = "RELAY"\noperator = "Example Relays"\nkeys = "{keys}"\n'


@dataclass
class Site:  # a collector that runs, in a folder of its own
    folder: Path
    registry: str  # its text, with RELAY for the relay's address
    tokens: dict[str, str]  # by their roles
    collector: CollectorProcess

    @property
    def store(self) -> Path:
        return self.folder / "reports.db"

    def page(self, path: str) -> dict[str, Any]:
        assert self.collector.address is not None
        return page(self.collector.address, path, Authorization=f"Bearer {self.tokens['admin']}")[1]

    def counts(self) -> Counter[str]:
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
    folder.mkdir()
    keys = json.loads(within("keys", "--new", "oblivious.keys", "--json", cwd=folder).stdout)["keys"]
    within("store", "create", "reports.db", cwd=folder)
    tokens = {role: _token(folder, role) for role in ("write", "relay", "admin")}
    text = registry_of({METRIC: SECRET_THEME}, version="2026-11-23") + ROUTE.format(keys=keys)
    (folder / "metrics.toml").write_text(text.replace("RELAY", "https://relay.example.net/"))
    options = (f"OVERSTORY_OBLIVIOUS_KEYS={folder / 'oblivious.keys'}", "OVERSTORY_COMPACT_EVERY=0.2")
    collector = CollectorProcess(folder / "metrics.toml", f"sqlite:///{folder / 'reports.db'}", options)
    collector.start()
    try:
        yield Site(folder, text, tokens, collector)
    finally:
        collector.stop()


def _token(folder: Path, role: str) -> str:
    ran = within("store", "tokens", "reports.db", "--add", role, "--application", "t", "--json", cwd=folder)
    token: str = json.loads(ran.stdout)["token"]
    return token
