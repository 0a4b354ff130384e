"""Operator, budget and oblivious: the tables of a registry that few have. Who has none loads nothing of it."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, get_args
from urllib.parse import urlsplit

from overstory.protocol.errors import WireError
from overstory.protocol.metrics.toml_fields import Fields, Row, row
from overstory.protocol.oblivious.formats import read_entries

if TYPE_CHECKING:
    from overstory.protocol.metrics.metric import Metric

Stretch = Literal["ever", "year"]

OPERATOR: Final = 'a table such as {name = "Example Inc.", url = "https://example.org"}'
BUDGET: Final = 'a table such as {epsilon = 4.0, per = "year"}'
ROUTE: Final = 'a table such as {relay = "https://relay.example.org/", operator = "Example Relay Inc.", keys = "HEX"}'


def read_tables(
    root: Fields, metrics: Mapping[str, Metric]
) -> tuple[PersonBudget | None, ObliviousRoute | None, Operator | None]:
    """Return budget, oblivious and operator of a registry, after noting every fault in them."""
    operator = root.read_table("operator", OPERATOR, OPERATOR_ROWS) if "operator" in root.table else None
    return (
        _read_budget(root, metrics) if "budget" in root.table else None,
        _read_route(root, metrics),
        None if operator is None else Operator(**operator),
    )


@dataclass(frozen=True)
class Operator:
    """Who collects."""

    name: str
    url: str | None = None

    @property
    def described(self) -> str:
        return self.name if self.url is None else f"{self.name} ({self.url})"

    def to_json(self) -> dict[str, str]:
        return {"name": self.name} | ({} if self.url is None else {"url": self.url})


OPERATOR_ROWS: Final[Mapping[str, Row]] = {
    "name": row(Fields.text, "who collects, as people know them"),
    "url": row(Fields.link, "the operator's address", is_optional=True),
}


@dataclass(frozen=True)
class PersonBudget:
    """How much epsilon the reports of one person may cost, whatever the person holds and however it changes."""

    epsilon: float  # the limit for all metrics together, in nats
    # smaller budgets of the metrics that share an attribute, by attribute
    attributes: Mapping[str, float] = field(default_factory=dict, hash=False)
    per: Stretch = "ever"  # of which reports: of all that there ever are, or of those within any 366 days

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", MappingProxyType(dict(sorted(self.attributes.items()))))

    def limits_of(self, metric: Metric) -> Iterator[tuple[str | None, float]]:
        """Return every limit that a metric's reports count against, with the attribute that it is of, if any."""
        yield None, self.epsilon
        if metric.attribute in self.attributes:
            yield metric.attribute, self.attributes[metric.attribute or ""]

    def allows_more_than(self, other: PersonBudget | None) -> bool:
        """Whether some history may cost more under this budget than under another; None: the other allows anything."""
        if other is None:
            return False
        if self.per != other.per and other.per == "ever":
            return True
        later = {name: self.attributes.get(name, math.inf) for name in other.attributes}
        return self.epsilon > other.epsilon or any(later[name] > most for name, most in other.attributes.items())

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        plain = {"epsilon": self.epsilon, "per": self.per}
        return plain | ({"attributes": dict(self.attributes)} if self.attributes else {})

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> PersonBudget:
        """Return what `to_json` wrote.

        Raises
        ------
        KeyError, TypeError, ValueError
            When it is something else.
        """
        fields = Fields(read)
        values = fields.read(BUDGET_ROWS)
        if fields.faults or "per" not in read:
            raise ValueError("not what a budget holds")
        return cls(**values)


def _epsilon(table: Fields, key: str) -> float | None:
    problem, wanted = "{}: give an epsilon above 0", "an epsilon, such as 20.0"
    number = table.taken(key, (int, float), problem, lambda given: 0 < given <= sys.float_info.max, wanted=wanted)
    return None if number is None else float(number)


def _attributes(table: Fields, key: str) -> dict[str, float | None]:
    inner = table.subtable(key, "a table such as {battery = 5.0}") if key in table.table else None
    return {} if inner is None else {name: _epsilon(inner, name) for name in inner.table}


BUDGET_ROWS: Final[Mapping[str, Row]] = {
    "epsilon": _epsilon,
    "per": row(Fields.choice, get_args(Stretch), "ever"),
    "attributes": _attributes,
}


def _read_budget(root: Fields, metrics: Mapping[str, Metric]) -> PersonBudget | None:
    """Return how much the reports of one person may cost; one report of a metric that costs more is a fault."""
    values = root.read_table("budget", BUDGET, BUDGET_ROWS)
    if values is None:
        return None
    budget = PersonBudget(**values)
    for name in budget.attributes.keys() - {metric.attribute for metric in metrics.values()}:
        root.fault(f"budget.attributes.{name}", f"no metric has the attribute {name!r:.100}")
    kept = [name for name, metric in metrics.items() if not metric.is_afresh]
    if budget.per == "year" and kept:
        whose = f"noise is kept for the values of {', '.join(kept)}"
        problem = "what a year's reports tell depends on those of the years before: give a panel, or leave `per` out"
        root.fault("budget.per", f"{whose}, and {problem}")
    for name, metric in metrics.items():
        cost = metric.mechanism.epsilon_report
        for attribute, most in budget.limits_of(metric):
            if cost > most:
                key = "epsilon" if attribute is None else f"attributes.{attribute}"
                root.fault(f"budget.{key}", f"{most:g} is less than one report of {name} costs, {cost:.4f}: give more")
    return budget


@dataclass(frozen=True)
class ObliviousRoute:
    """Through whom the reports of oblivious metrics travel, and for whom they are encrypted."""

    relay: str  # the URL that encrypted reports are posted to; the relay sees addresses, and no content
    operator: str  # who runs the relay, in words for people; not who runs the collector
    keys: bytes  # the collector's, as application/ohttp-keys (RFC 9458), the one to use first

    @property
    def described(self) -> str:
        """The relay as the question before consent names it."""
        return f"{self.relay}, run by {self.operator}"

    def to_json(self) -> dict[str, Any]:
        return {"relay": self.relay, "operator": self.operator, "keys": self.keys.hex()}


def _relay(table: Fields, key: str) -> str | None:
    relay = table.link(key, "the URL that encrypted reports are posted to")
    if relay is None:
        return None
    parts = urlsplit(relay)
    try:
        has_port = parts.port != 0
    except ValueError:
        has_port = False
    if not relay.isascii() or not has_port:
        table.fault(key, f"{relay!r:.100} is no address: give one such as https://relay.example.org/")
    elif parts.username or parts.password or parts.fragment:
        table.fault(key, "a name, a password or a fragment is no part of it: a relay takes messages from anybody")
    return relay


def _keys(table: Fields, key: str) -> bytes | None:
    text = table.text(key, "the line that `overstory keys FILE` prints: the collector's public keys, in hexadecimal")
    if text is None:
        return None
    try:
        raw = bytes.fromhex(text)
        if read_entries(raw):
            return raw
    except (ValueError, WireError):
        pass
    table.fault(key, f"{text!r:.60} is no list of keys: give what `overstory keys FILE` prints, in hexadecimal")
    return None


ROUTE_ROWS: Final[Mapping[str, Row]] = {
    "relay": _relay,
    "operator": row(Fields.text, "who runs the relay, for people: another one than the collector's operator"),
    "keys": _keys,
}


def _read_route(root: Fields, metrics: Mapping[str, Metric]) -> ObliviousRoute | None:
    """Return the relay; that a metric needs one is a fault where there is none."""
    if "oblivious" in root.table:
        values = root.read_table("oblivious", ROUTE, ROUTE_ROWS)
        return None if values is None else ObliviousRoute(**values)
    for name in [name for name, metric in metrics.items() if metric.is_oblivious]:
        metric = Fields(root.table["metrics"][name], ("metrics", name), root.faults)
        metric.fault("transport", f"reports of this metric need a relay: give [oblivious], {ROUTE}")
    return None
