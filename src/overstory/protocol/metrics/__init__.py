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

_PLACES = {
    "metric": ("Metric", "OverCap"),
    "metric_table": ("metric_from_json",),
    "period": ("Period",),
    "registry": (
        "MetricRegistry",
        "UnknownMetricError",
        "load_registry",
        "parse_registry",
        "registry_folder",
        "registry_text",
    ),
    "tables": ("PersonBudget",),
    "toml_fields": ("Fault", "RegistryError"),
}
__getattr__, __dir__ = lazy_names(
    __name__, {name: f"protocol.metrics.{module}" for module, names in _PLACES.items() for name in names}
)
