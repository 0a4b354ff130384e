"""Exact Bernoulli bits by the hundred: one channel applied to a tile of devices.

A random bit is ``U < t`` for a 32-digit uniform ``U`` and a threshold ``t`` (docs/explanation/architecture.md).  Read
``U`` from its most significant digit: at the first digit where ``U`` and ``t`` differ the bit is decided, so after
``j`` digits a bit is still *undecided* with probability ``2 ** -j`` and a word of 64 bits needs about 7.5 random
words, not 32 (the expected maximum of 64 geometric variables is 7.3).  The rest of the stream is never computed.
Words keep their addresses, so stopping early changes no result: what reads all digits gets the same bits.

A tile holds `LANES` devices as a structure of arrays, in four sections: the channel's input, what is decided as 1,
what is undecided, and the output.  Row ``2 w + i`` of a section holds the low (i = 0) or high half of word ``w`` of
every device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from overstory.kernels.compiled import kernel
from overstory.kernels.random.streams import LANES, WIDTH
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
    """How many digits of ``U`` can matter: those up to the last 1 in either threshold; 2 ** 32 is a 0 here."""
    # Trailing zeros of both thresholds never decide U < t: at the last 1 an equal U is not below.
    either = (keep_one | raise_zero) % ONE
    return 32 - (either & -either).bit_length() + 1 if either else 0


@kernel
def row_of(tile: Any, section: Any, row: Any) -> Any:
    """One row of a section: a loop over an array's own indices from 0 is one that LLVM vectorizes."""
    start = section * SECTION + row * LANES
    return tile[start : start + LANES]


@kernel
def start_channel(tile: Any, rows: Any, valid: Any, keep_one: Any, raise_zero: Any) -> None:
    """Before the first digit: thresholds 0 and 2 ** 32 are decided, and so is every place past ``num_bits`` (0)."""
    # t = 2^32 is always 1, t = 0 never, and only the thresholds between are drawn.
    sure_one = ALL if keep_one == ONE else NONE
    sure_zero = ALL if raise_zero == ONE else NONE
    open_one = ALL if 0 < keep_one < ONE else NONE
    open_zero = ALL if 0 < raise_zero < ONE else NONE
    for row in range(rows):
        inside = valid[row]
        bits, less, undecided = row_of(tile, BITS, row), row_of(tile, LESS, row), row_of(tile, UNDECIDED, row)
        for lane in range(LANES):
            bit = bits[lane]
            less[lane] = ((bit & sure_one) | (~bit & sure_zero)) & inside
            undecided[lane] = ((bit & open_one) | (~bit & open_zero)) & inside


def _compare_intrinsic(count: int) -> Any:
    """Make the intrinsic that compares ``count`` digits, which keeps the running result in registers between them."""

    @intrinsic
    def compare_vector(_typing: Any, words: Any, first: Any, stride: Any, digits: Any, tile: Any, at: Any) -> Any:  # noqa: ARG001
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
                # The digit of the threshold that belongs to this place's own bit.
                digit = builder.xor(v.element(digits_at, 2 * i), builder.and_(bit, v.element(digits_at, 2 * i + 1)))
                # The first difference decides: U < t where t's digit is 1 (and U's 0), else U > t.
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


@kernel
def compare_block(words: Any, first: Any, digits: Any, count: Any, tile: Any, rows: Any, lanes: Any) -> None:
    """Compare the next ``count`` digits of U, which lie ``rows`` rows apart from ``words[first]`` on, in every row."""
    # One intrinsic per count of digits: the running result stays in registers between them.
    stride, part = rows * LANES, range(0, lanes, WIDTH)
    for row in range(0, stride, LANES):
        if count == 1:
            for lane in part:
                compare_1(words, first + row + lane, stride, digits, tile, row + lane)
        elif count == 2:
            for lane in part:
                compare_2(words, first + row + lane, stride, digits, tile, row + lane)
        elif count <= 4:
            for lane in part:
                compare_4(words, first + row + lane, stride, digits, tile, row + lane)
        else:
            for lane in part:
                compare_8(words, first + row + lane, stride, digits, tile, row + lane)


@kernel
def find_open(tile: Any, is_open: Any, open_lanes: Any, rows: Any, lanes: Any) -> Any:
    """List in ``open_lanes`` the columns with an undecided bit, and count them; ``is_open`` is room to work in."""
    for lane in range(LANES):
        is_open[lane] = 0
    for row in range(rows):
        undecided = row_of(tile, UNDECIDED, row)
        for lane in range(LANES):
            is_open[lane] |= undecided[lane]
    # A branchless list: write every column, advance only past the open ones.
    total = np.uint64(0)
    for lane in range(lanes):
        open_lanes[total] = lane
        total += np.uint64(is_open[lane] != 0)
    return np.int64(total)


@kernel
def store_results(tile: Any, origin: Any, rows: Any, lanes: Any) -> None:
    """Copy the bits decided so far of the first ``lanes`` columns to their devices' places in the tile."""
    for row in range(rows):
        less, result = row_of(tile, LESS, row), row_of(tile, RESULT, row)
        for lane in range(lanes):
            result[origin[lane]] = less[lane]


@kernel
def compact_lanes(tile: Any, names: Any, origin: Any, open_lanes: Any, rows: Any, still_open: Any) -> None:
    """Move the ``still_open`` columns in ``open_lanes`` together, so that no vector computes for the finished."""
    # Places only move down, so a column is read before it is overwritten.
    for row in range(rows):
        bits, less, undecided = row_of(tile, BITS, row), row_of(tile, LESS, row), row_of(tile, UNDECIDED, row)
        for lane in range(still_open):
            bits[lane], less[lane], undecided[lane] = (
                bits[open_lanes[lane]],
                less[open_lanes[lane]],
                undecided[open_lanes[lane]],
            )
    for word in range(3):
        name = names[word * LANES : (word + 1) * LANES]
        for lane in range(still_open):
            name[lane] = name[open_lanes[lane]]
    for lane in range(still_open):
        origin[lane] = origin[open_lanes[lane]]


@kernel
def finish_channel(tile: Any, rows: Any, section: Any) -> None:
    """Make a section the next channel's input."""
    for row in range(rows):
        source, bits = row_of(tile, section, row), row_of(tile, BITS, row)
        for lane in range(LANES):
            bits[lane] = source[lane]
