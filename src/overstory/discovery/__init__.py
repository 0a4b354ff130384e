"""Heavy hitters in domains too large to list: plans, the device's half, simulation, and the search.

The device's half (`Device` and the plans) is the standard library alone; the rest is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from overstory.discovery.device import Answer, Device
from overstory.discovery.domains import Domain, Integers, Strings
from overstory.discovery.limits import detectable_frequency
from overstory.discovery.plans import BitPlan, Plan, PrefixPlan
from overstory.discovery.protocols import bitwise, discover, prefix_extension

if TYPE_CHECKING:
    from overstory.discovery.heavy_hitters import find
    from overstory.discovery.result import Discovered
    from overstory.discovery.simulation import gather, simulate

__all__ = [
    "Answer",
    "BitPlan",
    "Device",
    "Discovered",
    "Domain",
    "Integers",
    "Plan",
    "PrefixPlan",
    "Strings",
    "bitwise",
    "detectable_frequency",
    "discover",
    "find",
    "gather",
    "prefix_extension",
    "simulate",
]

_LATER = {"Discovered": "result", "find": "heavy_hitters", "gather": "simulation", "simulate": "simulation"}


def __getattr__(name: str) -> Any:
    """Load what needs NumPy when it is first asked for."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
