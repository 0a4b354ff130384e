"""What the person's budget still allows on this device: counted in reports, so that silence says nothing of a value."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from overstory.client.state.lifetimes import cap_of, wider
from overstory.client.state.memo import NOTHING
from overstory.privacy.payloads.registry import terms_of
from overstory.privacy.registry.totals import charge
from overstory.privacy.terms import Terms, add_up

if TYPE_CHECKING:
    from overstory.client.state.state import Rows
    from overstory.protocol.mechanisms.base import LocalRandomizer
    from overstory.protocol.metrics import Metric, MetricRegistry, PersonBudget

Key = tuple[str, bytes]
"""A metric's id, and the digest of the mechanism that made its reports."""


class Allowance:
    """The reports so far against the registry's budget; a past without a bound leaves nothing of any budget."""

    def __init__(
        self, registry: MetricRegistry, budget: PersonBudget, rows: Rows, pending: Iterable[Metric] = ()
    ) -> None:
        self._budget = budget
        self._terms: dict[Key, Terms | None] = {}
        self._reports: Counter[Key] = Counter()
        self._responses: Counter[Key] = Counter()
        with_nothing: set[Key] = set()
        for response in rows.memo.responses():
            key = (response.metric, response.mechanism)
            self._reports[key] += response.reports
            self._responses[key] += 1
            if response.tag == NOTHING:
                with_nothing.add(key)
        self._room_for_nothing = self._responses.keys() - with_nothing
        listed = {metric.mechanism.digest: metric.mechanism for metric in registry.values()}
        self._shared = rows.keys.shared(rows.memo, registry)
        for name, digest in self._reports:
            mechanism = listed.get(digest)
            terms = rows.memo.terms(digest) if mechanism is None else terms_of(mechanism)
            self._terms[name, digest] = None if (name, digest) in self._shared else terms
        names = {name for name, _ in self._reports}
        self._caps = {name: cap_of(rows, name) for name in names}
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
        self._terms[_key(metric)] = self._terms_in(metric.id, metric.mechanism)
        self._caps[metric.id] = self._cap_with(metric)

    def _costs(self, reports: Counter[Key], attribute: str | None, coming: Metric) -> Iterator[float]:
        for (name, mechanism), number in reports.items():
            if attribute is not None and self._attributes.get(name) != attribute:
                continue
            key = (name, mechanism)
            terms = self._terms_in(name, coming.mechanism) if key == _key(coming) else self._terms[key]
            cap = self._most_responses(key, self._cap_with(coming) if name == coming.id else self._caps[name])
            yield math.inf if terms is None else charge(self._budget.against, terms, number, cap)

    def _terms_in(self, name: str, mechanism: LocalRandomizer) -> Terms | None:
        """Return what a mechanism's privacy rests on; None where an earlier version gave its noise to another, too."""
        return None if (name, mechanism.digest) in self._shared else terms_of(mechanism)

    def _most_responses(self, key: Key, cap: int | None) -> int | None:
        """Return how many permanent responses there ever are under a cap; it did not bind an earlier version's."""
        reported = self._responses[key]
        return cap if cap is None or reported <= cap else reported + (key in self._room_for_nothing)

    def _cap_with(self, metric: Metric) -> int | None:
        """Return the largest cap that a metric's reports were made under, this one included; None without."""
        return wider(self._caps.get(metric.id, metric.max_responses), metric.max_responses)


def _key(metric: Metric) -> Key:
    return metric.id, metric.mechanism.digest
