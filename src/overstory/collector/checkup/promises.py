"""Compares a registry with the privacy that was promised for the reports in a store.

The store remembers of each metric the mechanism, the period and the retention that its reports came under. A registry
that weakens one of these under the same id breaks what people agreed to, as ``overstory metrics diff`` reports; the
collector is the last place where that can be noticed. What the store does not remember (the cap on values, the domain)
is not compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Final

from overstory.collector.store import Store, open_store
from overstory.collector.store.databases.connection import MissingStoreError
from overstory.collector.store.metrics import StoredMetric
from overstory.privacy.registry.changes import Kind, compare_registries
from overstory.privacy.text import epsilon_text, plural
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import Metric, MetricRegistry

ADVICE: Final = (
    "people agreed to more privacy than that: give each of these metrics a new id, or collect with --allow-weaker"
)


def check_promises(url: str, registry: MetricRegistry, *, allow_weaker: bool, warn: Callable[[str], None]) -> None:
    """Refuse a registry that weakens the privacy of a metric of which a store has reports; a store may be missing."""
    try:
        with open_store(url) as store:
            lines = list(weakened(store, registry))
    except MissingStoreError:
        return
    if lines and not allow_weaker:
        raise ParameterError("\n".join((*lines, ADVICE)))
    for line in lines:
        warn(line)


def weakened(store: Store, registry: MetricRegistry) -> Iterator[str]:
    """Yield a line for each metric with stored reports whose promised privacy the registry weakens.

    A mechanism that already has reports in the store was accepted before: it is not reported again.
    """
    stored: dict[str, list[tuple[StoredMetric, int]]] = defaultdict(list)
    for entry, reports in store.collected():
        stored[entry.metric].append((entry, reports))
    for name, metric in registry.items():
        if (line := _weakened(metric, stored[name])) is not None:
            yield line


def _weakened(metric: Metric, stored: Sequence[tuple[StoredMetric, int]]) -> str | None:
    same = [(entry, reports) for entry, reports in stored if entry.mechanism.digest == metric.mechanism.digest]
    for entry, reports in sorted(same or stored, key=itemgetter(1), reverse=True):
        before = replace(metric, mechanism=entry.mechanism, period=entry.period, retention_days=entry.retention_days)
        old, new = (MetricRegistry({metric.id: version}, "") for version in (before, metric))
        weaker = {change.what: change.detail for change in compare_registries(old, new) if change.kind is Kind.WEAKENS}
        if weaker:
            were, are = ("was", "is") if reports == 1 else ("were", "are")
            promised = _epsilons(before, metric)
            other = weaker.get("parameters") or next(iter(weaker.values()))
            promise = f"{were} promised {promised}" if promised else f"{are} stored, and {other}"
            return f"{metric.id}: {plural(reports, 'report')} {promise}; run overstory metrics diff"
    return None


def _epsilons(old: Metric, new: Metric) -> str | None:
    """Return by which epsilon the new metric promises less; None when it does so in another way."""
    for name, of in (("epsilon_permanent", ""), ("epsilon_report", " for each")):
        before, after = (getattr(metric.mechanism, name) for metric in (old, new))
        if after > before:
            return f"epsilon {epsilon_text(before)}{of}, this registry has {epsilon_text(after)}"
    return None
