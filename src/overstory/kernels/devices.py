"""Simulated devices, many at once: reports of bits, symbols and subsets, and cohorts.

**Which random word is which.** A row begins at a 64-bit word that is a hash of a 256-bit key, of what is drawn, and of
the numbers that the randomness belongs to (device, cohort and symbol for a permanent response; device and the report's
number for an instantaneous one); from there SplitMix64 counts (Steele, Lea, Flood, "Fast splittable pseudorandom number
generators", 2014). So any row can be drawn alone, and a device that holds a value again gives the same response again.

What these functions are given is checked by what calls them: an oracle, which simulates or holds values. The streams
are for experiments and load: a real device takes its randomness from the operating system, and derives its permanent
responses by BLAKE2b.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.kernels.columns import ONE
from overstory.kernels.threads import in_parts

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    I64 = NDArray[np.int64]
    U64 = NDArray[np.uint64]
    Channel = tuple[int, int]

ROWS: Final = 1 << 14  # devices that are drawn at a time: what they need stays in the cache
CELLS: Final = 1 << 24  # cells of a table of devices and values that are drawn at a time
GOLDEN, HALF, LOW = np.uint64(0x9E3779B97F4A7C15), np.uint64(32), np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class StreamKey:
    """Which random stream a simulated report takes: with the value it decides the report."""

    key: bytes
    first_device: int = 0  # of the first row; a report does not depend on the rows that it is computed with
    report_index: int = 0  # a permanent response does not depend on it

    def __post_init__(self) -> None:
        if len(self.key) != 32:
            raise ValueError(f"key must be 32 bytes, not {len(self.key)}")
        if not 0 <= self.report_index < ONE:
            raise ValueError(f"report_index must be below 2 ** 32, not {self.report_index}")
        if self.first_device < 0:
            raise ValueError(f"the first device has a number from 0 on, not {self.first_device}")


def mix(words: U64) -> U64:
    """Return SplitMix64's finalizer of each word."""
    z = words >> np.uint64(30)
    z ^= words
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def stream_starts(key: bytes, domain: bytes, *names: NDArray[Any] | int) -> U64:
    """Return where each row's stream begins, by up to four numbers; ``domain``, at most 8 bytes, says what is drawn."""
    starts = np.frombuffer(hashlib.blake2s(key=key, person=domain).digest(), "<u8")
    state = np.zeros(np.shape(names[0]), np.uint64)
    for name, start in zip(names, starts, strict=False):
        state = mix((state ^ np.asarray(name).astype(np.uint64)) + start)
    return state


def stream_words(starts: U64, numbers: ArrayLike) -> U64:
    """Return words number `numbers`, from 0 on, of the streams."""
    return mix(starts + (np.atleast_1d(np.asarray(numbers, np.uint64)) + np.uint64(1)) * GOLDEN)


def below(words: U64, size: ArrayLike) -> U64:
    """Return ``words size >> 64`` for sizes up to 2 ** 32: numbers below them, from 64 random bits."""
    many = np.asarray(size, np.uint64)
    return ((words >> HALF) * many + ((words & LOW) * many >> HALF)) >> HALF


def in_tiles(draw: Callable[[slice, I64], None], stream: StreamKey, count: int, cells: int = 1) -> None:
    """Call ``draw(rows, devices)`` for some rows at a time, of so many cells each, and the numbers of their devices."""
    most = max(1, min(ROWS, CELLS // cells))

    def part(start: int, stop: int) -> None:
        for at in range(start, stop, most):
            end = min(at + most, stop)
            draw(slice(at, end), np.arange(stream.first_device + at, stream.first_device + end, dtype=np.int64))

    in_parts(part, count, smallest=most)


def assign_cohorts(stream: StreamKey, num_cohorts: int, n: int) -> NDArray[Any]:
    """Cohort of each of ``n`` devices, a function of (key, device); each cohort's probability is exact to 2 ** -64."""
    out: NDArray[Any] = np.empty(n, np.uint16 if num_cohorts <= 1 << 16 else np.uint32)

    def draw(rows: slice, devices: I64) -> None:
        out[rows] = below(stream_words(stream_starts(stream.key, b"cohort-1", devices), 0), num_cohorts)

    in_tiles(draw, stream, n)
    return out


def simulate_bits(
    positions: NDArray[Any],  # (num_cohorts, num_symbols, num_hashes): the bits of a symbol; one-hot is 1, d, 1
    symbols: NDArray[np.int32],
    cohorts: NDArray[np.uint16],
    permanent: Channel | None,  # thresholds over 2 ** 32 for a 1 and a 0; None changes nothing
    instantaneous: Channel | None,
    stream: StreamKey,
    *,
    num_bits: int,
) -> NDArray[np.uint64]:
    """One packed report from each of many devices, the same for a key whatever rows it is computed with."""
    shape = symbols.size, -(-num_bits // 64)
    out = np.empty(shape, np.uint64)
    valid = np.array([[(1 << max(0, min(64, num_bits - 64 * word))) - 1] for word in range(shape[1])], np.uint64)

    def draw(rows: slice, devices: I64) -> None:
        cohort, symbol = cohorts[rows], symbols[rows]
        reports = _encoded(positions[cohort, symbol].astype(np.int64), shape[1])
        if permanent is not None:
            reports = _through(
                reports, permanent, valid, stream_starts(stream.key, b"perm-v1", devices, cohort, symbol)
            )
        if instantaneous is not None:
            starts = stream_starts(stream.key, b"inst-v1", devices, stream.report_index)
            reports = _through(reports, instantaneous, valid, starts)
        out[rows] = reports.T

    in_tiles(draw, stream, symbols.size)
    return out


def _encoded(places: I64, words: int) -> U64:
    """Return reports in which each device's places are set, shape (words, n): a row of words is quick to work on."""
    reports, devices = np.zeros((words, len(places)), np.uint64), np.arange(len(places))
    for place in places.T:
        reports[place >> 6, devices] |= np.uint64(1) << (place & 63).astype(np.uint64)
    return reports


def _through(reports: U64, channel: Channel, valid: U64, starts: U64) -> U64:
    """Send bits through a channel: each is 1 if and only if a uniform number of its own is below its threshold."""
    (keep_one, raise_zero), none = channel, np.zeros_like(reports)
    less, undecided = (
        ((reports if one else none) | (~reports if zero else none)) & valid
        for one, zero in ((keep_one == ONE, raise_zero == ONE), (0 < keep_one < ONE, 0 < raise_zero < ONE))
    )
    out, device, words = np.empty_like(reports), np.arange(starts.size), len(reports)
    # U < t is decided at the first digit in which they differ: no more are drawn than decide every bit.
    for digit in range(_digits(channel)):
        uniform = stream_words(starts, np.arange(digit * words, (digit + 1) * words)[:, None])
        one, zero = (threshold >> (31 - digit) & 1 for threshold in channel)
        if one == zero:  # all thresholds have this digit
            if one:
                less |= undecided & ~uniform
            undecided &= uniform if one else ~uniform
        else:
            mine = reports if one else ~reports
            less |= undecided & mine & ~uniform
            undecided &= ~(mine ^ uniform)
        is_open = np.flatnonzero(np.bitwise_or.reduce(undecided, axis=0))
        if 4 * is_open.size < 3 * device.size:  # leave out the devices that are decided
            _write(less, device, out)
            reports, less, undecided = (each.take(is_open, axis=1) for each in (reports, less, undecided))
            device, starts = device.take(is_open), starts.take(is_open)
    _write(less, device, out)
    return out


def _write(columns: U64, places: NDArray[np.intp], out: U64) -> None:
    for target, row in zip(out, columns, strict=True):
        target[places] = row


def _digits(channel: Channel) -> int:
    """Return how many binary digits of a uniform number can matter: up to the last 1 in either threshold."""
    either = (channel[0] | channel[1]) % ONE
    return 32 - (either & -either).bit_length() + 1 if either else 0


def simulate_symbols(
    symbols: NDArray[Any],
    cohorts: NDArray[Any],
    num_symbols: int,
    permanent: int | None,  # kept with this probability over 2 ** 32, otherwise any is drawn; None changes nothing
    instantaneous: int | None,
    stream: StreamKey,
) -> NDArray[np.uint32]:
    """One reported symbol from each of many devices; a device's report does not depend on the rows around it."""
    out = symbols.astype(np.uint32)

    def draw(rows: slice, devices: I64) -> None:
        if permanent is not None:
            starts = stream_starts(stream.key, b"symperm1", devices, cohorts[rows], symbols[rows])
            out[rows] = _passed(out[rows], permanent, num_symbols, starts)
        if instantaneous is not None:
            starts = stream_starts(stream.key, b"syminst1", devices, stream.report_index)
            out[rows] = _passed(out[rows], instantaneous, num_symbols, starts)

    in_tiles(draw, stream, out.size)
    return out


def _passed(symbols: NDArray[np.uint32], alpha: int, size: int, starts: U64) -> U64:
    """Send symbols through a channel: kept where the first word is below alpha, else drawn from all by the second."""
    kept = stream_words(starts, 0) >> HALF < np.uint64(alpha)
    return np.where(kept, symbols, below(stream_words(starts, 1), size))


def simulate_subsets(
    symbols: NDArray[Any],
    domain_size: int,
    subset_size: int,
    inside: int,
    stream: StreamKey,
) -> NDArray[np.uint64]:
    """One subset from each of many devices, packed; a device's subset does not depend on the rows around it."""
    out = np.zeros((symbols.size, -(-domain_size // 64)), np.uint64)
    octets = out.view(np.uint8)

    def draw(rows: slice, devices: I64) -> None:
        held = symbols[rows].astype(np.int64)
        starts = stream_starts(stream.key, b"subsets1", devices, held)
        is_inside = stream_words(starts, 0) >> HALF < np.uint64(inside)
        members = _members(held, domain_size, subset_size - is_inside.astype(np.int64), subset_size, starts)
        members[np.arange(held.size), held] |= is_inside
        octets[rows, : -(-domain_size // 8)] = np.packbits(members, axis=1, bitorder="little")

    in_tiles(draw, stream, symbols.size, domain_size)
    return out.astype("<u8", copy=False)


def _members(held: I64, domain_size: int, counts: I64, most: int, starts: U64) -> NDArray[np.bool_]:
    """Draw `counts`, `most` or one less, of the other values for each device: which are taken, shape (n, d)."""
    taken, all_rows = np.zeros((held.size, domain_size), np.bool_), np.arange(held.size)
    # Floyd's sampling (Bentley, Floyd, "A sample of brilliance", CACM 30(9), 1987): every set is equally likely.
    for draw in range(1, most + 1):
        last, rows = domain_size - 2 - most + draw, all_rows[counts >= most - draw + 1]
        member = below(stream_words(starts[rows], draw), last + 1).astype(np.int64)
        taken[rows, np.where(taken[rows, member], last, member)] = True
    # The last value stands in for the device's own.
    lent = taken[all_rows, held]
    taken[all_rows, held] = False
    taken[:, -1] |= lent
    return taken
