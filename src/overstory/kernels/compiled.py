"""How kernels are compiled and run: `kernel` is Numba's ``njit`` as all of them use it, `in_parts` is their threads.

Numba keeps compiled code next to the source and compiles again when *that file* changes, though a kernel also contains
what it calls in other files.  `kernel` therefore stamps the code with a digest of every source of this package and its
sub-packages: one changed line in any of them (after an upgrade, say) retires all the compiled code.

`in_parts` runs a kernel that releases the interpreter's lock on several parts of the rows at once.  It uses plain
threads rather than Numba's ``parallel=True``: Numba's default scheduler ends the process when two Python threads enter
it together, and a collector does just that; plain kernels also compile several times faster.
"""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable


def _digest_of_sources() -> str:
    digest = hashlib.blake2b(digest_size=16)
    for source in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


SOURCES = _digest_of_sources()


def kernel(function: Callable[..., Any]) -> Any:
    """Compile on first call, without the interpreter's lock, and keep the code for the next process."""
    dispatcher = njit(nogil=True, cache=True)(function)
    # Numba compares this stamp with the one it stored: the file's own, and ours over all sources.
    cache_file = getattr(dispatcher._cache, "_cache_file", None)  # noqa: SLF001  # absent where nothing can be written
    if cache_file is not None:
        cache_file._source_stamp = (cache_file._source_stamp, SOURCES)  # noqa: SLF001
    return dispatcher


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
    threads : int or None
        The most threads to use; None means every core.

    Returns
    -------
    list
        What the calls returned, in the order of the rows; one call even when there are no rows.
    """
    parts = max(1, min(cores(threads), rows // smallest))
    # Even parts, cut at multiples of `align`; the last takes what is left.
    cuts = [rows * part // parts // align * align for part in range(parts)] + [rows]
    if parts == 1:
        return [kernel(0, rows)]
    with ThreadPoolExecutor(parts) as pool:
        return list(pool.map(kernel, cuts[:-1], cuts[1:]))
