"""ChaCha (D. J. Bernstein 2008; RFC 8439) as a pseudorandom function, many blocks at a time.

A block is 64 bytes, a function of a 256-bit key and of four 32-bit words; RFC 8439 calls the four a block counter and
a nonce.  Here they name what the randomness belongs to (see `overstory.kernels.bits.simulation`), so any block can be
computed alone, in any order, by any thread.  Blocks lie as a structure of arrays: row ``i`` of a ``(16, LANES)`` tile
holds word ``i`` of ``LANES`` blocks, so that every operation of the cipher works on a whole vector of blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from overstory.kernels.compiled import kernel
from overstory.kernels.random.chacha import CONSTANTS, LANES, key_words
from overstory.kernels.vectors import VECTOR_BITS, Lanes, is_flat

__all__ = ["LANES", "fill_blocks", "key_words"]

WIDTH = VECTOR_BITS // 32  # blocks in a vector
COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))


def _quarter_round(v: Lanes, x: list[Any], a: int, b: int, c: int, d: int) -> None:
    """RFC 8439, section 2.1."""
    for into, other, by in ((d, b, 16), (b, d, 12), (d, b, 8), (b, d, 7)):
        # a += b; d ^= a; rotate d, and then c += d; b ^= c; rotate b
        target = a if into == d else c
        x[target] = v.add(x[target], x[other])
        x[into] = v.rotate_left(v.xor(x[into], x[target]), by)


def _chacha(v: Lanes, start: list[Any], rounds: int) -> list[Any]:
    """RFC 8439, section 2.3: the rounds, then the feed-forward.

    Two rounds, a column and a diagonal one, are straight-line code in a loop: unrolled tenfold they would be no
    faster and take several times as long to compile.
    """
    state = [cgutils.alloca_once_value(v.builder, word) for word in start]  # LLVM keeps these in registers
    with cgutils.for_range(v.builder, ir.Constant(ir.IntType(64), rounds // 2)):
        x = [v.builder.load(word) for word in state]
        for quarter in COLUMNS + DIAGONALS:
            _quarter_round(v, x, *quarter)
        for word, value in zip(state, x, strict=True):
            v.builder.store(value, word)
    return [v.add(v.builder.load(a), b) for a, b in zip(state, start, strict=True)]


def _chacha_intrinsic(rounds: int) -> Any:
    """Make the intrinsic for a number of rounds."""

    @intrinsic
    def chacha_vector(_typing: Any, key: Any, counter: Any, names: Any, out: Any, lane: Any) -> Any:  # noqa: ARG001
        """Fill columns ``lane .. lane + WIDTH`` of ``out`` uint32[16 * LANES] from ``names`` uint32[3 * LANES]."""
        if not all(is_flat(array, types.uint32) for array in (key, names, out)):
            return None
        signature = types.void(key, types.uint32, names, out, types.intp)

        def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            v = Lanes(context, builder, 32, WIDTH)
            key_at, names_at, out_at = (
                v.pointer(t, a)
                for t, a in zip((key, names, out), (arguments[0], arguments[2], arguments[3]), strict=True)
            )
            # Constants, key and counter are the same in every lane; the other three words name the lane's block.
            start = [v.constant(c) for c in CONSTANTS] + [v.element(key_at, i) for i in range(8)]
            start.append(v.splat(arguments[1]))
            start += [v.load(names_at, v.index(arguments[4], i * LANES)) for i in range(3)]
            for i, word in enumerate(_chacha(v, start, rounds)):
                v.store(word, out_at, v.index(arguments[4], i * LANES))
            return context.get_dummy_value()

        return signature, codegen

    return chacha_vector


chacha20_vector = _chacha_intrinsic(20)
chacha12_vector = _chacha_intrinsic(12)


@kernel
def fill_blocks(key: Any, counter: Any, names: Any, out: Any, lanes: Any, rounds: Any) -> None:
    """Fill the first ``lanes`` columns of a tile (up to a whole vector) with 20 rounds of ChaCha or with 12.

    Parameters
    ----------
    key : uint32[8]
        The key's little-endian words.
    names : uint32[3 * LANES]
        The other three words: row ``i`` of ``(3, LANES)`` holds word ``i`` of every block's name.
    out : uint32[16 * LANES]
        Row ``i`` of ``(16, LANES)`` receives word ``i`` of every block.
    """
    # WIDTH blocks fill one vector; what lies past `lanes` is computed and not read.
    if rounds == 20:
        for lane in range(0, lanes, WIDTH):
            chacha20_vector(key, np.uint32(counter), names, out, lane)
    else:
        for lane in range(0, lanes, WIDTH):
            chacha12_vector(key, np.uint32(counter), names, out, lane)
