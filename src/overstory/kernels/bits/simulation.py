"""Reports of bits by the tile: positions of a symbol, permanent channel, instantaneous channel.

**Which random word is which** (the tests hold a plain twin).  The words of a report are split into groups of 8, 4, 2
or 1, largest first; group ``g`` has ``w`` words.  A stream of ChaCha blocks is read as little-endian 64-bit words:
digit ``j`` of word ``i`` of the group is the stream's word number ``j w + i``.  Block ``b`` of a group is ChaCha
under the four words

    permanent       32 g + b | device mod 2^32 | device >> 32, + 2^16 cohort | symbol
    instantaneous   32 g + b | column mod 2^32 | column >> 32                | report index

of 12 rounds, with a key for each of the two, so the permanent words depend on (key, device, symbol, cohort) alone.
``column`` is the device, unless the words that the instantaneous thresholds need (digits rounded up to a power of two,
times w) are fewer than a block's eight: then a block serves ``share`` = 8, 4 or 2 devices that lie `LANES` apart:

    column = (device // (LANES share)) LANES + device mod LANES,    first word = 8 / share * (device // LANES mod share)

These streams are for experiments and load: a real device takes its randomness from the operating system, and derives
its permanent responses by BLAKE2b. Twelve rounds are enough for that (the best attack known reaches seven).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.kernels.compiled import kernel
from overstory.kernels.random.bernoulli import (
    ALL,
    ALWAYS_READ,
    BITS,
    GROUP,
    LESS,
    ONE,
    RESULT,
    ROWS,
    SECTION,
    compact_lanes,
    compare_block,
    digits_needed,
    find_open,
    finish_channel,
    start_channel,
    store_results,
)
from overstory.kernels.random.streams import LANES, fill_blocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    U32 = NDArray[np.uint32]
    Channel = tuple[int, int]

BLOCKS = 32  # most blocks of a group: 32 digits of 8 words
ROUNDS = 12


@kernel
def encode_tile(positions: Any, symbols: Any, cohorts: Any, tile: Any, first_row: Any, word: Any, rows: Any) -> None:
    """Set the bits of each device's symbol in the rows of one group; devices outside the table's rows stay 0."""
    for at in range(rows * LANES):
        tile[BITS * SECTION + at] = 0
    num_symbols, num_hashes, skipped = np.uint64(positions.shape[1]), np.uint64(positions.shape[2]), np.uint64(2 * word)
    flat = positions.reshape(-1)
    start, stop = max(0, -first_row), min(LANES, symbols.size - first_row)
    # Unsigned, an index needs no test for a negative one.
    for lane in range(np.uint64(start), np.uint64(max(start, stop))):
        device = np.uint64(first_row + np.int64(lane))
        # positions[cohort, symbol, 0] of the flat table.
        entry = (np.uint64(cohorts[device]) * num_symbols + np.uint64(symbols[device])) * num_hashes
        for i in range(num_hashes):
            position = np.uint64(flat[entry + i])
            row = (position >> np.uint64(5)) - skipped
            if row < np.uint64(rows):  # else of a later group, or of an earlier one and wrapped round
                tile[row * np.uint64(LANES) + lane] |= np.uint32(1) << np.uint32(position & np.uint64(31))


@kernel
def name_permanent(names: Any, symbols: Any, cohorts: Any, first_row: Any, device: Any) -> None:
    """Name the permanent blocks of a tile: device, cohort, symbol."""
    start, stop = max(0, -first_row), min(LANES, symbols.size - first_row)
    held, cohort_of = symbols[first_row + start : first_row + stop], cohorts[first_row + start : first_row + stop]
    for lane in range(stop - start):
        names[start + lane] = np.uint32(device + start + lane)
        cohort = np.uint32(cohort_of[lane]) << np.uint32(16)
        names[LANES + start + lane] = np.uint32((device + start + lane) >> 32) | cohort
        names[2 * LANES + start + lane] = np.uint32(held[lane])


@kernel
def name_instantaneous(names: Any, column: Any, report_index: Any) -> None:
    """Name the instantaneous blocks of a tile: column, report index."""
    for lane in range(LANES):
        names[lane] = (column + lane) & 0xFFFFFFFF
        names[LANES + lane] = (column + lane) >> 32
        names[2 * LANES + lane] = report_index


@kernel
def apply_channel(
    channel: Any, group: Any, rows: Any, valid: Any, words: Any, first: Any, filled: Any, room: Any
) -> None:
    """Send a tile's bits through one channel, computing as few blocks as decide every bit.

    ``channel`` is what `simulate_bits` makes of one, ``room`` the tile and the columns that go with it.  The stream
    begins at row ``first`` of the first block, which ``words`` already holds if ``filled``.
    """
    _, key, rounds, thresholds, digits, depth = channel
    tile, names, is_open, origin, open_lanes = room
    # Before any digit every place with a threshold in 1 .. 2^32 - 1 is undecided: U and t agree so far.
    start_channel(tile, rows, valid, thresholds[0], thresholds[1])
    for lane in range(LANES):
        origin[lane] = lane
    lanes, closed_up = LANES, False
    digit, block = 0, 0
    while digit < depth:
        if block > 0 or not filled:
            fill_blocks(key, group * BLOCKS + block, names, words, lanes, rounds)
        # A block of 16 half words holds ROWS // rows digits of all the group's rows.
        count = min(ROWS // rows, depth - digit)
        compare_block(words, first * LANES, digits[2 * digit :], count, tile, rows, lanes)
        digit, block = digit + count, block + 1
        if ALWAYS_READ <= digit < depth:
            # After j digits w bits are all decided with probability (1 - 2^-j)^w: leave out finished devices.
            still_open = find_open(tile, is_open, open_lanes, rows, lanes)
            if still_open <= lanes - lanes // 8:
                store_results(tile, origin, rows, lanes)
                compact_lanes(tile, names, origin, open_lanes, rows, still_open)
                lanes, closed_up = still_open, True
            if still_open == 0:
                break
    if closed_up:
        store_results(tile, origin, rows, lanes)
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
    # Two words, RAPPOR's usual 128 bits: four rows are read side by side, so LLVM can use vectors.
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
def group_size(words: Any) -> Any:
    """Words of the next group when ``words`` are left: 8, 4, 2 or 1."""
    # A power of two divides the eight 64-bit words of a block evenly.
    size = GROUP
    while size > words:
        size //= 2
    return size


@kernel
def devices_in_a_block(size: Any, depth: Any) -> Any:
    """How many devices' instantaneous words fit one block of 8: 8, 4, 2 or 1."""
    share = 1
    while share < 8 and 2 * share * size * depth <= 8:
        share *= 2
    return share


@kernel
def simulate_rows(
    positions: Any,
    permanent: Any,
    fresh: Any,
    valid: Any,
    index: Any,
    symbols: Any,
    cohorts: Any,
    device: Any,
    out: Any,
) -> None:
    """Fill ``out`` for consecutive devices from number ``device`` on; every array's row 0 is that device's."""
    tile, names, is_open = np.zeros(4 * SECTION, np.uint32), np.zeros(3 * LANES, np.uint32), np.zeros(LANES, np.uint32)
    room = (tile, names, is_open, np.zeros(LANES, np.uint64), np.zeros(LANES + 1, np.uint64))
    words, fresh_words = np.empty(16 * LANES, np.uint32), np.empty(16 * LANES, np.uint32)
    group, word = 0, 0
    while word < out.shape[1]:
        size = group_size(out.shape[1] - word)
        # Two 32-bit rows a word; `share` devices read one instantaneous block.
        rows, inside, share = 2 * size, valid[2 * word :], devices_in_a_block(size, fresh[5])
        shared_tile = np.int64(-1)  # which tile of shared blocks `fresh_words` holds
        for number in range(device // LANES, (device + out.shape[0] - 1) // LANES + 1):
            first_row = number * LANES - device
            encode_tile(positions, symbols, cohorts, tile, first_row, word, rows)
            # The permanent channel's blocks are named by device, cohort and symbol; so a response repeats.
            if permanent[0]:
                name_permanent(names, symbols, cohorts, first_row, number * LANES)
                apply_channel(permanent, group, rows, inside, words, 0, False, room)
            if fresh[0]:
                shared, first = number // share, number % share * (ROWS // share)
                name_instantaneous(names, shared * LANES, index)
                apply_channel(fresh, group, rows, inside, fresh_words, first, share > 1 and shared_tile == shared, room)
                shared_tile = shared
            write_tile(tile, out, first_row, word, rows)
        group, word = group + 1, word + size


def _digit_table(channel: Channel) -> U32:
    """Each digit of ``raise_zero``, and where ``keep_one`` has another, in every place of a word."""
    keep_one, raise_zero = (threshold % ONE for threshold in channel)
    table = np.zeros(2 * (32 + GROUP), dtype=np.uint32)
    # Digit j from the most significant: the digit for a 0, and the exclusive or that makes it the digit for a 1.
    for j in range(32):
        zero, one = (raise_zero >> (31 - j)) & 1, (keep_one >> (31 - j)) & 1
        table[2 * j], table[2 * j + 1] = ALL * zero, ALL * (zero ^ one)
    return table


def _for_kernel(key: U32, channel: Channel | None) -> tuple[Any, ...]:
    """What the kernels need: is there a channel, key, rounds, thresholds, digits, how many of them matter."""
    thresholds = channel or (ONE, 0)
    limits = np.array(thresholds, dtype=np.int64)
    return channel is not None, key, ROUNDS, limits, _digit_table(thresholds), digits_needed(*thresholds)


def bit_core(
    positions: NDArray[Any],
    permanent: tuple[U32, Channel | None],
    fresh: tuple[U32, Channel | None],
    num_bits: int,
    index: int,
) -> Callable[..., None]:
    """Return the compiled core of `overstory.kernels.devices.simulate_bits`; each channel comes with its key."""
    # `valid` masks the places past num_bits, one 32-bit half of a word at a time.
    halves = range(2 * -(-num_bits // 64))
    valid = np.array([(1 << max(0, min(32, num_bits - 32 * row))) - 1 for row in halves], dtype=np.uint32)
    return partial(simulate_rows, positions, _for_kernel(*permanent), _for_kernel(*fresh), valid, index)


@kernel
def cohort_rows(key: Any, num_cohorts: Any, device: Any, out: Any) -> None:
    """``cohort = (U num_cohorts) >> 64`` for 64 random bits U: word ``device mod 8`` of block ``device // 8``."""
    names, words = np.zeros(3 * LANES, np.uint32), np.empty(16 * LANES, np.uint32)
    # A ChaCha20 block serves eight devices, so LANES blocks serve 8 LANES consecutive ones.
    span = 8 * LANES
    for number in range(device // span, (device + out.size - 1) // span + 1):
        name_instantaneous(names, number * LANES, 0)
        fill_blocks(key, 0, names, words, LANES, 20)
        for row in range(max(number * span, device), min(number * span + span, device + out.size)):
            # Device `row` reads pair row mod 8 of block row // 8, low half first.
            at = (row & 7) * 2 * LANES + ((row >> 3) & (LANES - 1))
            low, high = np.uint64(words[at]), np.uint64(words[at + LANES])
            many = np.uint64(num_cohorts)
            # (U num_cohorts) >> 64 from halves: num_cohorts is below 2^32, so no product overflows.
            out[row - device] = (high * many + ((low * many) >> np.uint64(32))) >> np.uint64(32)
