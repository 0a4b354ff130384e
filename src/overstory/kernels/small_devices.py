"""Simulated devices by NumPy alone while they are few, by compiled kernels once they are many: the same reports.

Loading the compiler takes half a second to two, in which NumPy draws for a hundred thousand devices. Devices come in
batches, so what counts is how much this process has drawn so far. Each function here takes and returns what the kernel
of its name does, and says there which random word is which.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.kernels.columns import MOST_DEVICES, ONE, check_devices, check_threshold, column, set_column
from overstory.kernels.random.chacha import LANES, blocks, key_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    U32 = NDArray[np.uint32]
    Channel = tuple[int, int]

PATIENCE: Final = 1 << 18
"""Blocks that a process draws by NumPy (about a quarter of a second) before it loads the kernels."""
COMPILER: Final = "overstory.kernels.compiled"
ROWS: Final = 1 << 12
"""Devices that are drawn at a time: what they need stays in the cache."""

_drawn_slowly = 0


def are_few(count: int) -> bool:
    """Whether so many blocks are to be drawn by NumPy; if so they are counted."""
    global _drawn_slowly  # noqa: PLW0603 - a tally of the process
    if COMPILER in sys.modules or _drawn_slowly + count > PATIENCE:
        return False
    _drawn_slowly += count
    return True


def assign_cohorts(key: bytes, num_cohorts: int, n: int, first_device: int = 0) -> NDArray[np.uint16]:
    """Return the cohort of each of ``n`` devices; see `overstory.kernels.bits.simulation.assign_cohorts`."""
    if num_cohorts == 1 and first_device == 0 <= n <= MOST_DEVICES and len(key) == 32:
        return np.zeros(n, np.uint16)
    if 1 <= num_cohorts <= 1 << 16 and _are_devices(first_device, n) and are_few(n // 8 + 1):
        return _cohorts(key, num_cohorts, n, first_device).astype(np.uint16)
    from overstory.kernels.bits import simulation

    return simulation.assign_cohorts(key, num_cohorts, n, first_device)


def assign_seeds(key: bytes, num_cohorts: int, n: int, first_device: int = 0) -> U32:
    """Return each device's cohort among up to 2 ** 31; see `overstory.kernels.symbols.simulation.assign_seeds`."""
    if 1 <= num_cohorts <= 1 << 31 and _are_devices(first_device, n) and are_few(n // 8 + 1):
        return _cohorts(key, num_cohorts, n, first_device)
    from overstory.kernels.symbols import simulation as symbols

    return symbols.assign_seeds(key, num_cohorts, n, first_device)


def _are_devices(first: int, n: int) -> bool:
    return first >= 0 <= n and first + n <= MOST_DEVICES


def _cohorts(key: bytes, num_cohorts: int, n: int, first_device: int) -> U32:
    """Take ``U num_cohorts >> 64``, U being pair ``device mod 8`` of block ``device // (8 LANES) LANES + lane``."""
    devices = np.arange(first_device, first_device + n, dtype=np.int64)
    # Block number device // 8, and which of its eight pairs of words.
    lanes, place = devices // (8 * LANES) * LANES + (devices >> 3) % LANES, devices & 7
    numbers, which = np.unique(lanes, return_inverse=True)
    words = blocks(key_words(key, b"cohort-1"), (0, numbers, numbers >> 32, 0), 20)
    return below(words[2 * place, which], words[2 * place + 1, which], num_cohorts)


def below(low: U32, high: U32, size: Any) -> U32:
    """Return ``(high 2^32 + low) size >> 64`` for sizes up to 2 ** 32: numbers below them, from 64 random bits."""
    many, half = np.asarray(size, np.uint64), np.uint64(32)
    return ((high * many + (low * many >> half)) >> half).astype(np.uint32)


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
) -> U32:
    """Return each device's reported symbol; see `overstory.kernels.symbols.simulation.simulate_symbols`."""
    channels = sum(channel is not None for channel in (permanent, instantaneous))
    if not are_few(channels * len(symbols)):
        from overstory.kernels.symbols import simulation as compiled

        given = (symbols, cohorts, num_symbols, permanent, instantaneous, key)
        return compiled.simulate_symbols(*given, first_device=first_device, report_index=report_index)
    held = column("symbols", symbols, num_symbols)
    cohorts = column("cohorts", cohorts, ONE, held.size)
    check_devices(first_device, held.size)
    for name, threshold in (("permanent", permanent), ("instantaneous", instantaneous)):
        check_threshold(name, ONE if threshold is None else threshold)
    devices = np.arange(first_device, first_device + held.size, dtype=np.int64)
    if permanent is not None:
        words = blocks(key_words(key, b"symperm1"), (devices >> 32, devices, cohorts, held), 12)
        held = _passed(words[:3], held, permanent, num_symbols)
    if instantaneous is not None:
        # Four devices that lie LANES apart share an instantaneous block: words 4 number .. 4 number + 2.
        lanes, number = devices // (4 * LANES) * LANES + devices % LANES, devices // LANES % 4
        words = blocks(key_words(key, b"syminst1"), (0, lanes, lanes >> 32, report_index), 12)
        mine = words[4 * number + np.arange(3)[:, None], np.arange(held.size)]
        held = _passed(mine, held, instantaneous, num_symbols)
    return held.copy()


def _passed(words: U32, symbols: U32, threshold: int, size: int) -> U32:
    """Send symbols through a channel: kept where the first word is below the threshold, else drawn from the others."""
    kept = words[0] < np.uint64(threshold)
    return np.where(kept, symbols, below(words[1], words[2], size)).astype(np.uint32)


def simulate_subsets(
    symbols: NDArray[Any], domain_size: int, subset_size: int, inside: int, key: bytes, *, first_device: int = 0
) -> NDArray[np.uint64]:
    """Return one subset from each of many devices; see `overstory.kernels.sets.subsets.simulate_subsets`."""
    if not 1 <= subset_size < domain_size or not are_few(len(symbols) * (subset_size // 16 + 1 + domain_size // 64)):
        from overstory.kernels.sets import subsets

        return subsets.simulate_subsets(symbols, domain_size, subset_size, inside, key, first_device=first_device)
    held, derived = set_column(symbols, domain_size, inside, first_device), key_words(key, b"subsets1")
    width = -(-domain_size // 64)
    out = np.zeros((held.size, 8 * width), np.uint8)
    for start in range(0, held.size, ROWS):
        rows = held[start : start + ROWS]
        taken = _members(derived, rows, domain_size, subset_size, inside, first_device + start)
        packed = np.packbits(taken, axis=1, bitorder="little")
        out[start : start + ROWS, : packed.shape[1]] = packed
    return out.view("<u8").astype(np.uint64)


def _members(
    key: U32, symbols: U32, domain_size: int, subset_size: int, inside: int, first_device: int
) -> NDArray[np.bool_]:
    """Draw subsets by Floyd's sampling: which values are in each, shape (n, d)."""
    devices, rows = first_device + np.arange(symbols.size, dtype=np.int64), np.arange(symbols.size)
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
        those = rows[counts >= subset_size - word + 1]
        member = (drawn[those] * np.uint64(last + 1) >> np.uint64(32)).astype(np.int64)
        taken[those, np.where(taken[those, member], last, member)] = True
    lent = taken[rows, symbols]  # the last value took the place of the device's own
    taken[rows, symbols] = False
    taken[:, -1] |= lent
    taken[rows, symbols] |= counts < subset_size
    return taken


def simulate_bits(
    positions: NDArray[Any],
    symbols: NDArray[np.int32],
    cohorts: NDArray[np.uint16],
    permanent: Channel | None,
    instantaneous: Channel | None,
    key: bytes,
    *,
    num_bits: int,
    first_device: int = 0,
    report_index: int = 0,
) -> NDArray[np.uint64]:
    """Return one report from each of many devices; see `overstory.kernels.bits.simulation.simulate_bits`."""
    channels = sum(channel is not None for channel in (permanent, instantaneous))
    if not are_few(channels * len(symbols) * (1 + num_bits // 16)):
        from overstory.kernels.bits import simulation

        given = (positions, symbols, cohorts, permanent, instantaneous, key)
        return simulation.simulate_bits(*given, num_bits=num_bits, first_device=first_device, report_index=report_index)
    held = column("symbols", symbols, positions.shape[1]).astype(np.int64)
    whose = column("cohorts", cohorts, positions.shape[0], held.size).astype(np.int64)
    check_devices(first_device, held.size)
    bits = np.zeros((held.size, 8 * -(-num_bits // 64)), np.uint8)
    rows = np.arange(held.size)[:, None]
    # Encode: set each position's bit, then read the bytes as little-endian words.
    at = positions[whose, held].astype(np.int64)
    np.bitwise_or.at(bits, (rows, at >> 3), (1 << (at & 7)).astype(np.uint8))
    reports = bits.view("<u8").astype(np.uint64)
    devices = np.arange(first_device, first_device + held.size, dtype=np.int64)
    valid = np.array([(1 << max(0, min(64, num_bits - 64 * i))) - 1 for i in range(reports.shape[1])], np.uint64)
    if permanent is not None:
        names = devices, devices >> 32 | whose << 16, held
        reports = _through(reports, permanent, key_words(key, b"perm-v1"), lambda _: (names, 0)) & valid
    if instantaneous is not None:

        def fresh(words: int) -> tuple[tuple[Any, Any, Any], Any]:
            # As many devices to a block as its eight words allow (see the kernel's module).
            share = 1
            while share < 8 and 2 * share * words * _digits(instantaneous) <= 8:
                share *= 2
            lanes = devices // (LANES * share) * LANES + devices % LANES
            return (lanes, lanes >> 32, report_index), 8 // share * (devices // LANES % share)

        reports = _through(reports, instantaneous, key_words(key, b"inst-v1"), fresh) & valid
    return reports


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
        size = next(one for one in (8, 4, 2, 1) if one <= reports.shape[1] - word)
        those, first = names(size)
        count = -(-size * depth // 8)
        stream = [blocks(key, (32 * group + block, *those), 12) for block in range(count)]
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
