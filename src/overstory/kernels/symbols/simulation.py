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

from overstory.kernels.bits.simulation import cohort_rows
from overstory.kernels.columns import ONE, check_devices, check_threshold, column
from overstory.kernels.compiled import in_parts, kernel
from overstory.kernels.random.streams import LANES, fill_blocks, key_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROUNDS = 12
SHARE = 4  # devices served by an instantaneous block
SMALLEST = 16 * LANES  # devices worth a thread


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


def simulate_symbols(
    symbols: NDArray[Any],
    cohorts: NDArray[Any],
    num_symbols: int,
    permanent: int | None,
    instantaneous: int | None,
    key: bytes,
    *,
    first_device: int = 0,
    report_index: int = 0,
    threads: int | None = None,
) -> NDArray[np.uint32]:
    """One reported symbol from each of many devices.

    Parameters
    ----------
    symbols : int32[n] or uint32[n]
        Each device's symbol, below ``num_symbols``.
    cohorts : uint32[n]
        Each device's cohort.
    permanent, instantaneous : int or None
        alpha of the two channels over 2 ** 32: the symbol is kept with probability alpha, and any of the k is drawn
        otherwise; None changes nothing.
    key : bytes
        32 bytes; the same key gives the same reports.
    first_device : int
        Number of the first row's device; a device's report does not depend on the rows beside it.
    report_index : int
        Which of the devices' reports.  The permanent symbol does not depend on it.

    Returns
    -------
    uint32[n]

    Examples
    --------
    >>> import numpy as np
    >>> simulate_symbols(np.array([2, 0, 1]), np.zeros(3, np.uint32), 3, None, None, bytes(32))
    array([2, 0, 1], dtype=uint32)
    """
    if not 1 <= num_symbols <= 1 << 31:
        raise ValueError(f"num_symbols must be in 1 .. 2 ** 31, not {num_symbols}")
    symbols = column("symbols", symbols, num_symbols)
    cohorts = column("cohorts", cohorts, ONE, symbols.size)
    check_devices(first_device, symbols.size)
    check_threshold("permanent", ONE if permanent is None else permanent)
    check_threshold("instantaneous", ONE if instantaneous is None else instantaneous)
    if not 0 <= report_index < ONE:
        raise ValueError(f"report_index must be below 2 ** 32, not {report_index}")
    memoized, fresh = key_words(key, b"symperm1"), key_words(key, b"syminst1")
    out = symbols.copy()

    def part(start: int, stop: int) -> None:
        mine, device = out[start:stop], first_device + start
        if permanent is not None:
            whose = cohorts[start:stop], symbols[start:stop]
            permanent_rows(memoized, *whose, permanent, num_symbols, device, mine)
        if instantaneous is not None:
            instantaneous_rows(fresh, report_index, mine, instantaneous, num_symbols, device, mine)

    in_parts(part, symbols.size, threads, smallest=SMALLEST, align=SHARE * LANES)
    return out


def assign_seeds(key: bytes, num_cohorts: int, n: int, first_device: int = 0) -> NDArray[np.uint32]:
    """Return each device's cohort among up to 2 ** 31; see `overstory.kernels.bits.simulation.assign_cohorts`.

    Parameters
    ----------
    key : bytes
        32 bytes.

    Returns
    -------
    uint32[n]
        Each cohort's probability is exact to 2 ** -64.

    Examples
    --------
    >>> int(assign_seeds(bytes(32), 1 << 31, 10).max()) < 1 << 31
    True
    """
    if not 1 <= num_cohorts <= 1 << 31:
        raise ValueError(f"num_cohorts must be in 1 .. 2 ** 31, not {num_cohorts}")
    check_devices(first_device, n)
    out, words = np.empty(n, dtype=np.uint32), key_words(key, b"cohort-1")
    in_parts(
        lambda start, stop: cohort_rows(words, num_cohorts, first_device + start, out[start:stop]),
        n,
        None,
        smallest=64 * LANES,
    )
    return out
