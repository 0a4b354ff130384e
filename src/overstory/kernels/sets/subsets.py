"""Subset selection in bulk: each device's random subset, as packed indicator bits.

With probability ``inside`` the subset is uniform among those of its size that hold the device's value, otherwise among
those that do not.  The other members are drawn without replacement from the d - 1 other values, the last value standing
in for the device's own, by Floyd's sampling (Bentley, Floyd, "A sample of brilliance", CACM 30(9), 1987): number j is
drawn from ``0 .. last``, last = d - 1 - w + j, and is ``last`` itself if it has been drawn before.  Every subset is
then equally likely.  A subset with the value in it has one draw less, and leaves out the first, j = 0.

**Which random word is which.**  Word i of a device is word i mod 16 of the ChaCha12 block named

    i // 16 | device mod 2^32 | device >> 32 | symbol

Word 0 decides: inside when it is below the threshold.  Word 1 + j is draw j: ``word (last + 1) >> 32``, which gives
each number its probability to 2 ** -32.  A subset is a function of the key, the device and its value alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.kernels.compiled import kernel
from overstory.kernels.random.streams import LANES, fill_blocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

ROUNDS = 12
WORD = np.uint64(63)
ONE_BIT = np.uint64(1)


@kernel
def name_subsets(names: Any, device: Any, symbols: Any) -> None:
    """Name the blocks of consecutive devices from number ``device`` on."""
    for lane in range(symbols.size):
        names[lane] = np.uint32((device + lane) & 0xFFFFFFFF)
        names[LANES + lane] = np.uint32((device + lane) >> 32)
        names[2 * LANES + lane] = symbols[lane]


@kernel
def draw_members(words: Any, last: Any, counts: Any, least: Any, out: Any, width: Any) -> None:
    """One step of Floyd's sampling for every device whose subset takes at least ``least`` more members.

    Devices do not wait for each other's memory: one draw of many devices is several times as fast as many of one.
    """
    bound = np.uint64(last + 1)
    for lane in range(counts.size):
        if counts[lane] < least:
            continue
        # Number j of Floyd's sampling, uniform in 0 .. last; the bit tells whether it has been drawn before.
        drawn = (np.uint64(words[lane]) * bound) >> np.uint64(32)
        first = np.uint64(lane) * np.uint64(width)
        taken = (out[first + (drawn >> np.uint64(6))] >> (drawn & WORD)) & ONE_BIT
        member = np.uint64(last) if taken else drawn
        out[first + (member >> np.uint64(6))] |= ONE_BIT << (member & WORD)


@kernel
def put_own(symbols: Any, counts: Any, domain_size: Any, subset_size: Any, out: Any, width: Any) -> None:
    """Turn numbers of others into values: the last takes the place that was lent to it, the device's own comes in."""
    last = np.uint64(domain_size - 1)
    for lane in range(symbols.size):
        own, first = np.uint64(symbols[lane]), np.uint64(lane) * np.uint64(width)
        at, end = first + (own >> np.uint64(6)), first + (last >> np.uint64(6))
        # A draw of the own number means the last value: move the bit there, branchless.
        lent = (out[at] >> (own & WORD)) & ONE_BIT
        out[at] ^= lent << (own & WORD)
        out[end] |= lent << (last & WORD)
        # A subset with one draw less holds the own value.
        out[at] |= np.uint64(counts[lane] < subset_size) << (own & WORD)


@kernel
def subset_rows(
    key: Any, symbols: Any, domain_size: Any, subset_size: Any, inside: Any, device: Any, out: Any, width: Any
) -> None:
    """Draw the subsets of consecutive devices from number ``device`` on into ``out``, which is zero."""
    names, words = np.zeros(3 * LANES, np.uint32), np.empty(16 * LANES, np.uint32)
    counts = np.empty(LANES, np.int64)
    for row in range(0, symbols.size, LANES):
        size = min(LANES, symbols.size - row)
        mine, bits, left = symbols[row : row + size], out[row * width : (row + size) * width], counts[:size]
        name_subsets(names, device + row, mine)
        for word in range(subset_size + 1):
            if word % 16 == 0:
                fill_blocks(key, word // 16, names, words, size, ROUNDS)
            column = words[word % 16 * LANES :]
            if word == 0:
                for lane in range(size):
                    # Word 0: inside when below the threshold, and then one member is the device's own.
                    left[lane] = subset_size - (np.uint64(column[lane]) < np.uint64(inside))
            else:
                # Draw j = word - 1 has last = d - 1 - w + j; a subset with one draw less leaves out j = 0.
                last = domain_size - 2 - subset_size + word
                draw_members(column, last, left, subset_size - word + 1, bits, width)
        put_own(mine, left, domain_size, subset_size, bits, width)


def subset_core(key: NDArray[np.uint32], domain_size: int, subset_size: int, inside: int) -> Callable[..., None]:
    """Return the compiled core of `overstory.kernels.devices.simulate_subsets`: it fills rows that are zero."""

    def core(symbols: NDArray[np.uint32], device: int, out: NDArray[np.uint64]) -> None:
        subset_rows(key, symbols, domain_size, subset_size, inside, device, out.reshape(-1), out.shape[1])

    return core
