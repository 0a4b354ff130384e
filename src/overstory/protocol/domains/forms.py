"""From a domain's canonical form to the domain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from overstory.protocol.domains.bins import Bins
from overstory.protocol.domains.categories import Categories
from overstory.protocol.domains.domain import Domain
from overstory.protocol.domains.integers import Integers
from overstory.protocol.errors import ParameterError

_KINDS: Final[Mapping[str, tuple[Callable[..., Domain], Mapping[str, str]]]] = {
    "categories": (Categories, {}),
    "integers": (Integers, {"min": "minimum", "max": "maximum"}),
    "bins": (Bins, {"min": "minimum", "max": "maximum"}),
}


def domain_from(canonical: Mapping[str, Any]) -> Domain:
    """Return the domain of a canonical form.

    Raises
    ------
    ParameterError
        When the kind is unknown, a parameter is missing or unknown, or a value is wrong.

    Examples
    --------
    >>> domain_from({"domain": "bins", "min": 0, "max": 2, "count": 100}).size
    100
    """
    given = dict(canonical)
    kind = given.pop("domain", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ParameterError(f"there is no domain {kind!r}: choose one of {', '.join(_KINDS)}")
    build, names = _KINDS[kind]
    try:
        return build(**{names.get(key, key): value for key, value in given.items()})
    except TypeError as error:
        detail = str(error).partition("__init__() ")[2] or str(error)
        raise ParameterError(f"domain {kind}: {detail}") from None
