"""What every domain answers; named values, whole numbers, equal bins, and a range that is not cut into symbols."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, ClassVar, Final, Literal, get_args

from overstory.protocol.errors import ParameterError

MAX_SIZE: Final = 1 << 20  # the most symbols that a domain may have
FIELDS: Final = {"min": "minimum", "max": "maximum"}
"""Parameters whose names are functions of Python, and what domains call them."""
MOST_NAMES: Final = 20  # as many names are listed in words


class AnyDomain(ABC):
    """A set of values, finite or not."""

    kind: ClassVar[str]  # its name in a registry
    value_type: ClassVar[type[str | int | float | tuple[Any, ...]]] = str  # what an application measures
    value_word: ClassVar[str] = "value"  # what a person calls one
    choices: tuple[str, ...] = ()  # the values, where they are named one by one
    is_finite: ClassVar[bool] = False  # whether each value is a symbol
    is_variable: ClassVar[bool] = False  # whether a table may have it as one of its variables
    reading: ClassVar[str | None] = None  # how its estimates are read, where that does not depend on the mechanism

    @property
    @abstractmethod
    def families(self) -> tuple[str, ...]:
        """The families of mechanisms that take its values: see `overstory.protocol.kinds.registry`."""

    @abstractmethod
    def completes(self, metric: str) -> dict[str, Any]:
        """Return the mechanism's parameters that follow from the domain and the metric's id, by name."""

    @property
    @abstractmethod
    def size(self) -> int | None:
        """How many symbols there are; None for strings."""

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """What each symbol is called; empty for strings."""

    @property
    @abstractmethod
    def ordered(self) -> bool:
        """Whether neighbouring symbols are neighbouring values: whether ranges and smoothing mean anything."""

    @property
    def candidate_files(self) -> tuple[str | None, ...]:
        """The file of candidates of each variable that takes strings, None where it names none; else empty."""
        return ()

    @property
    def refuses(self) -> bool:
        """Whether a value of the right type may be outside."""
        return False

    @property
    def num_values(self) -> int | None:
        """How many values a mechanism distinguishes; None where there is no end."""
        return self.size

    @abstractmethod
    def encode(self, value: Any) -> Any:
        """Return the symbol, or the string, that a mechanism takes for a value; ParameterError outside the domain."""

    def read(self, text: str) -> Any:
        """Return the value that a text stands for; ValueError where it stands for none."""
        return self.value_type(text)

    @abstractmethod
    def label(self, encoded: Any) -> str:
        """Return what an encoded value is called."""

    def encoded_text(self, encoded: Any) -> str:
        """Return an encoded value in words, with its symbol."""
        if self.size is None:
            return f"the string {encoded!r}"
        return f'"{self.label(encoded)}", symbol {encoded} of 0 .. {self.size - 1}'

    def examples(self) -> Sequence[Any]:
        """Return a value for each symbol; none of strings."""
        return ()

    @abstractmethod
    def encodings(self, labels: Sequence[str]) -> Sequence[Any]:
        """Return what a mechanism takes for each of the labels that are estimated."""

    def ends(self, symbol: int) -> tuple[float, float] | None:  # noqa: ARG002 - names and strings have none
        """Return the least and the greatest number that has the symbol; None where these are no numbers."""
        return None

    @abstractmethod
    def describe(self, num_candidates: int | None = None) -> str:
        """Say to a person what a report can be about; of strings, with how many candidates, where they were read."""

    def canonical(self) -> dict[str, Any]:
        """Return the parameters that a report's meaning depends on, as JSON values; `domain_from` is the inverse."""
        given = {field.name: _as_json(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]
        return {"domain": self.kind, **{_SHORT.get(name, name): value for name, value in given.items()}}

    @property
    def numbering(self) -> Any:
        """What decides which value is which symbol: the canonical form without `ordered`, also of its parts."""
        return _without_order(self.canonical())

    def to_json(self) -> dict[str, Any]:
        """Return the same, and what a registry says besides."""
        return self.canonical()


_SHORT: Final = {name: short for short, name in FIELDS.items()}


def _as_json(value: Any) -> Any:
    if hasattr(value, "canonical"):  # a domain within another
        return value.canonical()
    return [_as_json(part) for part in value] if isinstance(value, tuple) else value


def _without_order(form: Any) -> Any:
    if isinstance(form, Mapping):
        return {key: _without_order(value) for key, value in form.items() if key != "ordered"}
    return [_without_order(part) for part in form] if isinstance(form, list) else form


class Domain(AnyDomain):
    """A finite set of values, numbered."""

    is_finite: ClassVar[bool] = True
    is_variable: ClassVar[bool] = True

    @property
    @abstractmethod
    def size(self) -> int:
        """How many symbols there are."""

    @property
    def families(self) -> tuple[str, ...]:
        return ("symbols", "ordered") if self.ordered else ("symbols",)

    def completes(self, metric: str) -> dict[str, Any]:  # noqa: ARG002 - whatever the metric
        return {"domain_size": self.size}

    @abstractmethod
    def symbol(self, value: Any) -> int:
        """Return the symbol of `value`, or raise ParameterError where it has none."""

    @abstractmethod
    def examples(self) -> tuple[Any, ...]:
        """Return a value for each symbol."""

    def encode(self, value: Any) -> int:
        return self.symbol(value)

    def label(self, encoded: Any) -> str:
        label: str = self.labels[encoded]
        return label

    def encodings(self, labels: Sequence[str]) -> Sequence[int]:
        return range(len(labels))


def check_size(size: int, what: str) -> None:
    """Raise ParameterError unless a domain may have so many symbols."""
    if not 2 <= size <= MAX_SIZE:
        raise ParameterError(f"{size} {what}: a domain has from 2 to {MAX_SIZE} symbols")


@dataclass(frozen=True)
class Categories(Domain):
    """Named values; their order is the symbols' order."""

    names: tuple[str, ...]
    other: str | None = None  # a name for every value that is not listed: the last symbol; None: it is refused
    ordered: bool = False  # whether the names ascend

    kind = "categories"

    def __post_init__(self) -> None:
        if isinstance(self.names, str):  # type: ignore[unreachable] # a tuple by its type, not by its caller
            raise ParameterError(f"names = {self.names!r} is one string: give a list of names")
        object.__setattr__(self, "names", tuple(self.names))
        wrong = [name for name in self.labels if not isinstance(name, str)]
        if wrong:
            raise ParameterError(f"the category {wrong[0]!r} is no string: name categories by strings")
        if len(set(self.labels)) < self.size:
            twice = next(name for i, name in enumerate(self.labels) if name in self.labels[:i])
            raise ParameterError(f"the category {twice!r} comes twice: each may be listed once")
        if self.other is not None and self.ordered:
            raise ParameterError("an ordered domain has no place for other values: leave out `other` or `ordered`")
        check_size(self.size, "categories")

    @property
    def size(self) -> int:
        return len(self.labels)

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override] # nobody sets it
        return self.names

    @property
    def refuses(self) -> bool:
        return self.other is None

    @cached_property
    def labels(self) -> tuple[str, ...]:
        return self.names if self.other is None else (*self.names, self.other)

    @cached_property
    def _symbols(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.labels)}

    def symbol(self, value: Any) -> int:
        if not isinstance(value, str):
            raise ParameterError(f"a category is a string, not {value!r}")
        symbol = self.symbol_of(value)
        if symbol is None:
            shown = ", ".join(map(repr, self.names[:8])) + (", ..." if len(self.names) > 8 else "")
            raise ParameterError(f"{value!r} is not a category: choose one of {shown}")
        return symbol

    def symbol_of(self, name: str) -> int | None:
        return self._symbols.get(name, None if self.other is None else self.size - 1)

    def examples(self) -> tuple[str, ...]:
        return self.labels

    def describe(self, num_candidates: int | None = None) -> str:  # noqa: ARG002 - the names are the candidates
        names = ", ".join(self.names[:MOST_NAMES]) + (", ..." if len(self.names) > MOST_NAMES else "")
        others = "nothing" if self.other is None else self.other
        return f"one of {self.size}: {names}; any other value is reported as {others}"


Outside = Literal["clamp", "reject", "separate"]
"""What happens to values beyond a range: the nearest inside, an error, or a symbol of their own on each side."""
Number = int | float | Fraction | Decimal


def finite(name: str, value: Any) -> Number:
    """Return a finite number as int, float, Fraction or Decimal (NumPy's as a float), or raise ParameterError."""
    if isinstance(value, bool):
        raise ParameterError(f"{name} = {value!r}: give a number")
    if isinstance(value, int | Fraction) or (isinstance(value, Decimal) and value.is_finite()):
        return value
    if isinstance(value, Real) and math.isfinite(value):
        return float(value)
    raise ParameterError(f"{name} = {value!r}: give a finite number")


def set_limits(of: Any) -> None:
    """Make both limits of a range floats, or raise ParameterError unless the first is below the second."""
    try:
        low, high = float(finite("minimum", of.minimum)), float(finite("maximum", of.maximum))
    except OverflowError:
        raise ParameterError(f"the range {of.minimum} .. {of.maximum} is too large for floats") from None
    if not low < high:
        raise ParameterError(f"minimum = {low} is not below maximum = {high}: give two numbers in order")
    object.__setattr__(of, "minimum", low)
    object.__setattr__(of, "maximum", high)


def refusal(value: Any, low: float, high: float) -> ParameterError:
    """Return the error for a value outside `low` .. `high`."""
    return ParameterError(f"value {value!r} is outside {low!r} .. {high!r}, and this domain rejects such values")


def whole(name: str, value: Any) -> int:
    """Return a whole number as one of Python's own, or raise ParameterError."""
    if isinstance(value, bool):
        raise ParameterError(f"{name} = {value!r}: give a whole number")
    if isinstance(value, Integral):
        return int(value)
    raise ParameterError(f"{name} = {value!r}: give a whole number")


def check_outside(outside: str, choices: tuple[str, ...]) -> None:
    """Raise ParameterError unless `outside` is one of the choices."""
    if outside not in choices:
        raise ParameterError(f"outside = {outside!r}: choose one of {', '.join(choices)}")


class Range(Domain):
    """Numbers between two ends, and what becomes of those beyond."""

    minimum: Any
    maximum: Any
    outside: Outside

    ordered = True

    @property
    def refuses(self) -> bool:
        return self.outside == "reject"

    @property
    def _is_separate(self) -> bool:
        return self.outside == "separate"

    @property
    @abstractmethod
    def _inside(self) -> int:
        """How many symbols there are inside."""

    @property
    def size(self) -> int:
        return self._inside + 2 * self._is_separate

    def ends(self, symbol: int) -> tuple[float, float] | None:
        inside = symbol - self._is_separate
        return self._ends(inside) if 0 <= inside < self._inside else None

    @abstractmethod
    def _ends(self, inside: int) -> tuple[float, float]:
        """Return the ends of a symbol, counted from the first inside."""

    def _beyond(self, number: Number) -> int:
        if self.outside == "reject":
            raise refusal(number, self.minimum, self.maximum)
        return 0 if number < self.minimum else self.size - 1

    def _around(self, below: Any, inside: Iterable[Any], above: Any) -> tuple[Any, ...]:
        """Return something for each symbol: `below` and `above` are of those outside, where there are such."""
        return (below, *inside, above) if self._is_separate else tuple(inside)

    def _labels(self, inside: Iterable[str]) -> tuple[str, ...]:
        return self._around(f"below {self.minimum!r}", inside, f"above {self.maximum!r}")

    def _outside_words(self) -> str:
        return {
            "clamp": "one outside counts as the nearest",
            "reject": "one outside is reported as nothing",
            "separate": "one outside is reported as below or above, and not how far",
        }[self.outside]


@dataclass(frozen=True)
class Integers(Range):
    """The whole numbers from `minimum` to `maximum`, both included."""

    minimum: int
    maximum: int
    outside: Outside = "clamp"  # what happens to other whole numbers

    kind = "integers"
    value_type = int

    def __post_init__(self) -> None:
        check_outside(self.outside, get_args(Outside))
        for name in ("minimum", "maximum"):
            object.__setattr__(self, name, whole(name, getattr(self, name)))
        check_size(self.maximum - self.minimum + 1, "whole numbers from minimum to maximum")

    @property
    def _inside(self) -> int:
        count: int = self.maximum - self.minimum + 1
        return count

    @cached_property
    def labels(self) -> tuple[str, ...]:
        return self._labels(map(str, range(self.minimum, self.maximum + 1)))

    def _ends(self, inside: int) -> tuple[float, float]:
        return self.minimum + inside, self.minimum + inside

    def symbol(self, value: Any) -> int:
        number = whole("value", value)
        if self.minimum <= number <= self.maximum:
            return number - self.minimum + self._is_separate
        return self._beyond(number)

    def examples(self) -> tuple[Any, ...]:
        return self._around(self.minimum - 1, range(self.minimum, self.maximum + 1), self.maximum + 1)

    def describe(self, num_candidates: int | None = None) -> str:  # noqa: ARG002 - the numbers are the candidates
        return f"a whole number from {self.minimum} to {self.maximum}; {self._outside_words()}"


@dataclass(frozen=True)
class Bins(Range):
    """Equal bins over a range of numbers: the thesis's discrete unary encoding (DUE, chapter 4).

    **Which bin owns an edge.** Bin i is ``edges[i] <= value < edges[i + 1]``; the last bin also owns its upper edge.
    An edge is the float nearest to ``minimum + i (maximum - minimum) / count``, computed exactly from the decimal
    numbers that the limits were written as; values are compared with edges, never divided. So 0.3 lies in the bin
    that starts at 0.3, on every machine.

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

    minimum: float  # the lower end of the range: finite, below the maximum
    maximum: float  # the upper end of the range, above the minimum
    count: int  # the number of bins; 1 is allowed only with symbols outside
    # what happens to finite values beyond the range: "clamp" to the nearest bin, "reject", or "separate" symbols for
    # those below (the first symbol) and above (the last). NaN and infinities are always refused
    outside: Outside = "clamp"

    kind = "bins"
    value_type = float

    def __post_init__(self) -> None:
        check_outside(self.outside, get_args(Outside))
        object.__setattr__(self, "count", whole("count", self.count))
        set_limits(self)
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
    def _inside(self) -> int:
        return self.count

    @cached_property
    def labels(self) -> tuple[str, ...]:
        edges = self.edges
        inside = [f"[{a!r}, {b!r})" for a, b in pairwise(edges)]
        inside[-1] = inside[-1][:-1] + "]"
        return self._labels(inside)

    def _ends(self, inside: int) -> tuple[float, float]:
        return self.edges[inside], self.edges[inside + 1]

    def symbol(self, value: Any) -> int:
        number = finite("value", value)
        if self.minimum <= number <= self.maximum:
            inside = min(bisect_right(self.edges, number) - 1, self.count - 1)
            return inside + self._is_separate
        return self._beyond(number)

    def examples(self) -> tuple[Any, ...]:
        middles = ((low + high) / 2 for low, high in pairwise(self.edges))
        return self._around(self.minimum - 1, middles, self.maximum + 1)

    def describe(self, num_candidates: int | None = None) -> str:  # noqa: ARG002 - the bins are the candidates
        limits = f"from {self.minimum:g} to {self.maximum:g}"
        return f"which of {self.count} equal ranges {limits} a number lies in; {self._outside_words()}"


SOME_STEPS: Final = 100  # the number of steps that the range is divided into for examples


@dataclass(frozen=True)
class Interval(AnyDomain):
    """A range of numbers that is not cut into symbols.

    Raises
    ------
    ParameterError
        When the limits are not in order, or too far apart for a float.

    Examples
    --------
    >>> Interval(-1, 1).share(0.5), Interval(-1, 1).encode(7)
    (Fraction(3, 4), 1.0)
    """

    minimum: float  # the lower end of the range: finite, below the maximum
    maximum: float  # the upper end of the range, finite
    # "clamp" or "reject", for finite values beyond the range. NaN and infinities are always refused
    outside: Literal["clamp", "reject"] = "clamp"

    kind = "interval"
    value_type = float
    size = None
    labels = ()
    ordered = True
    families = ("numbers",)

    def __post_init__(self) -> None:
        if self.outside not in {"clamp", "reject"}:
            raise ParameterError(f"outside = {self.outside!r}: choose clamp or reject")
        set_limits(self)
        if math.isinf(self.width):
            raise ParameterError(f"the range {self.minimum} .. {self.maximum} is too large for floats")

    @property
    def width(self) -> float:
        """Maximum less minimum."""
        return self.maximum - self.minimum

    @property
    def refuses(self) -> bool:
        return self.outside == "reject"

    def share(self, value: Any) -> Fraction:
        """Return exactly how far along the range `value` lies, from 0 to 1."""
        low, high = Fraction(self.minimum), Fraction(self.maximum)
        return (Fraction(self.encode(value)) - low) / (high - low)

    def encode(self, value: Any) -> Number:
        number = finite("value", value)
        if self.minimum <= number <= self.maximum:
            return number
        if self.outside == "reject":
            raise refusal(value, self.minimum, self.maximum)
        return self.minimum if number < self.minimum else self.maximum

    def completes(self, metric: str) -> dict[str, Any]:  # noqa: ARG002 - whatever the metric
        return {"minimum": self.minimum, "maximum": self.maximum, "outside": self.outside}

    def label(self, encoded: Any) -> str:
        return f"{float(encoded):.12g}"

    def encoded_text(self, encoded: Any) -> str:
        return f"the number {self.label(encoded)}"

    def examples(self) -> tuple[float, ...]:
        low, high = Fraction(self.minimum), Fraction(self.maximum)
        return tuple(float(low + (high - low) * step / SOME_STEPS) for step in range(SOME_STEPS + 1))

    def encodings(self, labels: object) -> tuple[Any, ...]:  # noqa: ARG002 - numbers are not estimated one by one
        return ()

    def describe(self, num_candidates: int | None = None) -> str:  # noqa: ARG002 - there are no candidates
        outside = "counts as the nearest end" if self.outside == "clamp" else "is reported as nothing"
        return f"a number from {self.minimum:g} to {self.maximum:g}; one outside {outside}"


def _as_written(limit: float) -> Fraction:
    return Fraction(repr(limit)) if isinstance(limit, float) else Fraction(limit)
