"""Domains: from what an application measures to a symbol of ``0 .. size - 1``.

A domain decides three things once, for device and collector alike: which symbol a value is, what happens to a value
that is none of them, and what a symbol is called. It draws no randomness, so it can neither help nor harm privacy;
but it must give one answer everywhere, so no answer here depends on how a division was rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from overstory._lazy import lazy_names
from overstory.protocol.domains.domains import FIELDS, AnyDomain
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.protocol.domains.numbers import Bins

__all__ = ["Bins", "domain_from"]

__getattr__, __dir__ = lazy_names(__name__, {"protocol.domains.numbers": ("Bins",)})

DOMAINS: Final[Mapping[str, tuple[str, str]]] = {
    "categories": ("domains:Categories", "names other ordered"),
    "integers": ("numbers:Integers", "min max outside"),
    "bins": ("numbers:Bins", "min max count outside"),
    "interval": ("numbers:Interval", "min max outside"),
    "strings": ("domains:Strings", "candidates"),
    "set": ("item_sets:item_set", "of most other"),
    "unknown-strings": ("codes:unknown_strings", "max_bytes alphabet known"),
    "unknown-integers": ("codes:unknown_integers", "bits known"),
    "table": ("tables:table_of", "of names tables"),
}
"""By the name of a kind: the module here with what builds the domain, and its parameters."""
_OF_OTHERS: Final = ("set", "table")  # kinds of other domains


def domain_from(canonical: Mapping[str, Any]) -> AnyDomain:
    """Return the domain of a canonical form.

    Parameters
    ----------
    canonical
        The parameters by name, as `Domain.canonical` gives them; "domain" names the kind, or "kind" in a registry.

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
    kind = given.pop("domain" if "domain" in given else "kind", None)
    if not isinstance(kind, str) or kind not in DOMAINS:
        raise ParameterError(f"there is no domain {kind!r}: choose one of {', '.join(DOMAINS)}")
    module, _, name = DOMAINS[kind][0].partition(":")
    build: Callable[..., AnyDomain] = getattr(import_module(f"{__name__}.{module}"), name)
    parts = (domain_from,) if kind in _OF_OTHERS else ()
    try:
        return build(*parts, **{FIELDS.get(key, key): value for key, value in given.items()})
    except TypeError as error:
        detail = str(error).partition("() ")[2] or str(error)
        raise ParameterError(f"domain {kind}: {detail}") from None
