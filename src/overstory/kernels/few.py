"""Simulated devices by NumPy alone: the cores of `overstory.kernels.devices` while devices are few.

Each function fills ``out`` for consecutive devices from number ``device`` on, as the compiled core of its name does;
there it says which random word is which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.kernels.columns import ONE
from overstory.kernels.random.chacha import LANES, blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]
    U32 = NDArray[np.uint32]
    U64 = NDArray[np.uint64]
    Channel = tuple[int, int]
    Keyed = tuple[U32, int | None]
    """A key, and the probability of keeping a symbol over 2 ** 32."""


def below(low: U32, high: U32, size: Any) -> U32:
    """Return ``(high 2^32 + low) size >> 64`` for sizes up to 2 ** 32: numbers below them, from 64 random bits."""
    many, half = np.asarray(size, np.uint64), np.uint64(32)
    return ((high * many + (low * many >> half)) >> half).astype(np.uint32)


def _numbers(device: int, count: int) -> I64:
    return np.arange(device, device + count, dtype=np.int64)


def cohort_rows(key: U32, num_cohorts: int, device: int, out: NDArray[Any]) -> None:
    """Take ``U num_cohorts >> 64``, U being pair ``device mod 8`` of block ``device // (8 LANES) LANES + lane``."""
    devices = _numbers(device, out.size)
    # Block number device // 8, and which of its eight pairs of words.
    lanes, place = devices // (8 * LANES) * LANES + (devices >> 3) % LANES, devices & 7
    numbers, which = np.unique(lanes, return_inverse=True)
    words = blocks(key, (0, numbers, numbers >> 32, 0), 20)
    out[:] = below(words[2 * place, which], words[2 * place + 1, which], num_cohorts)


def symbol_rows(
    permanent: Keyed, fresh: Keyed, num_symbols: int, index: int, symbols: U32, cohorts: U32, device: int, out: U32
) -> None:
    """Send symbols through both channels."""
    devices, held = _numbers(device, out.size), symbols
    (key, alpha), (fresh_key, fresh_alpha) = permanent, fresh
    if alpha is not None:
        words = blocks(key, (devices >> 32, devices, cohorts, held), 12)
        held = _passed(words[:3], held, alpha, num_symbols)
    if fresh_alpha is not None:
        # Four devices that lie LANES apart share an instantaneous block: words 4 number .. 4 number + 2.
        lanes, number = devices // (4 * LANES) * LANES + devices % LANES, devices // LANES % 4
        words = blocks(fresh_key, (0, lanes, lanes >> 32, index), 12)
        mine = words[4 * number + np.arange(3)[:, None], np.arange(held.size)]
        held = _passed(mine, held, fresh_alpha, num_symbols)
    out[:] = held


def _passed(words: U32, symbols: U32, threshold: int, size: int) -> U32:
    """Send symbols through a channel: kept where the first word is below the threshold, else drawn from the others."""
    stays = words[0] < np.uint64(threshold)
    return np.where(stays, symbols, below(words[1], words[2], size)).astype(np.uint32)


def subset_rows(key: U32, domain_size: int, subset_size: int, inside: int, symbols: U32, device: int, out: U64) -> None:
    """Draw subsets, as packed indicator bits."""
    taken = _members(key, symbols, domain_size, subset_size, inside, device)
    packed = np.zeros((len(out), 8 * out.shape[1]), np.uint8)
    packed[:, : -(-domain_size // 8)] = np.packbits(taken, axis=1, bitorder="little")
    out[:] = packed.view("<u8")


def _members(key: U32, symbols: U32, domain_size: int, subset_size: int, inside: int, device: int) -> NDArray[np.bool_]:
    """Draw subsets by Floyd's sampling: which values are in each, shape (n, d)."""
    devices, rows = _numbers(device, symbols.size), np.arange(symbols.size)
    taken = np.zeros((symbols.size, domain_size), np.bool_)
    words, counts = np.empty((0, 0), np.uint32), np.zeros(0, np.int64)
    for word in range(subset_size + 1):
        if word % 16 == 0:
            words = blocks(key, (word // 16, devices, devices >> 32, symbols), 12)
        drawn = words[word % 16]
        if word == 0:
            # Word 0 decides: inside, the own value takes one place and one draw less is made.
            counts = subset_size - (drawn < np.uint64(inside)).astype(np.int64)
            continue
        # Floyd's sampling: draw from 0 .. last, and take `last` itself if the drawn one is in already.
        last = domain_size - 2 - subset_size + word
        rest = rows[counts >= subset_size - word + 1]
        member = (drawn[rest] * np.uint64(last + 1) >> np.uint64(32)).astype(np.int64)
        taken[rest, np.where(taken[rest, member], last, member)] = True
    lent = taken[rows, symbols]  # the last value took the place of the device's own
    taken[rows, symbols] = False
    taken[:, -1] |= lent
    taken[rows, symbols] |= counts < subset_size
    return taken


def bit_rows(
    positions: NDArray[np.integer[Any]],
    permanent: tuple[U32, Channel | None],
    fresh: tuple[U32, Channel | None],
    num_bits: int,
    index: int,
    symbols: U32,
    cohorts: U32,
    device: int,
    out: U64,
) -> None:
    """Encode symbols as bits and send them through both channels."""
    (key, channel), (fresh_key, fresh_channel), (count, width) = permanent, fresh, out.shape
    held, cohort = symbols.astype(np.int64), cohorts.astype(np.int64)
    # Encode: set each position's bit, then read the bytes as little-endian words.
    bits, places = np.zeros((count, 8 * width), np.uint8), positions[cohort, held].astype(np.int64)
    np.bitwise_or.at(bits, (np.arange(count)[:, None], places >> 3), (1 << (places & 7)).astype(np.uint8))
    reports, devices = bits.view("<u8").astype(np.uint64), _numbers(device, count)
    valid = np.array([(1 << max(0, min(64, num_bits - 64 * i))) - 1 for i in range(width)], np.uint64)
    if channel is not None:
        names = devices, devices >> 32 | cohort << 16, held
        reports = _through(reports, channel, key, lambda _: (names, 0)) & valid
    if fresh_channel is not None:

        def shared(words: int) -> tuple[tuple[Any, Any, Any], Any]:
            # As many devices to a block as its eight words allow (see the kernel's module).
            share = 1
            while share < 8 and 2 * share * words * _digits(fresh_channel) <= 8:
                share *= 2
            lanes = devices // (LANES * share) * LANES + devices % LANES
            return (lanes, lanes >> 32, index), 8 // share * (devices // LANES % share)

        reports = _through(reports, fresh_channel, fresh_key, shared) & valid
    out[:] = reports


def _digits(channel: Channel) -> int:
    """Return how many binary digits of a uniform number can matter: up to the last 1 in either threshold."""
    either = (channel[0] | channel[1]) % ONE
    return 32 - (either & -either).bit_length() + 1 if either else 0


def _through(reports: NDArray[np.uint64], channel: Channel, key: U32, names: Any) -> NDArray[np.uint64]:
    """Send reports through a channel, group of words after group; `names` gives their blocks, and where they begin."""
    out, word, depth = np.empty_like(reports), 0, _digits(channel)
    for group in range(reports.shape[1]):
        if word == reports.shape[1]:
            break
        size = next(size for size in (8, 4, 2, 1) if size <= reports.shape[1] - word)
        name, first = names(size)
        count = -(-size * depth // 8)
        stream = [blocks(key, (32 * group + block, *name), 12) for block in range(count)]
        flat = np.concatenate(stream).astype(np.uint64) if stream else np.empty((0, len(reports)), np.uint64)
        # Digit j of word i of the group is 64-bit word j size + i of the stream.
        uniform = flat[::2] | flat[1::2] << np.uint64(32)
        for i in range(word, word + size):
            at = first + i - word + size * np.arange(depth)[:, None]
            digits = uniform[at, np.arange(len(reports))] if depth else uniform
            one, zero = (_coins(digits, threshold, len(reports)) for threshold in channel)
            out[:, i] = reports[:, i] & one | ~reports[:, i] & zero
        word += size
    return out


def _coins(digits: NDArray[np.uint64], threshold: int, n: int) -> NDArray[np.uint64]:
    """Return words whose bits are 1 where the uniform number with these binary digits is below the threshold."""
    if threshold == ONE:
        return np.full(n, ~np.uint64(0))
    below, undecided = np.zeros(n, np.uint64), np.full(n, ~np.uint64(0))
    for j, digit in enumerate(digits):
        # U < t at the first digit where they differ: there t has a 1 and U a 0.
        if threshold >> (31 - j) & 1:
            below |= undecided & ~digit
            undecided = undecided & digit
        else:
            undecided = undecided & ~digit
    return below
