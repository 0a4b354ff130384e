"""Local hashing: each device's symbol, and the support of every value by hashing it under every report's seed.

Counting takes n d hashes.  Whether ``hash_word * g >> 32`` is the reported symbol y needs no multiplication: it is, if
and only if the hash word lies in ``ceil(y 2^32 / g) .. ceil((y + 1) 2^32 / g) - 1``, which for 32-bit numbers is one
subtraction and one comparison.  Reports go through in blocks (see `overstory.kernels.symbols.local_hash_words`).

`map_symbols` (a symbol for each device) and `sum_parts` (support, added up) serve the signs of a matrix's row as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.kernels.columns import ONE, column, device_columns
from overstory.kernels.compiled import kernel
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
from overstory.kernels.threads import in_parts

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from overstory.kernels.vectors import Lanes


ENOUGH = 1 << 16  # devices worth a thread


def map_symbols(
    name: str,
    rows_kernel: Callable[..., None],
    words: NDArray[np.uint64],
    symbols: NDArray[Any],
    seeds: NDArray[Any],
    threads: int | None,
) -> NDArray[np.uint32]:
    """Call ``rows_kernel(words, symbols, seeds, out)`` over all devices, once every entry is checked."""
    words = checked_words(words)
    symbols, seeds = device_columns(0, symbols=(symbols, words.size), **{name: (seeds, ONE)})
    out = np.empty(symbols.size, np.uint32)

    def part(start: int, stop: int) -> None:
        rows_kernel(words, symbols[start:stop], seeds[start:stop], out[start:stop])

    in_parts(part, out.size, threads, smallest=ENOUGH)
    return out


def sum_parts(
    support_kernel: Callable[[int, int, NDArray[np.int64]], None],
    rows: int,
    values: int,
    threads: int | None,
    *,
    smallest: int,
) -> NDArray[np.int64]:
    """Add up what ``support_kernel(start, stop, out)`` counts in parts of the rows, for a number of values."""

    def part(start: int, stop: int) -> NDArray[np.int64]:
        out = np.zeros(values, np.int64)
        support_kernel(start, stop, out)
        return out

    total: NDArray[np.int64] = np.sum(in_parts(part, rows, threads, smallest=smallest, align=BLOCK), axis=0)
    return total


SMALLEST = 8 * BLOCK  # reports worth a thread
HALF = np.uint64(1 << 31)


def _inside(v: Lanes, hashed: Any, start: Any, width: Any) -> Any:
    """1 where the hash is at most ``width`` above ``start``; both are shifted by 2^31, for signed comparison."""
    inside = v.builder.icmp_signed("<", v.builder.sub(hashed, start), width)
    return v.builder.zext(inside, v.vector)


count_inside = count_intrinsic(_inside)


@kernel
def encode_rows(words: Any, symbols: Any, seeds: Any, hash_range: Any, out: Any) -> None:
    """Hash each device's value under its seed."""
    for row in range(out.size):
        # symbol = hash_word(value, seed) g >> 32.
        hashed = np.uint64(hash_word(words[symbols[row]], seeds[row]))
        out[row] = np.uint32((hashed * np.uint64(hash_range)) >> np.uint64(32))


@kernel
def load_block(seeds: Any, reported: Any, hash_range: Any, mixed: Any, starts: Any, widths: Any) -> None:
    """Prepare a block: the folded seeds, and where the reported symbol's interval starts and how wide it is.

    What is left of the last vector gets the least width of all, which no hash is below.
    """
    many = np.uint64(hash_range)
    for row in range(seeds.size):
        # ceil(y 2^32 / g) = ((y << 32) + g - 1) // g, and y < g <= 2^16.
        start = ((np.uint64(reported[row]) << np.uint64(32)) + many - np.uint64(1)) // many
        stop = ((np.uint64(reported[row] + 1) << np.uint64(32)) + many - np.uint64(1)) // many
        # start <= hash < stop is hash - start < stop - start; adding 2^31 to both makes the comparison signed.
        mixed[row] = folded(mix32(seeds[row]))
        starts[row] = np.uint32((start + HALF) & np.uint64(0xFFFFFFFF))
        widths[row] = np.uint32((stop - start + HALF) & np.uint64(0xFFFFFFFF))
    for row in range(seeds.size, (seeds.size + LANES - 1) // LANES * LANES):
        mixed[row], starts[row], widths[row] = 0, 0, np.uint32(HALF)


@kernel
def support_rows(seeds: Any, reported: Any, low: Any, high: Any, hash_range: Any, out: Any) -> None:
    """Add each value's support among some reports to ``out``."""
    mixed, starts, widths = np.empty(BLOCK, np.uint32), np.empty(BLOCK, np.uint32), np.empty(BLOCK, np.uint32)
    for row in range(0, seeds.size, BLOCK):
        stop = min(BLOCK, seeds.size - row)
        load_block(seeds[row : row + stop], reported[row : row + stop], hash_range, mixed, starts, widths)
        # PAIR values a call share each load of the block.
        for value in range(0, out.size, PAIR):
            count_inside(mixed, starts, widths, stop, low, high, value, out)


def _check_range(hash_range: int) -> None:
    if not 2 <= hash_range <= 1 << 16:
        raise ValueError(f"hash_range must be in 2 .. 65536, not {hash_range}")


def value_words(symbols: ArrayLike) -> NDArray[np.uint64]:
    """Return the word that each symbol is hashed from; `overstory.protocol.encodings.symbols.value_word`.

    Returns
    -------
    uint64[n]

    Examples
    --------
    >>> value_words(range(2)).tolist()
    [984024318840339059, 10280330038883524346]
    """
    given = np.asarray(symbols, np.int64)
    out = np.empty(given.size, np.uint64)
    fill_words(given, out)
    return out


@kernel
def fill_words(symbols: Any, out: Any) -> None:
    """``mix32(2 v + 1) | mix32(2 v + 2) << 32``."""
    for i in range(out.size):
        # 2 v + 1 and 2 v + 2: no number is mixed for two halves, of one value or of two.
        twice = 2 * symbols[i]
        out[i] = np.uint64(mix32(twice + 1)) | (np.uint64(mix32(twice + 2)) << np.uint64(32))


def encode_hash(
    words: NDArray[np.uint64],
    symbols: NDArray[Any],
    seeds: NDArray[Any],
    hash_range: int,
    *,
    threads: int | None = None,
) -> NDArray[np.uint32]:
    """Hash each device's value under the device's seed.

    Parameters
    ----------
    words : uint64[d]
        The word of each value (`value_words`, or a string's digest).
    symbols : int32[n]
        Each device's value.
    seeds : uint32[n]

    Returns
    -------
    uint32[n]
        ``hash_word(words[symbols[i]], seeds[i]) * hash_range >> 32``.

    Examples
    --------
    >>> import numpy as np
    >>> encode_hash(value_words(range(3)), np.array([0, 1, 2]), np.array([7, 7, 8]), 4).shape
    (3,)
    """
    _check_range(hash_range)

    def rows(words: Any, symbols: Any, seeds: Any, out: Any) -> None:
        encode_rows(words, symbols, seeds, hash_range, out)

    return map_symbols("seeds", rows, words, symbols, seeds, threads)


def count_hash_support(
    seeds: NDArray[Any],
    reported: NDArray[Any],
    words: NDArray[np.uint64],
    hash_range: int,
    *,
    threads: int | None = None,
) -> NDArray[np.int64]:
    """How many reports are each value's hash under the report's seed.

    Parameters
    ----------
    seeds, reported : uint32[n]
        The reports.
    words : uint64[d]
        The word of each value that is asked for.

    Returns
    -------
    int64[d]

    Examples
    --------
    >>> import numpy as np
    >>> words, seeds = value_words(range(3)), np.arange(1000)
    >>> reported = encode_hash(words, np.ones(1000, np.int32), seeds, 4)
    >>> int(count_hash_support(seeds, reported, words, 4)[1])
    1000
    """
    _check_range(hash_range)
    seeds = column("seeds", seeds, ONE)
    reported = column("reported", reported, hash_range, seeds.size)
    words = checked_words(words)
    low, high = split_words(words)

    def part(start: int, stop: int, out: NDArray[np.int64]) -> None:
        support_rows(seeds[start:stop], reported[start:stop], low, high, hash_range, out)

    return sum_parts(part, seeds.size, low.size, threads, smallest=SMALLEST)[: words.size]
