"""Columns that kernels may trust, and what is few enough for NumPy.

Every entry is checked, once, before anything is read or written by its number. Loading compiled code takes half a
second to two, in which NumPy hashes a hundred thousand values; compiling it takes ten. Values come in batches, so what
counts is how much this process has done so far.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

ONE = 1 << 32
C1, C2 = 0x21F0AAAD, 0x735A2D97  # multipliers of the 32-bit mixer that hashes a value's word under a seed
PATIENCE: Final = 1 << 18
"""Blocks that a process does by NumPy (about a quarter of a second) before it loads compiled kernels ..."""
COMPILING: Final = 1 << 23
"""... or before it compiles them, where no compiled code is kept: about as long as compiling takes."""
COMPILER: Final = "overstory.kernels.compiled"

USER_CACHE: Final = Path("~/.cache/numba").expanduser()
"""Where Numba keeps compiled code, on Linux, when it may not write beside the sources."""

_done_slowly = 0


def column(name: str, values: NDArray[Any], limit: int, size: int | None = None) -> NDArray[np.uint32]:
    """Return integers below ``limit``, at most 2 ** 32, as uint32; without a copy where it can be avoided."""
    values = np.asarray(values)
    if values.ndim != 1 or values.dtype.kind not in "iu" or (size is not None and values.size != size):
        wanted = "n" if size is None else size
        raise ValueError(f"{name} must be a column of {wanted} integers, not {values.dtype} {values.shape}")
    # A negative number is a very large one: one pass tests both ends.
    if values.size and int(values.view(f"u{values.dtype.itemsize}").max()) >= limit:
        raise ValueError(f"{name} must be in 0 .. {limit - 1}, not {int(values.min())} .. {int(values.max())}")
    if values.dtype == np.int32 and values.flags.c_contiguous:
        return values.view(np.uint32)
    return np.ascontiguousarray(values, np.uint32)


@cache
def is_compiled(kernels: str) -> bool:
    """Whether Numba's cache has code of these kernels, as they are; to ask Numba itself would take most of a second."""
    folder = Path(__file__).parent
    places = [Path(os.environ["NUMBA_CACHE_DIR"])] if "NUMBA_CACHE_DIR" in os.environ else [folder, USER_CACHE]
    changed = max(path.stat().st_mtime for path in folder.rglob("*.py"))
    found = (path for place in places for path in place.rglob(f"{Path(kernels).name}.*.nbi"))
    return any(path.stat().st_mtime >= changed for path in found)


def are_few(count: int, kernels: str, at_once: int | None = None) -> bool:
    """Whether NumPy is to do these blocks, and not a file of kernels; if so they are counted."""
    global _done_slowly  # noqa: PLW0603 - a tally of the process
    blocks = _done_slowly + count
    if count > (at_once or PATIENCE) or blocks > COMPILING:
        return False
    if (COMPILER in sys.modules or blocks > PATIENCE) and is_compiled(kernels):
        return False
    _done_slowly += count
    return True
