"""The device's side: the standard library alone, so that any program can embed it.

>>> from overstory.client import Client, Outcome

Names are loaded when they are first used, so that importing this costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overstory._lazy import lazy_names

if TYPE_CHECKING:
    from overstory.client.client import Client
    from overstory.client.consent import Choice, Consent
    from overstory.client.outcomes import ConsentError, Fault, Flushed, Outcome, StateError
    from overstory.client.person.status import Status
    from overstory.client.randomizer import Randomizer, new_secret
    from overstory.client.state.rows import Bounds
    from overstory.protocol.errors import FormatError, OverstoryError, ParameterError
    from overstory.protocol.metrics.registry import MetricRegistry, load_registry, parse_registry

__all__ = [
    "Bounds",
    "Choice",
    "Client",
    "Consent",
    "ConsentError",
    "Fault",
    "Flushed",
    "FormatError",
    "MetricRegistry",
    "Outcome",
    "OverstoryError",
    "ParameterError",
    "Randomizer",
    "StateError",
    "Status",
    "load_registry",
    "new_secret",
    "parse_registry",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "client.client": ("Client",),
        "client.consent": ("Choice", "Consent"),
        "client.outcomes": ("ConsentError", "Fault", "Flushed", "Outcome", "StateError"),
        "client.person.status": ("Status",),
        "client.randomizer": ("Randomizer", "new_secret"),
        "client.state.rows": ("Bounds",),
        "protocol.errors": ("FormatError", "OverstoryError", "ParameterError"),
        "protocol.metrics.registry": ("MetricRegistry", "load_registry", "parse_registry"),
    },
)
