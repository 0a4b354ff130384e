"""Digests, or strings as Arrow lays out a column of them, to Bloom positions, millions at a time.

String ``i`` is ``data[offsets[i] : offsets[i + 1]]``.

Google's RAPPOR hashes a cohort's number and a string by MD5 (RFC 1321), which is broken as a cryptographic hash; here
it only spreads public candidate strings over a Bloom filter, as the published format demands. Its loops go over 64
strings side by side, and LLVM makes vectors of them: one MD5 alone is a single chain of dependent operations.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.kernels.compiled import kernel
from overstory.kernels.threads import in_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
LOW_HALF = np.uint64(0xFFFFFFFF)
SMALLEST = 1 << 12  # strings worth a thread


def _strings(offsets: NDArray[Any], data: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Refuse what would read outside ``data``."""
    data = np.require(data, np.uint8, ["C"])
    offsets = np.ascontiguousarray(offsets, dtype=np.int64)
    if (
        offsets.ndim != 1
        or offsets.size < 1
        or offsets[0] < 0
        or offsets[-1] > data.size
        or (np.diff(offsets) < 0).any()
    ):
        raise ValueError(
            f"offsets must be one column that rises from 0 or more to at most {data.size}, the bytes of data"
        )
    return offsets, data


def _shape(num_bits: int, num_hashes: int, num_cohorts: int, most_hashes: int) -> None:
    if not 1 <= num_bits <= 1 << 16:
        raise ValueError(f"num_bits must be in 1 .. 65536, not {num_bits}")
    if not 1 <= num_hashes <= most_hashes:
        raise ValueError(f"num_hashes must be in 1 .. {most_hashes}, not {num_hashes}")
    if num_cohorts < 1:
        raise ValueError(f"num_cohorts must be at least 1, not {num_cohorts}")


@kernel
def mix(z: Any) -> Any:
    """Splitmix64's finalizer (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def v1_rows(digests: Any, start: Any, stop: Any, num_bits: Any, out: Any) -> None:
    """Fill ``out[:, start : stop]``."""
    num_hashes = out.shape[2]
    for cohort in range(out.shape[0]):
        # One SplitMix64 stream for each (digest, cohort): state y, output mix(y), step GOLDEN.
        tweak = mix(np.uint64(cohort + 1) * GOLDEN)
        for row in range(start, stop):
            y = mix(digests[row] + tweak)
            for i in range(num_hashes):
                y += GOLDEN
                u, last = mix(y), num_bits - num_hashes + i
                bound = np.uint64(last + 1)
                # (u * bound) >> 64, from halves: bound has at most 17 bits, so nothing overflows.
                t = ((u >> np.uint64(32)) * bound + (((u & LOW_HALF) * bound) >> np.uint64(32))) >> np.uint64(32)
                # Floyd's sampling: a position drawn before gives way to `last`, which cannot have been drawn yet.
                position = np.int64(t)
                for earlier in range(i):
                    if out[cohort, row, earlier] == position:
                        position = last
                        break
                out[cohort, row, i] = position


STRINGS = 64  # strings in a tile
INITIAL = np.array([0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476], np.uint32)
SINES = np.array([int(abs(math.sin(i + 1)) * 2**32) for i in range(64)], np.uint32)
TURNS = np.array([[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]], np.uint32)


@kernel
def md5_function(part: Any, b: Any, c: Any, d: Any) -> Any:
    """RFC 1321, section 3.4: F, G, H and I."""
    if part == 0:
        return d ^ (b & (c ^ d))
    if part == 1:
        return c ^ (d & (b ^ c))
    if part == 2:
        return b ^ c ^ d
    return c ^ (b | ~d)


@kernel
def add_md5_block(message: Any, state: Any, before: Any) -> None:
    """Compress one block of every string of a tile (section 3.4): uint32[16, STRINGS], into `state` [4, STRINGS]."""
    before[:] = state
    a, b, c, d = state[0], state[1], state[2], state[3]
    for i in range(64):
        part = i // 16
        # Round i uses word k(i): i, 5 i + 1, 3 i + 5 and 7 i modulo 16 in the four parts.
        words = message[(i, 5 * i + 1, 3 * i + 5, 7 * i)[part] % 16]
        sine, turn = SINES[i], TURNS[part, i % 4]
        for lane in range(STRINGS):
            # a <- b + ((a + f(b, c, d) + T[i] + X[k]) <<< s), and the four registers turn by one.
            total = np.uint32(a[lane] + md5_function(part, b[lane], c[lane], d[lane]) + sine + words[lane])
            a[lane] = b[lane] + np.uint32((total << turn) | (total >> np.uint32(np.uint32(32) - turn)))
        a, b, c, d = d, a, b, c
    # 64 turns leave every register where it was; the state before the block is added to each.
    state += before


@kernel
def load_string(data: Any, start: Any, stop: Any, block: Any, message: Any, lane: Any) -> None:
    """Put one block of a message into a column: the string after 4 bytes, one bit, zeros, and the length in bits."""
    for word in range(1 if block == 0 else 0, 16):
        first, value = start + 64 * block + 4 * word - 4, np.uint32(0)
        for i in range(4):
            if first + i < stop:
                value |= np.uint32(data[first + i]) << np.uint32(8 * i)
            elif first + i == stop:
                value |= np.uint32(0x80) << np.uint32(8 * i)
        message[word, lane] = value
    if block == blocks_of(stop - start) - 1:  # little-endian (section 3.2)
        bits = np.uint64(8) * np.uint64(4 + stop - start)
        message[14, lane], message[15, lane] = np.uint32(bits & np.uint64(0xFFFFFFFF)), np.uint32(bits >> np.uint64(32))


@kernel
def blocks_of(size: Any) -> Any:
    """Blocks of 64 bytes for 4 bytes of cohort, the string, a byte of padding and 8 of length."""
    return (4 + size + 8) // 64 + 1


@kernel
def google_rows(offsets: Any, data: Any, start: Any, stop: Any, num_bits: Any, out: Any) -> None:
    """Fill ``out[:, start : stop]``: byte i of the digest, modulo ``num_bits``, is position i."""
    message, state = np.zeros((16, STRINGS), np.uint32), np.zeros((4, STRINGS), np.uint32)
    before, ended = np.zeros_like(state), np.zeros_like(state)
    for first in range(start, stop, STRINGS):
        strings, most = min(STRINGS, stop - first), 0
        for lane in range(strings):
            most = max(most, blocks_of(offsets[first + lane + 1] - offsets[first + lane]))
        for cohort in range(out.shape[0]):
            # The message begins with the cohort as 4 big-endian bytes; MD5 reads words little-endian.
            number = np.uint32(cohort)
            swapped = (
                ((number & 255) << 24) | ((number >> 8 & 255) << 16) | ((number >> 16 & 255) << 8) | (number >> 24)
            )
            for row in range(4):
                state[row] = INITIAL[row]
            for block in range(most):
                if cohort == 0 or most > 1:  # strings of one block stay where they are
                    for lane in range(strings):
                        load_string(data, offsets[first + lane], offsets[first + lane + 1], block, message, lane)
                if block == 0:
                    message[0] = swapped
                add_md5_block(message, state, before)
                for lane in range(strings):
                    if block == blocks_of(offsets[first + lane + 1] - offsets[first + lane]) - 1:
                        ended[:, lane] = state[:, lane]
            for lane in range(strings):
                for i in range(out.shape[2]):
                    # Byte i of the digest, little-endian in state word i // 4, modulo num_bits.
                    byte = (ended[i >> 2, lane] >> np.uint32(8 * (i & 3))) & np.uint32(255)
                    out[cohort, first + lane, i] = byte % np.uint32(num_bits)


def positions_v1(digests: NDArray[np.uint64], num_bits: int, num_hashes: int, num_cohorts: int) -> NDArray[np.uint16]:
    """Positions of ``overstory-v1``, (cohorts, digests, hashes): *distinct*, every set equally likely (to 2 ** -48)."""
    # Bentley and Floyd, CACM 30(9), 1987; 2 ** -48 for a multiplication in place of a division.
    _shape(num_bits, num_hashes, num_cohorts, num_bits)
    digests = np.require(digests, np.uint64, ["C", "A"])
    out = np.empty((num_cohorts, digests.size, num_hashes), dtype=np.uint16)
    in_parts(lambda start, stop: v1_rows(digests, start, stop, num_bits, out), digests.size, smallest=SMALLEST)
    return out


def positions_google(
    offsets: NDArray[Any],
    data: NDArray[np.uint8],
    num_bits: int,
    num_hashes: int,
    num_cohorts: int,
) -> NDArray[np.uint16]:
    """Positions of ``google-rappor-python``, (cohorts, strings, hashes): MD5(cohort, string) modulo ``num_bits``."""
    _shape(num_bits, num_hashes, num_cohorts, 16)
    offsets, data = _strings(offsets, data)
    out = np.empty((num_cohorts, offsets.size - 1, num_hashes), dtype=np.uint16)
    rows = offsets.size - 1
    in_parts(lambda start, stop: google_rows(offsets, data, start, stop, num_bits, out), rows, smallest=SMALLEST)
    return out
