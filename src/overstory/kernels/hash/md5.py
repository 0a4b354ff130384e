"""MD5 (RFC 1321) of a cohort's number and a string, many strings at a time: Google's RAPPOR hashes so.

MD5 is broken as a cryptographic hash; here it only spreads public candidate strings over a Bloom filter, as the
published format demands.  Straight-line code on vectors, one string a lane; two registers a vector, because one MD5
alone is a single chain of dependent operations.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from overstory.kernels.compiled import kernel
from overstory.kernels.vectors import VECTOR_BITS, Lanes, is_flat, load_32

STRINGS = 64  # strings in a tile
STEP = 2 * VECTOR_BITS // 32
INITIAL = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476)
SINES = tuple(int(abs(math.sin(i + 1)) * 2**32) for i in range(64))
TURNS = ((7, 12, 17, 22), (5, 9, 14, 20), (4, 11, 16, 23), (6, 10, 15, 21))
ALL = np.uint32(0xFFFFFFFF)


def _function(v: Lanes, part: int, b: Any, c: Any, d: Any) -> Any:
    """RFC 1321, section 3.4: F, G, H and I."""
    if part == 0:
        return v.choose(b, c, d)
    if part == 1:
        return v.choose(d, b, c)
    if part == 2:
        return v.xor(v.xor(b, c), d)
    return v.xor(c, v.builder.or_(b, v.builder.not_(d)))


def _compress(v: Lanes, state: list[Any], message: list[Any]) -> list[Any]:
    """RFC 1321, section 3.4."""
    a, b, c, d = state
    for i in range(64):
        part = i // 16
        # Round i uses word k(i): i, 5 i + 1, 3 i + 5 and 7 i modulo 16 in the four parts.
        word = message[(i, 5 * i + 1, 3 * i + 5, 7 * i)[part] % 16]
        # a <- b + ((a + f(b, c, d) + T[i] + X[k]) <<< s), and the four registers turn by one.
        turned = v.rotate_left(v.add(a, _function(v, part, b, c, d), v.constant(SINES[i]), word), TURNS[part][i % 4])
        a, b, c, d = d, v.add(b, turned), b, c
    # Feed-forward: the state before the block is added, register by register.
    return [v.add(old, new) for old, new in zip(state, (a, b, c, d), strict=True)]


@intrinsic
def compress_vector(_typing: Any, tile: Any, lane: Any) -> Any:  # noqa: ARG001
    """Compress one block of ``STEP`` strings of a tile (see `hash_tile`) from column ``lane`` on."""
    if not is_flat(tile, types.uint32):
        return None

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        v = Lanes(context, builder, 32, STEP)
        at = v.pointer(signature.args[0], values[0])
        rows = [v.load(at, v.index(values[1], row * STRINGS)) for row in range(21)]
        state = rows[16:20]
        # Row 20 masks: a string that has ended keeps its state.
        for row, new in enumerate(_compress(v, state, rows[:16])):
            v.store(v.choose(rows[20], new, state[row]), at, v.index(values[1], (16 + row) * STRINGS))
        return context.get_dummy_value()

    return types.void(tile, types.intp), codegen


@kernel
def blocks_needed(size: Any) -> Any:
    """Blocks of 64 bytes for 4 bytes of cohort, the string, a byte of padding and 8 of length."""
    return (4 + size + 8) // 64 + 1


@kernel
def padded_word(data: Any, start: Any, stop: Any) -> Any:
    """Word of the message that begins at the string's byte ``start``: string, then one bit, then zeros."""
    if start + 4 <= stop:
        return load_32(data, start)
    word = np.uint32(0)
    for i in range(max(0, stop - start)):
        word |= np.uint32(data[start + i]) << np.uint32(8 * i)
    return word | (np.uint32(0x80) << np.uint32(8 * (stop - start))) if start <= stop else word


@kernel
def load_block(data: Any, start: Any, stop: Any, block: Any, tile: Any, lane: Any) -> None:
    """Put one block of the message into a column of the tile; the cohort's word is left as it is."""
    for word in range(1 if block == 0 else 0, 16):
        tile[word * STRINGS + lane] = padded_word(data, start + 64 * block + 4 * word - 4, stop)
    last = block == blocks_needed(stop - start) - 1
    # The last 8 bytes are the message's length in bits, little-endian (section 3.2).
    if last:
        bits = np.uint64(8) * np.uint64(4 + stop - start)
        tile[14 * STRINGS + lane] = bits & np.uint64(ALL)
        tile[15 * STRINGS + lane] = bits >> np.uint64(32)
    tile[20 * STRINGS + lane] = ALL if block < blocks_needed(stop - start) else np.uint32(0)


@kernel
def hash_tile(offsets: Any, data: Any, first: Any, strings: Any, cohort: Any, loaded: Any, tile: Any) -> Any:
    """Hash one cohort's number followed by each of ``strings`` strings from number ``first`` on.

    ``tile`` is uint32[21 * STRINGS]: rows 0 .. 15 the message, 16 .. 19 the state, 20 all ones where there is a block.
    ``loaded`` says that the strings are already there; returns whether they are (they fit one block).
    """
    number, blocks = np.uint32(cohort), 0
    # The message begins with the cohort as 4 big-endian bytes; MD5 reads words little-endian.
    swapped = ((number & 255) << 24) | ((number >> 8 & 255) << 16) | ((number >> 16 & 255) << 8) | (number >> 24)
    for lane in range(STRINGS):
        tile[lane] = swapped
        for row in range(4):
            tile[(16 + row) * STRINGS + lane] = INITIAL[row]
        if lane < strings:
            blocks = max(blocks, blocks_needed(offsets[first + lane + 1] - offsets[first + lane]))
    for block in range(blocks):
        if not loaded:
            for lane in range(strings):
                load_block(
                    data, np.int64(offsets[first + lane]), np.int64(offsets[first + lane + 1]), block, tile, lane
                )
        for lane in range(0, strings, STEP):
            compress_vector(tile, lane)
    return blocks == 1


@kernel
def google_rows(offsets: Any, data: Any, start: Any, stop: Any, num_bits: Any, out: Any) -> None:
    """Fill ``out[:, start : stop]``: byte i of the digest, modulo ``num_bits``, is position i."""
    tile = np.zeros(21 * STRINGS, np.uint32)
    for first in range(start, stop, STRINGS):
        strings, loaded = min(STRINGS, stop - first), False
        for cohort in range(out.shape[0]):
            loaded = hash_tile(offsets, data, first, strings, cohort, loaded, tile)
            for lane in range(strings):
                for i in range(out.shape[2]):
                    # Byte i of the digest, little-endian in state word i // 4, modulo num_bits.
                    byte = (tile[(16 + (i >> 2)) * STRINGS + lane] >> np.uint32(8 * (i & 3))) & np.uint32(255)
                    out[cohort, first + lane, i] = byte % np.uint32(num_bits)
