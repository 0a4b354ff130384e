"""What both halves of projective geometry response need of the space PG(t-1, q)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from overstory.kernels.finite_fields import characteristic

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_PRIME = 1 << 15
MAX_POWER = 1 << 10
MAX_DIMENSION = 32


def check_space(field_size: int, dimension: int) -> None:
    """Refuse what is no space: a field that there is not, or fewer than two coordinates.

    Raises
    ------
    ValueError
        When there is no such space here.
    """
    degree = characteristic(field_size)[1] if 2 <= field_size <= MAX_PRIME else 0
    if not degree or (degree > 1 and field_size > MAX_POWER):
        raise ValueError(f"field_size must be a prime below 2 ** 15, or a prime power up to 2 ** 10, not {field_size}")
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
