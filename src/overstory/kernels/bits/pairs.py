"""In how many reports two bits are both set: every bit of the first part with every bit of the second.

64 reports are turned into planes by a bit transpose (Warren, Hacker's Delight, section 7-3): word g of plane b holds
bit b of reports 64 g .. 64 g + 63. Two bits meet in as many reports as the AND of their planes has ones, so 64 reports
cost a pair of bits one AND and one population count, which machines do on whole vectors. A block of planes stays in the
second-level cache. One more plane, all ones, counts each bit alone and the reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from overstory.kernels.compiled import kernel
from overstory.kernels.threads import in_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

GROUPS = 64  # words of a plane in a block: 4,096 reports
ROWS = 4  # planes of the first part that are read against one of the second part
SMALLEST = 1 << 14  # reports worth a thread


@intrinsic
def ones_in(_typing: Any, _word: Any) -> Any:
    """How many bits of a word are 1."""

    def codegen(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.ctpop(values[0])

    return types.uint64(types.uint64), codegen


@kernel
def transpose(words: Any) -> None:
    """Exchange bit i of word j with bit j of word i, for 64 words."""
    half, mask = 32, np.uint64(0xFFFFFFFF)
    while half:
        # Exchange the blocks of `half` x `half` bits off the diagonal, then those inside each of the four.
        row = 0
        while row < 64:
            moved = ((words[row] >> np.uint64(half)) ^ words[row + half]) & mask
            words[row] ^= moved << np.uint64(half)
            words[row + half] ^= moved
            row = (row + half + 1) & ~half
        half >>= 1
        mask ^= mask << np.uint64(half)


@kernel
def fill_planes(reports: Any, order: Any, start: Any, stop: Any, first: Any, second: Any, planes: Any) -> Any:
    """Turn reports ``order[start : stop]`` into planes, and return how many words of each are filled."""
    words, groups = np.empty(64, np.uint64), (stop - start + 63) // 64
    for group in range(groups):
        here = min(64, stop - start - 64 * group)
        for column in range(reports.shape[1]):
            for i in range(here):
                words[i] = reports[order[start + 64 * group + i], column]
            for i in range(here, 64):
                words[i] = np.uint64(0)
            transpose(words)
            for bit in range(64):
                place = 64 * column + bit
                if place < first:
                    planes[place, group] = words[bit]
                elif place < first + second:
                    # Row `first` is the plane of ones; padding up to a multiple of ROWS stays zero.
                    planes[place + planes.shape[0] - 1 - first - second, group] = words[bit]
        everyone = ~np.uint64(0) if here == 64 else (np.uint64(1) << np.uint64(here)) - np.uint64(1)
        planes[first, group] = everyone
        planes[planes.shape[0] - 1, group] = everyone
    return groups


@kernel
def add_meetings(planes: Any, rows: Any, groups: Any, out: Any) -> None:
    """Add to ``out`` in how many reports each of the first ``rows`` planes meets each plane after them."""
    for i in range(0, rows, ROWS):
        for j in range(planes.shape[0] - rows):
            a, b, c, d = np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0)
            for group in range(groups):
                other = planes[rows + j, group]
                a += ones_in(planes[i, group] & other)
                b += ones_in(planes[i + 1, group] & other)
                c += ones_in(planes[i + 2, group] & other)
                d += ones_in(planes[i + 3, group] & other)
            out[i, j] += np.int64(a)
            out[i + 1, j] += np.int64(b)
            out[i + 2, j] += np.int64(c)
            out[i + 3, j] += np.int64(d)


@kernel
def add_ordered(reports: Any, order: Any, offsets: Any, start: Any, stop: Any, sizes: Any, out: Any) -> None:
    """Add rows ``order[start : stop]``, which lie in order of cohort, to ``out[cohort]``."""
    first, second, rows = sizes
    planes = np.zeros((rows + second + 1, GROUPS), np.uint64)
    for cohort in range(offsets.size - 1):
        begin, end = max(start, offsets[cohort]), min(stop, offsets[cohort + 1])
        for block in range(begin, end, 64 * GROUPS):
            groups = fill_planes(reports, order, block, min(block + 64 * GROUPS, end), first, second, planes)
            add_meetings(planes, rows, groups, out[cohort])


def count_pairs_by_cohort(
    reports: NDArray[np.uint64],  # (n, words): `first` bits, then `second` bits
    cohorts: NDArray[np.integer[Any]],
    num_cohorts: int,
    first: int,
    second: int,
) -> NDArray[np.int64]:
    """Count each cohort's reports with both of two bits, (num_cohorts, first + 1, second + 1); last, each bit alone."""
    if reports.ndim != 2 or reports.dtype != np.uint64 or 64 * reports.shape[1] < first + second:
        raise ValueError(
            f"reports must be uint64 of shape (n, words) with {first} + {second} bits, "
            f"not {reports.dtype} {reports.shape}"
        )
    if cohorts.shape != (len(reports),) or (len(cohorts) and int(cohorts.max()) >= num_cohorts):
        raise ValueError(f"cohorts must be {len(reports)} numbers below {num_cohorts}")
    order = np.argsort(cohorts, kind="stable")
    offsets = np.zeros(num_cohorts + 1, np.int64)
    np.cumsum(np.bincount(cohorts, minlength=num_cohorts), out=offsets[1:])
    rows = -(-(first + 1) // ROWS) * ROWS
    packed = np.require(reports, np.uint64, ["C", "A"])

    def part(start: int, stop: int) -> NDArray[np.int64]:
        out = np.zeros((num_cohorts, rows, second + 1), np.int64)
        add_ordered(packed, order, offsets, start, stop, (first, second, rows), out)
        return out

    parts = in_parts(part, len(reports), smallest=SMALLEST)
    return np.ascontiguousarray(np.sum(parts, axis=0)[:, : first + 1])
