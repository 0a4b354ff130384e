"""The registry: a name, a mechanism. Everything else is parametrized over it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms import rappor
from overstory.protocol.mechanisms.bits import BitMechanism

REGISTRY: Final[dict[str, Callable[..., BitMechanism]]] = {
    "rappor": rappor.rappor,
    "rappor-one-time": rappor.rappor_one_time,
    "basic-rappor": rappor.basic_rappor,
    "basic-rappor-one-time": rappor.basic_rappor_one_time,
}


def mechanism(name: str, **parameters: Any) -> BitMechanism:
    """Build the mechanism of that name.

    Raises
    ------
    ParameterError
        When there is none, or a parameter is unknown, missing or out of range.

    Examples
    --------
    >>> mechanism("basic-rappor-one-time", domain_size=4, p=0.5, q=0.75).epsilon_report < 1.0987
    True
    """
    build = REGISTRY.get(name)
    if build is None:
        raise ParameterError(f"there is no mechanism {name!r}: choose one of {', '.join(sorted(REGISTRY))}")
    accepted = inspect.signature(build).parameters
    unknown = sorted(set(parameters) - set(accepted))
    if unknown:
        raise ParameterError(f"{name} has no parameter {', '.join(unknown)}: it takes {', '.join(accepted)}")
    missing = [k for k, p in accepted.items() if p.default is p.empty and k not in parameters]
    if missing:
        raise ParameterError(f"{name} needs the parameter {', '.join(missing)}")
    return build(**parameters)
