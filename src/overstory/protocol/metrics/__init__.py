"""Metrics: what is collected, why, how privately, how often, for how long. The standard library alone."""

from typing import TYPE_CHECKING

from overstory._lazy import lazy_names

if TYPE_CHECKING:
    from overstory.protocol.metrics.metric import Metric, OverCap
    from overstory.protocol.metrics.metric_table import metric_from_json
    from overstory.protocol.metrics.period import Period
    from overstory.protocol.metrics.registry import (
        MetricRegistry,
        UnknownMetricError,
        load_registry,
        parse_registry,
        registry_folder,
        registry_text,
    )
    from overstory.protocol.metrics.tables import PersonBudget
    from overstory.protocol.metrics.toml_fields import Fault, RegistryError

__all__ = [
    "Fault",
    "Metric",
    "MetricRegistry",
    "OverCap",
    "Period",
    "PersonBudget",
    "RegistryError",
    "UnknownMetricError",
    "load_registry",
    "metric_from_json",
    "parse_registry",
    "registry_folder",
    "registry_text",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "protocol.metrics.metric": ("Metric", "OverCap"),
        "protocol.metrics.metric_table": ("metric_from_json",),
        "protocol.metrics.period": ("Period",),
        "protocol.metrics.registry": (
            "MetricRegistry",
            "UnknownMetricError",
            "load_registry",
            "parse_registry",
            "registry_folder",
            "registry_text",
        ),
        "protocol.metrics.tables": ("PersonBudget",),
        "protocol.metrics.toml_fields": ("Fault", "RegistryError"),
    },
)
