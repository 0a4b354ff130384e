"""The registries: a name, what builds a mechanism; which mechanisms collect which values, and which meet needs.

Naming a mechanism imports its module, and no other: a device that reports by one of them loads that one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final, TypeVar

from overstory.protocol.errors import ParameterError, suggestion
from overstory.protocol.kinds.base import Kind, Mechanism, check_epsilon, whole_number

Built = TypeVar("Built")


class Builders(Mapping[str, Callable[..., Built]]):
    """What builds mechanisms, by name; `places` are "module:function", the module below `overstory.protocol`.

    A user's own is the function itself.
    """

    def __init__(self, places: dict[str, str | Callable[..., Built]]) -> None:
        self.places = places

    def __getitem__(self, name: str) -> Callable[..., Built]:
        place = self.places[name]
        if not isinstance(place, str):
            return place
        module, _, function = place.partition(":")
        build: Callable[..., Built] = getattr(import_module(module, "overstory.protocol"), function)
        return build

    def __contains__(self, name: object) -> bool:
        return name in self.places

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


MECHANISMS: Final = (
    ("grr", "symbols", ".kinds.symbols:grr"),
    ("sue", "symbols", ".kinds.bits:sue"),
    ("oue", "symbols", ".kinds.bits:oue"),
    ("blh", "symbols strings", ".kinds.hashes:blh"),
    ("olh", "symbols strings", ".kinds.hashes:olh"),
    ("linear-hash", "symbols", ".kinds.hashes:linear_hash"),
    ("hadamard", "symbols", ".kinds.symbols:hadamard"),
    ("subset", "symbols", ".kinds.sets:subset"),
    ("projective", "symbols", ".kinds.sets:projective"),
    ("random-matrix", "symbols strings", ".kinds.hashes:random_matrix"),
    ("rappor", "strings", ".kinds.bits:rappor"),
    ("rappor-one-time", "strings", ".kinds.bits:rappor_one_time"),
    ("basic-rappor", "symbols", ".kinds.bits:basic_rappor"),
    ("basic-rappor-one-time", "symbols", ".kinds.bits:basic_rappor_one_time"),
    ("wb", "symbols", ".kinds.bits:wb"),
    ("opt-wb", "symbols", ".kinds.bits:opt_wb"),
    ("opt-dr", "symbols", ".kinds.bits:opt_dr"),
    ("l-grr", "symbols", ".kinds.symbols:l_grr"),
    ("l-sue", "symbols", ".kinds.bits:l_sue"),
    ("l-osue", "symbols", ".kinds.bits:l_osue"),
    ("l-soue", "symbols", ".kinds.bits:l_soue"),
    ("dbitflip", "symbols", ".kinds.bits:dbitflip"),
    ("loloha", "symbols strings", ".kinds.hashes:loloha"),
    ("ranges", "ordered", ".numeric.ranges:ranges"),
    ("divided", "divided", ".kinds.split:divided"),
    ("prefix-search", "codes", ".search:prefix_search"),
    ("square-wave", "numbers", ".numeric.mechanisms:square_wave"),
    ("hybrid", "numbers", ".numeric.mechanisms:hybrid"),
    ("padding-and-sampling", "sets", ".kinds.item_sets:padding_and_sampling"),
    ("item-bits", "sets", ".kinds.item_sets:item_bits"),
)
"""Of each mechanism the name, the families of values that it takes, and the place of what builds it.

Oracles that hash what they report take strings, too.
"""


def _taking(families: str) -> Builders[Any]:
    wanted = set(families.split())
    return Builders({name: place for name, taken, place in MECHANISMS if wanted & set(taken.split())})


VALUES: Final[Mapping[str, str]] = {
    "symbols": "symbols",
    "strings": "strings",
    "ordered": "ordered symbols",
    "divided": "combinations, divided over tables",
    "codes": "values that nobody listed",
    "numbers": "numbers",
    "sets": "sets of items",
}
"""What the mechanisms of a family take, in a word or two, by the names that `AnyDomain.families` has."""
FAMILIES: Final[Mapping[str, Builders[Kind]]] = {name: _taking(name) for name in VALUES}
"""The mechanisms of each; what a domain says of their parameters (`AnyDomain.completes`) is filled in."""
REGISTRY: Final[Builders[Mechanism]] = _taking("symbols strings")
"""The frequency oracles."""
BUILDERS: Final[Builders[Kind]] = _taking(" ".join(VALUES))
"""Every mechanism that a metric can have."""


def add_own(name: str, build: Callable[..., Mechanism]) -> None:
    """Add an oracle of a user's own, in this process alone; a later one of its name replaces it."""
    if name in REGISTRY and name not in own_names():
        raise ParameterError(f"{name} is an oracle of the library: give yours another name")
    for builders in (REGISTRY, BUILDERS, FAMILIES["symbols"]):
        builders.places[name] = build


def own_names() -> list[str]:
    """Return the names of the oracles that are a user's own."""
    return [name for name, place in REGISTRY.places.items() if not isinstance(place, str)]


def mechanism(name: str, **parameters: Any) -> Mechanism:
    """Build the mechanism of that name."""
    return build_from(REGISTRY, name, parameters)


@cache
def parameters_of(build: Callable[..., object]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters that a mechanism is built from, by name."""
    return inspect.signature(build).parameters


def build_from(registry: Mapping[str, Callable[..., Built]], name: str, parameters: Mapping[str, Any]) -> Built:
    """Build what a registry has under that name; one clear error where it cannot."""
    build = registry.get(name)
    if build is None:
        near = suggestion(str(name), registry)
        raise ParameterError(f"there is no mechanism {name!r}{near or ':'} choose one of {', '.join(sorted(registry))}")
    accepted = parameters_of(build)
    unknown = sorted(parameters.keys() - accepted.keys())
    if unknown:
        raise ParameterError(f"{name} has no parameter {', '.join(unknown)}: it takes {', '.join(accepted)}")
    missing = [k for k, p in accepted.items() if p.default is p.empty and k not in parameters]
    if missing:
        raise ParameterError(f"{name} needs the parameter{'s' * (len(missing) > 1)} {', '.join(missing)}")
    return build(**{key: _plain(value) for key, value in parameters.items()})


def _plain(value: Any) -> Any:
    """Return a number of NumPy as Python's own: a mechanism travels as JSON."""
    if type(value) in {int, float, str}:
        return value
    if hasattr(value, "dtype") and getattr(value, "shape", None) == ():
        return value.item()
    return whole_number(value)


def any_mechanism(name: str, **parameters: Any) -> Kind:
    """Build the mechanism of that name, of whichever family."""
    return build_from(BUILDERS, name, parameters)


def values_of(name: str) -> str:
    """Return what a mechanism takes, in words."""
    return " or ".join(VALUES[family] for family, builders in FAMILIES.items() if name in builders)


def names_for(families: Iterable[str]) -> list[str]:
    """Return the names of the mechanisms of some families, in order."""
    return sorted({name for family in families for name in FAMILIES[family]})


def of_domain(name: str, **given: Any) -> Any | None:
    """Return the mechanism with these parameters; None where it is one for another number of values."""
    own = dict(given)
    if "domain_size" not in parameters_of(BUILDERS[name]):
        own.pop("domain_size", None)
    built = any_mechanism(name, **own)
    return built if len(own) == len(given) or built.domain_size == given["domain_size"] else None


def oracles_for(domain_size: int, epsilon: float, epsilon_permanent: float | None = None) -> Iterator[Mechanism]:
    """Return every oracle that these needs determine: with a permanent epsilon those that memoize and send afresh."""
    epsilon = check_epsilon("epsilon", epsilon)
    if epsilon_permanent is None:
        return _made({"domain_size": domain_size, "epsilon": epsilon})
    if epsilon < check_epsilon("epsilon_permanent", epsilon_permanent):
        return _two_rounds(domain_size, epsilon, epsilon_permanent)
    raise ParameterError(f"epsilon = {epsilon} of one report must be below epsilon_permanent = {epsilon_permanent}")


def _two_rounds(domain_size: int, epsilon: float, epsilon_permanent: float) -> Iterator[Mechanism]:
    given = {"domain_size": domain_size, "epsilon_permanent": epsilon_permanent}
    yield from _made(given | {"epsilon_report": epsilon})
    yield from (built for built in _made(given) if built.epsilon_report <= epsilon)


def _made(given: dict[str, Any]) -> Iterator[Mechanism]:
    built = (make(name, **given) for name in determined_by(REGISTRY, given))
    return (each for each in built if each is not None)


def determined_by(builders: Mapping[str, Callable[..., object]], given: Mapping[str, Any]) -> Iterator[str]:
    """Return the names of what these parameters determine, and that takes no other epsilon."""
    asked = {key for key in given if key.startswith("epsilon")}
    for name, build in builders.items():
        accepted = parameters_of(build)
        needed = {key for key, parameter in accepted.items() if parameter.default is parameter.empty}
        taken = {*accepted, "domain_size"}  # which one of a fixed size leaves out: `of_domain`
        if asked == {key for key in accepted if key.startswith("epsilon")} and needed <= set(given) <= taken:
            yield name


def make(name: str, **parameters: Any) -> Mechanism | None:
    """Return the mechanism, or None where it does not exist at this size or epsilon."""
    try:
        return of_domain(name, **parameters)
    except ParameterError:
        return None
