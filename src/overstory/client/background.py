"""The optional thread that flushes now and then, so that a program need not."""

from __future__ import annotations

import threading
from typing import Final, Protocol

GATHER: Final = 1.0
"""Seconds between a report and its flush, so that reports of one moment share a transaction."""


class Flushes(Protocol):
    """What the thread looks after."""

    def flush(self) -> object:
        """Write what is in memory, and send what is due; never raises."""
        ...


class Background:
    """A daemon thread: the program ends without asking it.

    Parameters
    ----------
    client
        What to flush.
    interval
        Seconds between two rounds when nothing new was recorded.
    """

    def __init__(self, client: Flushes, interval: float) -> None:
        self._client, self._interval = client, interval
        self._news, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="overstory", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Flush soon."""
        self._news.set()

    def stop(self, timeout: float) -> None:
        """End the thread, and wait for it so long."""
        self._stop.set()
        self._news.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._stop.is_set():
            if self._news.wait(self._interval):
                self._stop.wait(min(GATHER, self._interval))
            self._news.clear()
            if not self._stop.is_set():
                self._client.flush()
