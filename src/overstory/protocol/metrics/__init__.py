"""Metrics: what is collected, why, how privately, how often, for how long. The standard library alone."""

from typing import TYPE_CHECKING

from overstory._lazy import lazy_names

if TYPE_CHECKING:
    from overstory.protocol.metrics.metric import Metric
    from overstory.protocol.metrics.period import Period
    from overstory.protocol.metrics.registry import MetricRegistry, load_registry, parse_registry
    from overstory.protocol.metrics.tables import PersonBudget
    from overstory.protocol.metrics.toml_fields import Fault, RegistryError

__all__ = [
    "Fault",
    "Metric",
    "MetricRegistry",
    "Period",
    "PersonBudget",
    "RegistryError",
    "load_registry",
    "parse_registry",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "protocol.metrics.metric": ("Metric",),
        "protocol.metrics.period": ("Period",),
        "protocol.metrics.registry": ("MetricRegistry", "load_registry", "parse_registry"),
        "protocol.metrics.tables": ("PersonBudget",),
        "protocol.metrics.toml_fields": ("Fault", "RegistryError"),
    },
)
