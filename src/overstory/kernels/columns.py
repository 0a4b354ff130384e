"""Columns that a core may trust, and the rows that cores fill from them.

Every entry is checked, once, before anything is read or written by its number. Then a core fills ``out`` for
consecutive devices: by NumPy alone while devices are few, compiled once they are many. Loading the compiler takes half
a second to two, in which NumPy draws for a hundred thousand devices. Devices come in batches, so what counts is how
much this process has drawn so far.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Core = Callable[..., None]
    """Takes parts of the columns, the number of their first device, and the part of ``out`` to fill."""

ONE = 1 << 32
MOST_DEVICES = 1 << 48
C1, C2 = 0x21F0AAAD, 0x735A2D97  # multipliers of the 32-bit mixer that hashes a value's word under a seed
PATIENCE: Final = 1 << 18
"""Blocks that a process draws by NumPy (about a quarter of a second) before it loads the kernels."""
COMPILER: Final = "overstory.kernels.compiled"
ROWS: Final = 1 << 12
"""Devices that NumPy draws at a time: what they need stays in the cache."""
SMALLEST: Final = 1 << 12
"""Devices worth a thread, unless a family says otherwise."""

_drawn_slowly = 0


def column(name: str, values: NDArray[Any], limit: int, size: int | None = None) -> NDArray[np.uint32]:
    """Return a column of integers below ``limit`` as uint32, without a copy where it can be avoided.

    Parameters
    ----------
    limit : int
        Every entry must be in ``0 .. limit - 1``; at most 2 ** 32.
    """
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


def device_columns(first_device: int, **columns: tuple[NDArray[Any], int]) -> list[NDArray[np.uint32]]:
    """Return columns of the same devices, each given as its entries and the limit that all of them are below."""
    size: int | None = None
    checked = []
    for name, (values, limit) in columns.items():
        checked.append(column(name, values, limit, size))
        size = checked[0].size
    check_devices(first_device, checked[0].size)
    return checked


def check_devices(first_device: int, n: int) -> None:
    """Refuse numbers that no device has."""
    if not (first_device >= 0 and n >= 0 and first_device + n <= MOST_DEVICES):
        raise ValueError(f"device numbers must be below 2 ** 48, not {first_device} .. {first_device + n}")


def check_threshold(name: str, threshold: int) -> None:
    """Refuse what is no probability over 2 ** 32."""
    if not 0 <= threshold <= ONE:
        raise ValueError(f"{name} must be in 0 .. 2 ** 32, not {threshold}")


def check_index(report_index: int) -> None:
    """Refuse a report's number that names no stream."""
    if not 0 <= report_index < ONE:
        raise ValueError(f"report_index must be below 2 ** 32, not {report_index}")


def are_few(count: int) -> bool:
    """Whether NumPy is to draw these blocks; if so they are counted."""
    global _drawn_slowly  # noqa: PLW0603 - a tally of the process
    if COMPILER in sys.modules or _drawn_slowly + count > PATIENCE:
        return False
    _drawn_slowly += count
    return True


def fill_rows(
    columns: Sequence[NDArray[Any]],
    out: NDArray[Any],
    first_device: int,
    compiled: Callable[[], Core],
    *,
    slow: Core | None = None,
    blocks: int = 0,
    threads: int | None = None,
    smallest: int = SMALLEST,
    align: int = 1,
) -> NDArray[Any]:
    """Fill and return ``out``, a row for each device, by the family's core.

    Parameters
    ----------
    columns : arrays of n entries
        What a device's row is drawn from, checked: see `device_columns`.
    first_device : int
        Number of the first row's device. A device's row does not depend on the rows around it.
    compiled
        Loads the compiled core.
    slow
        The core by NumPy, if there is one: for ``blocks`` random blocks that are few, unless threads are asked for.
    smallest, align : int
        Devices worth a thread; a number that the rows of every thread but the last are a multiple of.
    """
    if slow is not None and threads is None and are_few(blocks):
        for start in range(0, len(out), ROWS):
            rows = slice(start, start + ROWS)
            slow(*(values[rows] for values in columns), first_device + start, out[rows])
        return out
    core = compiled()
    from overstory.kernels.threads import in_parts

    def part(start: int, stop: int) -> None:
        core(*(values[start:stop] for values in columns), first_device + start, out[start:stop])

    in_parts(part, len(out), threads, smallest=smallest, align=align)
    return out
