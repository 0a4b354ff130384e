"""Threads of a daemon, all of which begin with it.

Python's `Thread.start` waits until the new thread has begun, and waits for ever if that has no memory to begin. Whoever
starts one while memory is short would stand still: a daemon starts its threads while there is some.
"""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor


def full_pool(size: int, name: str) -> ThreadPoolExecutor:
    """Return a pool whose threads have begun."""
    pool, begun = ThreadPoolExecutor(size, name), threading.Barrier(size + 1)
    for _ in range(size):
        pool.submit(begun.wait)
    begun.wait()
    return pool


def fill_default_pool(loop: asyncio.AbstractEventLoop) -> None:
    """Let the threads begin that an event loop works in; as many as asyncio would start by and by."""
    loop.set_default_executor(full_pool(min(32, (os.cpu_count() or 1) + 4), "overstory-thread"))
