"""A registry's budget: how much all reports of one person may reveal together, which every client enforces."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, cast

if TYPE_CHECKING:
    from overstory.protocol.metrics.metric import Metric
    from overstory.protocol.metrics.toml_fields import Fields

Against = Literal["any-history", "same-pattern"]

AGAINST: Final[tuple[Against, ...]] = ("any-history", "same-pattern")
KEYS: Final = ("epsilon", "against", "attributes")
_LARGEST: Final = sys.float_info.max  # a whole number beyond it is no float
TABLE: Final = 'a table such as {epsilon = 20.0, against = "any-history"}'


@dataclass(frozen=True)
class PersonBudget:
    """How much epsilon the reports of one person may cost.

    Attributes
    ----------
    epsilon
        The limit for all metrics together, in nats.
    against
        What a report is charged for: "any-history" charges what tells any two histories of as many reports apart;
        "same-pattern" what they tell, not counting which reports share their noise.
    attributes
        Smaller budgets of the metrics that share an attribute, by attribute.
    """

    epsilon: float
    against: Against = "any-history"
    attributes: Mapping[str, float] = field(default_factory=dict)

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
        if self.against != other.against and other.against == "any-history":
            return True
        later = {name: self.attributes.get(name, math.inf) for name in other.attributes}
        return self.epsilon > other.epsilon or any(later[name] > most for name, most in other.attributes.items())

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        plain = {"epsilon": self.epsilon, "against": self.against}
        return plain | ({"attributes": dict(self.attributes)} if self.attributes else {})

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> PersonBudget:
        """Return what `to_json` wrote.

        Raises
        ------
        KeyError, TypeError, ValueError
            When it is something else.
        """
        attributes = dict(read.get("attributes", {}))
        if read["against"] not in AGAINST or not all(map(_is_epsilon, (read["epsilon"], *attributes.values()))):
            raise ValueError("not what a budget holds")
        return cls(float(read["epsilon"]), read["against"], {name: float(most) for name, most in attributes.items()})


def read_budget(root: Fields, metrics: Mapping[str, Metric]) -> PersonBudget | None:
    """Return a registry's budget, or None after noting a fault.

    A budget that one report of a metric exceeds is a fault: the metric could never be reported.
    """
    table, before = root.subtable("budget", TABLE), len(root.faults)
    if table is None:
        return None
    table.unknown(KEYS)
    epsilon = _epsilon(table, "epsilon")
    against = table.choice("against", AGAINST, "any-history")
    attributes = _attributes(table, {metric.attribute for metric in metrics.values()})
    if len(root.faults) > before or epsilon is None:
        return None
    budget = PersonBudget(epsilon, cast("Against", against), attributes)
    _check_first_reports(table, budget, metrics)
    return budget


def _attributes(table: Fields, used: set[str | None]) -> dict[str, float]:
    if "attributes" not in table.table:
        return {}
    inner = table.subtable("attributes", "a table such as {battery = 5.0}")
    if inner is None:
        return {}
    limits = {name: _epsilon(inner, name) for name in inner.table}
    for name in limits:
        if name not in used:
            inner.fault(name, f"no metric has the attribute {name!r:.100}")
    return {name: most for name, most in limits.items() if most is not None}


def _epsilon(table: Fields, key: str) -> float | None:
    value = table.required(key, "an epsilon, such as 20.0")
    if value is None:
        return None
    if not _is_epsilon(value):
        table.fault(key, f"{value!r:.100}: give an epsilon above 0")
        return None
    return float(value)


def _is_epsilon(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= _LARGEST


def _check_first_reports(table: Fields, budget: PersonBudget, metrics: Mapping[str, Metric]) -> None:
    for name, metric in metrics.items():
        epsilon = metric.mechanism.epsilon_report
        for attribute, most in budget.limits_of(metric):
            if epsilon > most:
                key = "epsilon" if attribute is None else f"attributes.{attribute}"
                table.fault(key, f"{most:g} is less than one report of {name} costs, {epsilon:.4f}: give more")
