"""Hashes, and supports by fast Walsh-Hadamard transforms: of Hadamard response, and of linear hashing.

**Hadamard response.** Entry (row, value) of Sylvester's matrix H is (-1)^popcount(row & value). Let s(row) be the
reports of the row that are +1 less those that are -1. The reports that agree with a value less those that do not are
sum_row s(row) H(row, value), so with n reports the support of all values is ``(n + H s) / 2``, exact in whole numbers.
H s takes K log2 K additions for K rows, since H is the Kronecker product of (1 1; 1 -1) with itself.

**Linear hashing** hashes many values, and counts the support of blocks of them at once. A report (seed, y) supports v
when A v = y, A being the seed's m x 64 matrix. Its indicator is

    1[A v = y] = 2**-m sum over z of (-1)**(z . y) (-1)**((A' z) . v),

so reports add signs at the 2**m points A' z, and one Walsh-Hadamard transform gives the support of every v. Where v is
a known upper part and s free lower bits, the upper part's signs are fixed, and a transform over 2**s points does.

**Local hashing** has a symbol for each device. With word = low + 2^32 high and m = mix32(seed), ``hash_word(word,
seed)`` of `overstory.protocol.kinds.symbols` is

    x = low ^ m;    x = (x ^ x >> 16) C1 + high;    x = (x ^ x >> 15) C2        (modulo 2 ** 32).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from overstory.kernels.columns import C1, C2
from overstory.kernels.compiled import kernel

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MASK = np.uint64(0xFFFFFFFF)


@kernel
def mix(z: Any) -> Any:
    """Splitmix64's finalizer (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def add_signs(rows: Any, reported: Any, sums: Any) -> None:
    """Add each report's sign to its row."""
    for i in range(rows.size):
        sums[rows[i]] += 1 - 2 * np.int64(reported[i])


@kernel
def transform(sums: Any, step: Any) -> None:
    """Multiply by H, in place, ``step`` vectors of a power of two entries that lie side by side (1, for one vector)."""
    while step < sums.size:
        # One factor (1 1; 1 -1) of the Kronecker product: butterflies of entries `step` apart.
        for start in range(0, sums.size, 2 * step):
            left, right = sums[start : start + step], sums[start + step : start + 2 * step]
            for i in range(step):
                left[i], right[i] = left[i] + right[i], left[i] - right[i]
        step *= 2


@kernel
def fill_masks(seeds: Any, shift: Any, out: Any) -> None:
    """SplitMix64 of (seed, row), shifted down to so many bits."""
    for i in range(out.shape[0]):
        for row in range(out.shape[1]):
            word = (seeds[i] << np.uint64(8)) | np.uint64(row)
            out[i, row] = mix(word * GOLDEN + GOLDEN) >> shift


@kernel
def add_block_signs(masks: Any, reported: Any, parents: Any, signs: Any) -> None:
    """Add every report's signs; the parents lie side by side, for the places are the same for all of them."""
    hash_bits, many = masks.shape[1], parents.shape[0]
    low = np.uint64(signs.shape[0] - 1)
    places, turns, sign = (
        np.empty(hash_bits, np.uint64),
        np.empty((hash_bits, many), np.int32),
        np.empty(many, np.int32),
    )
    changed = np.zeros(1 << hash_bits, np.int64)  # in Gray code's order, z and the one before differ in this bit
    for z in range(1, 1 << hash_bits):
        while not (z >> changed[z]) & 1:
            changed[z] += 1
    for i in range(masks.shape[0]):
        for j in range(hash_bits):
            # Row j of A splits: its low bits say where the sign goes, its high bits meet the known parent.
            places[j] = masks[i, j] & low
            own = np.uint64((reported[i] >> j) & 1)
            for b in range(many):
                word = masks[i, j] & parents[b]
                # Parity of the word by folding; with the reported bit y_j it is the sign of (row j . parent) + y_j.
                for shift in (32, 16, 8, 4, 2, 1):
                    word ^= word >> np.uint64(shift)
                turns[j, b] = 1 - 2 * np.int32((word ^ own) & np.uint64(1))
        # z = 0 has the empty sum: sign +1 at place 0.
        place = np.uint64(0)
        for b in range(many):
            sign[b] = 1
            signs[0, b] += 1
        for z in range(1, 1 << hash_bits):
            j = changed[z]
            # Gray code: z and the one before differ in bit j, so one row enters or leaves A' z and the sign.
            place ^= places[j]
            for b in range(many):
                sign[b] *= turns[j, b]
                signs[place, b] += sign[b]


@kernel
def mix32(word: Any) -> Any:
    """`overstory.protocol.kinds.hashes.mix32`."""
    word = np.uint64(word)
    word = ((word ^ (word >> np.uint64(16))) * np.uint64(C1)) & MASK
    word = ((word ^ (word >> np.uint64(15))) * np.uint64(C2)) & MASK
    return np.uint32(word ^ (word >> np.uint64(15)))


@kernel
def hash_word(word: Any, seed: Any) -> Any:
    """`overstory.protocol.kinds.hashes.hash_word`."""
    word = np.uint64(word)
    x = (word & MASK) ^ np.uint64(mix32(seed))
    x = x ^ (x >> np.uint64(16))
    x = (x * np.uint64(C1) + (word >> np.uint64(32))) & MASK
    return np.uint32(((x ^ (x >> np.uint64(15))) * np.uint64(C2)) & MASK)


@kernel
def encode_rows(words: Any, symbols: Any, seeds: Any, hash_range: Any, out: Any) -> None:
    """Hash each device's value under its seed."""
    for row in range(out.size):
        # symbol = hash_word(value, seed) g >> 32.
        hashed = np.uint64(hash_word(words[symbols[row]], seeds[row]))
        out[row] = np.uint32((hashed * np.uint64(hash_range)) >> np.uint64(32))
