"""What the collector shows the public about each metric: the registry's words, and what they cost in privacy."""

from __future__ import annotations

from typing import Any

from overstory.privacy import statement
from overstory.protocol.metrics import Metric, MetricRegistry


def public_metric(metric: Metric) -> dict[str, Any]:
    """Return a metric as the registry lists it, with every epsilon and what they mean in plain words.

    Examples
    --------
    >>> from overstory.protocol.metrics import parse_registry
    >>> from overstory.protocol.metrics.registry import EXAMPLE
    >>> public_metric(parse_registry(EXAMPLE)["colour"])["privacy"]["plain_words"][:50]
    'One report moves the odds between any two values a'
    """
    reports = sorted({1, metric.window or 1})
    said = statement(metric.mechanism, reports=reports).to_json()
    kept = ("epsilon_report", "epsilon_n", "epsilon_permanent", "change_leak", "plain_words")
    return metric.to_json() | {"privacy": {name: said[name] for name in kept}}


def public_registry(registry: MetricRegistry) -> dict[str, Any]:
    """Return the public registry."""
    return {
        "registry": registry.version,
        "digest": registry.digest.hex(),
        "metrics": [public_metric(registry[name]) for name in sorted(registry)],
    }
