"""Columns that a kernel may trust: every entry checked, once, before anything is read or written by its number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

ONE = 1 << 32
MOST_DEVICES = 1 << 48
C1, C2 = 0x21F0AAAD, 0x735A2D97  # multipliers of the 32-bit mixer that hashes a value's word under a seed


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


def set_column(symbols: NDArray[Any], limit: int, inside: int, first_device: int) -> NDArray[np.uint32]:
    """Return the values of devices that draw from their value's set, everything they are drawn with checked."""
    symbols = column("symbols", symbols, limit)
    check_devices(first_device, symbols.size)
    check_threshold("inside", inside)
    return symbols


def check_devices(first_device: int, n: int) -> None:
    """Refuse numbers that no device has."""
    if not (first_device >= 0 and n >= 0 and first_device + n <= MOST_DEVICES):
        raise ValueError(f"device numbers must be below 2 ** 48, not {first_device} .. {first_device + n}")


def check_threshold(name: str, threshold: int) -> None:
    """Refuse what is no probability over 2 ** 32."""
    if not 0 <= threshold <= ONE:
        raise ValueError(f"{name} must be in 0 .. 2 ** 32, not {threshold}")
