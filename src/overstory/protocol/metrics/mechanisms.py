"""Which mechanisms collect which values: the families, and a mechanism of any of them by its name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from overstory.protocol.mechanisms.base import LocalRandomizer
from overstory.protocol.mechanisms.divided import DIVIDED
from overstory.protocol.mechanisms.item_sets import ITEM_SETS
from overstory.protocol.mechanisms.joint import joint
from overstory.protocol.mechanisms.registry import REGISTRY, build_from
from overstory.protocol.numeric.registry import NUMERIC
from overstory.protocol.search.mechanism import SEARCHES

Builders = Mapping[str, Callable[..., LocalRandomizer]]


@dataclass(frozen=True)
class Family:
    """The mechanisms that take values of one kind.

    Attributes
    ----------
    values
        What they take, in a word or two.
    builders
        By name; what a domain says of the parameters (`AnyDomain.completes`) is filled in.
    """

    values: str
    builders: Builders


def _with(parameter: str) -> Builders:
    return {name: build for name, build in REGISTRY.items() if parameter in inspect.signature(build).parameters}


FAMILIES: Final[Mapping[str, Family]] = {
    "symbols": Family("symbols", _with("domain_size")),
    "strings": Family("strings", _with("hash_key")),
    "ordered": Family("ordered symbols", {name: NUMERIC[name] for name in ("ranges",)}),
    "tuples": Family("pairs of values", {"joint": joint}),
    "divided": Family("combinations, divided over tables", DIVIDED),
    "codes": Family("values that nobody listed", SEARCHES),
    "numbers": Family("numbers", {name: build for name, build in NUMERIC.items() if name != "ranges"}),
    "sets": Family("sets of items", ITEM_SETS),
}
"""By the names that `AnyDomain.families` has."""

BUILDERS: Final[Builders] = {name: build for family in FAMILIES.values() for name, build in family.builders.items()}
"""Every mechanism that a metric can have."""


def any_mechanism(name: str, **parameters: Any) -> LocalRandomizer:
    """Build the mechanism of that name, of whichever family.

    Examples
    --------
    >>> any_mechanism("grr", domain_size=4, epsilon=1.0).payload, any_mechanism("duchi", epsilon=1.0).payload
    ('symbols', 'numbers')
    """
    return build_from(BUILDERS, name, parameters)


def values_of(name: str) -> str:
    """Return what a mechanism takes, in words.

    Examples
    --------
    >>> values_of("olh"), values_of("duchi")
    ('symbols or strings', 'numbers')
    """
    return " or ".join(family.values for family in FAMILIES.values() if name in family.builders)


def names_for(families: Iterable[str]) -> list[str]:
    """Return the names of the mechanisms of some families, in order."""
    return sorted({name for family in families for name in FAMILIES[family].builders})
