"""What the person's budget still allows on this device: counted in reports, so that silence says nothing of a value."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from overstory.privacy.kinds import terms_of
from overstory.privacy.person_budget import charge
from overstory.privacy.terms import Terms, add_up

if TYPE_CHECKING:
    from overstory.client.state import Rows
    from overstory.protocol.metrics import Metric, MetricRegistry, PersonBudget

Key = tuple[str, bytes]
"""A metric's id, and the digest of the mechanism that made its reports."""

NO_CAP = 0
"""What the state remembers of a metric that has had reports under no cap, or under one that nobody knows any more."""


class Allowance:
    """The reports so far against the registry's budget.

    Parameters
    ----------
    registry
        The metrics, with the budget.
    budget
        The budget.
    rows
        The state, within a transaction.
    pending
        The metrics of reports that no transaction holds yet.
    """

    def __init__(
        self, registry: MetricRegistry, budget: PersonBudget, rows: Rows, pending: Iterable[Metric] = ()
    ) -> None:
        self._budget = budget
        self._terms: dict[Key, Terms | None] = {}
        self._reports: Counter[Key] = Counter()
        for response in rows.memo.responses():
            self._reports[response.metric, response.mechanism] += response.reports
        for name, mechanism in self._reports:
            self._terms[name, mechanism] = rows.memo.terms(mechanism)
        names = {name for name, _ in self._reports}
        self._caps = {name: _cap(rows, name) for name in names}
        self._attributes = {name: rows.recall(f"attribute {name}") for name in names}
        self._attributes |= {name: metric.attribute for name, metric in registry.items()}
        for metric in pending:
            self.take(metric)

    def __repr__(self) -> str:
        return f"Allowance({self._budget!r}, {sum(self._reports.values())} reports)"

    def allows(self, metric: Metric) -> bool:
        """Whether one more report of a metric stays within every limit."""
        more = self._reports + Counter([_key(metric)])
        return all(
            add_up((1, cost) for cost in self._costs(more, attribute, metric)) <= most
            for attribute, most in self._budget.limits_of(metric)
        )

    def take(self, metric: Metric) -> None:
        """Count one more report of a metric."""
        self._reports[_key(metric)] += 1
        self._terms[_key(metric)] = terms_of(metric.mechanism)
        self._caps[metric.id] = self._cap_with(metric)

    def keep(self, rows: Rows, metric: Metric) -> None:
        """Write down what a later registry may no longer say of a metric's reports: their cap, and their attribute."""
        cap = self._caps[metric.id]
        for what, value in (("cap", NO_CAP if cap is None else cap), ("attribute", metric.attribute or "")):
            if rows.recall(f"{what} {metric.id}") != value:
                rows.remember(f"{what} {metric.id}", value)

    def _costs(self, reports: Counter[Key], attribute: str | None, coming: Metric) -> Iterator[float]:
        for (name, mechanism), number in reports.items():
            if attribute is not None and self._attributes.get(name) != attribute:
                continue
            mine = (name, mechanism) == _key(coming)
            terms = terms_of(coming.mechanism) if mine else self._terms[name, mechanism]
            cap = self._cap_with(coming) if name == coming.id else self._caps[name]
            yield math.inf if terms is None else charge(self._budget.against, terms, number, cap)

    def _cap_with(self, metric: Metric) -> int | None:
        """Return the largest cap that a metric's reports were made under, this one included; None without."""
        before = self._caps.get(metric.id, metric.max_responses)
        return None if before is None or metric.max_responses is None else max(before, metric.max_responses)


def _cap(rows: Rows, name: str) -> int | None:
    return int(rows.recall(f"cap {name}") or NO_CAP) or None


def _key(metric: Metric) -> Key:
    return metric.id, metric.mechanism.digest
