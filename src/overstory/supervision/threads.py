"""Threads of a daemon, all of which begin with it.

Python's `Thread.start` waits until the new thread has begun, and waits for ever if that has no memory to begin. Whoever
starts one while memory is short would stand still: a daemon starts its threads while there is some. Nor can a thread
without memory tell an event loop that it is done: `asyncio.to_thread` then waits for ever, and `result_of` does not.
"""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

Result = TypeVar("Result")

FIRST_LOOK: Final = 0.001
LONGEST_LOOK: Final = 0.05
"""Seconds between two looks at a thread's work: at first, and at most."""


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


async def result_of(work: Future[Result]) -> Result:
    """Return what a thread of a pool does, once it is done: the loop looks, ever more seldom, and is not told."""
    pause = FIRST_LOOK
    while not work.done():
        await asyncio.sleep(pause)
        pause = min(1.25 * pause, LONGEST_LOOK)
    return work.result()
