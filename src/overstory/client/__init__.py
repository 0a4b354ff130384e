"""The device's side: the standard library alone, so that any program can embed it.

>>> from overstory.client import Client, Outcome

Names are loaded when they are first used, so that importing this costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from overstory.client.client import Client
    from overstory.client.consent import Choice, Consent
    from overstory.client.errors import ConsentError, Fault, StateError
    from overstory.client.offers import OfferLedger
    from overstory.client.outcomes import Flushed, Outcome
    from overstory.client.randomizer import Randomizer, new_secret
    from overstory.client.status import Status

__all__ = [
    "Choice",
    "Client",
    "Consent",
    "ConsentError",
    "Fault",
    "Flushed",
    "OfferLedger",
    "Outcome",
    "Randomizer",
    "StateError",
    "Status",
    "new_secret",
]

_MODULES = {
    "Choice": "consent",
    "Client": "client",
    "Consent": "consent",
    "ConsentError": "errors",
    "Fault": "errors",
    "Flushed": "outcomes",
    "OfferLedger": "offers",
    "Outcome": "outcomes",
    "Randomizer": "randomizer",
    "StateError": "errors",
    "Status": "status",
    "new_secret": "randomizer",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
