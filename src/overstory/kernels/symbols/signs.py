"""The public pseudo-random sign matrix: each device's sign, and the reports that are each value's sign.

Sign number ``row`` of a value is bit ``row % 32`` of ``w ^ w >> 16``, w being the value's hash under ``row // 32``.  So
one hash compares up to 32 reports at once, if their rows lie in one group of 32: reports are first packed, one 32-bit
word for as many as do, with a mask of the rows that are there.  Consecutive rows fill the words, missing ones cost
nothing, rows in any other order are sorted where that pays; rows that are scattered over all 2 ** 31 numbers cannot be
packed, and are compared one by one, as local hashing is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from overstory.kernels.columns import ONE, column
from overstory.kernels.compiled import kernel
from overstory.kernels.symbols.local_hash import map_symbols, sum_parts
from overstory.kernels.symbols.local_hash_words import (
    BLOCK,
    LANES,
    PAIR,
    checked_words,
    count_intrinsic,
    folded,
    hash_word,
    mix32,
    split_words,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.kernels.vectors import Lanes

    Column = NDArray[np.uint32]

SMALLEST = 4 * BLOCK  # words worth a thread
WORTH_PACKING = 2  # reports in a word from which packing them is faster than comparing them one by one
WORTH_SORTING = 512  # values from which sorting n rows costs less than comparing them one by one


def _signs(v: Lanes, hashed: Any) -> Any:
    return v.xor(hashed, v.builder.lshr(hashed, v.constant(16)))


def _agreeing(v: Lanes, hashed: Any, differing: Any, mask: Any) -> Any:
    """How many of the mask's signs are the reported ones; ``differing`` is their complement.

    Counted for two words together, which machines do several times faster; the total of all lanes is the same.
    """
    pairs = ir.VectorType(ir.IntType(64), v.lanes // 2)
    # ~(signs ^ reported) & mask has a 1 for each agreeing row; `differing` is ~reported.
    agree = v.builder.bitcast(v.builder.and_(v.xor(_signs(v, hashed), differing), mask), pairs)
    kind = ir.FunctionType(pairs, [pairs])
    count = v.builder.module.declare_intrinsic(f"llvm.ctpop.v{v.lanes // 2}i64", (), kind)
    return v.builder.bitcast(v.builder.call(count, [agree]), v.vector)


def _equal(v: Lanes, hashed: Any, expected: Any, mask: Any) -> Any:
    """1 where the one sign of the mask is the reported one."""
    same = v.builder.icmp_signed("==", v.builder.and_(_signs(v, hashed), mask), expected)
    return v.builder.zext(same, v.vector)


count_agreeing = count_intrinsic(_agreeing)
count_equal = count_intrinsic(_equal)


@kernel
def encode_rows(words: Any, symbols: Any, rows: Any, out: Any) -> None:
    """Look each device's sign up."""
    for i in range(out.size):
        # Bit row mod 32 of w ^ w >> 16, w = hash_word(value, row // 32).
        row = np.uint32(rows[i])
        signs = folded(hash_word(words[symbols[i]], row >> np.uint32(5)))
        out[i] = np.uint32((signs >> (row & np.uint32(31))) & np.uint32(1))


@kernel
def pack_rows(rows: Any, reported: Any, groups: Any, bits: Any, masks: Any) -> Any:
    """Pack reports in the order they lie in, and count the words.

    A word ends where the next report's row is in another group of 32, or is in the word already.
    """
    last = -1
    for i in range(rows.size):
        row = np.uint32(rows[i])
        group, place = row >> np.uint32(5), np.uint32(1) << (row & np.uint32(31))
        # A row twice in one word could not be told from once, so it begins the next.
        if last < 0 or groups[last] != group or masks[last] & place:
            last += 1
            groups[last], bits[last], masks[last] = group, 0, 0
        masks[last] |= place
        bits[last] |= place * np.uint32(reported[i])
    return last + 1


@kernel
def support_words(groups: Any, bits: Any, masks: Any, low: Any, high: Any, single: Any, out: Any) -> None:
    """Add each value's support among some packed words to ``out``; ``single`` when each holds one report."""
    mixed, first, second = np.empty(BLOCK, np.uint32), np.empty(BLOCK, np.uint32), np.empty(BLOCK, np.uint32)
    for start in range(0, groups.size, BLOCK):
        size = min(BLOCK, groups.size - start)
        for i in range(size):
            # The group number is the seed: one hash gives the signs of its 32 rows.
            mixed[i], second[i] = folded(mix32(groups[start + i])), masks[start + i]
            first[i] = bits[start + i] if single else ~bits[start + i]
        for i in range(size, (size + LANES - 1) // LANES * LANES):
            mixed[i], first[i], second[i] = 0, 1, 0  # no sign is in the mask, and 0 is not 1
        for value in range(0, out.size, PAIR):
            if single:
                count_equal(mixed, first, second, size, low, high, value, out)
            else:
                count_agreeing(mixed, first, second, size, low, high, value, out)


def _packed(rows: Column, reported: Column) -> tuple[Column, ...]:
    """Pack reports in the order they lie in."""
    packed = tuple(np.empty(rows.size, np.uint32) for _ in range(3))
    size = pack_rows(rows, reported, *packed)
    return tuple(part[:size] for part in packed)


def _best_packed(rows: Column, reported: Column, num_values: int) -> tuple[tuple[Column, ...], bool]:
    """Pack reports if their rows lie close enough, sorted where that pays; and say whether each is left alone."""
    packed = _packed(rows, reported)
    # Sorting n rows costs n log n once; comparing one by one costs n more hashes for each value.
    if WORTH_PACKING * packed[0].size > rows.size and num_values >= WORTH_SORTING:
        order = np.argsort(rows)
        packed = _packed(rows[order], reported[order])
    if WORTH_PACKING * packed[0].size <= rows.size:
        return packed, False
    places = np.uint32(1) << (rows & np.uint32(31))
    return (rows >> np.uint32(5), places * reported, places), True


def encode_signs(
    words: NDArray[np.uint64], symbols: NDArray[Any], rows: NDArray[Any], *, threads: int | None = None
) -> NDArray[np.uint32]:
    """Look up each device's sign in the device's row of the matrix.

    Parameters
    ----------
    words : uint64[d]
        The word of each value (`overstory.kernels.symbols.local_hash.value_words`, or a string's digest).
    symbols : int32[n]
        Each device's value.
    rows : uint32[n]

    Returns
    -------
    uint32[n]
        0 for +1, 1 for -1.

    Examples
    --------
    >>> import numpy as np
    >>> encode_signs(np.array([5], np.uint64), np.zeros(4, np.int32), np.arange(4))
    array([1, 1, 1, 0], dtype=uint32)
    """
    return map_symbols("rows", encode_rows, words, symbols, rows, threads)


def count_sign_support(
    rows: NDArray[Any], reported: NDArray[Any], words: NDArray[np.uint64], *, threads: int | None = None
) -> NDArray[np.int64]:
    """How many reports are each value's sign in the report's row.

    Parameters
    ----------
    rows, reported : uint32[n]
        The reports.
    words : uint64[d]
        The word of each value that is asked for.

    Returns
    -------
    int64[d]

    Examples
    --------
    >>> import numpy as np
    >>> words, rows = np.array([5, 6], np.uint64), np.arange(1000)
    >>> reported = encode_signs(words, np.ones(1000, np.int32), rows)
    >>> int(count_sign_support(rows, reported, words)[1])
    1000
    """
    rows = column("rows", rows, ONE)
    reported = column("reported", reported, 2, rows.size)
    words = checked_words(words)
    low, high = split_words(words)
    packed, single = _best_packed(rows, reported, words.size)

    def part(start: int, stop: int, out: NDArray[np.int64]) -> None:
        support_words(*(column[start:stop] for column in packed), low, high, single, out)

    return sum_parts(part, packed[0].size, low.size, threads, smallest=SMALLEST)[: words.size]
