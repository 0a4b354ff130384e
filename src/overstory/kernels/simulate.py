"""Many devices' reports at once: positions of a symbol, permanent channel, instantaneous channel.

**Which random word is which** (the tests hold a plain twin).  The words of a report are split into groups of 8, 4, 2 or 1,
largest first; group ``g`` has ``w`` words.  A stream of ChaCha blocks is read as little-endian 64-bit words: digit ``j`` of word
``i`` of the group is the stream's word number ``j w + i``.  Block ``b`` of a group is ChaCha under the four words

    permanent       32 g + b | device mod 2^32 | device >> 32, + 2^16 cohort | symbol           20 rounds
    instantaneous   32 g + b | column mod 2^32 | column >> 32                | report index     12 rounds

with a key for each of the two, so the permanent words depend on (key, device, symbol, cohort) alone.  ``column`` is the device,
unless the words that the instantaneous thresholds need (digits rounded up to a power of two, times w) are fewer than a block's
eight: then a block serves ``share`` = 8, 4 or 2 devices that lie `LANES` apart:

    column = (device // (LANES share)) LANES + device mod LANES,    first word = 8 / share * (device // LANES mod share)

These streams are for experiments and load: a real device takes its randomness from the operating system.  Twelve rounds are
enough for that (the best attack known reaches seven); the permanent response, which a person's answers repeat, keeps twenty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.kernels.bernoulli import (
    ALL,
    ALWAYS_READ,
    BITS,
    GROUP,
    LESS,
    ONE,
    RESULT,
    ROWS,
    SECTION,
    close_up,
    compare_block,
    digits_needed,
    find_open,
    finish_channel,
    put_away,
    start_channel,
)
from overstory.kernels.compiled import kernel
from overstory.kernels.streams import LANES, fill_blocks, key_words
from overstory.kernels.threads import in_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Channel = tuple[int, int]

MOST_DEVICES = 1 << 48
BLOCKS = 32  # most blocks of a group: 32 digits of 8 words


@kernel
def encode_tile(positions: Any, symbols: Any, cohorts: Any, tile: Any, first_row: Any, word: Any, rows: Any) -> None:
    """Set the bits of each device's symbol in the rows of one group; devices outside the table's rows stay 0."""
    for at in range(rows * LANES):
        tile[BITS * SECTION + at] = 0
    num_symbols, num_hashes, skipped = np.uint64(positions.shape[1]), np.uint64(positions.shape[2]), np.uint64(2 * word)
    flat = positions.reshape(-1)
    start, stop = max(0, -first_row), min(LANES, symbols.size - first_row)
    for lane in range(np.uint64(start), np.uint64(max(start, stop))):  # unsigned: an index needs no test for a negative one
        device = np.uint64(first_row + np.int64(lane))
        entry = (np.uint64(cohorts[device]) * num_symbols + np.uint64(symbols[device])) * num_hashes
        for i in range(num_hashes):
            position = np.uint64(flat[entry + i])
            row = (position >> np.uint64(5)) - skipped  # below `rows`, or of another group (wrapped round if of an earlier one)
            if row < np.uint64(rows):
                tile[row * np.uint64(LANES) + lane] |= np.uint32(1) << np.uint32(position & np.uint64(31))


@kernel
def name_permanent(names: Any, symbols: Any, cohorts: Any, first_row: Any, device: Any) -> None:
    """Name the permanent blocks of a tile: device, cohort, symbol."""
    start, stop = max(0, -first_row), min(LANES, symbols.size - first_row)
    those, whose = symbols[first_row + start : first_row + stop], cohorts[first_row + start : first_row + stop]
    for lane in range(stop - start):
        names[start + lane] = np.uint32(device + start + lane)
        names[LANES + start + lane] = np.uint32((device + start + lane) >> 32) | (np.uint32(whose[lane]) << np.uint32(16))
        names[2 * LANES + start + lane] = np.uint32(those[lane])


@kernel
def name_instantaneous(names: Any, column: Any, report_index: Any) -> None:
    """Name the instantaneous blocks of a tile: column, report index."""
    for lane in range(LANES):
        names[lane] = (column + lane) & 0xFFFFFFFF
        names[LANES + lane] = (column + lane) >> 32
        names[2 * LANES + lane] = report_index


@kernel
def apply_channel(
    key: Any, rounds: Any, thresholds: Any, digits: Any, depth: Any, group: Any, rows: Any, valid: Any, names: Any, words: Any, first: Any,
    filled: Any, tile: Any, is_open: Any, origin: Any, kept: Any,
) -> None:
    """Send a tile's bits through one channel, computing as few blocks as decide every bit.

    ``digits`` holds both thresholds' digits (see `compare_block`), ``depth`` how many matter; ``filled`` says that ``words``
    already holds the first block, which begins at row ``first``.
    """
    start_channel(tile, rows, valid, thresholds[0], thresholds[1])
    for lane in range(LANES):
        origin[lane] = lane
    lanes, closed_up = LANES, False
    digit, block = 0, 0
    while digit < depth:
        if block > 0 or not filled:
            fill_blocks(key, group * BLOCKS + block, names, words, lanes, rounds)
        count = min(ROWS // rows, depth - digit)
        compare_block(words, first * LANES, digits[2 * digit :], count, tile, rows, lanes)
        digit, block = digit + count, block + 1
        if ALWAYS_READ <= digit < depth:
            still_open = find_open(tile, is_open, kept, rows, lanes)
            if still_open <= lanes - lanes // 8:
                put_away(tile, origin, rows, lanes)
                close_up(tile, names, origin, kept, rows, still_open)
                lanes, closed_up = still_open, True
            if still_open == 0:
                break
    if closed_up:
        put_away(tile, origin, rows, lanes)
    finish_channel(tile, rows, RESULT if closed_up else LESS)


@kernel
def join(tile: Any, row: Any, lane: Any) -> Any:
    """One word of a report from its two halves."""
    low, high = np.uint64(tile[row * LANES + lane]), np.uint64(tile[row * LANES + LANES + lane])
    return low | (high << np.uint64(32))


@kernel
def write_tile(tile: Any, out: Any, first_row: Any, word: Any, rows: Any) -> None:
    """Turn a tile's columns into rows of packed reports; with one or two words LLVM does so by the vector."""
    start, stop, words = max(0, -first_row), min(LANES, out.shape[0] - first_row), out.shape[1]
    if words == 2:
        pairs = out[first_row + start : first_row + stop].reshape(-1)
        for lane in range(stop - start):
            pairs[2 * lane], pairs[2 * lane + 1] = join(tile, 0, start + lane), join(tile, 2, start + lane)
        return
    flat = out.reshape(-1)
    for row in range(0, rows, 2):
        for lane in range(start, stop):
            flat[(first_row + lane) * words + word + (row >> 1)] = join(tile, row, lane)


@kernel
def simulate_rows(
    positions: Any, symbols: Any, cohorts: Any, keys: Any, thresholds: Any, digits: Any, depths: Any, present: Any, valid: Any, device: Any,
    report_index: Any, out: Any,
) -> None:
    """Fill ``out`` for consecutive devices from number ``device`` on; every array's row 0 is that device's."""
    names, origin, is_open = np.zeros(3 * LANES, np.uint32), np.empty(LANES, np.uint64), np.empty(LANES, np.uint32)
    kept = np.empty(LANES + 1, np.uint64)
    tile = np.empty(4 * SECTION, np.uint32)
    permanent_words, instantaneous_words = np.empty(16 * LANES, np.uint32), np.empty(16 * LANES, np.uint32)
    group, word = 0, 0
    while word < out.shape[1]:
        size = GROUP
        while size > out.shape[1] - word:
            size //= 2
        share, slot_rows = 1, ROWS
        while slot_rows > 2 and size * depths[1] <= slot_rows // 4:
            share, slot_rows = 2 * share, slot_rows // 2
        rows, inside = 2 * size, valid[2 * word :]
        filled = np.int64(-1)
        for number in range(device // LANES, (device + out.shape[0] - 1) // LANES + 1):
            first_row = number * LANES - device
            encode_tile(positions, symbols, cohorts, tile, first_row, word, rows)
            if present[0]:
                name_permanent(names, symbols, cohorts, first_row, number * LANES)
                apply_channel(keys[0], 20, thresholds[0], digits[0], depths[0], group, rows, inside, names, permanent_words, 0, False, tile, is_open, origin, kept)
            if present[1]:
                shared = number // share
                name_instantaneous(names, shared * LANES, report_index)
                apply_channel(
                    keys[1], 12, thresholds[1], digits[1], depths[1], group, rows, inside, names, instantaneous_words,
                    number % share * slot_rows, share > 1 and filled == shared, tile, is_open, origin, kept,
                )
                filled = shared
            write_tile(tile, out, first_row, word, rows)
        group, word = group + 1, word + size


def _digit_table(channel: Channel) -> NDArray[np.uint32]:
    """Each digit of ``raise_zero``, and where ``keep_one`` has another, in every place of a word; zeros past the last."""
    keep_one, raise_zero = (threshold % ONE for threshold in channel)
    table = np.zeros(2 * (32 + GROUP), dtype=np.uint32)
    for j in range(32):
        zero, one = (raise_zero >> (31 - j)) & 1, (keep_one >> (31 - j)) & 1
        table[2 * j], table[2 * j + 1] = ALL * zero, ALL * (zero ^ one)
    return table


def _checked(positions: NDArray[Any], symbols: NDArray[Any], cohorts: NDArray[Any], num_bits: int) -> None:
    """Refuse what would read or write outside an array."""
    if positions.ndim != 3 or positions.dtype.kind not in "iu":
        raise ValueError(f"positions must be integers of shape (cohorts, symbols, hashes), not {positions.dtype} {positions.shape}")
    if symbols.ndim != 1 or symbols.shape != cohorts.shape:
        raise ValueError(f"symbols {symbols.shape} and cohorts {cohorts.shape} must be columns of one length")
    for name, values, limit in (
        ("positions", positions, num_bits),
        ("symbols", symbols, positions.shape[1]),
        ("cohorts", cohorts, positions.shape[0]),
    ):
        unsigned = values.view(f"u{values.dtype.itemsize}")  # a negative number is a very large one: one pass tests both ends
        if values.size and int(unsigned.max()) >= limit:
            raise ValueError(f"{name} must be in 0 .. {limit - 1}, not {int(values.min())} .. {int(values.max())}")


def _channels(channels: tuple[Channel | None, Channel | None]) -> tuple[Any, ...]:
    """What the kernel needs of the two channels: thresholds, digits, depths, which are present."""
    filled = [channel or (ONE, 0) for channel in channels]
    if not all(0 <= threshold <= ONE for channel in filled for threshold in channel):
        raise ValueError(f"thresholds must be in 0 .. 2 ** 32, not {filled}")
    return (
        np.array(filled, dtype=np.int64),
        np.stack([_digit_table(channel) for channel in filled]),
        np.array([digits_needed(*channel) for channel in filled], dtype=np.int64),
        np.array([channel is not None for channel in channels]),
    )


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
    threads: int | None = None,
    out: NDArray[np.uint64] | None = None,
) -> NDArray[np.uint64]:
    """One report from each of many devices.

    Parameters
    ----------
    positions : integer array of shape (num_cohorts, num_symbols, num_hashes)
        The bits that a symbol sets in a cohort; one-hot is one cohort and one hash.
    symbols : int32[n]
        Each device's symbol.
    cohorts : uint16[n]
        Each device's cohort.
    permanent, instantaneous : (keep_one, raise_zero) or None
        Thresholds of the two channels, 0 to 2 ** 32 for probabilities 0 to 1; None changes nothing.
    key : bytes
        32 bytes; the same key gives the same reports.
    num_bits : int
        Bits of a report.
    first_device : int
        Number of the first row's device.  Each device's randomness is its own: a device gets the same report in whatever rows
        it is computed with.
    report_index : int
        Which of the devices' reports.  The permanent response does not depend on it.
    threads : int, optional
        The most threads; as many as there are cores unless given.
    out : uint64[n, words], optional
        Where to write; made unless given.

    Returns
    -------
    uint64[n, words]
        Packed reports (see docs/architecture.md).

    Examples
    --------
    >>> import numpy as np
    >>> one_hot = np.arange(3, dtype=np.uint16).reshape(1, 3, 1)
    >>> symbols, cohorts = np.array([2, 0], dtype=np.int32), np.zeros(2, dtype=np.uint16)
    >>> simulate_bits(one_hot, symbols, cohorts, None, None, bytes(32), num_bits=3)
    array([[4],
           [1]], dtype=uint64)
    """
    symbols, cohorts = np.ascontiguousarray(symbols, np.int32), np.ascontiguousarray(cohorts, np.uint16)
    _checked(positions, symbols, cohorts, num_bits)
    if not (0 <= first_device and first_device + symbols.size <= MOST_DEVICES and 0 <= report_index < ONE):
        raise ValueError(f"device numbers must be below 2 ** 48 and report_index below 2 ** 32, not {first_device}, {report_index}")
    words = -(-num_bits // 64)
    if out is None:
        out = np.empty((symbols.size, words), dtype=np.uint64)
    elif out.shape != (symbols.size, words) or out.dtype != np.uint64 or not out.flags.c_contiguous:
        raise ValueError(f"out must be a C-contiguous uint64 array of shape {(symbols.size, words)}, not {out.dtype} {out.shape}")
    keys = np.stack([key_words(key, b"perm-v1"), key_words(key, b"inst-v1")])
    thresholds, digits, depths, present = _channels((permanent, instantaneous))
    valid = np.array([(1 << max(0, min(32, num_bits - 32 * row))) - 1 for row in range(2 * words)], dtype=np.uint32)
    table = np.ascontiguousarray(positions)

    def part(start: int, stop: int) -> None:
        rows = slice(start, stop)
        simulate_rows(
            table, symbols[rows], cohorts[rows], keys, thresholds, digits, depths, present, valid, first_device + start, report_index, out[rows]
        )

    in_parts(part, symbols.size, threads, smallest=16 * LANES, align=8 * LANES)
    return out


@kernel
def cohort_rows(key: Any, num_cohorts: Any, device: Any, out: Any) -> None:
    """``cohort = (U num_cohorts) >> 64`` for 64 random bits U: word ``device mod 8`` of block ``device // 8``."""
    names, words = np.zeros(3 * LANES, np.uint32), np.empty(16 * LANES, np.uint32)
    span = 8 * LANES
    for number in range(device // span, (device + out.size - 1) // span + 1):
        name_instantaneous(names, number * LANES, 0)
        fill_blocks(key, 0, names, words, LANES, 20)
        for row in range(max(number * span, device), min(number * span + span, device + out.size)):
            at = (row & 7) * 2 * LANES + ((row >> 3) & (LANES - 1))
            low, high = np.uint64(words[at]), np.uint64(words[at + LANES])
            many = np.uint64(num_cohorts)
            out[row - device] = (high * many + ((low * many) >> np.uint64(32))) >> np.uint64(32)


def assign_cohorts(key: bytes, num_cohorts: int, n: int, first_device: int = 0) -> NDArray[np.uint16]:
    """Cohort of each of ``n`` devices, a function of (key, device); each cohort's probability is exact to 2 ** -64.

    Parameters
    ----------
    key : bytes
        32 bytes.
    num_cohorts : int
        1 to 65,536.
    n, first_device : int
        How many devices, and the first one's number.

    Returns
    -------
    uint16[n]
    """
    if not 1 <= num_cohorts <= 1 << 16:
        raise ValueError(f"num_cohorts must be in 1 .. 65536, not {num_cohorts}")
    if not (0 <= first_device and 0 <= n and first_device + n <= MOST_DEVICES):
        raise ValueError(f"device numbers must be below 2 ** 48, not {first_device} .. {first_device + n}")
    out = np.empty(n, dtype=np.uint16)
    words = key_words(key, b"cohort-1")
    in_parts(
        lambda start, stop: cohort_rows(words, num_cohorts, first_device + start, out[start:stop]), n, None, smallest=64 * LANES
    )
    return out
