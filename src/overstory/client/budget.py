"""What this device has spent, and what the person's budget still allows: both are computed from the rows of the memo.

The ledger charges what was *queued* for sending, before anybody knows whether it arrived: what was dropped later stays
charged. So the statement is never below the truth of what this state has sent. Of a state that was restored, or has a
copy, another one sent reports too: those of another value, or of another period, are missing here. What was recorded
under `local` is not charged.

What a budget allows is counted in reports, so that silence says nothing of a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from overstory.privacy.ledger import Account, Ledger
from overstory.privacy.payloads.registry import terms_of

if TYPE_CHECKING:
    from overstory.client.state.rows import Rows
    from overstory.protocol.metrics import Metric, MetricRegistry, PersonBudget


def ledger_of(rows: Rows, registry: Mapping[str, Metric] | None = None) -> Ledger:
    """Return the device's ledger; a metric tells of what the registry says, or said when it was last reported."""
    held: dict[tuple[str, bytes], dict[int, int]] = {}
    for response in rows.memo.responses():
        if response.reports:
            held.setdefault((response.metric, response.account), {})[response.number] = response.reports
    tells_of = {name: metric.attribute for name, metric in (registry or {}).items()}
    for name, _ in held:
        tells_of.setdefault(name, str(rows.recall(f"attribute {name}") or "") or None)
    accounts = (
        Account(
            name, account.hex(), rows.memo.terms(account), tuple(reports.items()), rows.cap_of(name), tells_of[name]
        )
        for (name, account), reports in held.items()
    )
    return Ledger(tuple(accounts))


class Allowance:
    """The reports so far against the registry's budget."""

    def __init__(
        self, registry: MetricRegistry, budget: PersonBudget, rows: Rows, pending: Iterable[Metric] = ()
    ) -> None:
        self._budget, self._ledger = budget, ledger_of(rows, registry)
        for metric in pending:
            self.take(metric)

    def allows(self, metric: Metric) -> bool:
        """Whether one more report of a metric stays within every limit."""
        ledger = self._with(metric)
        limits = self._budget.limits_of(metric)
        return all(ledger.charged(self._budget.against, attribute) <= most for attribute, most in limits)

    def take(self, metric: Metric) -> None:
        self._ledger = self._with(metric)

    def _with(self, metric: Metric) -> Ledger:
        """Return the ledger with one more report; of which response does not matter to a budget."""
        caps = {metric.max_responses, *(each.cap for each in self._ledger.accounts if each.metric == metric.id)}
        # All reports of a metric count under the largest cap that some were made under.
        cap = None if None in caps else max(most for most in caps if most is not None)
        accounts = {
            (each.metric, each.digest): replace(each, cap=cap) if each.metric == metric.id else each
            for each in self._ledger.accounts
        }
        key = metric.id, metric.account.hex()
        reports = 1 + (accounts[key].reports if key in accounts else 0)
        accounts[key] = Account(*key, terms_of(metric.mechanism), ((0, reports),), cap, metric.attribute)
        return Ledger(tuple(accounts.values()))
