"""What this device has spent, and what the person's budget still allows: both are computed from the rows of the memo.

What was *queued* for sending is charged, and stays charged, so the statement is never below the truth of what this
state has sent; a copy of it may have sent more. What a budget allows is counted in reports, so that silence says
nothing of a value.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from overstory.privacy.ledger import Account, Ledger
from overstory.privacy.registry.cost import headline
from overstory.privacy.terms import add_up, metric_terms
from overstory.protocol.metrics.period import YEAR
from overstory.protocol.metrics.tables import PersonBudget

if TYPE_CHECKING:
    from overstory.client.state.rows import Rows
    from overstory.protocol.metrics import Metric, MetricRegistry


def ledger_of(rows: Rows, registry: Mapping[str, Metric] | None = None, since: float | None = None) -> Ledger:
    """Return the device's ledger, of what the registry says or said; `since` a unix time, as if of one response."""
    held: dict[tuple[str, bytes], dict[int, int]] = {}
    if since is not None:
        held = {(metric, account): {0: reports} for metric, account, reports in rows.reports_since(since)}
    else:
        for response in rows.responses():
            if response.reports:
                held.setdefault((response.metric, response.account), {})[response.number] = response.reports
    tells_of = {name: metric.attribute for name, metric in (registry or {}).items()}
    for name, _ in held:
        tells_of.setdefault(name, str(rows.recall(f"attribute {name}") or "") or None)
    accounts = (
        Account(name, account.hex(), rows.terms(account), tuple(reports.items()), tells_of[name])
        for (name, account), reports in held.items()
    )
    return Ledger(tuple(accounts))


class Allowance:
    """The reports so far against the registry's budget, a cycle's answers against panels, and a year's cost."""

    def __init__(self, registry: MetricRegistry, rows: Rows, now: float, pending: Iterable[Metric] = ()) -> None:
        self.now = now
        self._budget = None if registry.budget is None else _Charges(registry.budget, registry, rows, now)
        most = _most_in_a_year(registry)
        self._year = None if most is None else _Charges(most, registry, rows, now)
        self._answers: Counter[str] = Counter()  # of the cycle that ends now, by `_asked_for`
        apart = {name for name, metric in registry.items() if metric.panel is None or metric.panel.own}
        for key, panel in {_asked_for(metric): metric.panel for metric in registry.values()}.items():
            for name, _, reports in () if panel is None else rows.reports_since(now - panel.seconds):
                self._answers[key] += reports if name == key or not (key or name in apart) else 0
        for metric in pending:
            self.take(metric)

    def answered(self, metric: Metric) -> bool:
        panel = metric.panel
        return panel is not None and self._answers[_asked_for(metric)] >= panel.answers

    def allows(self, metric: Metric) -> bool:
        """Whether the budget, and what any year may cost, allow one more report."""
        return all(charges is None or charges.allow(metric) for charges in (self._budget, self._year))

    def take(self, metric: Metric) -> None:
        self._answers[_asked_for(metric)] += 1
        for charges in (self._budget, self._year):
            if charges is not None:
                charges.take(metric)


class _Charges:
    """What the reports so far have cost of a budget."""

    def __init__(self, budget: PersonBudget, registry: MetricRegistry, rows: Rows, now: float) -> None:
        since = now - YEAR if budget.per == "year" else None
        self._budget = budget
        self._accounts = {(each.metric, each.digest): each for each in ledger_of(rows, registry, since).accounts}

    def allow(self, metric: Metric) -> bool:
        accounts, limits = self._with(metric).values(), self._budget.limits_of(metric)
        return all(
            add_up((1, each.epsilon_any) for each in accounts if attribute in {None, each.attribute}) <= most
            for attribute, most in limits
        )

    def take(self, metric: Metric) -> None:
        self._accounts = self._with(metric)

    def _with(self, metric: Metric) -> dict[tuple[str, str], Account]:
        """Return the accounts with one more report; of which response does not matter to a budget."""
        key = metric.id, metric.account.hex()
        reports = 1 + (self._accounts[key].reports if key in self._accounts else 0)
        return self._accounts | {key: Account(*key, metric_terms(metric), ((0, reports),), metric.attribute)}


ROUNDED: Final = 1e-12  # the relative error of a sum of epsilons that are each rounded up


def _most_in_a_year(registry: MetricRegistry) -> PersonBudget | None:
    if all(metric.panel is None for metric in registry.values()):
        return None
    epsilon = headline(registry).epsilon
    return None if math.isinf(epsilon) else PersonBudget(epsilon * (1 + ROUNDED), per="year")


def _asked_for(metric: Metric) -> str:
    """Return what a metric's answers are counted under: its id, or nothing where it shares the application's panel."""
    return "" if metric.panel is not None and not metric.panel.own else metric.id
