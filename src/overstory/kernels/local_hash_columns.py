"""What hashing by a seed and signs of a matrix's row do alike: look a symbol up per device, and add up support."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.kernels.local_hash_words import BLOCK, checked_words
from overstory.kernels.symbols_columns import ONE, column
from overstory.kernels.threads import in_parts

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

ENOUGH = 1 << 16  # devices worth a thread


def looked_up(
    name: str,
    rows_kernel: Callable[..., None],
    words: NDArray[np.uint64],
    symbols: NDArray[Any],
    seeds: NDArray[Any],
    threads: int | None,
) -> NDArray[np.uint32]:
    """Call ``rows_kernel(words, symbols, seeds, out)`` over all devices, once every entry is checked.

    Raises
    ------
    ValueError
        When a symbol is none of the words, or a seed (called ``name``) is none.
    """
    words = checked_words(words)
    symbols = column("symbols", symbols, words.size)
    seeds = column(name, seeds, ONE, symbols.size)
    out = np.empty(symbols.size, np.uint32)

    def part(start: int, stop: int) -> None:
        rows_kernel(words, symbols[start:stop], seeds[start:stop], out[start:stop])

    in_parts(part, out.size, threads, smallest=ENOUGH)
    return out


def summed(
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
