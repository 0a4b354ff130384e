"""The registered oracles that meet needs: a domain, what a report may reveal, and what all of them may."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from overstory.protocol.encodings.base import check_epsilon
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import Mechanism
from overstory.protocol.mechanisms.registry import REGISTRY, mechanism, parameters_of


def oracles_for(domain_size: int, epsilon: float, epsilon_permanent: float | None = None) -> Iterator[Mechanism]:
    """Return every oracle that these needs determine: with a permanent epsilon those that memoize and send afresh.

    >>> [built.name for built in oracles_for(100, 1.0, 2.0)]
    ['l-grr', 'l-sue', 'l-osue', 'l-soue', 'loloha', 'opt-dr']
    """
    epsilon = check_epsilon("epsilon", epsilon)
    if epsilon_permanent is None:
        return _made({"domain_size": domain_size, "epsilon": epsilon})
    if epsilon < check_epsilon("epsilon_permanent", epsilon_permanent):
        return _two_rounds(domain_size, epsilon, epsilon_permanent)
    raise ParameterError(f"epsilon = {epsilon} of one report must be below epsilon_permanent = {epsilon_permanent}")


def _two_rounds(domain_size: int, epsilon: float, epsilon_permanent: float) -> Iterator[Mechanism]:
    """Make every oracle that memoizes, and whose reports are fresh, within both epsilons."""
    given = {"domain_size": domain_size, "epsilon_permanent": epsilon_permanent}
    yield from _made(given | {"epsilon_report": epsilon})
    yield from (built for built in _made(given) if built.epsilon_report <= epsilon)


def _made(given: dict[str, Any]) -> Iterator[Mechanism]:
    """Make every oracle that these parameters determine, and that takes no other epsilon."""
    built = (make(name, **given) for name in determined_by(REGISTRY, given))
    return (each for each in built if each is not None)


def determined_by(builders: Mapping[str, Callable[..., object]], given: Mapping[str, Any]) -> Iterator[str]:
    """Return the names of what these parameters determine, and that takes no other epsilon.

    >>> list(determined_by(REGISTRY, {"domain_size": 100, "epsilon": 1.0, "window": 3}))
    ['wb', 'opt-wb']
    """
    asked = {key for key in given if key.startswith("epsilon")}
    for name, build in builders.items():
        accepted = parameters_of(build)
        needed = {key for key, parameter in accepted.items() if parameter.default is parameter.empty}
        if asked == {key for key in accepted if key.startswith("epsilon")} and needed <= set(given) <= set(accepted):
            yield name


def make(name: str, **parameters: Any) -> Mechanism | None:
    """Return the mechanism, or None where it does not exist at this size or epsilon."""
    try:
        return mechanism(name, **parameters)
    except ParameterError:
        return None
