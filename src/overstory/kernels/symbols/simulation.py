"""Symbols of many devices passed through keep-or-uniform channels: bulk randomization of GRR, local hashing and signs.

**Which random word is which.**  A channel takes three 32-bit words of a device's stream: the symbol is kept when the
first is below the threshold, and is otherwise ``R num_symbols >> 64``, R being the other two, low half first.  That
gives every symbol its probability to 2 ** -64, and needs no second try.  The words are those of ChaCha12 blocks named

    permanent       device >> 32 | device mod 2^32 | cohort       | symbol
    instantaneous   0            | column mod 2^32 | column >> 32 | report index

with a key for each.  A permanent block is one device's (words 0, 1, 2), and so a function of the key, the device, its
cohort and its symbol alone.  An instantaneous block serves four devices that lie `LANES` apart:

    column = (device // (4 LANES)) LANES + device mod LANES,    first word = 4 (device // LANES mod 4)

As in `overstory.kernels.bits.simulation`, the streams are for experiments and load, not for people.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.kernels.compiled import kernel
from overstory.kernels.random.streams import LANES, fill_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    U32 = NDArray[np.uint32]
    Keyed = tuple[U32, int | None]
    """A key, and the probability of keeping a symbol over 2 ** 32."""

ROUNDS = 12
SHARE = 4  # devices served by an instantaneous block


@kernel
def below(low: Any, high: Any, size: Any) -> Any:
    """``(high 2^32 + low) size >> 64`` for a size of at most 2 ** 32: a number below it, from 64 random bits."""
    many = np.uint64(size)
    return (np.uint64(high) * many + ((np.uint64(low) * many) >> np.uint64(32))) >> np.uint64(32)


@kernel
def name_devices(names: Any, device: Any, cohorts: Any, symbols: Any) -> None:
    """Name the blocks of consecutive devices from number ``device`` on, which share its upper half."""
    middle, last = names[LANES : 2 * LANES], names[2 * LANES : 3 * LANES]
    for lane in range(symbols.size):
        names[lane] = np.uint32((device + lane) & 0xFFFFFFFF)
        middle[lane], last[lane] = cohorts[lane], symbols[lane]


@kernel
def pass_symbols(words: Any, symbols: Any, threshold: Any, size: Any, out: Any) -> None:
    """Send symbols through a channel; the words of device ``lane`` are ``words[lane + i LANES]``, i = 0, 1, 2."""
    lows, highs = words[LANES:], words[2 * LANES :]
    for lane in range(out.size):
        # Kept with probability alpha = threshold / 2^32, otherwise any of the symbols: GRR as keep-or-uniform.
        drawn = np.uint32(below(lows[lane], highs[lane], size))
        out[lane] = symbols[lane] if np.uint64(words[lane]) < np.uint64(threshold) else drawn


@kernel
def permanent_rows(key: Any, cohorts: Any, symbols: Any, threshold: Any, size: Any, device: Any, out: Any) -> None:
    """The permanent channel for consecutive devices from number ``device`` on."""
    names, words = np.zeros(3 * LANES, np.uint32), np.empty(16 * LANES, np.uint32)
    row = 0
    while row < out.size:
        # No tile crosses a multiple of LANES, so that all its devices share the upper half of their numbers.
        stop = min(out.size, row + LANES - (device + row) % LANES)
        name_devices(names, device + row, cohorts[row:stop], symbols[row:stop])
        fill_blocks(key, (device + row) >> 32, names, words, stop - row, ROUNDS)
        pass_symbols(words, symbols[row:stop], threshold, size, out[row:stop])
        row = stop


@kernel
def instantaneous_rows(key: Any, index: Any, symbols: Any, threshold: Any, size: Any, device: Any, out: Any) -> None:
    """The instantaneous channel for consecutive devices from number ``device`` on."""
    names, words = np.zeros(3 * LANES, np.uint32), np.empty(16 * LANES, np.uint32)
    row, held = 0, np.int64(-1)
    while row < out.size:
        number, first = (device + row) // LANES, (device + row) % LANES
        # Tiles 4 i .. 4 i + 3 of LANES devices read the same blocks: make them once.
        if number // SHARE != held:
            held = number // SHARE
            for lane in range(LANES):
                names[lane] = np.uint32((held * LANES + lane) & 0xFFFFFFFF)
                names[LANES + lane] = np.uint32((held * LANES + lane) >> 32)
                names[2 * LANES + lane] = np.uint32(index)
            fill_blocks(key, 0, names, words, LANES, ROUNDS)
        stop = min(out.size, row + LANES - first)
        # Each of the four tiles has its own four words of the blocks, of which three are used.
        mine = words[(number % SHARE) * 4 * LANES + first :]
        pass_symbols(mine, symbols[row:stop], threshold, size, out[row:stop])
        row = stop


def symbol_rows(
    permanent: Keyed, fresh: Keyed, num_symbols: int, index: int, symbols: U32, cohorts: U32, device: int, out: U32
) -> None:
    """Send symbols through both channels: the compiled core of `overstory.kernels.devices.simulate_symbols`."""
    (key, alpha), (fresh_key, fresh_alpha) = permanent, fresh
    out[:] = symbols
    if alpha is not None:
        permanent_rows(key, cohorts, symbols, alpha, num_symbols, device, out)
    if fresh_alpha is not None:
        instantaneous_rows(fresh_key, index, out, fresh_alpha, num_symbols, device, out)
