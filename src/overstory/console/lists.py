"""Lists of candidates that are too long for an address: held in memory under their SHA-256, the oldest leaves first."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Final

MOST_BYTES: Final = 64 * 1024 * 1024


class CandidateLists:
    """Lists by name.

    Examples
    --------
    >>> lists = CandidateLists()
    >>> lists.find(lists.hold(["ash", "oak"])), lists.find("unheard of")
    (('ash', 'oak'), None)
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes, self._bytes, self._lock = most_bytes, 0, Lock()
        self._lists: OrderedDict[str, bytes] = OrderedDict()

    def hold(self, candidates: Sequence[str]) -> str:
        """Hold a list, and return its name."""
        text = "\n".join(candidates).encode("utf-8", "surrogatepass")
        name = hashlib.sha256(text).hexdigest()
        with self._lock:
            if name not in self._lists:
                self._lists[name] = text
                self._bytes += len(text)
            self._lists.move_to_end(name)
            while self._bytes > self._most_bytes and len(self._lists) > 1:
                self._bytes -= len(self._lists.popitem(last=False)[1])
        return name

    def find(self, name: str) -> tuple[str, ...] | None:
        """Return a list, one candidate a line; None where it is not held, or not any more."""
        with self._lock:
            text = self._lists.get(name)
            if text is None:
                return None
            self._lists.move_to_end(name)
        return tuple(text.decode("utf-8", "surrogatepass").split("\n"))
