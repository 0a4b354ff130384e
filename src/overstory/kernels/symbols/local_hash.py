"""Local hashing: each device's symbol under its seed.

``hash_word(word, seed)`` of `overstory.protocol.encodings.symbols`, with word = low + 2^32 high and m = mix32(seed), is

    x = low ^ m;    x = (x ^ x >> 16) C1 + high;    x = (x ^ x >> 15) C2        (modulo 2 ** 32).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.kernels.columns import C1, C2, ONE, device_columns
from overstory.kernels.compiled import kernel
from overstory.kernels.threads import in_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

ENOUGH = 1 << 16  # devices worth a thread
MASK = np.uint64(0xFFFFFFFF)


@kernel
def mix32(word: Any) -> Any:
    """`overstory.protocol.encodings.symbols.mix32`."""
    word = np.uint64(word)
    word = ((word ^ (word >> np.uint64(16))) * np.uint64(C1)) & MASK
    word = ((word ^ (word >> np.uint64(15))) * np.uint64(C2)) & MASK
    return np.uint32(word ^ (word >> np.uint64(15)))


@kernel
def hash_word(word: Any, seed: Any) -> Any:
    """`overstory.protocol.encodings.symbols.hash_word`."""
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


def checked_words(words: NDArray[Any]) -> NDArray[np.uint64]:
    """Refuse what is no column of words."""
    words = np.asarray(words)
    if words.ndim != 1 or words.dtype != np.uint64:
        raise ValueError(f"words must be a column of uint64, not {words.dtype} {words.shape}")
    return np.ascontiguousarray(words)


def encode_hash(
    words: NDArray[np.uint64],  # of each value: `small_hashes.value_words`, or a string's digest
    symbols: NDArray[Any],
    seeds: NDArray[Any],
    hash_range: int,
    *,
    threads: int | None = None,
) -> NDArray[np.uint32]:
    """Hash each device's value under its seed: ``hash_word(words[symbols[i]], seeds[i]) * hash_range >> 32``."""
    if not 2 <= hash_range <= 1 << 16:
        raise ValueError(f"hash_range must be in 2 .. 65536, not {hash_range}")
    words = checked_words(words)
    symbols, seeds = device_columns(0, symbols=(symbols, words.size), seeds=(seeds, ONE))
    out = np.empty(symbols.size, np.uint32)

    def part(start: int, stop: int) -> None:
        encode_rows(words, symbols[start:stop], seeds[start:stop], hash_range, out[start:stop])

    in_parts(part, out.size, threads, smallest=ENOUGH)
    return out
