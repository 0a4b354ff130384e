"""What the metrics of one person cost together: epsilons add up, over all metrics and over those of one attribute."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from overstory.privacy.claims import SAME_PATTERN, finite
from overstory.privacy.ledger import Ledger
from overstory.privacy.metric_cost import ALWAYS, ANY, PATTERN, CostLine, MetricCost, counted
from overstory.privacy.terms import add_up


@dataclass(frozen=True)
class TotalCost:
    """What several metrics cost together: epsilons of one person add up.

    Attributes
    ----------
    attribute
        What they have in common; None: all metrics.
    metrics
        Their ids.
    epsilon_any
        Whatever the person holds and however it changes.
    epsilon_pattern
        Against values that change at the same times.
    reports
        Which reports these are.
    """

    attribute: str | None
    metrics: tuple[str, ...]
    epsilon_any: float
    epsilon_pattern: float
    reports: str

    @property
    def about(self) -> str:
        """Which metrics."""
        what = "all metrics" if self.attribute is None else f"all that tells of {self.attribute}"
        return f"{what} ({', '.join(self.metrics)})"

    @property
    def lines(self) -> tuple[CostLine, ...]:
        """Both epsilons, the one without a condition first."""
        rests = f"The epsilons of one person's metrics add up. {ANY}"
        why = "no bound on one of them"
        return (
            CostLine("any", f"{ALWAYS}: {self.reports}", self.epsilon_any, rests, why),
            CostLine("pattern", f"{self.reports}, {PATTERN}", self.epsilon_pattern, f"Holds {SAME_PATTERN}", why),
        )

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Return each line as the epsilon and its words."""
        yield from ((line.amount, line.words) for line in self.lines)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "attribute": self.attribute,
            "metrics": list(self.metrics),
            "about": self.about,
            "epsilon_any": finite(self.epsilon_any),
            "epsilon_same_pattern": finite(self.epsilon_pattern),
            "lines": [line.to_json() for line in self.lines],
        }


def total_costs(costs: Sequence[MetricCost]) -> tuple[TotalCost, ...]:
    """Return what metrics cost together: all of them, then those of each attribute that several share.

    Parameters
    ----------
    costs
        One a metric.

    Examples
    --------
    >>> from overstory.privacy.metric_cost import metric_cost
    >>> from overstory.protocol.metrics.registry import EXAMPLE, parse_registry
    >>> again = EXAMPLE.partition("[metrics.colour]")[2]
    >>> two = parse_registry(f"{EXAMPLE}[metrics.shade]{again}")
    >>> (total,) = total_costs([metric_cost(metric, 1) for metric in two.values()])
    >>> total.about, round(total.epsilon_any, 4)
    ('all metrics (colour, shade)', 2.0)
    """
    shared: dict[str, list[MetricCost]] = {}
    for cost in costs:
        if cost.attribute is not None:
            shared.setdefault(cost.attribute, []).append(cost)
    groups: list[tuple[str | None, Sequence[MetricCost]]] = [(None, costs)] if costs else []
    groups += [(name, group) for name, group in sorted(shared.items()) if len(group) > 1]
    return tuple(_total(attribute, group) for attribute, group in groups)


def total_so_far(ledger: Ledger, attribute: str | None = None, *, forgotten: bool = False) -> TotalCost:
    """Return what a ledger's reports have cost together; unbounded where there were others that nobody knows."""
    names = tuple(dict.fromkeys(account.metric for account in ledger.accounts))
    reports = f"your {counted(sum(account.reports for account in ledger.accounts))}"
    epsilons = (math.inf, math.inf) if forgotten else (ledger.epsilon_any, ledger.epsilon)
    return TotalCost(attribute, names, *epsilons, reports)


def _total(attribute: str | None, costs: Sequence[MetricCost]) -> TotalCost:
    numbers = [cost.reports for cost in costs]
    same = len(set(numbers)) == 1
    reports = f"{counted(numbers[0])} of each" if same else f"{', '.join(map(str, numbers))} reports of these"
    any_history = add_up((1, cost.headline.epsilon) for cost in costs)
    pattern = add_up((1, cost.pattern) for cost in costs)
    return TotalCost(attribute, tuple(cost.metric for cost in costs), any_history, pattern, reports)
