"""`kernel`: Numba's ``njit`` as every kernel here uses it.

Numba keeps compiled code beside the source and compiles anew when *that file* changes, though a kernel also contains
what it calls in other files.  Here one changed line in any file of this package (after an upgrade, say) retires all
its compiled code.

Run a kernel that releases the interpreter's lock on several parts of the rows at once.

Plain threads rather than Numba's ``parallel=True``: its default scheduler ends the whole program when two Python
threads enter it together, and a collector does just that; plain kernels also compile several times faster.
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
    cuts = [rows * part // parts // align * align for part in range(parts)] + [rows]
    if parts == 1:
        return [kernel(0, rows)]
    with ThreadPoolExecutor(parts) as pool:
        return list(pool.map(kernel, cuts[:-1], cuts[1:]))
