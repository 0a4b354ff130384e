"""Domains: from what an application measures to a symbol of ``0 .. size - 1``.

A domain decides three things once, for device and collector alike: which symbol a value is, what happens to a value
that is none of them, and what a symbol is called. It draws no randomness, so it can neither help nor harm privacy;
but it must give one answer everywhere, so no answer here depends on how a division was rounded.

Up to 2^20 values have symbols with labels. A range of numbers for a mean or a distribution has none: see `intervals`.
What is too large to list has codes instead, for a search that walks along their bits:
`overstory.protocol.domains.codes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from overstory.protocol.domains.domains import MAX_SIZE, AnyDomain, Categories, Domain
from overstory.protocol.domains.intervals import Interval
from overstory.protocol.domains.item_sets import ItemSet, item_set
from overstory.protocol.domains.numbers import Bins, Integers, Outside
from overstory.protocol.domains.strings import Strings, StringTable, table_of
from overstory.protocol.domains.tables import Table
from overstory.protocol.domains.unknown import UnknownIntegers, UnknownStrings
from overstory.protocol.errors import ParameterError

__all__ = [
    "MAX_SIZE",
    "AnyDomain",
    "Bins",
    "Categories",
    "Domain",
    "Integers",
    "Interval",
    "ItemSet",
    "Outside",
    "StringTable",
    "Strings",
    "Table",
    "UnknownIntegers",
    "UnknownStrings",
    "domain_from",
]

_KINDS: Final[Mapping[str, tuple[Callable[..., AnyDomain], Mapping[str, str]]]] = {
    "categories": (Categories, {}),
    "integers": (Integers, {"min": "minimum", "max": "maximum"}),
    "bins": (Bins, {"min": "minimum", "max": "maximum"}),
    "strings": (Strings, {}),
    "set": (lambda **given: item_set(domain_from, **given), {}),
    "interval": (Interval, {"min": "minimum", "max": "maximum"}),
    "unknown-strings": (UnknownStrings, {}),
    "unknown-integers": (UnknownIntegers, {}),
    "table": (lambda **given: table_of(domain_from, **given), {}),
}


def domain_from(canonical: Mapping[str, Any]) -> AnyDomain:
    """Return the domain of a canonical form.

    Parameters
    ----------
    canonical
        The parameters by name, as `Domain.canonical` gives them; "domain" names the kind.

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
