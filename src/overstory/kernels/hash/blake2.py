"""Keyed BLAKE2b (RFC 7693) with digests of 8 bytes, many strings at a time.

The compression function is straight-line code on vectors of 64-bit lanes, one string a lane.  A tile takes `STRINGS`
strings through as many blocks as the longest has; lanes whose string has ended keep their state.  The block that
holds the key is the same for all, so it is compressed once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from overstory.kernels.compiled import kernel
from overstory.kernels.vectors import VECTOR_BITS, Lanes, is_flat, load_64

STRINGS = 64  # strings in a tile
BLOCK = 128  # bytes
STEP = VECTOR_BITS // 64
IV = (
    0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
    0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179,
)  # fmt: skip
SIGMA = (
    (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
    (14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3),
    (11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4),
    (7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8),
    (9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13),
    (2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9),
    (12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11),
    (13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10),
    (6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5),
    (10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0),
)
MIXED = (
    (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
    (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14),
)  # fmt: skip


def _mix(v: Lanes, x: list[Any], a: int, b: int, c: int, d: int, first: Any, second: Any) -> None:
    """RFC 7693, section 3.1; a rotation right by r is one left by 64 - r."""
    for word, by_d, by_b in ((first, 32, 40), (second, 48, 1)):
        # a += b + word; d = (d ^ a) >>> 32, then 16; c += d; b = (b ^ c) >>> 24, then 63.
        x[a] = v.add(x[a], x[b], word)
        x[d] = v.rotate_left(v.xor(x[d], x[a]), by_d)
        x[c] = v.add(x[c], x[d])
        x[b] = v.rotate_left(v.xor(x[b], x[c]), by_b)


def _compress(v: Lanes, state: list[Any], message: list[Any], counter: Any, last: Any) -> list[Any]:
    """RFC 7693, section 3.2, for fewer than 2 ** 64 bytes; ``last`` is all ones in the last block, else 0."""
    x = state + [v.constant(word) for word in IV]
    # v_12 ^= t (the bytes so far), v_14 ^= f (all ones in the last block).
    x[12], x[14] = v.xor(x[12], counter), v.xor(x[14], last)
    for r in range(12):
        schedule = SIGMA[r % 10]
        for i, places in enumerate(MIXED):
            _mix(v, x, *places, message[schedule[2 * i]], message[schedule[2 * i + 1]])
    # h_i ^= v_i ^ v_(i+8).
    return [v.xor(h, v.xor(a, b)) for h, a, b in zip(state, x[:8], x[8:], strict=True)]


@intrinsic
def compress_vector(_typing: Any, tile: Any, lane: Any) -> Any:  # noqa: ARG001
    """Compress one block of ``STEP`` strings of a tile (see `hash_tile`) from column ``lane`` on."""
    if not is_flat(tile, types.uint64):
        return None

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        v = Lanes(context, builder, 64, STEP)
        at = v.pointer(signature.args[0], values[0])
        rows = [v.load(at, v.index(values[1], row * STRINGS)) for row in range(27)]
        state = rows[16:24]
        # Row 26 masks: a string that has ended keeps its state.
        for row, new in enumerate(_compress(v, state, rows[:16], rows[24], rows[25])):
            v.store(v.choose(rows[26], new, state[row]), at, v.index(values[1], (16 + row) * STRINGS))
        return context.get_dummy_value()

    return types.void(tile, types.intp), codegen


@kernel
def tail_word(data: Any, start: Any, size: Any) -> Any:
    """Word of the 1 .. 7 bytes ``data[start : start + size]``, padded with zeros."""
    if start + size >= 8:  # the word that ends there, whatever it begins with, is inside ``data``
        return load_64(data, start + size - 8) >> np.uint64(64 - 8 * size)
    word = np.uint64(0)
    for i in range(size):
        word |= np.uint64(data[start + i]) << np.uint64(8 * i)
    return word


@kernel
def load_block(data: Any, start: Any, stop: Any, tile: Any, lane: Any) -> None:
    """Put up to one block of ``data[start : stop]`` into a column of the tile, padded with zeros."""
    size = min(BLOCK, max(0, stop - start))
    words, at = np.uint64(size // 8), np.uint64(lane)  # unsigned: no test for a negative index
    for word in range(words):
        tile[word * np.uint64(STRINGS) + at] = load_64(data, start + np.int64(word) * 8)
    for word in range(words, np.uint64(16)):
        tile[word * np.uint64(STRINGS) + at] = 0
    if size % 8:
        tile[words * np.uint64(STRINGS) + at] = tail_word(data, start + size - size % 8, size % 8)


@kernel
def hash_tile(offsets: Any, data: Any, first: Any, strings: Any, initial: Any, before: Any, tile: Any) -> None:
    """Hash ``strings`` strings from number ``first`` on.

    ``tile`` is uint64[27 * STRINGS]: rows 0 .. 15 the message, 16 .. 23 the state (begun with ``initial`` uint64[8]),
    24 the bytes so far (``before`` of them in the key's block), 25 and 26 all ones where the block is the last, and
    where there is one.
    """
    longest = 0
    for lane in range(STRINGS):
        for row in range(8):
            tile[(16 + row) * STRINGS + lane] = initial[row]
        tile[26 * STRINGS + lane] = 0
        if lane < strings:
            longest = max(longest, offsets[first + lane + 1] - offsets[first + lane])
    # Block after block through the longest string of the tile.
    for done in range(0, longest, BLOCK):
        for lane in range(strings):
            start, stop = np.int64(offsets[first + lane]) + done, np.int64(offsets[first + lane + 1])
            load_block(data, start, stop, tile, lane)
            tile[24 * STRINGS + lane] = before + done + min(BLOCK, max(0, stop - start))
            tile[25 * STRINGS + lane] = np.uint64(0xFFFFFFFFFFFFFFFF) if stop - start <= BLOCK else np.uint64(0)
            tile[26 * STRINGS + lane] = np.uint64(0xFFFFFFFFFFFFFFFF) if stop > start else np.uint64(0)
        for lane in range(0, strings, STEP):
            compress_vector(tile, lane)


@kernel
def hash_strings(offsets: Any, data: Any, initial: Any, key_block: Any, empty: Any, out: Any) -> None:
    """First word of every string's digest; ``empty`` is the empty string's, whose only block is the key's."""
    tile = np.zeros(27 * STRINGS, np.uint64)
    before = 0
    # The key's block comes first and is the same for all strings: compress it once, in lane 0.
    if key_block.size:
        hash_tile(np.array([0, BLOCK]), key_block, 0, 0, initial, 0, tile)
        load_block(key_block, 0, BLOCK, tile, 0)
        tile[24 * STRINGS], tile[25 * STRINGS], tile[26 * STRINGS] = np.uint64(BLOCK), np.uint64(0), ~np.uint64(0)
        compress_vector(tile, 0)
        before = BLOCK
    begun = np.empty(8, np.uint64)
    for row in range(8):
        begun[row] = tile[(16 + row) * STRINGS] if key_block.size else initial[row]
    for first in range(0, out.size, STRINGS):
        strings = min(STRINGS, out.size - first)
        hash_tile(offsets, data, first, strings, begun, before, tile)
        for lane in range(strings):
            string = first + lane
            out[string] = tile[16 * STRINGS + lane] if offsets[string + 1] > offsets[string] else empty
