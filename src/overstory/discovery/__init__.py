"""Heavy hitters in domains too large to list: plans, simulation, and the search, loaded when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overstory._lazy import lazy_names
from overstory.protocol.domains.codes import AlphabetStrings, CodedDomain, CodedIntegers, CodedStrings
from overstory.protocol.errors import NoCodeError
from overstory.protocol.search import Plan, discover

if TYPE_CHECKING:
    from overstory.analysis.selection import detectable_frequency
    from overstory.discovery.heavy_hitters import find
    from overstory.discovery.result import Discovered
    from overstory.discovery.simulation import simulate

__all__ = [
    "AlphabetStrings",
    "CodedDomain",
    "CodedIntegers",
    "CodedStrings",
    "Discovered",
    "NoCodeError",
    "Plan",
    "detectable_frequency",
    "discover",
    "find",
    "simulate",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Discovered": "discovery.result",
        "detectable_frequency": "analysis.selection",
        "find": "discovery.heavy_hitters",
        "simulate": "discovery.simulation",
    },
)
