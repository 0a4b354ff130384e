"""What this device has spent: a ledger computed from the rows of the memo.

The ledger charges what was *queued* for sending, before anybody knows whether it arrived: what was dropped later stays
charged. So the statement is never below the truth of what this state has sent. Of a state that was restored, or has a
copy, another one sent reports too: those of another value, or of another period, are missing here. What was recorded
under `local` is not charged.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from overstory.client.state.memo import ALL_VALUES, NOTHING
from overstory.privacy.accounts import Event, Spend
from overstory.privacy.ledger import Ledger
from overstory.privacy.payloads.registry import terms_of
from overstory.privacy.registry.cost import MetricCost, metric_cost
from overstory.privacy.registry.totals import TotalCost, total_so_far
from overstory.privacy.terms import Terms

if TYPE_CHECKING:
    from overstory.client.state.state import Rows
    from overstory.protocol.metrics import Metric


@dataclass(frozen=True)
class Spent:
    """What one metric has cost.

    Attributes
    ----------
    reports, distinct
        Reports queued for sending, and the permanent responses among them: none where all noise is fresh.
    epsilon
        All reports so far, with the same pattern of changes, under every mechanism that the metric has had; infinite
        where an earlier version did not keep what a mechanism's privacy rests on, or let two metrics share their noise.
    """

    metric: str  # its id
    reports: int
    distinct: int
    most_values: int | None  # the cap on distinct values; None without
    epsilon: float
    change_leak: float  # what all reports disclose of one change of value
    cost: MetricCost  # every line that a person is shown


@dataclass(frozen=True)
class Budget:
    """The device's ledger, and the metrics that it cannot speak for.

    Attributes
    ----------
    unknown
        Metrics with reports by a mechanism of which nothing is known any more, or whose noise another one shared.
    """

    ledger: Ledger  # what is known
    unknown: frozenset[str]

    @property
    def epsilon(self) -> float:
        """All that was spent, rounded up, with the same pattern of changes; infinite where something is unknown."""
        return math.inf if self.unknown else self.ledger.epsilon

    @property
    def epsilon_any(self) -> float:
        """All that was spent, rounded up, whatever was held and however it changed; infinite likewise."""
        return math.inf if self.unknown else self.ledger.epsilon_any

    def of(self, metrics: Collection[str]) -> Budget:
        """Return the part of some metrics."""
        accounts = tuple(account for account in self.ledger.accounts if account.metric in metrics)
        return Budget(replace(self.ledger, accounts=accounts), self.unknown.intersection(metrics))

    def totals(self, attributes: Mapping[str, str]) -> tuple[TotalCost, ...]:
        """Return what all metrics have cost together, then those of each attribute that several share."""
        reported = {account.metric for account in self.ledger.accounts} | self.unknown
        if not reported:
            return ()
        shared: dict[str, set[str]] = {}
        for name in reported.intersection(attributes):
            shared.setdefault(attributes[name], set()).add(name)
        parts = ((name, self.of(group)) for name, group in sorted(shared.items()) if len(group) > 1)
        return (
            total_so_far(self.ledger, forgotten=bool(self.unknown)),
            *(total_so_far(part.ledger, name, forgotten=bool(part.unknown)) for name, part in parts),
        )


def budget(rows: Rows, metrics: Mapping[str, Metric], metric: str | None = None) -> Budget:
    """Return the device's budget, of all metrics or of one.

    Parameters
    ----------
    metrics
        The registry's, for mechanisms whose terms an earlier version did not keep.
    metric
        The one metric; None: all of them.
    """
    terms_by_digest = {metric.mechanism.digest: terms_of(metric.mechanism) for metric in metrics.values()}
    shared = rows.keys.shared(rows.memo, metrics)
    ledger, unknown = Ledger("person", (rows.fingerprint or b"").hex()[:8]), set()
    responses = rows.memo.responses(metric)
    with_nothing = {(each.metric, each.mechanism) for each in responses if each.tag == NOTHING}
    for response in responses:
        if not response.reports:
            continue
        terms = _terms(rows, response.mechanism, terms_by_digest)
        if terms is None or (response.metric, response.mechanism) in shared:
            unknown.add(response.metric)
        else:
            if terms.most_values is not None and (response.metric, response.mechanism) in with_nothing:
                terms = replace(cast(Any, terms), most_values=terms.most_values + 1)
            about = response.metric, response.mechanism.hex(), terms
            of = (
                (Event.ANY_VALUES, response.reports)
                if terms.fresh
                else (Event.VALUE, response.reports, response.number)
            )
            ledger = ledger.after(Spend(*about, *of))
    return Budget(ledger, frozenset(unknown))


def spent(rows: Rows, metric: Metric) -> Spent:
    """Return what a metric has cost on this device."""
    mine = budget(rows, {metric.id: metric}, metric.id)
    responses = [response for response in rows.memo.responses(metric.id) if response.reports]
    return Spent(
        metric=metric.id,
        reports=sum(response.reports for response in responses),
        distinct=sum(response.tag != ALL_VALUES for response in responses),
        most_values=metric.max_values,
        epsilon=mine.epsilon,
        change_leak=math.inf if mine.unknown else mine.ledger.change_leak,
        cost=metric_cost(metric, so_far=mine.ledger, forgotten=bool(mine.unknown)),
    )


def planned(metric: Metric) -> Spent:
    """Return what a metric would cost, where there is no state to have reports in."""
    return Spent(metric.id, 0, 0, metric.max_values, 0.0, 0.0, metric_cost(metric))


def _terms(rows: Rows, mechanism: bytes, terms_by_digest: dict[bytes, Terms]) -> Terms | None:
    if mechanism not in terms_by_digest:
        terms = rows.memo.terms(mechanism)
        if terms is None:
            return None
        terms_by_digest[mechanism] = terms
    return terms_by_digest[mechanism]
