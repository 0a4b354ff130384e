"""What the metrics of one person cost together, and what a registry's budget charges for their reports.

Epsilons add up, over all metrics and over those of one attribute.

A budget charges by the number of reports alone. A device that falls silent says something by it. So
whether the budget allows a report depends on how many there were, and never on a value: each report is charged as if
its value were the worst.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from overstory.privacy.claims import finite
from overstory.privacy.ledger import Ledger
from overstory.privacy.payloads.registry import terms_of
from overstory.privacy.registry.cost import ALWAYS, ANY, PATTERN, CostLine, MetricCost, without_times
from overstory.privacy.terms import Terms, add_up
from overstory.privacy.text import plural
from overstory.protocol.metrics import Metric, PersonBudget
from overstory.protocol.metrics.tables import Against


@dataclass(frozen=True)
class TotalCost:
    """What several metrics cost together: epsilons of one person add up."""

    attribute: str | None  # what they have in common; None: all metrics
    metrics: tuple[str, ...]  # their ids
    epsilon_any: float  # whatever the person holds and however it changes
    epsilon_pattern: float  # not counting which reports share their noise
    reports: str  # which reports these are

    @property
    def about(self) -> str:
        what = "all metrics" if self.attribute is None else f"all that tells of {self.attribute}"
        return f"{what} ({', '.join(self.metrics)})"

    @property
    def lines(self) -> tuple[CostLine, ...]:
        """Both epsilons where they differ, the one without a condition first."""
        rests = f"The epsilons of one person's metrics add up. {ANY}"
        return (
            CostLine("any", f"{ALWAYS}: {self.reports}", self.epsilon_any, rests, "no bound on one of them"),
            *without_times(self.epsilon_any, self.epsilon_pattern, f"{self.reports}, {PATTERN}"),
        )

    def pairs(self) -> Iterator[tuple[str, str]]:
        yield from ((line.amount, line.words) for line in self.lines)

    def to_json(self) -> dict[str, Any]:
        return {
            "attribute": self.attribute,
            "metrics": list(self.metrics),
            "about": self.about,
            "epsilon_any": finite(self.epsilon_any),
            "epsilon_same_pattern": finite(self.epsilon_pattern),
            "lines": [line.to_json() for line in self.lines],
        }


def total_costs(costs: Sequence[MetricCost]) -> tuple[TotalCost, ...]:
    """Return what metrics cost together: all of them, then those of each attribute that several share."""
    shared: dict[str, list[MetricCost]] = {}
    for cost in costs:
        if cost.attribute is not None:
            shared.setdefault(cost.attribute, []).append(cost)
    groups: list[tuple[str | None, Sequence[MetricCost]]] = [(None, costs)] if costs else []
    groups += [(name, group) for name, group in sorted(shared.items()) if len(group) > 1]
    return tuple(_total(attribute, group) for attribute, group in groups)


def total_so_far(ledger: Ledger, attribute: str | None = None) -> TotalCost:
    """Return what a ledger's reports have cost together."""
    names = tuple(dict.fromkeys(account.metric for account in ledger.accounts))
    reports = f"your {plural(sum(account.reports for account in ledger.accounts), 'report')}"
    return TotalCost(attribute, names, ledger.epsilon_any, ledger.epsilon, reports)


def _total(attribute: str | None, costs: Sequence[MetricCost]) -> TotalCost:
    numbers = [cost.reports for cost in costs]
    same = len(set(numbers)) == 1
    reports = f"{plural(numbers[0], 'report')} of each" if same else f"{', '.join(map(str, numbers))} reports of these"
    any_history = add_up((1, cost.headline.epsilon) for cost in costs)
    pattern = add_up((1, cost.epsilon_pattern) for cost in costs)
    return TotalCost(attribute, tuple(cost.metric for cost in costs), any_history, pattern, reports)


MOST_REPORTS: Final = 1 << 20
DAY: Final = 86_400


def charge(against: Against, terms: Terms, reports: int, most_responses: int | None = None) -> float:
    """Return what a budget charges for reports of one metric by one mechanism, rounded up.

    Against any history: what tells any two histories of as many reports apart. Against the same pattern: as if every
    report came from another permanent response, up to the cap; or what the former charges, where that is less.

    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> terms = terms_of(mechanism("grr", domain_size=4, epsilon=1.0))
    >>> [round(charge("same-pattern", terms, reports, 2), 4) for reports in (0, 1, 2, 100)]
    [0.0, 1.0, 2.0, 2.0]
    """
    if not reports:
        return 0.0
    any_history = terms.epsilon_any(reports)
    if against == "any-history":
        return any_history
    responses = None if terms.most_values is None else terms.most_values + 1  # nothing may have one of its own
    distinct = min(most for most in (reports, most_responses, responses) if most is not None)
    return min(any_history, add_up([(distinct, terms.epsilon_permanent)]))


def reports_until_the_end(budget: PersonBudget, metric: Metric) -> int | None:
    """Return after how many reports of a metric a budget ends that nothing else uses; None where it never does."""
    terms = terms_of(metric.mechanism)
    most = min(limit for _, limit in budget.limits_of(metric))

    def cost(reports: int) -> float:
        return charge(budget.against, terms, reports, metric.max_responses)

    return None if cost(MOST_REPORTS) <= most else bisect_right(range(1, MOST_REPORTS), most, key=cost)


def days_until_the_end(budget: PersonBudget, metrics: Iterable[Metric]) -> dict[str | None, int | None]:
    """Return after how many days of reports in every period each limit ends, if ever, by attribute; None: of all."""
    listed = list(metrics)
    limits: list[tuple[str | None, float]] = [(None, budget.epsilon), *budget.attributes.items()]
    return {
        name: _days(budget, [metric for metric in listed if name is None or metric.attribute == name], most)
        for name, most in limits
    }


def _days(budget: PersonBudget, metrics: list[Metric], most: float) -> int | None:
    def cost(days: int) -> float:
        return add_up(
            (1, charge(budget.against, terms_of(metric.mechanism), reports, metric.max_responses))
            for metric in metrics
            # One report in every period that so many days touch.
            for reports in [-(-days * DAY // metric.period.seconds)]
        )

    longest = MOST_REPORTS // 48
    return None if cost(longest) <= most else bisect_right(range(1, longest), most, key=cost)


def budget_words(budget: PersonBudget, metrics: Iterable[Metric]) -> Iterator[str]:
    """Say what a budget allows, and what happens at its end, a sentence at a time."""
    listed = list(metrics)
    meaning = ALWAYS if budget.against == "any-history" else PATTERN
    yield f"All reports together may cost epsilon {budget.epsilon:g}, {meaning}; then no more are made."
    for name, most in budget.attributes.items():
        yield f"All that tells of {name} may cost epsilon {most:g}, {meaning}; then no more of that is reported."
    for metric in listed:
        end = reports_until_the_end(budget, metric)
        if end is None:
            yield f"{metric.id} alone never reaches its end."
        else:
            reports = f"{end:,} report{'s' * (end != 1)}"
            yield f"After {reports} of {metric.id}, were it alone, this application stops reporting it by itself."
    if len(listed) > 1:
        for attribute, days in days_until_the_end(budget, listed).items():
            if days is not None:
                what = "every metric" if attribute is None else f"everything about {attribute}"
                yield f"With {what} reported in each of its periods, that is after about {plural(days, 'day')}."
