"""Simulated devices by the tile: a symbol's bits in, a channel applied, packed reports out.

Which random word is which is said in `overstory.kernels.bits.simulation`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from overstory.kernels.compiled import kernel
from overstory.kernels.random.bernoulli import (
    ALWAYS_READ,
    BITS,
    GROUP,
    LESS,
    RESULT,
    ROWS,
    SECTION,
    compact_lanes,
    compare_block,
    find_open,
    finish_channel,
    start_channel,
    store_results,
)
from overstory.kernels.random.streams import LANES, fill_blocks

BLOCKS = 32  # most blocks of a group: 32 digits of 8 words


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
    those, whose = symbols[first_row + start : first_row + stop], cohorts[first_row + start : first_row + stop]
    for lane in range(stop - start):
        names[start + lane] = np.uint32(device + start + lane)
        cohort = np.uint32(whose[lane]) << np.uint32(16)
        names[LANES + start + lane] = np.uint32((device + start + lane) >> 32) | cohort
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
    channel: Any, group: Any, rows: Any, valid: Any, words: Any, first: Any, filled: Any, room: Any
) -> None:
    """Send a tile's bits through one channel, computing as few blocks as decide every bit.

    ``channel`` is what `simulate_bits` makes of one, ``room`` the tile and the columns that go with it.  The stream
    begins at row ``first`` of the first block, which ``words`` already holds if ``filled``.
    """
    _, key, rounds, thresholds, digits, depth = channel
    tile, names, is_open, origin, kept = room
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
            still_open = find_open(tile, is_open, kept, rows, lanes)
            if still_open <= lanes - lanes // 8:
                store_results(tile, origin, rows, lanes)
                compact_lanes(tile, names, origin, kept, rows, still_open)
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
    symbols: Any,
    cohorts: Any,
    permanent: Any,
    fresh: Any,
    valid: Any,
    device: Any,
    index: Any,
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
        held = np.int64(-1)  # which tile of shared blocks `fresh_words` holds
        for number in range(device // LANES, (device + out.shape[0] - 1) // LANES + 1):
            first_row = number * LANES - device
            encode_tile(positions, symbols, cohorts, tile, first_row, word, rows)
            if permanent[0]:
                name_permanent(names, symbols, cohorts, first_row, number * LANES)
                apply_channel(permanent, group, rows, inside, words, 0, False, room)
            if fresh[0]:
                shared, first = number // share, number % share * (ROWS // share)
                name_instantaneous(names, shared * LANES, index)
                apply_channel(fresh, group, rows, inside, fresh_words, first, share > 1 and held == shared, room)
                held = shared
            write_tile(tile, out, first_row, word, rows)
        group, word = group + 1, word + size
