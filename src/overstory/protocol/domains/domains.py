"""Domains: finite sets of values, numbered from 0.

Three kinds: named values, the integers of a range, and equal bins over a range of numbers; `canonical` forms are read
back into domains.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, get_args

from overstory.protocol.domains.numbers import Outside, beyond, check_outside, finite, limits, whole, with_ends
from overstory.protocol.errors import ParameterError

MAX_SIZE: Final = 1 << 20
"""The most symbols that a domain may have."""


class Domain(ABC):
    """A finite set of values, numbered."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many symbols there are."""

    @property
    @abstractmethod
    def ordered(self) -> bool:
        """Whether neighbouring symbols are neighbouring values: whether ranges and smoothing mean anything."""

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """What each symbol is called."""

    @abstractmethod
    def symbol(self, value: Any) -> int:
        """Return the symbol of `value`.

        Raises
        ------
        ParameterError
            When the value has none.
        """

    @abstractmethod
    def canonical(self) -> dict[str, Any]:
        """Return the parameters as JSON values; `domain_from` is the inverse."""


def check_size(size: int, what: str) -> None:
    """Raise ParameterError unless a domain may have so many symbols."""
    if not 2 <= size <= MAX_SIZE:
        raise ParameterError(f"{size} {what}: a domain has from 2 to {MAX_SIZE} symbols")


@dataclass(frozen=True)
class Categories(Domain):
    """Named values.

    Parameters
    ----------
    names
        At least two, all different; their order is the symbols' order.
    other
        A name for every value that is not listed: the last symbol. Unless given, such a value is refused.
    ordered
        Whether the names ascend ("never", "weekly", "daily").

    Raises
    ------
    ParameterError
        When there are fewer than two symbols, a name comes twice, or an ordered domain has an `other`.

    Examples
    --------
    >>> colours = Categories(("red", "green"), other="another colour")
    >>> colours.symbol("green"), colours.symbol("mauve"), colours.size
    (1, 2, 3)
    """

    names: tuple[str, ...]
    other: str | None = None
    ordered: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.names, str):  # type: ignore[unreachable] # a tuple by its type, not by its caller
            raise ParameterError(f"names = {self.names!r} is one string: give a list of names")
        object.__setattr__(self, "names", tuple(self.names))
        wrong = [name for name in self.labels if not isinstance(name, str)]
        if wrong:
            raise ParameterError(f"the category {wrong[0]!r} is no string: name categories by strings")
        twice = [name for i, name in enumerate(self.labels) if name in self.labels[:i]] if not self._unique else []
        if twice:
            raise ParameterError(f"the category {twice[0]!r} comes twice: each may be listed once")
        if self.other is not None and self.ordered:
            raise ParameterError("an ordered domain has no place for other values: leave out `other` or `ordered`")
        check_size(self.size, "categories")

    @property
    def _unique(self) -> bool:
        return len(set(self.labels)) == self.size

    @property
    def size(self) -> int:
        """One symbol a name, and one for other values if there is a name for them."""
        return len(self.labels)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The names."""
        return self.names if self.other is None else (*self.names, self.other)

    @cached_property
    def _symbols(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.labels)}

    def symbol(self, value: Any) -> int:
        """Return the number of the name."""
        if not isinstance(value, str):
            raise ParameterError(f"a category is a string, not {value!r}")
        found = self._symbols.get(value)
        if found is None and self.other is not None:
            return self.size - 1
        if found is None:
            shown = ", ".join(map(repr, self.names[:8])) + (", ..." if len(self.names) > 8 else "")
            raise ParameterError(f"{value!r} is not a category: choose one of {shown}")
        return found

    def canonical(self) -> dict[str, Any]:
        """Return the parameters."""
        return {"domain": "categories", "names": list(self.names), "other": self.other, "ordered": self.ordered}


@dataclass(frozen=True)
class Integers(Domain):
    """The whole numbers from `minimum` to `maximum`.

    Parameters
    ----------
    minimum, maximum
        The ends of the range, both included.
    outside
        What happens to other whole numbers: "clamp" to the nearest, "reject", or "separate" symbols for those below
        (the first symbol) and above (the last).

    Raises
    ------
    ParameterError
        When the limits are no whole numbers or not in order.

    Examples
    --------
    >>> dice = Integers(1, 6, outside="separate")
    >>> [dice.symbol(x) for x in (0, 1, 6, 99)], dice.labels[0], dice.labels[-1]
    ([0, 1, 6, 7], 'below 1', 'above 6')
    """

    minimum: int
    maximum: int
    outside: Outside = "clamp"

    def __post_init__(self) -> None:
        check_outside(self.outside, get_args(Outside))
        for name in ("minimum", "maximum"):
            object.__setattr__(self, name, whole(name, getattr(self, name)))
        check_size(self.maximum - self.minimum + 1, "whole numbers from minimum to maximum")

    @property
    def size(self) -> int:
        """The whole numbers, and the symbols for those outside."""
        return self.maximum - self.minimum + 1 + 2 * (self.outside == "separate")

    @property
    def ordered(self) -> bool:
        """Always."""
        return True

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The numbers in decimal digits."""
        inside = tuple(str(x) for x in range(self.minimum, self.maximum + 1))
        return with_ends(inside, self.outside, self.minimum, self.maximum)

    def symbol(self, value: Any) -> int:
        """Return how far the number is above the minimum."""
        number = whole("value", value)
        if self.minimum <= number <= self.maximum:
            return number - self.minimum + (self.outside == "separate")
        return beyond(number, number < self.minimum, self)

    def canonical(self) -> dict[str, Any]:
        """Return the parameters."""
        return {"domain": "integers", "min": self.minimum, "max": self.maximum, "outside": self.outside}


@dataclass(frozen=True)
class Bins(Domain):
    """Equal bins over a range of numbers: the thesis's discrete unary encoding (DUE, chapter 4).

    **Which bin owns an edge.** Bin i is ``edges[i] <= value < edges[i + 1]``; the last bin also owns its upper edge.
    An edge is the float nearest to ``minimum + i (maximum - minimum) / count``, computed exactly from the decimal
    numbers that the limits were written as; values are compared with edges, never divided. So 0.3 lies in the bin
    that starts at 0.3, on every machine.

    Parameters
    ----------
    minimum, maximum
        The ends of the range: finite, the minimum below the maximum.
    count
        The number of bins; 1 is allowed only with symbols outside.
    outside
        What happens to finite values beyond the range: "clamp" to the nearest bin, "reject", or "separate" symbols
        for those below (the first symbol) and above (the last). NaN and infinities are always refused.

    Raises
    ------
    ParameterError
        When the limits are not in order, or so close that bins would be empty.

    Examples
    --------
    >>> energy = Bins(0, 1, 10)
    >>> [energy.symbol(x) for x in (0.0, 0.29999, 0.3, 1.0, 7)]
    [0, 2, 3, 9, 9]
    >>> energy.labels[3], energy.labels[9]
    ('[0.3, 0.4)', '[0.9, 1.0]')
    """

    minimum: float
    maximum: float
    count: int
    outside: Outside = "clamp"

    def __post_init__(self) -> None:
        check_outside(self.outside, get_args(Outside))
        object.__setattr__(self, "count", whole("count", self.count))
        for name, limit in zip(("minimum", "maximum"), limits(self.minimum, self.maximum), strict=True):
            object.__setattr__(self, name, limit)
        if self.count < 1:
            raise ParameterError(f"count = {self.count}: give at least 1 bin")
        check_size(self.size, "bins")
        if any(a >= b for a, b in pairwise(self.edges)):
            raise ParameterError(
                f"{self.count} bins from {self.minimum} to {self.maximum} are narrower than floats are apart: use fewer"
            )

    @cached_property
    def edges(self) -> tuple[float, ...]:
        """The count + 1 edges, ascending."""
        low, high = _as_written(self.minimum), _as_written(self.maximum)
        return tuple(float(low + (high - low) * i / self.count) for i in range(self.count + 1))

    @property
    def size(self) -> int:
        """The bins, and the symbols for values outside."""
        return self.count + 2 * (self.outside == "separate")

    @property
    def ordered(self) -> bool:
        """Always."""
        return True

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The bins as intervals."""
        edges = self.edges
        inside = [f"[{a!r}, {b!r})" for a, b in pairwise(edges)]
        inside[-1] = inside[-1][:-1] + "]"
        return with_ends(tuple(inside), self.outside, self.minimum, self.maximum)

    def symbol(self, value: Any) -> int:
        """Return the number of the bin that owns the value."""
        number = finite("value", value)
        if self.minimum <= number <= self.maximum:
            inside = min(bisect_right(self.edges, number) - 1, self.count - 1)
            return inside + (self.outside == "separate")
        return beyond(number, number < self.minimum, self)

    def canonical(self) -> dict[str, Any]:
        """Return the parameters."""
        limits = {"min": self.minimum, "max": self.maximum}
        return {"domain": "bins", **limits, "count": self.count, "outside": self.outside}


def _as_written(limit: float) -> Fraction:
    return Fraction(repr(limit)) if isinstance(limit, float) else Fraction(limit)


_KINDS: Final[Mapping[str, tuple[Callable[..., Domain], Mapping[str, str]]]] = {
    "categories": (Categories, {}),
    "integers": (Integers, {"min": "minimum", "max": "maximum"}),
    "bins": (Bins, {"min": "minimum", "max": "maximum"}),
}


def domain_from(canonical: Mapping[str, Any]) -> Domain:
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
