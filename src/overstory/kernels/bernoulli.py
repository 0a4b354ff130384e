"""Exact Bernoulli bits by the hundred: one channel applied to a tile of devices.

A random bit is ``U < t`` for a 32-digit uniform ``U`` and a threshold ``t`` (docs/architecture.md).  Read ``U`` from its most
significant digit: at the first digit where ``U`` and ``t`` differ the bit is known, so after ``j`` digits a bit is still
*undecided* with probability ``2 ** -j`` and a word of 64 bits needs about 7.5 random words, not 32 (the expected maximum of 64
geometric variables is 7.3).  The rest of the stream is never computed.  Words keep their addresses, so stopping early changes
no result: what reads all digits gets the same bits.

A tile holds `LANES` devices as a structure of arrays, in four sections: the channel's input, what is known to be 1, what is
undecided, and the output.  Row ``2 w + i`` of a section holds the low (i = 0) or high half of word ``w`` of every device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from overstory.kernels.streams import LANES, WIDTH
from overstory.kernels.vectors import Lanes, is_flat

GROUP = 8  # words of a report handled together: digit j of all of them is one block
ROWS = 2 * GROUP
ALL = np.uint32(0xFFFFFFFF)
NONE = np.uint32(0)
ONE = 1 << 32
BITS, LESS, UNDECIDED, RESULT = 0, 1, 2, 3  # the sections of a tile
SECTION = ROWS * LANES
ALWAYS_READ = 8  # digits after which devices may be finished: before, hardly any is


def digits_needed(keep_one: int, raise_zero: int) -> int:
    """How many digits of ``U`` can matter: up to the last one that is 1 in either threshold; none if both are 0 or 2 ** 32."""
    either = (keep_one | raise_zero) % ONE
    return 32 - (either & -either).bit_length() + 1 if either else 0


@njit(nogil=True, cache=True)
def start_channel(tile: Any, rows: Any, valid: Any, keep_one: Any, raise_zero: Any) -> None:
    """Before the first digit: thresholds 0 and 2 ** 32 are decided, and so is every place past ``num_bits`` (0)."""
    sure_one = ALL if keep_one == ONE else NONE
    sure_zero = ALL if raise_zero == ONE else NONE
    open_one = ALL if 0 < keep_one < ONE else NONE
    open_zero = ALL if 0 < raise_zero < ONE else NONE
    for row in range(rows):
        inside = valid[row]
        for at in range(row * LANES, row * LANES + LANES):
            bit = tile[BITS * SECTION + at]
            tile[LESS * SECTION + at] = ((bit & sure_one) | (~bit & sure_zero)) & inside
            tile[UNDECIDED * SECTION + at] = ((bit & open_one) | (~bit & open_zero)) & inside


def _compare_intrinsic(count: int) -> Any:
    """Make the intrinsic that compares ``count`` digits, which keeps the running result in registers between them."""

    @intrinsic
    def compare_vector(_typing: Any, words: Any, first: Any, stride: Any, digits: Any, tile: Any, at: Any) -> Any:
        """Compare ``count`` digits of U with the threshold's, for WIDTH places of one row, from index ``at`` on.

        Digit ``i`` of U is at ``words[first + i * stride]``.  ``digits[2 i]`` is the digit of the threshold of a 0 and
        ``digits[2 i + 1]`` is set where that of a 1 differs, in every place of a word.
        """
        if not all(is_flat(array, types.uint32) for array in (words, digits, tile)):
            return None
        signature = types.void(words, types.intp, types.intp, digits, tile, types.intp)

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            v = Lanes(context, builder, 32, WIDTH)
            words_at, digits_at, tile_at = (v.pointer(signature.args[i], values[i]) for i in (0, 3, 4))
            places = [v.index(values[5], part * SECTION) for part in (BITS, LESS, UNDECIDED)]
            bit, less, undecided = (v.load(tile_at, place) for place in places)
            word_at = values[1]
            for i in range(count):
                digit = builder.xor(v.element(digits_at, 2 * i), builder.and_(bit, v.element(digits_at, 2 * i + 1)))
                differs = builder.and_(builder.xor(v.load(words_at, word_at), digit), undecided)
                less = builder.or_(less, builder.and_(differs, digit))
                undecided = builder.xor(undecided, differs)
                word_at = builder.add(word_at, values[2])
            v.store(less, tile_at, places[1])
            v.store(undecided, tile_at, places[2])
            return context.get_dummy_value()

        return signature, codegen

    return compare_vector


compare_1 = _compare_intrinsic(1)
compare_2 = _compare_intrinsic(2)
compare_4 = _compare_intrinsic(4)
compare_8 = _compare_intrinsic(8)


@njit(nogil=True, cache=True)
def compare_block(words: Any, first: Any, digits: Any, count: Any, tile: Any, rows: Any, lanes: Any) -> None:
    """Compare the next ``count`` digits of U, which lie ``rows`` rows apart from ``words[first]`` on, in every row."""
    stride = rows * LANES
    for row in range(rows):
        for at in range(row * LANES, row * LANES + lanes, WIDTH):
            if count == 1:
                compare_1(words, first + at, stride, digits, tile, at)
            elif count == 2:
                compare_2(words, first + at, stride, digits, tile, at)
            elif count <= 4:
                compare_4(words, first + at, stride, digits, tile, at)
            else:
                compare_8(words, first + at, stride, digits, tile, at)


@njit(nogil=True, cache=True)
def count_open(tile: Any, is_open: Any, rows: Any, lanes: Any) -> Any:
    """Mark the columns with an undecided bit, and count them."""
    for lane in range(lanes):
        is_open[lane] = tile[UNDECIDED * SECTION + lane]
    for row in range(1, rows):
        for lane in range(lanes):
            is_open[lane] |= tile[UNDECIDED * SECTION + row * LANES + lane]
    total = 0
    for lane in range(lanes):
        total += is_open[lane] != 0
    return total


@njit(nogil=True, cache=True)
def close_up(tile: Any, is_open: Any, names: Any, origin: Any, rows: Any, lanes: Any) -> None:
    """Put away the finished devices and move the others together, so that no vector computes for the finished."""
    to = 0
    for lane in range(lanes):
        if is_open[lane]:
            for row in range(0, rows * LANES, LANES):
                for section in range(BITS, UNDECIDED + 1):
                    tile[section * SECTION + row + to] = tile[section * SECTION + row + lane]
            for name in range(0, 3 * LANES, LANES):
                names[name + to] = names[name + lane]
            origin[to] = origin[lane]
            to += 1
        else:
            for row in range(0, rows * LANES, LANES):
                tile[RESULT * SECTION + row + origin[lane]] = tile[LESS * SECTION + row + lane]


@njit(nogil=True, cache=True)
def finish_channel(tile: Any, origin: Any, rows: Any, lanes: Any, closed_up: Any) -> None:
    """Make the channel's output the next one's input."""
    if not closed_up:
        for at in range(rows * LANES):
            tile[BITS * SECTION + at] = tile[LESS * SECTION + at]
        return
    for row in range(0, rows * LANES, LANES):
        for lane in range(lanes):
            tile[RESULT * SECTION + row + origin[lane]] = tile[LESS * SECTION + row + lane]
    for at in range(rows * LANES):
        tile[BITS * SECTION + at] = tile[RESULT * SECTION + at]
