"""A beat on the event loop that a thread gives: it goes on where a task would wait for ever.

Where memory ends, the event loop may find no room for the callback that wakes a task up. The task then waits for a
timer that has passed, or a result that is there, and nothing says so. A beat that is lost is followed by the next.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable


class Pulse:
    """Calls a function on an event loop again and again, until it is stopped.

    Parameters
    ----------
    loop
        The event loop.
    beat
        What is called; it must not raise.
    look
        What the thread itself calls before.
    seconds
        How often.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        beat: Callable[[], object],
        look: Callable[[], object],
        seconds: float,
    ) -> None:
        self._loop, self._beat, self._look, self._seconds = loop, beat, look, seconds
        self._going = threading.Lock()  # held while it beats: to wait for a lock takes no memory, for an Event it does
        self._thread = threading.Thread(target=self._run, name="overstory-pulse", daemon=True)

    def start(self) -> None:
        """Begin; the first beat is at once."""
        self._going.acquire()
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a beat that the loop has not come to yet may follow."""
        self._going.release()

    def _run(self) -> None:
        while True:
            try:
                self._look()
                self._loop.call_soon_threadsafe(self._beat)
                if self._going.acquire(timeout=self._seconds):
                    return
            except RuntimeError:  # the loop is closed
                return
            except MemoryError:  # the next beat may find some
                continue
