"""Projective geometry response in bulk: each device's random point.

Points are those of PG(t-1, q), numbered as `overstory.protocol.encodings.sets.Projective` does: with ``P(s) = (q^s - 1)
/ (q - 1)``, point number i, ``P(s) <= i < P(s + 1)``, is (0, ..., 0, 1, and the s digits of i - P(s) in base q).

A value v owns the points x with <v, x> = 0.  Let coordinate number j be v's first that is not 0, so that it is 1.  Any
other t - 1 coordinates of x, and the product <v, x>, fix the coordinate x_j = <v, x> - sum_{i > j} v_i x_i.  Hence

- the P(t-1) points inside correspond one to one to the points y of PG(t-2, q), which are x without coordinate j;
- the q^(t-1) points outside, scaled so that <v, x> = 1, correspond one to one to the vectors of q^(t-1).

So one uniform number below P(t-1) or q^(t-1) gives a uniform point of either kind, and nothing is tried twice.

**Which random word is which.**  A device takes three words of the ChaCha12 block named

    device >> 32 | device mod 2^32 | 0 | symbol

The point is inside when the first is below the threshold, and its uniform number is ``R size >> 64``, R being the other
two, low half first: the probability of each point is right to 2 ** -64.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.kernels.columns import ONE, check_threshold, device_columns, fill_rows
from overstory.kernels.compiled import kernel
from overstory.kernels.random.streams import LANES, fill_blocks, key_words
from overstory.kernels.sets.finite_fields import field_of, inverse, opposite, plus, times
from overstory.kernels.sets.planes import check_space, count_plane_support, points_of
from overstory.kernels.symbols.simulation import ROUNDS, below, name_devices

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["count_plane_support", "simulate_points"]


@kernel
def write_digits(number: Any, size: Any, starts: Any, vector: Any, count: Any) -> Any:
    """Write the ``count`` coordinates of a point, and return where the first that is not 0 stands."""
    tail = 0
    while starts[tail + 1] <= number:
        tail += 1
    # Point i with P(s) <= i < P(s + 1) is (0, ..., 0, 1, the s digits of i - P(s) in base q).
    rest = np.uint32(number - starts[tail])
    for i in range(count):
        vector[i] = 0
    vector[count - 1 - tail] = 1
    for i in range(count - 1, count - 1 - tail, -1):
        vector[i], rest = rest % np.uint32(size), rest // np.uint32(size)
    return count - 1 - tail


@kernel
def number_of(vector: Any, field: Any, starts: Any) -> Any:
    """Number of the point that a vector is a multiple of."""
    first = 0
    while vector[first] == 0:
        first += 1
    # Scale the first coordinate that is not 0 to 1, then read the digits after it.
    scale, rest = inverse(vector[first], field), np.int64(0)
    for i in range(first + 1, vector.size):
        rest = rest * field[0] + times(vector[i], scale, field)
    return starts[vector.size - 1 - first] + rest


@kernel
def inner_product(first: Any, second: Any, start: Any, field: Any) -> Any:
    """Return the inner product of two vectors' coordinates from number ``start`` on."""
    total = np.int64(0)
    if field[1] == 0:
        for i in range(start, first.size):  # at most 32 products below 2^30
            total += first[i] * second[i]
        return np.int64(np.uint64(total) % np.uint64(field[0]))
    for i in range(start, first.size):
        total = plus(total, times(first[i], second[i], field), field)
    return total


@kernel
def draw_point(symbol: Any, inside: Any, drawn: Any, field: Any, starts: Any, room: Any) -> Any:
    """Point number ``drawn`` of those inside the value's set, or of those outside."""
    dimension, size = starts.size - 2, field[0]
    normal, others, vector = room[0, :dimension], room[1, : dimension - 1], room[2, :dimension]
    pivot = write_digits(symbol, size, starts, normal, dimension)
    # Inside, a point y of PG(t-2, q); outside, any vector of q^(t-1), the number's digits in base q.
    if inside:
        write_digits(drawn, size, starts, others, dimension - 1)
    else:
        rest = np.uint32(drawn)
        for i in range(dimension - 2, -1, -1):
            others[i], rest = rest % np.uint32(size), rest // np.uint32(size)
    for i in range(pivot):
        vector[i] = others[i]
    for i in range(pivot + 1, dimension):
        vector[i] = others[i - 1]
    # x_j = <v, x> - sum over i > j of v_i x_i, with <v, x> = 0 inside and 1 outside (v_j = 1).
    minus = opposite(inner_product(normal, vector, pivot + 1, field), field)
    vector[pivot] = minus if inside else plus(np.int64(1), minus, field)
    return number_of(vector, field, starts)


@kernel
def point_rows(key: Any, field: Any, starts: Any, inside: Any, symbols: Any, device: Any, out: Any) -> None:
    """Draw the points of consecutive devices from number ``device`` on."""
    names, words = np.zeros(3 * LANES, np.uint32), np.empty(16 * LANES, np.uint32)
    room, nobody = np.zeros((3, starts.size), np.int64), np.zeros(LANES, np.uint32)
    dimension = starts.size - 2
    own, others = starts[dimension - 1], starts[dimension] - starts[dimension - 1]
    row = 0
    while row < out.size:
        # No tile crosses a multiple of LANES, so that all its devices share the upper half of their numbers.
        stop = min(out.size, row + LANES - (device + row) % LANES)
        name_devices(names, device + row, nobody, symbols[row:stop])
        fill_blocks(key, (device + row) >> 32, names, words, stop - row, ROUNDS)
        for lane in range(stop - row):
            held = np.uint64(words[lane]) < np.uint64(inside)
            drawn = np.int64(below(words[LANES + lane], words[2 * LANES + lane], own if held else others))
            symbol = np.int64(symbols[row + lane])
            out[row + lane] = np.uint32(draw_point(symbol, held, drawn, field, starts, room))
        row = stop


def simulate_points(
    symbols: NDArray[Any],
    field_size: int,
    dimension: int,
    inside: int,
    key: bytes,
    *,
    first_device: int = 0,
    threads: int | None = None,
) -> NDArray[np.uint32]:
    """One point from each of many devices.

    Parameters
    ----------
    symbols : int32[n]
        Each device's value, which is a point's number.
    field_size, dimension : int
        q, a prime below 2 ** 15 or a prime power up to 2 ** 10, and t, at least 2; at most 2 ** 32 points in all.
    key : bytes
        32 bytes; the same key gives the same points.
    first_device : int
        Number of the first row's device; a device's point does not depend on the rows around it.

    Returns
    -------
    uint32[n]

    Examples
    --------
    >>> import numpy as np
    >>> simulate_points(np.array([0, 1, 2]), 2, 2, 1 << 32, bytes(32))  # the one point orthogonal to each
    array([1, 0, 2], dtype=uint32)
    """
    check_space(field_size, dimension)
    starts = points_of(field_size, dimension)
    (symbols,) = device_columns(first_device, symbols=(symbols, int(starts[dimension])))
    check_threshold("inside", inside)
    if starts[dimension] > ONE:
        raise ValueError(f"the space has {starts[dimension]} points: at most 2 ** 32 are numbered in 32 bits")
    core = partial(point_rows, key_words(key, b"points-1"), field_of(field_size), starts, inside)
    return fill_rows((symbols,), np.empty(symbols.size, np.uint32), first_device, lambda: core, threads=threads)
