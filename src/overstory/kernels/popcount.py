"""Sums of packed reports by carry-save trees: how many reports have each bit, for each cohort.

Positional population count by carry-save adders (Clausecker, Lemire, Schintke, "Faster positional-population counts",
arXiv 2412.16370).  A carry-save adder takes three words and gives, in five operations for 64 places at once, their
sum modulo two and their carries.  Fifteen of them fold 16 words into running words of weight 1, 2, 4 and 8 and one
word of weight 16; 16 such words go through a second tree, and only its one word of weight 256 is taken apart into 64
counters.  So a word of reports costs about five operations on vectors instead of 64 additions, and memory is the
limit.

Reports are read as one flat run of words.  ``width`` is a multiple of a report's words, so column ``i`` of a row of
``width`` words always holds word ``i mod words`` of some report, and the vectors need not know how long a report is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from overstory.kernels.compiled import kernel
from overstory.kernels.threads import in_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray


STEP = 4  # words in a vector
TREE = 16  # words that one tree folds
FEW = 24  # rows that are counted faster one by one
TREES = 8 + TREE + 1 + 64  # rows of `fold_blocks`
BUFFERS = 1 << 15  # words that all cohorts' buffers hold together: they stay in the second-level cache
MOST_TREES = 1 << 15  # cohorts times words of a row of the tree: 23 MB of trees


class Lanes:
    """Vectors of ``STEP`` words as LLVM's own *generic* vectors: in Numba they would take seconds to type."""

    def __init__(self, context: Any, builder: Any) -> None:
        self.context, self.builder, self.vector = context, builder, ir.VectorType(ir.IntType(64), STEP)

    def pointer(self, array_type: Any, array: Any) -> Any:
        """Address of a C-contiguous array's first element."""
        return self.context.make_array(array_type)(self.context, self.builder, array).data

    def load(self, pointer: Any, index: Any) -> Any:
        """Load consecutive words; they need not be aligned beyond one word."""
        address = self.builder.bitcast(self.builder.gep(pointer, [index]), self.vector.as_pointer())
        return self.builder.load(address, align=8)

    def store(self, value: Any, pointer: Any, index: Any) -> None:
        address = self.builder.bitcast(self.builder.gep(pointer, [index]), self.vector.as_pointer())
        self.builder.store(value, address, align=8)


def _adder(v: Lanes, a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    """Sum modulo two and carries of three words."""
    either = v.builder.xor(a, b)
    return v.builder.xor(either, c), v.builder.or_(v.builder.and_(a, b), v.builder.and_(either, c))


@intrinsic
def fold_16(_typing: Any, data: Any, first: Any, width: Any, state: Any, at: Any, out: Any, to: Any) -> Any:  # noqa: ARG001
    """Fold 16 vectors ``width`` words apart into ``state[at + i * width]``, weight 2 ** i; the carry to ``out``."""
    arrays = (data, state, out)
    if not all(isinstance(array, types.Array) and array.layout == "C" for array in arrays):
        return None
    if any(array.dtype != types.uint64 for array in arrays):
        return None
    signature = types.void(data, types.intp, types.intp, state, types.intp, out, types.intp)

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        v = Lanes(context, builder)
        data_at, state_at, out_at = (v.pointer(signature.args[i], values[i]) for i in (0, 3, 5))

        def addresses(start: Any, count: int) -> list[Any]:
            places = [start]
            while len(places) < count:
                places.append(builder.add(places[-1], values[2]))
            return places

        # 16 words of weight 1 -> 8 carries of weight 2 -> 4 of weight 4 -> 2 of weight 8 -> 1 of weight 16.
        words = [v.load(data_at, place) for place in addresses(values[1], TREE)]
        for place in addresses(values[4], 4):
            running, carries = v.load(state_at, place), []
            for a, b in zip(words[::2], words[1::2], strict=True):
                # running + a + b = (new running) + 2 carry, in each of the 64 places.
                running, carry = _adder(v, running, a, b)
                carries.append(carry)
            v.store(running, state_at, place)
            words = carries
        v.store(words[0], out_at, values[6])
        return context.get_dummy_value()

    return signature, codegen


@kernel
def fold_rows(data: Any, first: Any, width: Any, state: Any, at: Any, out: Any, to: Any) -> None:
    """`fold_16` for every column."""
    for column in range(0, width, STEP):
        fold_16(data, first + column, width, state, at + column, out, to + column)


@kernel
def unpack_counters(trees: Any, row: Any, width: Any, weight: Any) -> None:
    """Add ``weight`` to the counters for each bit set in a row of ``trees`` (see `fold_blocks`)."""
    for place in range(64):
        for column in range(width):
            # The counters of place p of all columns lie side by side, in row 25 + p.
            bit = (trees[row * width + column] >> np.uint64(place)) & np.uint64(1)
            trees[(25 + place) * width + column] += bit * np.uint64(weight)


@kernel
def add_few(flat: Any, first: Any, stop: Any, words: Any, counts: Any) -> None:
    """Count the words ``first .. stop`` one by one."""
    word = 0
    for i in range(first, stop):
        value = flat[i]
        for place in range(64):
            counts[word * 64 + place] += np.int64((value >> np.uint64(place)) & np.uint64(1))
        word = word + 1 if word + 1 < words else 0


@kernel
def row_width(words: Any) -> Any:
    """Words in a row of the tree: whole vectors and whole reports."""
    width = words
    while width % (2 * STEP):
        width *= 2
    return width


@kernel
def fold_blocks(flat: Any, first: Any, stop: Any, width: Any, trees: Any, filled: Any) -> Any:
    """Fold whole blocks of ``16 width`` words into ``trees`` uint64[89 width].

    Rows 0 .. 7 of ``trees`` (of ``width`` words) hold the running words of weight 1 .. 128, rows 8 .. 23 the
    ``filled`` words of weight 16 that wait for the second tree, row 24 takes its carry, and rows 25 .. 88 are the
    counters.  Returns the new ``filled``.
    """
    for start in range(first, stop, TREE * width):
        # First tree: 16 rows into the running words of weight 1 .. 8; the carry, of weight 16, waits.
        fold_rows(flat, start, width, trees, 0, trees, (8 + filled) * width)
        filled += 1
        if filled == TREE:
            # Second tree: 16 waiting rows into the running words of weight 16 .. 128; the carry has weight 256.
            fold_rows(trees, 8 * width, width, trees, 4 * width, trees, 24 * width)
            unpack_counters(trees, 24, width, 256)
            filled = 0
    return filled


@kernel
def finish_trees(trees: Any, filled: Any, width: Any, words: Any, counts: Any) -> None:
    """Add what `fold_blocks` has gathered to ``counts`` int64[words * 64]."""
    # What still waits has weight 16, and running word `level` has weight 2^level.
    for i in range(filled):
        unpack_counters(trees, 8 + i, width, 16)
    for level in range(8):
        unpack_counters(trees, level, width, 1 << level)
    # Column c holds word c mod words of a report: its counters are those of bits 64 (c mod words) + place.
    for place in range(64):
        for column in range(width):
            counts[column % words * 64 + place] += np.int64(trees[(25 + place) * width + column])


@kernel
def add_words(flat: Any, first: Any, stop: Any, words: Any, counts: Any) -> None:
    """Add the reports in ``flat[first : stop]`` to ``counts`` int64[words * 64]."""
    if stop - first <= FEW * words:
        add_few(flat, first, stop, words, counts)
        return
    width = row_width(words)
    block = TREE * width
    trees, tail = np.zeros(TREES * width, np.uint64), np.zeros(block, np.uint64)
    # Whole blocks where they lie, the remainder in one block padded with zeros, which add nothing.
    whole = stop - (stop - first) % block
    filled = fold_blocks(flat, first, whole, width, trees, 0)
    tail[: stop - whole] = flat[whole:stop]
    filled = fold_blocks(tail, 0, block, width, trees, filled)
    finish_trees(trees, filled, width, words, counts)


@kernel
def add_grouped(flat: Any, offsets: Any, start: Any, stop: Any, words: Any, ones: Any) -> None:
    """Add rows ``start .. stop``, which lie in order of cohort."""
    for cohort in range(offsets.size - 1):
        first, last = max(start, offsets[cohort]), min(stop, offsets[cohort + 1])
        if first < last:
            add_words(flat, first * words, last * words, words, ones[cohort])


@kernel
def add_each(flat: Any, cohorts: Any, start: Any, stop: Any, words: Any, totals: Any, ones: Any) -> None:
    """Add rows ``start .. stop`` one by one: for more cohorts than there is room for trees."""
    for row in range(start, stop):
        add_few(flat, row * words, (row + 1) * words, words, ones[cohorts[row]])
        totals[cohorts[row]] += 1


@kernel
def deal(flat: Any, cohorts: Any, row: Any, stop: Any, words: Any, buffers: Any, free: Any, end: Any) -> Any:
    """Copy rows to their cohorts' buffers until one is full; return the row that filled it, or ``stop``."""
    # A loop of its own, which calls nothing, stays in registers.
    if words == 2:
        for i in range(row, stop):
            cohort, source = np.uint64(cohorts[i]), np.uint64(2 * i)
            at = free[cohort]
            buffers[at], buffers[at + np.uint64(1)] = flat[source], flat[source + np.uint64(1)]
            free[cohort] = at + np.uint64(2)
            if at + np.uint64(2) == end[cohort]:
                return i
        return stop
    for i in range(row, stop):
        cohort, source = np.uint64(cohorts[i]), np.uint64(words * i)
        at = free[cohort]
        for word in range(np.uint64(words)):
            buffers[at + word] = flat[source + word]
        free[cohort] = at + np.uint64(words)
        if free[cohort] == end[cohort]:
            return i
    return stop


@kernel
def add_by_cohort(flat: Any, cohorts: Any, start: Any, stop: Any, words: Any, totals: Any, ones: Any) -> None:
    """Add rows ``start .. stop``, in any order: deal them to the cohorts' buffers, and fold the full ones."""
    width, num_cohorts = row_width(words), totals.size
    # As many whole blocks for each cohort as the second-level cache holds, from 1 to 16.
    size = TREE * width * min(TREE, max(1, BUFFERS // (num_cohorts * TREE * width)))
    buffers, trees = np.empty(num_cohorts * size, np.uint64), np.zeros((num_cohorts, TREES * width), np.uint64)
    begin = (np.arange(num_cohorts) * size).astype(np.uint64)
    free, end, filled = begin.copy(), begin + np.uint64(size), np.zeros(num_cohorts, np.int64)
    row = deal(flat, cohorts, start, stop, words, buffers, free, end)
    while row < stop:
        full = cohorts[row]
        # A full buffer is whole blocks: fold it into its cohort's trees and begin it again.
        filled[full] = fold_blocks(
            buffers, np.int64(begin[full]), np.int64(end[full]), width, trees[full], filled[full]
        )
        totals[full] += size // words
        free[full] = begin[full]
        row = deal(flat, cohorts, row + 1, stop, words, buffers, free, end)
    # What is left in the buffers, and what the trees hold.
    for number in range(num_cohorts):
        add_words(buffers, np.int64(begin[number]), np.int64(free[number]), words, ones[number])
        totals[number] += np.int64(free[number] - begin[number]) // words
        finish_trees(trees[number], filled[number], width, words, ones[number])


SMALLEST = 1 << 15  # words worth a thread


def _flat(reports: NDArray[np.uint64]) -> NDArray[np.uint64]:
    if reports.ndim != 2 or reports.dtype != np.uint64 or reports.shape[1] == 0:
        raise ValueError(f"reports must be uint64 of shape (n, words), not {reports.dtype} {reports.shape}")
    return np.require(reports, np.uint64, ["C", "A"]).reshape(-1)


@kernel
def move_rows(flat: Any, cohorts: Any, words: Any, free: Any, out: Any) -> None:
    """Move each row to the next free place of its cohort."""
    for row in range(cohorts.size):
        cohort = cohorts[row]
        at = free[cohort] * words
        for word in range(words):
            out[at + word] = flat[row * words + word]
        free[cohort] += 1


def count_bits_grouped(
    reports: NDArray[np.uint64], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many reports of each cohort there are and have each bit; rows ``offsets[c] .. offsets[c + 1]`` are c's."""
    flat, (n, words) = _flat(reports), reports.shape
    offsets = np.require(offsets, np.int64, ["C", "A"])
    if offsets.ndim != 1 or offsets.size < 1 or offsets[0] < 0 or offsets[-1] > n or (np.diff(offsets) < 0).any():
        raise ValueError(f"offsets must rise from 0 or more to at most {n}")

    def part(start: int, stop: int) -> NDArray[np.int64]:
        ones = np.zeros((offsets.size - 1, words * 64), dtype=np.int64)
        add_grouped(flat, offsets, start, stop, words, ones)
        return ones

    parts = in_parts(part, n, smallest=max(1, SMALLEST // words))
    return np.diff(offsets), np.sum(parts, axis=0)


def count_bits_by_cohort(
    reports: NDArray[np.uint64], cohorts: NDArray[np.uint16], num_cohorts: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many reports of each cohort there are and have each bit, when the rows lie in order of arrival."""
    flat, (n, words) = _flat(reports), reports.shape
    if cohorts.shape != (n,) or cohorts.dtype != np.uint16:
        raise ValueError(f"cohorts must be uint16 of shape ({n},), not {cohorts.dtype} {cohorts.shape}")
    if n and int(cohorts.max()) >= num_cohorts:
        row = int(np.argmax(cohorts >= num_cohorts))
        raise ValueError(f"cohorts[{row}] is {cohorts[row]}; there are {num_cohorts} cohorts")
    column = np.require(cohorts, np.uint16, ["C", "A"])
    add = add_by_cohort if num_cohorts * row_width(words) <= MOST_TREES else add_each

    def part(start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        totals, ones = np.zeros(num_cohorts, dtype=np.int64), np.zeros((num_cohorts, words * 64), dtype=np.int64)
        add(flat, column, start, stop, words, totals, ones)
        return totals, ones

    parts = in_parts(part, n, smallest=max(1, SMALLEST // words))
    return np.sum([part[0] for part in parts], axis=0), np.sum([part[1] for part in parts], axis=0)
