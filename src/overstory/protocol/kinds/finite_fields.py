"""Finite fields: of p elements, and of p^k. An element is a number below the field's size.

The elements of GF(p^k) are polynomials in x of degree below k; the number of one is its coefficients' digits in base p.
They are multiplied modulo the *least* polynomial x^k + ... in which x generates every element but 0, so that any two
programs number one field alike, and a table of the powers of x multiplies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Final

from overstory.protocol.errors import ParameterError

MAX_PRIME: Final = 1 << 15
MAX_POWER: Final = 1 << 10
"""Primes lie so close above it that powers would gain nothing, and a table of all sums fits into two megabytes."""


class Field:
    """The arithmetic of a field of `size` elements, 0 .. size - 1: here of a prime's, the integers modulo it."""

    def __init__(self, size: int) -> None:
        self.size = size

    @property
    def polynomial(self) -> int:
        """Number of the polynomial that products are taken modulo; 0 where there is none."""
        return 0

    def canonical(self) -> dict[str, int]:
        """Return what a product's meaning depends on besides the size: the polynomial, where there is one."""
        return {"polynomial": self.polynomial} if self.polynomial else {}

    def plus(self, a: int, b: int) -> int:
        return (a + b) % self.size

    def minus(self, a: int, b: int) -> int:
        return (a - b) % self.size

    def times(self, a: int, b: int) -> int:
        return a * b % self.size

    def inverse(self, a: int) -> int:
        return pow(a, -1, self.size)

    def inner(self, first: Sequence[int], second: Sequence[int]) -> int:
        total = 0
        for a, b in zip(first, second, strict=True):
            total = self.plus(total, self.times(a, b))
        return total


class PowerField(Field):
    """Polynomials over the integers modulo `prime`, modulo one of degree k: p^k elements, k at least 2."""

    def __init__(self, size: int, prime: int) -> None:
        super().__init__(size)
        self.prime = prime

    @cached_property
    def powers(self) -> tuple[int, ...]:
        """1, x, x^2, ..., x^(size - 2)."""
        candidates = (powers_of_x(self.size + low, self.size, self.prime) for low in range(1, self.size))
        return next(powers for powers in candidates if powers)

    @cached_property
    def polynomial(self) -> int:
        degree = next(k for k in range(1, self.size.bit_length()) if self.prime**k == self.size)
        highest, rest, place = self.powers[degree], 0, 1
        while highest:
            highest, digit = divmod(highest, self.prime)
            rest, place = rest + -digit % self.prime * place, place * self.prime
        return self.size + rest

    @cached_property
    def _logarithms(self) -> dict[int, int]:
        return {power: exponent for exponent, power in enumerate(self.powers)}

    def plus(self, a: int, b: int) -> int:
        return _digitwise(a, b, 1, self.prime)

    def minus(self, a: int, b: int) -> int:
        return _digitwise(a, b, -1, self.prime)

    def times(self, a: int, b: int) -> int:
        """Return a b, by adding logarithms to the base x."""
        if a == 0 or b == 0:
            return 0
        return self.powers[(self._logarithms[a] + self._logarithms[b]) % (self.size - 1)]

    def inverse(self, a: int) -> int:
        return self.powers[-self._logarithms[a] % (self.size - 1)]


def digits_of(number: int, base: int, count: int) -> tuple[int, ...]:
    """Return the last `count` digits of a number, the last one first."""
    return tuple(number // base**place % base for place in range(count))


def powers_of_x(polynomial: int, size: int, prime: int) -> tuple[int, ...]:
    """Return the `size - 1` powers of x modulo a polynomial, or nothing where x returns to 1 before, or never does."""
    powers: list[int] = []
    low, power = polynomial - size, 1
    while power and (power != 1 or not powers):
        powers.append(power)
        highest, rest = divmod(power * prime, size)
        for _ in range(highest):
            rest = _digitwise(rest, low, -1, prime)
        power = rest
        if len(powers) == size:
            return ()
    return tuple(powers) if power == 1 and len(powers) == size - 1 else ()


def _digitwise(a: int, b: int, sign: int, prime: int) -> int:
    total, place = 0, 1
    while a or b:
        (a, first), (b, second) = divmod(a, prime), divmod(b, prime)
        total, place = total + (first + sign * second) % prime * place, place * prime
    return total


@cache
def field_of(size: int) -> Field:
    """Return the field of `size` elements."""
    if not is_field_size(size):
        raise ParameterError(
            f"field_size = {size}: give a prime below {MAX_PRIME}, or a power of a prime up to {MAX_POWER}"
        )
    prime = _least_divisor(size)
    return Field(size) if prime == size else PowerField(size, prime)


def is_field_size(number: int) -> bool:
    """Whether there is a field of so many elements here: a prime, or a power of one up to `MAX_POWER`."""
    if not 2 <= number <= MAX_PRIME:
        return False
    prime, rest = _least_divisor(number), number
    while rest % prime == 0:
        rest //= prime
    return prime == number or (rest == 1 and number <= MAX_POWER)


def _least_divisor(number: int) -> int:
    return next((divisor for divisor in range(2, math.isqrt(number) + 1) if number % divisor == 0), number)
