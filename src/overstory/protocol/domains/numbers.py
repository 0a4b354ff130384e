"""Numbers and the ends of a range: what is a number at all, and what becomes of one outside."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, Literal, Protocol

from overstory.protocol.errors import ParameterError

Outside = Literal["clamp", "reject", "separate"]
"""What happens to values beyond a range: the nearest inside, an error, or a symbol of their own on each side."""
Number = int | float | Fraction | Decimal


class Limited(Protocol):
    """A domain over a range."""

    @property
    def minimum(self) -> float:
        """The least value."""
        ...

    @property
    def maximum(self) -> float:
        """The largest value."""
        ...

    @property
    def outside(self) -> Outside:
        """What happens to other values."""
        ...

    @property
    def size(self) -> int:
        """How many symbols there are."""
        ...


def finite(name: str, value: Any) -> Number:
    """Return a finite real number as a number that JSON and exact arithmetic take: int, float, Fraction or Decimal.

    Parameters
    ----------
    name
        What the error calls the value: a parameter's name.
    value
        Any real number; NumPy's scalars become floats, booleans are refused.

    Raises
    ------
    ParameterError
        When it is no number, or is not finite.

    Examples
    --------
    >>> finite("value", 3)
    3
    """
    if isinstance(value, bool):
        raise ParameterError(f"{name} = {value!r}: give a number")
    if isinstance(value, int | Fraction) or (isinstance(value, Decimal) and value.is_finite()):
        return value
    if isinstance(value, Real) and math.isfinite(value):
        return float(value)
    raise ParameterError(f"{name} = {value!r}: give a finite number")


def limits(minimum: Any, maximum: Any) -> tuple[float, float]:
    """Return both limits of a range as floats.

    Parameters
    ----------
    minimum, maximum
        The ends of the range: finite, the minimum below the maximum.

    Raises
    ------
    ParameterError
        When a limit is not finite, too large for a float, or they are not in order.

    Examples
    --------
    >>> limits(0, Fraction(1, 2))
    (0.0, 0.5)
    """
    try:
        low, high = float(finite("minimum", minimum)), float(finite("maximum", maximum))
    except OverflowError:
        raise ParameterError(f"the range {minimum} .. {maximum} is too large for floats") from None
    if not low < high:
        raise ParameterError(f"minimum = {low} is not below maximum = {high}: give two numbers in order")
    return low, high


def refusal(value: Any, low: float, high: float) -> ParameterError:
    """Return the error for a value that a domain rejects.

    Parameters
    ----------
    value
        The value outside the domain; the message shows it.
    low, high
        The ends of the domain; the message shows them.

    Examples
    --------
    >>> print(refusal(7, 0, 1))
    value 7 is outside 0 .. 1, and this domain rejects such values
    """
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


def with_ends(inside: tuple[str, ...], outside: Outside, low: float, high: float) -> tuple[str, ...]:
    """Return the labels with those of the symbols outside, where there are such."""
    return (f"below {low!r}", *inside, f"above {high!r}") if outside == "separate" else inside


def beyond(value: Number, below: bool, domain: Limited) -> int:  # noqa: FBT001 - which of the two ends
    """Return the symbol of a value outside the range: the first or the last, unless it is refused."""
    if domain.outside == "reject":
        raise refusal(value, domain.minimum, domain.maximum)
    return 0 if below else domain.size - 1
