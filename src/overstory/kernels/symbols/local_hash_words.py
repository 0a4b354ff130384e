"""The hash of a value's word under a seed, and the vector code that compares it for a block of reports.

``hash_word(word, seed)`` of `overstory.protocol.encodings.symbols`, with word = low + 2^32 high and m = mix32(seed), is

    x = low ^ m;    x = (x ^ x >> 16) C1 + high;    x = (x ^ x >> 15) C2        (modulo 2 ** 32).

x -> x ^ x >> 16 is linear, so it is applied to low and to m beforehand, and nothing but an exclusive or is left of the
first line for each of the n d pairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from overstory.kernels.columns import C1, C2
from overstory.kernels.compiled import kernel
from overstory.kernels.vectors import Lanes, is_flat

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

BLOCK = 1024  # reports compared at a time: what is kept of them stays in the first-level cache
LANES = 16  # reports in a vector
PAIR = 2  # values compared together, so that a report is loaded once for both
MASK = np.uint64(0xFFFFFFFF)


@kernel
def mix32(word: Any) -> Any:
    """`overstory.protocol.encodings.symbols.mix32`."""
    word = np.uint64(word)
    word = ((word ^ (word >> np.uint64(16))) * np.uint64(C1)) & MASK
    word = ((word ^ (word >> np.uint64(15))) * np.uint64(C2)) & MASK
    return np.uint32(word ^ (word >> np.uint64(15)))


@kernel
def folded(word: Any) -> Any:
    """``x ^ x >> 16``."""
    word = np.uint32(word)
    return np.uint32(word ^ (word >> np.uint32(16)))


@kernel
def hash_word(word: Any, seed: Any) -> Any:
    """`overstory.protocol.encodings.symbols.hash_word`."""
    word = np.uint64(word)
    x = np.uint64(folded((word & MASK) ^ np.uint64(mix32(seed))))
    x = (x * np.uint64(C1) + (word >> np.uint64(32))) & MASK
    return np.uint32(((x ^ (x >> np.uint64(15))) * np.uint64(C2)) & MASK)


def split_words(words: NDArray[np.uint64]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return what the pairs need of each value's word: its folded lower half, and its upper one.

    One more row than there are values where that makes their number even.
    """
    padded = np.zeros(-(-words.size // PAIR) * PAIR, np.uint64)
    padded[: words.size] = words
    low, high = padded.astype(np.uint32), (padded >> np.uint64(32)).astype(np.uint32)
    return low ^ (low >> np.uint32(16)), high


def checked_words(words: NDArray[Any]) -> NDArray[np.uint64]:
    """Refuse what is no column of words."""
    words = np.asarray(words)
    if words.ndim != 1 or words.dtype != np.uint64:
        raise ValueError(f"words must be a column of uint64, not {words.dtype} {words.shape}")
    return np.ascontiguousarray(words)


def hash_lanes(v: Lanes, low: Any, high: Any, seeds: Any) -> Any:
    """Emit the hash of one value under a vector of folded seeds."""
    # x = (low' ^ m') C1 + high; then (x ^ x >> 15) C2, low' and m' being folded beforehand.
    x = v.add(v.builder.mul(v.xor(low, seeds), v.constant(C1)), high)
    return v.builder.mul(v.xor(x, v.builder.lshr(x, v.constant(15))), v.constant(C2))


def count_intrinsic(judge: Callable[[Lanes, Any, Any, Any], Any]) -> Any:
    """Make the intrinsic that sums ``judge`` over the first ``stop`` reports of a block, for `PAIR` values.

    ``judge`` emits what a report adds to a total, from the hashes and the two other columns of a vector of reports.
    The intrinsic takes ``(seeds, first, second, stop, low, high, at, out)``: the block's folded seeds and its two other
    columns, uint32[] of a multiple of `LANES`; the values' halves, from index ``at`` on; and int64[] that receives the
    sums there.
    """

    @intrinsic
    def count_block(
        _typing: Any,
        seeds: Any,
        first: Any,
        second: Any,
        stop: Any,  # noqa: ARG001
        low: Any,
        high: Any,
        at: Any,  # noqa: ARG001
        out: Any,
    ) -> Any:
        if not all(is_flat(a, types.uint32) for a in (seeds, first, second, low, high)):
            return None
        if not is_flat(out, types.int64):
            return None
        signature = types.void(seeds, first, second, types.intp, low, high, types.intp, out)

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            v = Lanes(context, builder, 32, LANES)
            columns = [v.pointer(signature.args[i], values[i]) for i in range(3)]
            low_at, high_at, out_at = (v.pointer(signature.args[i], values[i]) for i in (4, 5, 7))
            places = [v.index(values[6], i) for i in range(PAIR)]

            def every(pointer: Any, place: Any) -> Any:
                return v.splat(builder.load(builder.gep(pointer, [place])))

            halves = [(every(low_at, place), every(high_at, place)) for place in places]
            totals = _loop(v, values[3], columns, halves, judge)
            # Add the lanes of each total once, after the loop.
            reduce = builder.module.declare_intrinsic(
                f"llvm.vector.reduce.add.v{LANES}i32", (), ir.FunctionType(v.scalar, [v.vector])
            )
            for place, total in zip(places, totals, strict=True):
                address = builder.gep(out_at, [place])
                added = builder.zext(builder.call(reduce, [total]), ir.IntType(64))
                builder.store(builder.add(builder.load(address), added), address)
            return context.get_dummy_value()

        return signature, codegen

    return count_block


def _loop(
    v: Lanes, stop: Any, columns: list[Any], halves: list[tuple[Any, Any]], judge: Callable[..., Any]
) -> list[Any]:
    """Emit the loop over a block's vectors, the totals of the values in registers."""
    builder, entry = v.builder, v.builder.block
    body, after = builder.append_basic_block("reports"), builder.append_basic_block("counted")
    builder.branch(body)
    builder.position_at_end(body)
    # Loop-carried values: the row, and one vector of totals for each value.
    row = builder.phi(stop.type)
    row.add_incoming(ir.Constant(stop.type, 0), entry)
    totals = [builder.phi(v.vector) for _ in halves]
    seeds, first, second = (v.load(column, row) for column in columns)
    sums = [
        v.add(total, judge(v, hash_lanes(v, low, high, seeds), first, second))
        for total, (low, high) in zip(totals, halves, strict=True)
    ]
    for total, added in zip(totals, sums, strict=True):
        total.add_incoming(v.constant(0), entry)
        total.add_incoming(added, builder.block)
    # Blocks are padded to whole vectors with reports that add nothing, so no remainder is handled.
    following = v.index(row, LANES)
    row.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, stop), body, after)
    builder.position_at_end(after)
    return sums
