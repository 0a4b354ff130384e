"""Probabilities as integers over 2**32, and logarithms that err towards privacy.

A floating-point comparison must never decide a bit (Mironov 2012 shows what leaks through the least significant
ones), so a probability is the integer `threshold` in ``0 .. 2**32``, and everything said about a mechanism, its
epsilon and its debiasing, is computed from those very integers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from typing import Final

from overstory.protocol.errors import ParameterError

THRESHOLD_BITS: Final = 32
ONE: Final = 1 << THRESHOLD_BITS

# A hundred digits: the error of a logarithm is then smaller, by eighty orders, than the last place of a float.
# The exponents are as wide as they go: a probability to the power of a million reports must not vanish.
_PRECISE: Final = Context(prec=100, Emin=MIN_EMIN, Emax=MAX_EMAX)
_SLACK: Final = Decimal("1e-90")


def check_probability(name: str, value: float | Fraction) -> Fraction:
    """Return `value` as the exact fraction it is, or say that it is no probability."""
    if not isinstance(value, int | float | Fraction) or isinstance(value, bool) or not 0 <= value <= 1:
        raise ParameterError(f"{name} = {value!r} is not a probability: give a number from 0 to 1")
    return Fraction(value)


def log_ratio(numerator: Fraction | Decimal, denominator: Fraction | Decimal) -> Decimal:
    """ln(numerator / denominator) to a hundred digits; infinite when only the denominator is 0."""
    over, under = as_decimal(numerator), as_decimal(denominator)
    if over == under:
        return Decimal(0)
    if under == 0:
        return Decimal("Infinity")
    if over == 0:
        return Decimal("-Infinity")
    return _PRECISE.ln(_PRECISE.divide(over, under))


def power(base: Fraction | Decimal, exponent: int) -> Decimal:
    """base ** exponent to a hundred digits, so that n reports cost the same for every n."""
    return _PRECISE.power(as_decimal(base), exponent) if exponent else Decimal(1)


def mix(share: Fraction, first: Decimal, second: Decimal) -> Decimal:
    """share * first + (1 - share) * second, to a hundred digits."""
    left = _PRECISE.multiply(as_decimal(share), first)
    return _PRECISE.add(left, _PRECISE.multiply(as_decimal(1 - share), second))


def weighted_sum(terms: Iterable[tuple[int, Decimal]]) -> Decimal:
    """Sum of times * loss to a hundred digits (Python's own operators keep 28); a loss taken 0 times may be infinite.

    Examples
    --------
    >>> weighted_sum([(2, log_ratio(Fraction(3), Fraction(1))), (0, Decimal("Infinity"))]) > Decimal("2.1972")
    True
    """
    total = Decimal(0)
    for times, loss in terms:
        if times:
            total = _PRECISE.add(total, _PRECISE.multiply(Decimal(times), loss))
    return total


def round_up(exact: Decimal) -> float:
    """Return the smallest float that is not below `exact`: a stated epsilon is never too small.

    Examples
    --------
    >>> round_up(log_ratio(Fraction(3), Fraction(1))) >= math.log(3)
    True
    """
    if not exact.is_finite():
        return float(exact)
    bound = _PRECISE.add(exact, _PRECISE.multiply(_PRECISE.abs(exact), _SLACK))
    near = float(bound)
    return near if Decimal(near) >= bound else math.nextafter(near, math.inf)


def as_decimal(value: Fraction | Decimal) -> Decimal:
    """Return a number to a hundred digits."""
    if isinstance(value, Decimal):
        return value
    return _PRECISE.divide(Decimal(value.numerator), Decimal(value.denominator))
