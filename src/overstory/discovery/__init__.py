"""Heavy hitters in domains too large to list: plans, the device's half, simulation, and the search.

The device's half (`Device` and the plans) is the standard library alone; the rest is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overstory._lazy import lazy_names
from overstory.discovery.device import Answer, Device
from overstory.protocol.domains.codes import CodedDomain, CodedIntegers, CodedStrings
from overstory.protocol.domains.models import ModelStrings
from overstory.protocol.errors import NoCodeError
from overstory.protocol.search.plans import BitPlan, Plan, PrefixPlan
from overstory.protocol.search.protocols import bitwise, discover, prefix_extension

if TYPE_CHECKING:
    from overstory.analysis.selection.search_power import detectable_frequency
    from overstory.discovery.heavy_hitters import find
    from overstory.discovery.result import Discovered
    from overstory.discovery.simulation import gather, simulate

__all__ = [
    "Answer",
    "BitPlan",
    "CodedDomain",
    "CodedIntegers",
    "CodedStrings",
    "Device",
    "Discovered",
    "ModelStrings",
    "NoCodeError",
    "Plan",
    "PrefixPlan",
    "bitwise",
    "detectable_frequency",
    "discover",
    "find",
    "gather",
    "prefix_extension",
    "simulate",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Discovered": "discovery.result",
        "detectable_frequency": "analysis.selection.search_power",
        "find": "discovery.heavy_hitters",
        "gather": "discovery.simulation",
        "simulate": "discovery.simulation",
    },
)
