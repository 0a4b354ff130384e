"""The arithmetic of finite fields in kernels: of a prime by remainders, of a prime's power by tables.

The elements of GF(p^k) are numbered as `overstory.protocol.encodings.finite_fields` does: polynomials, whose
coefficients are the number's digits in base p, modulo the least polynomial of which x is a root that generates every
element but 0.

A kernel takes a field of q elements as one array of int64 (of several, or of a tuple, every access would be counted):

    q | whether tables follow | 1 / a (of 0, 0) | -a | x^i, i = 0 .. 2 q - 3 | the i < q - 1 with x^i = a | a + b
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.kernels.compiled import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray


@kernel
def inverse(a: Any, field: Any) -> Any:
    """Return 1 / a."""
    return field[2 + a]


@kernel
def opposite(a: Any, field: Any) -> Any:
    """Return -a."""
    return field[2 + field[0] + a]


@kernel
def times(a: Any, b: Any, field: Any) -> Any:
    """Return a b."""
    size = field[0]
    if field[1] == 0:
        return np.int64(np.uint64(a * b) % np.uint64(size))
    if a == 0 or b == 0:
        return np.int64(0)
    # a b = x^(log a + log b): the table of powers is written twice, so the sum needs no remainder.
    return field[2 + 2 * size + field[4 * size + a] + field[4 * size + b]]


@kernel
def plus(a: Any, b: Any, field: Any) -> Any:
    """Return a + b."""
    size = field[0]
    if field[1] == 0:
        return a + b - (size if a + b >= size else 0)
    return field[(5 + a) * size + b]


def characteristic(field_size: int) -> tuple[int, int]:
    """Return (p, k), p a prime, with p^k = q; k = 0 where q is no prime's power.

    Examples
    --------
    >>> characteristic(9), characteristic(7), characteristic(6)
    ((3, 2), (7, 1), (2, 0))
    """
    prime = next((i for i in range(2, int(field_size**0.5) + 1) if field_size % i == 0), field_size)
    degree = next((k for k in range(1, field_size.bit_length()) if prime**k == field_size), 0)
    return prime, degree


def field_of(field_size: int) -> NDArray[np.int64]:
    """Return the field of so many elements, a prime or a power of one.

    Examples
    --------
    >>> field_of(5)
    array([5, 0, 0, 1, 3, 2, 4, 0, 4, 3, 2, 1])
    """
    prime, degree = characteristic(field_size)
    return _prime_field(field_size) if degree == 1 else _power_field(field_size, prime, degree)


def _prime_field(size: int) -> NDArray[np.int64]:
    inverses = np.zeros(size, np.int64)
    inverses[1] = 1
    for i in range(2, size):  # q = (q // i) i + q % i, so 1 / i = -(q // i) / (q % i)
        inverses[i] = -(size // i) * int(inverses[size % i]) % size
    return np.concatenate([np.array([size, 0]), inverses, -np.arange(size) % size])


def _power_field(size: int, prime: int, degree: int) -> NDArray[np.int64]:
    places = prime ** np.arange(degree)
    # An element's digits in base p are its polynomial's coefficients.
    digits = np.arange(size)[:, None] // places % prime
    sums = (digits[:, None, :] + digits[None, :, :]) % prime @ places
    powers = _powers_of_x(digits, places, prime)
    logarithms, inverses = np.zeros(size, np.int64), np.zeros(size, np.int64)
    # x generates every element but 0, so logarithms to the base x exist.
    logarithms[powers] = np.arange(size - 1)
    inverses[powers] = np.roll(powers[::-1], 1)  # 1 / x^i = x^(q - 1 - i)
    opposites = -digits % prime @ places
    return np.concatenate([np.array([size, 1]), inverses, opposites, powers, powers, logarithms, sums.ravel()])


def _powers_of_x(digits: NDArray[np.int64], places: NDArray[np.int64], prime: int) -> NDArray[np.int64]:
    """Return the powers of x modulo the least polynomial in which they are all elements but 0."""
    size = len(digits)
    shifted = np.roll(digits, 1, axis=1)  # a times x: its digits one place up, and the one that leaves ...
    highest = shifted[:, :1].copy()
    shifted[:, 0] = 0
    for low in range(1, size):  # ... replaced by what x^k is modulo x^k + low
        following = ((shifted - highest * digits[low]) % prime @ places).tolist()
        powers = [1]
        while len(powers) < size and (power := following[powers[-1]]) > 1:
            powers.append(power)
        # x has order q - 1 exactly: the polynomial is primitive.
        if len(powers) == size - 1 and following[powers[-1]] == 1:
            return np.array(powers)
    raise AssertionError(f"no such polynomial for a field of {size}")  # there is one for every prime's power
