"""A registry's table [oblivious]: the relay that reports travel through, who runs it, and the collector's keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, urlsplit

from overstory.protocol.errors import WireError
from overstory.protocol.metrics.toml_fields import Fields
from overstory.protocol.oblivious.key_list import read_entries

if TYPE_CHECKING:
    from overstory.protocol.metrics.metric import Metric

KEYS: Final = ("relay", "operator", "keys")
TABLE: Final = 'a table such as {relay = "https://relay.example.org/", operator = "Example Relay Inc.", keys = "HEX"}'


@dataclass(frozen=True)
class ObliviousRoute:
    """Through whom the reports of oblivious metrics travel, and for whom they are encrypted.

    Everybody has the same list of keys: a key of one's own would tell the collector who sends.
    """

    relay: str  # the URL that encrypted reports are posted to; the relay sees addresses, and no content
    operator: str  # who runs the relay, in words for people; not who runs the collector
    keys: bytes  # the collector's, as application/ohttp-keys (RFC 9458), the one to use first

    @property
    def described(self) -> str:
        """The relay as the question before consent names it."""
        return f"{self.relay}, run by {self.operator}"

    def to_json(self) -> dict[str, Any]:
        return {"relay": self.relay, "operator": self.operator, "keys": self.keys.hex()}


def read_route(root: Fields, metrics: Mapping[str, Metric]) -> ObliviousRoute | None:
    """Return a registry's route, or None after noting every fault of it; metrics that need one it lacks are faults."""
    if "oblivious" not in root.table:
        for name in [name for name, metric in metrics.items() if metric.is_oblivious]:
            metric = Fields(root.table["metrics"][name], ("metrics", name), root.positions, root.faults)
            metric.fault("transport", f"reports of this metric need a relay: give [oblivious], {TABLE}")
        return None
    table, before = root.subtable("oblivious", TABLE), len(root.faults)
    if table is None:
        return None
    table.unknown(KEYS)
    relay = _relay(table)
    operator = table.text("operator", "who runs the relay, for people: another one than the collector's operator")
    keys = _keys(table)
    if relay is None or operator is None or keys is None or len(root.faults) > before:
        return None
    return ObliviousRoute(relay, operator, keys)


def _relay(table: Fields) -> str | None:
    relay = table.link("relay", "the URL that encrypted reports are posted to")
    if relay is None:
        return None
    parts = urlsplit(relay)
    if not relay.isascii() or _port(parts) == 0:
        table.fault("relay", f"{relay!r:.100} is no address: give one such as https://relay.example.org/")
        return None
    if parts.username or parts.password or parts.fragment:
        table.fault("relay", "a name, a password or a fragment is no part of it: a relay takes messages from anybody")
        return None
    return relay


def _port(parts: SplitResult) -> int | None:
    try:
        return parts.port
    except ValueError:
        return 0


def _keys(table: Fields) -> bytes | None:
    text = table.text("keys", "the line that `overstory keys show` prints: the collector's public keys, in hexadecimal")
    if text is None:
        return None
    try:
        raw = bytes.fromhex(text)
        listed = read_entries(raw)
    except (ValueError, WireError):
        listed = ()
    if not listed:
        table.fault("keys", f"{text!r:.60} is no list of keys: give what `overstory keys show` prints, in hexadecimal")
        return None
    return raw
