"""The registries: a name, what builds a mechanism. Everything else is parametrized over them.

Naming a mechanism imports its module, and no other: a device that reports by one of them loads that one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final, TypeVar

from overstory.protocol.encodings.base import whole_number
from overstory.protocol.errors import ParameterError, suggestion
from overstory.protocol.mechanisms.base import REBUILD, Mechanism

Built = TypeVar("Built")


class Builders(Mapping[str, Callable[..., Built]]):
    """What builds mechanisms, by name; `places` are "module:function", the module below `overstory.protocol`."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self.places = places

    def __getitem__(self, name: str) -> Callable[..., Built]:
        module, _, function = self.places[name].partition(":")
        build: Callable[..., Built] = getattr(import_module(module, "overstory.protocol"), function)
        return build

    def __contains__(self, name: object) -> bool:
        return name in self.places

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


REGISTRY: Final[Builders[Mechanism]] = Builders(
    {
        "grr": ".mechanisms.symbols:grr",
        "sue": ".mechanisms.bits:sue",
        "oue": ".mechanisms.bits:oue",
        "blh": ".mechanisms.hashes:blh",
        "olh": ".mechanisms.hashes:olh",
        "linear-hash": ".mechanisms.hashes:linear_hash",
        "hadamard": ".mechanisms.symbols:hadamard",
        "subset": ".mechanisms.sets:subset",
        "projective": ".mechanisms.sets:projective",
        "random-matrix": ".mechanisms.hashes:random_matrix",
        "rappor": ".mechanisms.bits:rappor",
        "rappor-one-time": ".mechanisms.bits:rappor_one_time",
        "basic-rappor": ".mechanisms.bits:basic_rappor",
        "basic-rappor-one-time": ".mechanisms.bits:basic_rappor_one_time",
        "wb": ".mechanisms.bits:wb",
        "opt-wb": ".mechanisms.bits:opt_wb",
        "opt-dr": ".mechanisms.bits:opt_dr",
        "l-grr": ".mechanisms.symbols:l_grr",
        "l-sue": ".mechanisms.bits:l_sue",
        "l-osue": ".mechanisms.bits:l_osue",
        "l-soue": ".mechanisms.bits:l_soue",
        "dbitflip": ".mechanisms.bits:dbitflip",
        "loloha": ".mechanisms.hashes:loloha",
    }
)
"""The frequency oracles."""


def mechanism(name: str, **parameters: Any) -> Mechanism:
    """Build the mechanism of that name."""
    return build_from(REGISTRY, name, parameters)


def rebuilt(name: str, parameters: dict[str, Any], expected: bytes) -> Mechanism:
    """Build a mechanism that was pickled."""
    built = mechanism(name, **parameters)
    if built.digest != expected:
        raise ParameterError(f"the {name} that was pickled is another than these parameters make here")
    return built


REBUILD.update(dict.fromkeys(REGISTRY, rebuilt))


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
