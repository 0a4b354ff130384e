"""Hashes and signs of few devices by NumPy alone, of many by compiled kernels: the same numbers.

As `overstory.kernels.columns`, which says what is few: each function takes and returns what the kernel of its
name does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.kernels.columns import C1, C2, ONE, are_few, column
from overstory.kernels.devices import GOLDEN, mix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    U32 = NDArray[np.uint32]
    U64 = NDArray[np.uint64]

MAX_ROWS = 1 << 31
MASK, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
TRANSFORMS, LOCAL_HASH = "symbols/transforms", "symbols/local_hash"
TOGETHER = 1 << 8
"""Signs that cost what a block does: they are added by the array."""
AT_ONCE = 1 << 16
"""Devices whose matrices are written out together."""


def encode_hadamard(symbols: NDArray[Any], rows: NDArray[Any]) -> U32:
    """Look up each device's sign in the device's row: 0 for +1, 1 for -1, the parity of ``symbol & row``."""
    symbols = column("symbols", symbols, MAX_ROWS)
    return parity(symbols & column("rows", rows, MAX_ROWS, symbols.size)).astype(np.uint32)


def count_hadamard_support(rows: NDArray[Any], reported: NDArray[Any], domain_size: int) -> NDArray[np.int64]:
    """How many reports are each value's sign; see `overstory.kernels.symbols.transforms.count_hadamard_support`."""
    order = 1 << (domain_size - 1).bit_length()
    if not 2 <= domain_size <= MAX_ROWS or not are_few(
        (len(rows) + order * order.bit_length()) // TOGETHER, TRANSFORMS
    ):
        from overstory.kernels.symbols import transforms

        return transforms.count_hadamard_support(rows, reported, domain_size)
    rows = column("rows", rows, order)
    signs = 1 - 2 * column("reported", reported, 2, rows.size).astype(np.int64)
    sums = np.zeros((order, 1), np.int64)
    np.add.at(sums[:, 0], rows, signs)
    support: NDArray[np.int64] = (rows.size + transformed(sums)[:domain_size, 0]) // 2
    return support


def transformed(sums: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return Sylvester's matrix times each column; there is a power of two of rows."""
    size, many = sums.shape
    step = 1
    while step < size:
        # One factor (1 1; 1 -1) of the Kronecker product, on all columns at once.
        pairs = sums.reshape(size // (2 * step), 2, step, many)
        sums = np.stack((pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]), axis=1).reshape(size, many)
        step *= 2
    return sums


def parity(words: NDArray[Any]) -> NDArray[np.uint8]:
    """Return 1 where a word has an odd number of ones."""
    odd: NDArray[np.uint8] = np.bitwise_count(words) & np.uint8(1)
    return odd


def masks_of(seeds: NDArray[Any], num_bits: int, hash_bits: int) -> U64:
    """Return every seed's matrix; see `overstory.kernels.symbols.transforms.masks_of`."""
    if not are_few(len(seeds) * hash_bits // TOGETHER, TRANSFORMS):
        from overstory.kernels.symbols import transforms

        return transforms.masks_of(seeds, num_bits, hash_bits)
    words = (seeds.astype(np.uint64) << np.uint64(8))[:, None] | np.arange(hash_bits, dtype=np.uint64)
    out: U64 = split_mix(words) >> np.uint64(64 - num_bits)
    return out


def split_mix(words: U64) -> U64:
    """Return word ``i`` of SplitMix64 with seed 0 for each ``i``."""
    return mix(words * GOLDEN + GOLDEN)


def encode_linear(words: U64, symbols: NDArray[Any], seeds: NDArray[Any], num_bits: int, hash_bits: int) -> U32:
    """Return each device's hashed symbol: bit j is the parity of row j of the seed's matrix and the value's word."""
    out, places = np.empty(len(symbols), np.uint32), np.arange(hash_bits, dtype=np.uint32)
    for start in range(0, out.size, AT_ONCE):
        some = slice(start, start + AT_ONCE)
        odd = parity(masks_of(seeds[some], num_bits, hash_bits) & words[symbols[some]][:, None])
        out[some] = (odd.astype(np.uint32) << places).sum(axis=1, dtype=np.uint32)
    return out


def count_blocks(masks: U64, reported: U32, parents: U64, step: int) -> NDArray[np.int64]:
    """Return the support of ``parent | suffix``; see `overstory.kernels.symbols.transforms.count_blocks`."""
    hash_bits, many = masks.shape[1], len(parents)
    signs = (len(masks) << hash_bits) * many
    if not are_few((signs + (many << step) * (step + 1)) // TOGETHER, TRANSFORMS):
        from overstory.kernels.symbols import transforms

        return transforms.count_blocks(masks, reported, parents, step)
    sums = np.zeros((1 << step, many), np.int64)
    low = np.uint64((1 << step) - 1)
    for z in range(1 << hash_bits):
        chosen = [j for j in range(hash_bits) if z >> j & 1]
        # A' z is the exclusive or of the rows that z names; its sign is the parity with the parent and with y.
        words = np.bitwise_xor.reduce(masks[:, chosen], axis=1) if chosen else np.zeros(len(masks), np.uint64)
        odd = parity(words[:, None] & parents) ^ parity(reported & np.uint32(z))[:, None]
        np.add.at(sums, (words & low).astype(np.int64), 1 - 2 * odd.astype(np.int64))
    # support = 2^-m (H signs), exact since every support is whole.
    support: NDArray[np.int64] = transformed(sums).T >> hash_bits
    return support


def value_words(symbols: NDArray[Any]) -> U64:
    """Return the word that each symbol is hashed from: ``mix32(2 v + 1) | mix32(2 v + 2) << 32``.

    No number is mixed for two halves, of one value or of two.
    """
    twice = 2 * np.asarray(symbols, np.int64)
    return _mix32(twice + 1) | (_mix32(twice + 2) << HALF)


def encode_hash(words: U64, symbols: NDArray[Any], seeds: NDArray[Any], hash_range: int) -> U32:
    """Hash each device's value under its seed; see `overstory.kernels.symbols.local_hash.encode_hash`."""
    if not 2 <= hash_range <= 1 << 16 or not are_few(len(symbols) // TOGETHER, LOCAL_HASH):
        from overstory.kernels.symbols import local_hash

        return local_hash.encode_hash(words, symbols, seeds, hash_range)
    held = column("symbols", symbols, words.size)
    hashed = _hash_words(words[held], column("seeds", seeds, ONE, held.size))
    return (hashed * np.uint64(hash_range) >> HALF).astype(np.uint32)


def _mix32(words: NDArray[Any]) -> U64:
    """`overstory.protocol.encodings.symbols.mix32` of many."""
    x = words.astype(np.uint64)
    x = ((x ^ (x >> np.uint64(16))) * np.uint64(C1)) & MASK
    x = ((x ^ (x >> np.uint64(15))) * np.uint64(C2)) & MASK
    mixed: U64 = x ^ (x >> np.uint64(15))
    return mixed


def _hash_words(words: Any, seeds: NDArray[Any]) -> U64:
    """`overstory.protocol.encodings.symbols.hash_word` of many."""
    # x = low ^ m; x = (x ^ x >> 16) C1 + high; x = (x ^ x >> 15) C2, modulo 2^32.
    x = (words & MASK) ^ _mix32(seeds)
    x ^= x >> np.uint64(16)
    x = (x * np.uint64(C1) + (words >> HALF)) & MASK
    hashed: U64 = ((x ^ (x >> np.uint64(15))) * np.uint64(C2)) & MASK
    return hashed
