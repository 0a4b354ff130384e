"""Hashes and signs of few devices by NumPy alone, of many by compiled kernels: the same numbers.

`overstory.kernels.columns` says what is few; the kernels are in `overstory.kernels.hashing`.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.kernels.columns import C1, C2, ONE, are_few, column
from overstory.kernels.devices import below, mix, stream_words
from overstory.kernels.threads import in_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    U32 = NDArray[np.uint32]
    U64 = NDArray[np.uint64]

MAX_ROWS = 1 << 31
MASK, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
HASHING = "hashing"
MOST_SIGNS = 1 << 30
ENOUGH = 1 << 16  # devices worth a thread
TOGETHER = 1 << 8  # signs that cost what a block does: they are added by the array
MOST_SOLUTIONS = 1 << 20  # suffixes that are written out together
SCATTERED = 3  # signs that cost what one suffix does: each is added at a place of its own
BLOCK = 1 << 13  # strings whose positions in a cohort are drawn together
AT_ONCE = 1 << 16  # devices whose matrices are written out together


def encode_hadamard(symbols: NDArray[Any], rows: NDArray[Any]) -> U32:
    """Look up each device's sign in the device's row: 0 for +1, 1 for -1, the parity of ``symbol & row``."""
    symbols = column("symbols", symbols, MAX_ROWS)
    return parity(symbols & column("rows", rows, MAX_ROWS, symbols.size)).astype(np.uint32)


def count_hadamard_support(rows: NDArray[Any], reported: NDArray[Any], domain_size: int) -> NDArray[np.int64]:
    """How many reports are each value's sign in the report's row; rows are below the domain's next power of two."""
    if not 2 <= domain_size <= MAX_ROWS:
        raise ValueError(f"domain_size must be in 2 .. 2 ** 31, not {domain_size}")
    order = 1 << (domain_size - 1).bit_length()  # the least power of two that has a column for every value
    rows = column("rows", rows, order)
    reported = column("reported", reported, 2, rows.size)
    sums = np.zeros(order, np.int64)
    if are_few((len(rows) + order * order.bit_length()) // TOGETHER, HASHING):
        np.add.at(sums, rows, 1 - 2 * reported.astype(np.int64))
        sums = transformed(sums[:, None])[:, 0]
    else:
        from overstory.kernels.hashing import add_signs, transform

        add_signs(rows, reported, sums)
        transform(sums, 1)
    # agreeing + disagreeing = n and agreeing - disagreeing = H s, so agreeing = (n + H s) / 2.
    support: NDArray[np.int64] = (rows.size + sums[:domain_size]) // 2
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
    """Return every seed's matrix, its rows as masks of bits: `protocol.kinds.hashes.matrix_rows` of many."""
    if are_few(len(seeds) * hash_bits // TOGETHER, HASHING):
        words = (seeds.astype(np.uint64) << np.uint64(8))[:, None] | np.arange(hash_bits, dtype=np.uint64)
        return np.asarray(stream_words(np.zeros(1, np.uint64), words) >> np.uint64(64 - num_bits))
    from overstory.kernels.hashing import fill_masks

    out = np.empty((len(seeds), hash_bits), np.uint64)
    fill_masks(seeds.astype(np.uint64), np.uint64(64 - num_bits), out)
    return out


def positions_v1(digests: U64, num_bits: int, num_hashes: int, num_cohorts: int) -> NDArray[np.uint16]:
    """Positions of ``overstory-v1``, (cohorts, digests, hashes): *distinct*, every set equally likely (to 2 ** -48)."""
    out = np.empty((num_cohorts, digests.size, num_hashes), np.uint16)
    tweaks = stream_words(np.zeros(1, np.uint64), np.arange(num_cohorts, dtype=np.uint64))

    def part(first: int, stop: int) -> None:
        for cohort, start in itertools.product(range(num_cohorts), range(first, stop, BLOCK)):
            block = out[cohort, start : min(start + BLOCK, stop)]
            # One SplitMix64 stream for each (digest, cohort).
            streams = mix(digests[start : start + len(block)] + tweaks[cohort])
            before: list[U64] = []
            for i in range(num_hashes):
                # Floyd's sampling (Bentley and Floyd, CACM 30(9), 1987): a position drawn before gives way to `last`,
                # which cannot have been drawn yet; 2 ** -48 for a multiplication in place of a division.
                last = num_bits - num_hashes + i
                drawn = below(stream_words(streams, i), last + 1)
                for taken in [drawn == each for each in before]:
                    drawn[taken] = last
                block[:, i] = drawn
                before.append(drawn)

    in_parts(part, digests.size, smallest=BLOCK)
    return out


def encode_linear(words: U64, symbols: NDArray[Any], seeds: NDArray[Any], num_bits: int, hash_bits: int) -> U32:
    """Return each device's hashed symbol: bit j is the parity of row j of the seed's matrix and the value's word."""
    out, places = np.empty(len(symbols), np.uint32), np.arange(hash_bits, dtype=np.uint32)
    for start in range(0, out.size, AT_ONCE):
        some = slice(start, start + AT_ONCE)
        odd = parity(masks_of(seeds[some], num_bits, hash_bits) & words[symbols[some]][:, None])
        out[some] = (odd.astype(np.uint32) << places).sum(axis=1, dtype=np.uint32)
    return out


def count_blocks(masks: U64, reported: U32, parents: U64, step: int) -> NDArray[np.int64]:
    """Return the support of ``parent | suffix`` for every suffix of `step` bits; those bits of a parent are zero."""
    hash_bits, many = masks.shape[1], len(parents)
    out = np.zeros((many, 1 << step), np.int64)
    if step == 0:
        in_parts(
            lambda start, stop: _count_values(masks, reported, parents[start:stop], out[start:stop]), many, smallest=1
        )
        return out
    size = many << step
    solutions = SCATTERED * (len(masks) * many << max(step - hash_bits, 0)) + size
    signs = (len(masks) * many << hash_bits) + size * (step + 1)
    if are_few(min(solutions, signs) // TOGETHER, HASHING):
        return (count_solutions if solutions < signs else count_by_signs)(masks, reported, parents, step)
    from overstory.kernels.hashing import add_block_signs, transform

    most = MOST_SIGNS >> hash_bits  # reports whose signs a 32-bit sum surely holds

    def part(start: int, stop: int) -> None:
        for first in range(0, len(masks), most):
            signs = np.zeros((1 << step, stop - start), np.int32)
            some = slice(first, first + most)
            # support = 2^-m sum over z: a shift by m, exact since every support is whole.
            add_block_signs(masks[some], reported[some], parents[start:stop], signs)
            transform(signs.reshape(-1), stop - start)
            out[start:stop] += signs.T >> hash_bits

    in_parts(part, many, smallest=1)
    return out


def _count_values(masks: U64, reported: U32, values: U64, out: NDArray[np.int64]) -> None:
    """Count, for each value, the reports whose matrix maps it to what was reported."""
    for first in range(0, len(masks), AT_ONCE):
        rows = np.ascontiguousarray(masks[first : first + AT_ONCE].T)
        wanted = [
            (reported[first : first + AT_ONCE] >> np.uint32(row) & np.uint32(1)).astype(np.uint8)
            for row in range(len(rows))
        ]
        for place, value in enumerate(values):
            differs = np.zeros(rows.shape[1], np.uint8)
            for row, bit in zip(rows, wanted, strict=True):
                differs |= parity(row & value) ^ bit
            out[place, 0] += differs.size - np.count_nonzero(differs)


def count_by_signs(masks: U64, reported: U32, parents: U64, step: int) -> NDArray[np.int64]:
    """Return what `count_blocks` does by one transform of the reports' signs."""
    hash_bits, low = masks.shape[1], np.uint64((1 << step) - 1)
    sums = np.zeros((1 << step, len(parents)), np.int64)
    for z in range(1 << hash_bits):
        chosen = [j for j in range(hash_bits) if z >> j & 1]
        # A' z is the exclusive or of the rows that z names; its sign is the parity with the parent and with y.
        words = np.bitwise_xor.reduce(masks[:, chosen], axis=1) if chosen else np.zeros(len(masks), np.uint64)
        odd = parity(words[:, None] & parents) ^ parity(reported & np.uint32(z))[:, None]
        np.add.at(sums, (words & low).astype(np.int64), 1 - 2 * odd.astype(np.int64))
    return np.asarray(transformed(sums).T >> hash_bits)


def count_solutions(masks: U64, reported: U32, parents: U64, step: int) -> NDArray[np.int64]:
    """Return what `count_blocks` does from each report's own values: the solutions of A v = y, one in 2**m of all."""
    support = np.zeros(len(parents) << step, np.int64)
    each = len(parents) * max(masks.shape[1], 1 << max(step - masks.shape[1], 0))
    part = max(1, MOST_SOLUTIONS // max(each, 1))
    for start in range(0, len(masks), part):
        some = slice(start, start + part)
        _add_solutions(masks[some], reported[some], parents, step, support)
    return support.reshape(len(parents), 1 << step)


def _add_solutions(masks: U64, reported: U32, parents: U64, step: int, support: NDArray[np.int64]) -> None:
    """Add 1 for each solution of each report, by Gauss and Jordan's elimination of all reports at once."""
    num_rows, low = masks.shape[1], np.uint64((1 << step) - 1)
    rows, pivots = masks & low, np.zeros_like(masks)
    given = reported[:, None] >> np.arange(num_rows, dtype=np.uint32) & np.uint32(1)
    wanted = parity(masks[:, :, None] & parents) != given[:, :, None]  # the parity of each row and the suffix
    # Each row gets a bit of its own, its pivot; the other bits are free, and span what is added to a solution.
    for row in range(num_rows):
        pivots[:, row] = _lowest_one(rows[:, row])
        others = (rows & pivots[:, row, None]) != 0
        others[:, row] = False
        rows ^= others * rows[:, row, None]
        wanted ^= others[:, :, None] & wanted[:, row, None]
    is_solvable = ~np.any((rows == 0)[:, :, None] & wanted, axis=1)
    first = np.asarray(np.sum(pivots[:, :, None] * wanted, axis=1, dtype=np.uint64))
    free = low & ~np.bitwise_or.reduce(pivots, axis=1)
    blocks = np.arange(len(parents), dtype=np.int64)[:, None] << step
    for num_free in np.flatnonzero(np.bincount(np.bitwise_count(free))).tolist():
        alike = np.bitwise_count(free) == num_free
        left, span = free[alike], np.zeros((np.count_nonzero(alike), 1), np.uint64)
        for _ in range(num_free):
            one = _lowest_one(left)
            left ^= one
            held = (rows[alike] & one[:, None]) != 0
            vector = np.sum(pivots[alike] * held, axis=1, keepdims=True, dtype=np.uint64) + one[:, None]
            span = np.concatenate((span, span ^ vector), axis=1)
        suffixes = (first[alike][:, :, None] ^ span[:, None]).astype(np.int64)
        np.add.at(support, (suffixes + blocks)[is_solvable[alike]].ravel(), 1)


def _lowest_one(words: U64) -> U64:
    """Return the lowest bit of each word that is one; 0 of 0."""
    return words & (~words + np.uint64(1))


def value_words(symbols: NDArray[Any]) -> U64:
    """Return the word that each symbol is hashed from, ``mix32(2 v + 1) | mix32(2 v + 2) << 32``: no number twice."""
    twice = 2 * np.asarray(symbols, np.int64)
    return _mix32(twice + 1) | (_mix32(twice + 2) << HALF)


def encode_hash(words: U64, symbols: NDArray[Any], seeds: NDArray[Any], hash_range: int) -> U32:
    """Hash each device's value under its seed; `words` are of the values: `value_words`, or the digests of strings."""
    if not 2 <= hash_range <= 1 << 16:
        raise ValueError(f"hash_range must be in 2 .. 65536, not {hash_range}")
    if words.ndim != 1 or words.dtype != np.uint64:
        raise ValueError(f"words must be a column of uint64, not {words.dtype} {words.shape}")
    held = column("symbols", symbols, words.size)
    seeds = column("seeds", seeds, ONE, held.size)
    if are_few(len(held) // TOGETHER, HASHING):
        return (_hash_words(words[held], seeds) * np.uint64(hash_range) >> HALF).astype(np.uint32)
    from overstory.kernels.hashing import encode_rows

    out, words = np.empty(held.size, np.uint32), np.ascontiguousarray(words)

    def part(start: int, stop: int) -> None:
        encode_rows(words, held[start:stop], seeds[start:stop], hash_range, out[start:stop])

    in_parts(part, out.size, smallest=ENOUGH)
    return out


def _mix32(words: NDArray[Any]) -> U64:
    """`overstory.protocol.kinds.hashes.mix32` of many."""
    x = words.astype(np.uint64)
    x = ((x ^ (x >> np.uint64(16))) * np.uint64(C1)) & MASK
    x = ((x ^ (x >> np.uint64(15))) * np.uint64(C2)) & MASK
    mixed: U64 = x ^ (x >> np.uint64(15))
    return mixed


def _hash_words(words: Any, seeds: NDArray[Any]) -> U64:
    """`overstory.protocol.kinds.hashes.hash_word` of many."""
    # x = low ^ m; x = (x ^ x >> 16) C1 + high; x = (x ^ x >> 15) C2, modulo 2^32.
    x = (words & MASK) ^ _mix32(seeds)
    x ^= x >> np.uint64(16)
    x = (x * np.uint64(C1) + (words >> HALF)) & MASK
    hashed: U64 = ((x ^ (x >> np.uint64(15))) * np.uint64(C2)) & MASK
    return hashed
