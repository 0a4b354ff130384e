"""What this device has spent, and what the person's budget still allows: both are computed from the rows of the memo.

The ledger charges what was *queued* for sending, before anybody knows whether it arrived: what was dropped later stays
charged. So the statement is never below the truth of what this state has sent. Of a state that was restored, or has a
copy, another one sent reports too: those of another value, or of another period, are missing here. What was recorded
under `local` is not charged.

What a budget allows is counted in reports, so that silence says nothing of a value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from overstory.client.state.rows import wider
from overstory.privacy.ledger import Account, Ledger
from overstory.privacy.payloads.registry import terms_of
from overstory.privacy.registry.cost import MetricCost, metric_cost
from overstory.privacy.registry.totals import TotalCost, charge, total_so_far
from overstory.privacy.terms import Terms, add_up

if TYPE_CHECKING:
    from overstory.client.state.rows import Rows
    from overstory.protocol.metrics import Metric, MetricRegistry, PersonBudget


@dataclass(frozen=True)
class Spent:
    """What one metric has cost."""

    metric: str  # its id
    reports: int  # queued for sending
    distinct: int  # the permanent responses among them: none where all noise is fresh
    most_values: int | None  # the cap on distinct values; None without
    cost: MetricCost  # every line that a person is shown


def ledger_of(rows: Rows) -> Ledger:
    """Return the device's ledger."""
    held: dict[tuple[str, bytes], dict[int, int]] = {}
    for response in rows.responses():
        if response.reports:
            held.setdefault((response.metric, response.account), {})[response.number] = response.reports
    accounts = (
        Account(name, account.hex(), rows.terms(account), tuple(reports.items()))
        for (name, account), reports in held.items()
    )
    return Ledger(tuple(accounts))


def part_of(ledger: Ledger, metrics: Collection[str]) -> Ledger:
    """Return the part of some metrics."""
    return replace(ledger, accounts=tuple(account for account in ledger.accounts if account.metric in metrics))


def totals(ledger: Ledger, metrics: Mapping[str, Metric]) -> tuple[TotalCost, ...]:
    """Return what all metrics have cost together, then those of each attribute that several share."""
    reported = {account.metric for account in ledger.accounts}
    if not reported:
        return ()
    shared: dict[str, set[str]] = {}
    for name in reported.intersection(metrics):
        if (attribute := metrics[name].attribute) is not None:
            shared.setdefault(attribute, set()).add(name)
    parts = ((name, part_of(ledger, group)) for name, group in sorted(shared.items()) if len(group) > 1)
    return (total_so_far(ledger), *(total_so_far(part, name) for name, part in parts))


def spent(ledger: Ledger, metric: Metric) -> Spent:
    """Return what a metric has cost; what it would cost, where the ledger has no report of it."""
    mine = part_of(ledger, {metric.id})
    return Spent(
        metric=metric.id,
        reports=sum(account.reports for account in mine.accounts),
        distinct=sum(len(account.numbered) for account in mine.accounts if not account.terms.fresh),
        most_values=metric.max_values,
        cost=metric_cost(metric, so_far=mine),
    )


Key = tuple[str, str]
"""A metric's id, and one of its accounts."""


class Allowance:
    """The reports so far against the registry's budget."""

    def __init__(
        self, registry: MetricRegistry, budget: PersonBudget, rows: Rows, pending: Iterable[Metric] = ()
    ) -> None:
        self._budget = budget
        accounts = {(account.metric, account.digest): account for account in ledger_of(rows).accounts}
        self._terms: dict[Key, Terms] = {key: account.terms for key, account in accounts.items()}
        self._reports = Counter({key: account.reports for key, account in accounts.items()})
        names = {name for name, _ in accounts}
        self._caps = {name: rows.cap_of(name) for name in names}
        self._attributes = {name: rows.recall(f"attribute {name}") for name in names}
        self._attributes |= {name: metric.attribute for name, metric in registry.items()}
        for metric in pending:
            self.take(metric)

    def allows(self, metric: Metric) -> bool:
        """Whether one more report of a metric stays within every limit."""
        more = self._reports + Counter([_key(metric)])
        return all(
            add_up((1, cost) for cost in self._costs(more, attribute, metric)) <= most
            for attribute, most in self._budget.limits_of(metric)
        )

    def take(self, metric: Metric) -> None:
        self._reports[_key(metric)] += 1
        self._terms[_key(metric)] = terms_of(metric.mechanism)
        self._caps[metric.id] = self._cap_with(metric)

    def _costs(self, reports: Counter[Key], attribute: str | None, coming: Metric) -> Iterator[float]:
        terms = self._terms | {_key(coming): terms_of(coming.mechanism)}
        for key, number in reports.items():
            name, _ = key
            if attribute is None or self._attributes.get(name) == attribute:
                cap = self._cap_with(coming) if name == coming.id else self._caps[name]
                yield charge(self._budget.against, terms[key], number, cap)

    def _cap_with(self, metric: Metric) -> int | None:
        """Return the largest cap that a metric's reports were made under, this one included; None without."""
        return wider(self._caps.get(metric.id, metric.max_responses), metric.max_responses)


def _key(metric: Metric) -> Key:
    return metric.id, metric.account.hex()
