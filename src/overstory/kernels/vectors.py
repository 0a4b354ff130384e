"""Straight-line vector code for ciphers and hashes.

A block function is a few hundred additions, exclusive ors and rotations without a branch.  Written in Numba it takes
seconds to type and LLVM may or may not vectorize it; written here as LLVM's own *generic* vectors (``<8 x i32>``,
``<4 x i64>``) it takes a loop in Python, is always vectorized, and runs anywhere: LLVM splits the vectors into what
the machine has (AVX2 one register, SSE2 and NEON two).  No instruction of one make of processor is named.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

VECTOR_BITS = 256


class Lanes:
    """Emit operations on vectors of unsigned integers of 32 or 64 bits, one lane per independent message."""

    def __init__(self, context: Any, builder: Any, bits: int, lanes: int) -> None:
        self.context, self.builder, self.bits, self.lanes = context, builder, bits, lanes
        self.scalar = ir.IntType(bits)
        self.vector = ir.VectorType(self.scalar, lanes)

    def pointer(self, array_type: Any, array: Any) -> Any:
        """Address of a C-contiguous array's first element."""
        return self.context.make_array(array_type)(self.context, self.builder, array).data

    def index(self, start: Any, offset: int) -> Any:
        return self.builder.add(start, ir.Constant(start.type, offset))

    def load(self, pointer: Any, index: Any) -> Any:
        """Load ``lanes`` consecutive elements; they need not be aligned beyond one element."""
        address = self.builder.bitcast(self.builder.gep(pointer, [index]), self.vector.as_pointer())
        return self.builder.load(address, align=self.bits // 8)

    def store(self, value: Any, pointer: Any, index: Any) -> None:
        """Store a vector to ``lanes`` consecutive elements."""
        address = self.builder.bitcast(self.builder.gep(pointer, [index]), self.vector.as_pointer())
        self.builder.store(value, address, align=self.bits // 8)

    def constant(self, value: int) -> Any:
        return ir.Constant(self.vector, [value] * self.lanes)

    def add(self, *terms: Any) -> Any:
        total = terms[0]
        for term in terms[1:]:
            total = self.builder.add(total, term)
        return total

    def xor(self, a: Any, b: Any) -> Any:
        return self.builder.xor(a, b)

    def fence(self, value: Any) -> Any:
        """Keep LLVM from moving a byte shuffle through an exclusive or (twice the shuffles); no instruction."""
        floats = ir.VectorType(ir.FloatType() if self.bits == 32 else ir.DoubleType(), self.lanes)
        kind = f"v{self.lanes}f{self.bits}"
        function = self.builder.module.declare_intrinsic(
            f"llvm.arithmetic.fence.{kind}", (), ir.FunctionType(floats, [floats])
        )
        fenced = self.builder.call(function, [self.builder.bitcast(value, floats)])
        return self.builder.bitcast(fenced, self.vector)

    def choose(self, mask: Any, a: Any, b: Any) -> Any:
        """``a`` where ``mask`` is set, else ``b``, bit by bit."""
        return self.xor(b, self.builder.and_(mask, self.xor(a, b)))

    def rotate_left(self, value: Any, by: int) -> Any:
        """Rotate each lane left; LLVM knows the pattern and uses a byte shuffle or a rotate where there is one."""
        if by % 8 == 0:
            value = self.fence(value)
        high = self.builder.shl(value, self.constant(by))
        low = self.builder.lshr(value, self.constant(self.bits - by))
        return self.builder.or_(high, low)


def is_flat(array_type: Any, dtype: Any) -> bool:
    """Whether a Numba type is a C-contiguous array of ``dtype``: what the intrinsics take addresses of."""
    return isinstance(array_type, types.Array) and array_type.layout == "C" and array_type.dtype == dtype


@intrinsic
def load_32(_typing: Any, data: Any, at: Any) -> Any:  # noqa: ARG001
    """Read a little-endian word of 32 bits at any byte."""
    if not is_flat(data, types.uint8):
        return None

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        v = Lanes(context, builder, 8, 4)
        return builder.bitcast(v.load(v.pointer(signature.args[0], values[0]), values[1]), ir.IntType(32))

    return types.uint32(data, types.intp), codegen
