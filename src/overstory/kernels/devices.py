"""Simulated devices, many at once: reports of bits, symbols and subsets, and cohorts.

What they are drawn from is checked here, once. A family has two cores (see `overstory.kernels.columns.fill_rows`): one
by NumPy alone (`overstory.kernels.few`) and one compiled. Both give the same reports, bit for bit; the compiled one's
module says which random word is which.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.kernels import few
from overstory.kernels.columns import (
    MOST_DEVICES,
    ONE,
    check_devices,
    check_index,
    check_threshold,
    column,
    device_columns,
    fill_rows,
)
from overstory.kernels.random.chacha import LANES, key_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.kernels.columns import Core

    Channel = tuple[int, int]


def assign_cohorts(
    key: bytes, num_cohorts: int, n: int, first_device: int = 0, *, threads: int | None = None
) -> NDArray[np.uint16]:
    """Cohort of each of ``n`` devices, a function of (key, device); each cohort's probability is exact to 2 ** -64.

    Parameters
    ----------
    key : bytes
        32 bytes.

    Returns
    -------
    uint16[n]
    """
    if num_cohorts == 1 and first_device == 0 <= n <= MOST_DEVICES and len(key) == 32:
        return np.zeros(n, np.uint16)
    return _assign(key, num_cohorts, np.empty(n, np.uint16), first_device, threads)


def assign_seeds(
    key: bytes, num_cohorts: int, n: int, first_device: int = 0, *, threads: int | None = None
) -> NDArray[np.uint32]:
    """Return each device's cohort among up to 2 ** 31, as `assign_cohorts` does.

    Examples
    --------
    >>> int(assign_seeds(bytes(32), 1 << 31, 10).max()) < 1 << 31
    True
    """
    return _assign(key, num_cohorts, np.empty(n, np.uint32), first_device, threads)


def _assign(key: bytes, num_cohorts: int, out: NDArray[Any], first_device: int, threads: int | None) -> NDArray[Any]:
    most = 1 << min(8 * out.itemsize, 31)
    if not 1 <= num_cohorts <= most:
        raise ValueError(f"num_cohorts must be in 1 .. {most}, not {num_cohorts}")
    check_devices(first_device, out.size)
    given = key_words(key, b"cohort-1"), num_cohorts

    def compiled() -> Core:
        from overstory.kernels.bits.simulation import cohort_rows

        return partial(cohort_rows, *given)

    blocks, slow = out.size // 8 + 1, partial(few.cohort_rows, *given)
    return fill_rows((), out, first_device, compiled, slow=slow, blocks=blocks, threads=threads, smallest=64 * LANES)


def simulate_bits(
    positions: NDArray[Any],
    symbols: NDArray[np.int32],
    cohorts: NDArray[np.uint16],
    permanent: Channel | None,
    instantaneous: Channel | None,
    key: bytes,
    *,
    num_bits: int,
    first_device: int = 0,
    report_index: int = 0,
    threads: int | None = None,
    out: NDArray[np.uint64] | None = None,
) -> NDArray[np.uint64]:
    """One report from each of many devices.

    Parameters
    ----------
    positions : integer array of shape (num_cohorts, num_symbols, num_hashes)
        The bits that a symbol sets in a cohort; one-hot is one cohort and one hash.
    symbols : int32[n]
        Each device's symbol.
    cohorts : uint16[n]
        Each device's cohort.
    permanent, instantaneous : (keep_one, raise_zero) or None
        Thresholds of the two channels, 0 to 2 ** 32 for probabilities 0 to 1; None changes nothing.
    key : bytes
        32 bytes; the same key gives the same reports.
    first_device : int
        Number of the first row's device.  Each device's randomness is its own: a device gets the same report in
        whatever rows it is computed with.
    report_index : int
        Which of the devices' reports.  The permanent response does not depend on it.
    out : uint64[n, words], optional
        Where to write; made unless given.

    Returns
    -------
    uint64[n, words]
        Packed reports (see docs/explanation/architecture.md).

    Examples
    --------
    >>> import numpy as np
    >>> one_hot = np.arange(3, dtype=np.uint16).reshape(1, 3, 1)
    >>> symbols, cohorts = np.array([2, 0], dtype=np.int32), np.zeros(2, dtype=np.uint16)
    >>> simulate_bits(one_hot, symbols, cohorts, None, None, bytes(32), num_bits=3)
    array([[4],
           [1]], dtype=uint64)
    """
    if positions.ndim != 3:
        raise ValueError(f"positions must be of shape (cohorts, symbols, hashes), not {positions.shape}")
    column("positions", positions.reshape(-1), num_bits)
    limits = positions.shape
    held, cohort_of = device_columns(first_device, symbols=(symbols, limits[1]), cohorts=(cohorts, limits[0]))
    check_index(report_index)
    for threshold in (*(permanent or ()), *(instantaneous or ())):
        check_threshold("thresholds", threshold)
    shape = held.size, -(-num_bits // 64)
    if out is None:
        out = np.empty(shape, np.uint64)
    elif out.shape != shape or out.dtype != np.uint64 or not out.flags.c_contiguous:
        raise ValueError(f"out must be a C-contiguous uint64 array of shape {shape}, not {out.dtype} {out.shape}")
    channels = (key_words(key, b"perm-v1"), permanent), (key_words(key, b"inst-v1"), instantaneous)
    given = np.ascontiguousarray(positions), *channels, num_bits, report_index

    def compiled() -> Core:
        from overstory.kernels.bits.simulation import bit_core

        return bit_core(*given)

    return fill_rows(
        (held, cohort_of),
        out,
        first_device,
        compiled,
        slow=partial(few.bit_rows, *given),
        blocks=sum(channel is not None for _, channel in channels) * held.size * (1 + num_bits // 16),
        threads=threads,
        align=8 * LANES,
    )


def simulate_symbols(
    symbols: NDArray[Any],
    cohorts: NDArray[Any],
    num_symbols: int,
    permanent: int | None,
    instantaneous: int | None,
    key: bytes,
    *,
    first_device: int = 0,
    report_index: int = 0,
    threads: int | None = None,
) -> NDArray[np.uint32]:
    """One reported symbol from each of many devices.

    Parameters
    ----------
    symbols : int32[n] or uint32[n]
        Each device's symbol, below ``num_symbols``.
    cohorts : uint32[n]
        Each device's cohort.
    permanent, instantaneous : int or None
        alpha of the two channels over 2 ** 32: the symbol is kept with probability alpha, and any of the k is drawn
        otherwise; None changes nothing.
    key : bytes
        32 bytes; the same key gives the same reports.
    first_device : int
        Number of the first row's device; a device's report does not depend on the rows around it.
    report_index : int
        Which of the devices' reports.  The permanent symbol does not depend on it.

    Returns
    -------
    uint32[n]

    Examples
    --------
    >>> import numpy as np
    >>> simulate_symbols(np.array([2, 0, 1]), np.zeros(3, np.uint32), 3, None, None, bytes(32))
    array([2, 0, 1], dtype=uint32)
    """
    if not 1 <= num_symbols <= 1 << 31:
        raise ValueError(f"num_symbols must be in 1 .. 2 ** 31, not {num_symbols}")
    symbols, cohorts = device_columns(first_device, symbols=(symbols, num_symbols), cohorts=(cohorts, ONE))
    check_threshold("permanent", ONE if permanent is None else permanent)
    check_threshold("instantaneous", ONE if instantaneous is None else instantaneous)
    check_index(report_index)
    channels = (key_words(key, b"symperm1"), permanent), (key_words(key, b"syminst1"), instantaneous)
    given = *channels, num_symbols, report_index

    def compiled() -> Core:
        from overstory.kernels.symbols.simulation import symbol_rows

        return partial(symbol_rows, *given)

    return fill_rows(
        (symbols, cohorts),
        np.empty(symbols.size, np.uint32),
        first_device,
        compiled,
        slow=partial(few.symbol_rows, *given),
        blocks=sum(alpha is not None for _, alpha in channels) * symbols.size,
        threads=threads,
        align=4 * LANES,
    )


def simulate_subsets(
    symbols: NDArray[Any],
    domain_size: int,
    subset_size: int,
    inside: int,
    key: bytes,
    *,
    first_device: int = 0,
    threads: int | None = None,
) -> NDArray[np.uint64]:
    """One subset from each of many devices.

    Parameters
    ----------
    symbols : int32[n]
        Each device's value.
    key : bytes
        32 bytes; the same key gives the same subsets.
    first_device : int
        Number of the first row's device; a device's subset does not depend on the rows around it.

    Returns
    -------
    uint64[n, words]
        Packed indicator bits (see docs/explanation/architecture.md).

    Examples
    --------
    >>> import numpy as np
    >>> simulate_subsets(np.array([0, 2]), 3, 2, 0, bytes(32))
    array([[6],
           [3]], dtype=uint64)
    """
    if not 2 <= domain_size <= 1 << 31:
        raise ValueError(f"domain_size must be in 2 .. 2 ** 31, not {domain_size}")
    if not 1 <= subset_size < domain_size:
        raise ValueError(f"subset_size must be in 1 .. {domain_size - 1}, not {subset_size}")
    (symbols,) = device_columns(first_device, symbols=(symbols, domain_size))
    check_threshold("inside", inside)
    given = key_words(key, b"subsets1"), domain_size, subset_size, inside

    def compiled() -> Core:
        from overstory.kernels.sets.simulation import subset_core

        return subset_core(*given)

    return fill_rows(
        (symbols,),
        np.zeros((symbols.size, -(-domain_size // 64)), np.uint64),
        first_device,
        compiled,
        slow=partial(few.subset_rows, *given),
        blocks=symbols.size * (subset_size // 16 + 1 + domain_size // 64),
        threads=threads,
        smallest=LANES,
    )
