"""The registry: a name, a mechanism. Everything else is parametrized over it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, TypeVar

from overstory.protocol.encodings.base import whole_number
from overstory.protocol.errors import ParameterError, suggestion
from overstory.protocol.mechanisms import bits, sets, symbols
from overstory.protocol.mechanisms import bits as sampled
from overstory.protocol.mechanisms import bits as unary
from overstory.protocol.mechanisms.base import REBUILD, Mechanism

REGISTRY: Final[dict[str, Callable[..., Mechanism]]] = {
    "grr": symbols.grr,
    "sue": unary.sue,
    "oue": unary.oue,
    "blh": symbols.blh,
    "olh": symbols.olh,
    "linear-hash": symbols.linear_hash,
    "hadamard": symbols.hadamard,
    "subset": sets.subset,
    "projective": sets.projective,
    "random-matrix": symbols.random_matrix,
    "rappor": bits.rappor,
    "rappor-one-time": bits.rappor_one_time,
    "basic-rappor": bits.basic_rappor,
    "basic-rappor-one-time": bits.basic_rappor_one_time,
    "wb": unary.wb,
    "opt-wb": unary.opt_wb,
    "opt-dr": unary.opt_dr,
    "l-grr": symbols.l_grr,
    "l-sue": unary.l_sue,
    "l-osue": unary.l_osue,
    "l-soue": unary.l_soue,
    "dbitflip": sampled.dbitflip,
    "loloha": symbols.loloha,
}

Built = TypeVar("Built")


def mechanism(name: str, **parameters: Any) -> Mechanism:
    """Build the mechanism of that name.

    Examples
    --------
    >>> mechanism("basic-rappor-one-time", domain_size=4, p=0.5, q=0.75).epsilon_report < 1.0987
    True
    """
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
