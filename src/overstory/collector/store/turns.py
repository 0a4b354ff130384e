"""A lock that is handed over in the order in which it was asked for."""

from __future__ import annotations

from collections import deque
from threading import Lock


class Turns:
    """A lock for threads, first come, first served.

    `threading.Lock` goes to whichever thread is awake, and that is the one that gave it back: a loop of transactions
    would keep every other writer out until it has ended.

    Examples
    --------
    >>> turns = Turns()
    >>> with turns:
    ...     turns.taken
    True
    >>> turns.taken
    False
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: deque[Lock] = deque()
        self.taken = False

    def __enter__(self) -> None:
        with self._lock:
            if not self.taken:
                self.taken = True
                return
            mine = Lock()
            mine.acquire()
            self._waiting.append(mine)
        mine.acquire()  # released by whoever hands over; it stays taken meanwhile

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self.taken = False
