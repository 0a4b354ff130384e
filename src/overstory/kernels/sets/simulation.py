"""Subset selection and projective geometry response in bulk: each device's random subset, or point.

Subsets are packed indicator bits.
With probability ``inside`` the subset is uniform among those of its size that hold the device's value, otherwise among
those that do not.  The other members are drawn without replacement from the d - 1 other values, the last value standing
in for the device's own, by Floyd's sampling (Bentley, Floyd, "A sample of brilliance", CACM 30(9), 1987): number j is
drawn from ``0 .. last``, last = d - 1 - w + j, and is ``last`` itself if it has been drawn before.  Every subset is
then equally likely.  A subset with the value in it has one draw less, and leaves out the first, j = 0.

**Which random word is which.**  Word i of a device is word i mod 16 of the ChaCha12 block named

    i // 16 | device mod 2^32 | device >> 32 | symbol

Word 0 decides: inside when it is below the threshold.  Word 1 + j is draw j: ``word (last + 1) >> 32``, which gives
each number its probability to 2 ** -32.  A subset is a function of the key, the device and its value alone.

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
from overstory.kernels.sets.planes import (
    check_space,
    count_plane_support,
    field_of,
    inverse,
    opposite,
    plus,
    points_of,
    times,
)
from overstory.kernels.symbols.simulation import ROUNDS, below, name_devices

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


__all__ = ["count_plane_support", "simulate_points"]

SUBSET_ROUNDS = 12
WORD = np.uint64(63)
ONE_BIT = np.uint64(1)


@kernel
def name_subsets(names: Any, device: Any, symbols: Any) -> None:
    """Name the blocks of consecutive devices from number ``device`` on."""
    for lane in range(symbols.size):
        names[lane] = np.uint32((device + lane) & 0xFFFFFFFF)
        names[LANES + lane] = np.uint32((device + lane) >> 32)
        names[2 * LANES + lane] = symbols[lane]


@kernel
def draw_members(words: Any, last: Any, counts: Any, least: Any, out: Any, width: Any) -> None:
    """One step of Floyd's sampling for every device whose subset takes at least ``least`` more members.

    Devices do not wait for each other's memory: one draw of many devices is several times as fast as many of one.
    """
    bound = np.uint64(last + 1)
    for lane in range(counts.size):
        if counts[lane] < least:
            continue
        # Number j of Floyd's sampling, uniform in 0 .. last; the bit tells whether it has been drawn before.
        drawn = (np.uint64(words[lane]) * bound) >> np.uint64(32)
        first = np.uint64(lane) * np.uint64(width)
        taken = (out[first + (drawn >> np.uint64(6))] >> (drawn & WORD)) & ONE_BIT
        member = np.uint64(last) if taken else drawn
        out[first + (member >> np.uint64(6))] |= ONE_BIT << (member & WORD)


@kernel
def put_own(symbols: Any, counts: Any, domain_size: Any, subset_size: Any, out: Any, width: Any) -> None:
    """Turn numbers of others into values: the last takes the place that was lent to it, the device's own comes in."""
    last = np.uint64(domain_size - 1)
    for lane in range(symbols.size):
        own, first = np.uint64(symbols[lane]), np.uint64(lane) * np.uint64(width)
        at, end = first + (own >> np.uint64(6)), first + (last >> np.uint64(6))
        # A draw of the own number means the last value: move the bit there, branchless.
        lent = (out[at] >> (own & WORD)) & ONE_BIT
        out[at] ^= lent << (own & WORD)
        out[end] |= lent << (last & WORD)
        # A subset with one draw less holds the own value.
        out[at] |= np.uint64(counts[lane] < subset_size) << (own & WORD)


@kernel
def subset_rows(
    key: Any, symbols: Any, domain_size: Any, subset_size: Any, inside: Any, device: Any, out: Any, width: Any
) -> None:
    """Draw the subsets of consecutive devices from number ``device`` on into ``out``, which is zero."""
    names, words = np.zeros(3 * LANES, np.uint32), np.empty(16 * LANES, np.uint32)
    counts = np.empty(LANES, np.int64)
    for row in range(0, symbols.size, LANES):
        size = min(LANES, symbols.size - row)
        mine, bits, left = symbols[row : row + size], out[row * width : (row + size) * width], counts[:size]
        name_subsets(names, device + row, mine)
        for word in range(subset_size + 1):
            if word % 16 == 0:
                fill_blocks(key, word // 16, names, words, size, SUBSET_ROUNDS)
            column = words[word % 16 * LANES :]
            if word == 0:
                for lane in range(size):
                    # Word 0: inside when below the threshold, and then one member is the device's own.
                    left[lane] = subset_size - (np.uint64(column[lane]) < np.uint64(inside))
            else:
                # Draw j = word - 1 has last = d - 1 - w + j; a subset with one draw less leaves out j = 0.
                last = domain_size - 2 - subset_size + word
                draw_members(column, last, left, subset_size - word + 1, bits, width)
        put_own(mine, left, domain_size, subset_size, bits, width)


def subset_core(key: NDArray[np.uint32], domain_size: int, subset_size: int, inside: int) -> Callable[..., None]:
    """Return the compiled core of `overstory.kernels.devices.simulate_subsets`: it fills rows that are zero."""

    def core(symbols: NDArray[np.uint32], device: int, out: NDArray[np.uint64]) -> None:
        subset_rows(key, symbols, domain_size, subset_size, inside, device, out.reshape(-1), out.shape[1])

    return core


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
