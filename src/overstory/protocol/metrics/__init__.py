"""Metrics: what is collected, why, how privately, how often, for how long. The standard library alone."""

from overstory.protocol.metrics.budget import PersonBudget
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
