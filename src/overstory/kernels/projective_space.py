"""What both halves of projective geometry response need of the space PG(t-1, q)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_FIELD = 1 << 15
MAX_DIMENSION = 32


def check_space(field_size: int, dimension: int) -> None:
    """Refuse what is no space: a field that is not prime, or fewer than two coordinates.

    Raises
    ------
    ValueError
        When there is no such space here.
    """
    prime = 2 <= field_size <= MAX_FIELD and all(field_size % i for i in range(2, int(field_size**0.5) + 1))
    if not prime:
        raise ValueError(f"field_size must be a prime below 2 ** 15, not {field_size}")
    if not 2 <= dimension <= MAX_DIMENSION or field_size ** (dimension + 1) >= 1 << 62:
        raise ValueError(f"dimension must be in 2 .. 32, and the space smaller than 2 ** 45, not {dimension}")


def points_of(field_size: int, dimension: int) -> NDArray[np.int64]:
    """Return P(0) .. P(t + 1): how many points the spaces of 0 .. t + 1 coordinates have.

    Examples
    --------
    >>> points_of(3, 2)
    array([ 0,  1,  4, 13])
    """
    return np.array([(field_size**s - 1) // (field_size - 1) for s in range(dimension + 2)], np.int64)


def inverses(field_size: int) -> NDArray[np.int64]:
    """Return the inverse of every element of the prime field; of 0, 0.

    Examples
    --------
    >>> inverses(5)
    array([0, 1, 3, 2, 4])
    """
    out = np.zeros(field_size, np.int64)
    out[1] = 1
    for i in range(2, field_size):  # q = (q // i) i + q % i, so 1 / i = -(q // i) / (q % i)
        out[i] = -(field_size // i) * int(out[field_size % i]) % field_size
    return out
