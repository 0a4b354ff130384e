"""Threads for kernels: `in_parts` runs one that releases the interpreter's lock on several parts of the rows at once.

Plain threads rather than Numba's ``parallel=True``: Numba's default scheduler ends the process when two Python threads
enter it together, and a collector does just that; plain kernels also compile several times faster.

The threads stay from call to call: to start and join them costs as much as counting 10,000 reports.
"""

from __future__ import annotations

import itertools
import os
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Result = TypeVar("Result")

_limit: ContextVar[int | None] = ContextVar("overstory_threads", default=None)


def cores(threads: int | None) -> int:
    """How many threads to use: those asked for, or as many as `at_most` allows, or one for each core we may run on."""
    threads = _limit.get() if threads is None else threads
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if threads < 1:
        raise ValueError(f"threads must be at least 1, not {threads}")
    return threads


@contextmanager
def at_most(threads: int | None) -> Iterator[None]:
    """Let kernels use no more threads than this inside the block; None changes nothing."""
    if threads is None:
        yield
        return
    token = _limit.set(cores(threads))
    try:
        yield
    finally:
        _limit.reset(token)


class _Pool:
    """The threads of this process: started when a call needs them, and again in a forked child, which has none."""

    def __init__(self) -> None:
        self._lock, self._size = threading.Lock(), 0
        self._threads: ThreadPoolExecutor | None = None

    def of_size(self, size: int) -> ThreadPoolExecutor:
        """Return a pool of at least this many threads."""
        with self._lock:
            if self._threads is None or self._size < size:
                # Who uses the smaller pool keeps it; its threads end with its last task.
                self._threads, self._size = ThreadPoolExecutor(size, "overstory-kernel", _begin_part), size
            return self._threads

    def forget(self) -> None:
        self.__init__()  # type: ignore[misc]


_pool = _Pool()
_here = threading.local()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forget)


def _begin_part() -> None:
    _here.is_part = True


def in_parts(kernel: Callable[[int, int], Result], rows: int, *, smallest: int) -> list[Result]:
    """Call ``kernel(start, stop)``, which releases the interpreter's lock, for parts of the rows; results in order."""
    parts = max(1, min(cores(None), rows // smallest))
    cuts = [rows * part // parts for part in range(parts + 1)]
    if parts == 1:
        return [kernel(0, rows)]
    if getattr(_here, "is_part", False):  # a part that waited for threads of its own pool could wait for itself
        return [kernel(start, stop) for start, stop in itertools.pairwise(cuts)]
    pool = _pool.of_size(parts - 1)
    others = [pool.submit(kernel, start, stop) for start, stop in itertools.pairwise(cuts[1:])]
    try:
        first = kernel(0, cuts[1])
    finally:
        wait(others)  # no part goes on writing after the call has failed
    return [first, *(other.result() for other in others)]
