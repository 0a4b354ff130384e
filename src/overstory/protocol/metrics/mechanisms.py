"""Which mechanisms collect which values: the families, and a mechanism of any of them by its name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from overstory.protocol.mechanisms.base import LocalRandomizer
from overstory.protocol.mechanisms.registry import REGISTRY, Builders, build_from


@dataclass(frozen=True)
class Family:
    """The mechanisms that take values of one kind."""

    values: str  # what they take, in a word or two
    builders: Builders[LocalRandomizer]  # what a domain says of the parameters (`AnyDomain.completes`) is filled in


STRINGS_ALONE: Final = ("rappor", "rappor-one-time")
STRINGS_TOO: Final = ("blh", "olh", "random-matrix", "loloha")
"""Oracles that hash what they report."""

_ORACLES: Final = REGISTRY.places

FAMILIES: Final[Mapping[str, Family]] = {
    "symbols": Family("symbols", Builders({name: _ORACLES[name] for name in _ORACLES if name not in STRINGS_ALONE})),
    "strings": Family("strings", Builders({name: _ORACLES[name] for name in (*STRINGS_TOO, *STRINGS_ALONE)})),
    "ordered": Family("ordered symbols", Builders({"ranges": ".numeric.ranges:ranges"})),
    "tuples": Family("pairs of values", Builders({"joint": ".mechanisms.joint:joint"})),
    "divided": Family("combinations, divided over tables", Builders({"divided": ".mechanisms.divided:divided"})),
    "codes": Family("values that nobody listed", Builders({"prefix-search": ".search.mechanism:prefix_search"})),
    "numbers": Family(
        "numbers",
        Builders(
            {
                "square-wave": ".numeric.windows:square_wave",
                "duchi": ".numeric.means:duchi",
                "piecewise": ".numeric.means:piecewise",
                "hybrid": ".numeric.means:hybrid",
            }
        ),
    ),
    "sets": Family(
        "sets of items",
        Builders(
            {
                "padding-and-sampling": ".mechanisms.item_sets:padding_and_sampling",
                "item-bits": ".mechanisms.item_sets:item_bits",
            }
        ),
    ),
}
"""By the names that `AnyDomain.families` has."""

BUILDERS: Final[Builders[LocalRandomizer]] = Builders(
    {name: place for family in FAMILIES.values() for name, place in family.builders.places.items()}
)
"""Every mechanism that a metric can have."""


def any_mechanism(name: str, **parameters: Any) -> LocalRandomizer:
    """Build the mechanism of that name, of whichever family."""
    return build_from(BUILDERS, name, parameters)


def values_of(name: str) -> str:
    """Return what a mechanism takes, in words.

    >>> values_of("olh"), values_of("duchi")
    ('symbols or strings', 'numbers')
    """
    return " or ".join(family.values for family in FAMILIES.values() if name in family.builders)


def names_for(families: Iterable[str]) -> list[str]:
    """Return the names of the mechanisms of some families, in order."""
    return sorted({name for family in families for name in FAMILIES[family].builders})
