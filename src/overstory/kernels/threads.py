"""Run a kernel that releases the interpreter's lock on several parts of the rows at once.

Plain threads rather than Numba's ``parallel=True``: its default scheduler ends the whole program when two Python
threads enter it together, and a collector does just that; plain kernels also compile several times faster.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")


def cores(threads: int | None) -> int:
    """How many threads to use: those asked for, or one for each core this process may run on."""
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if threads < 1:
        raise ValueError(f"threads must be at least 1, not {threads}")
    return threads


def in_parts(
    kernel: Callable[[int, int], Result], rows: int, threads: int | None, *, smallest: int, align: int = 1
) -> list[Result]:
    """Call ``kernel(start, stop)`` for consecutive parts of ``range(rows)``, one part a thread.

    Parameters
    ----------
    kernel : callable
        Works on the rows ``start .. stop``; releases the interpreter's lock.
    rows : int
        How many rows there are.
    threads : int or None
        The most threads to use; None means every core.
    smallest : int
        No thread is started for fewer rows than this.
    align : int
        Every part but the first starts at a multiple of this.

    Returns
    -------
    list
        What the calls returned, in the order of the rows; one call even when there are no rows.
    """
    parts = max(1, min(cores(threads), rows // smallest))
    cuts = [rows * part // parts // align * align for part in range(parts)] + [rows]
    if parts == 1:
        return [kernel(0, rows)]
    with ThreadPoolExecutor(parts) as pool:
        return list(pool.map(kernel, cuts[:-1], cuts[1:]))
