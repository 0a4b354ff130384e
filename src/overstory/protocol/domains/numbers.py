"""Domains of numbers: whole, in equal bins, or a range that is not cut; what is a number at all, and one outside."""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, Final, Literal, get_args

from overstory.protocol.domains.domains import AnyDomain, Domain, check_size
from overstory.protocol.errors import ParameterError

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
        limits = f"from {self.minimum:,.10g} to {self.maximum:,.10g}"
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

    def examples(self) -> tuple[float, ...]:
        low, high = Fraction(self.minimum), Fraction(self.maximum)
        return tuple(float(low + (high - low) * step / SOME_STEPS) for step in range(SOME_STEPS + 1))

    def encodings(self, labels: object) -> tuple[Any, ...]:  # noqa: ARG002 - numbers are not estimated one by one
        return ()

    def describe(self, num_candidates: int | None = None) -> str:  # noqa: ARG002 - there are no candidates
        outside = "counts as the nearest end" if self.outside == "clamp" else "is reported as nothing"
        return f"a number from {self.minimum:,.10g} to {self.maximum:,.10g}; one outside {outside}"


def _as_written(limit: float) -> Fraction:
    return Fraction(repr(limit)) if isinstance(limit, float) else Fraction(limit)
