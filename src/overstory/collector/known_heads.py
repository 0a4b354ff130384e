"""Most posts begin with the very bytes that another post began with: such a head is not parsed again.

A sender's library writes its head alike each time, and so do all devices that run it: only the body differs. What a
head means was found by the parser, once; the same bytes at the same place, the beginning of a request, mean the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from overstory.collector.intake import Head

PLAIN: Final = frozenset(
    (b"host", b"content-type", b"content-length", b"authorization", b"connection", b"accept", b"accept-encoding")
)
"""A head with any other name in it is not remembered: nothing of who a sender is (an address that a proxy has added, a
user agent) stays here, and nothing that changes how a request is read."""

LONGEST: Final = 1024
MOST: Final = 1024
"""So long a head, and so many of them, are remembered."""

_END: Final = b"\r\n\r\n"


class KnownHeads:
    """The heads seen so far, of posts that were admitted and kept their connection."""

    def __init__(self) -> None:
        self._known: dict[bytes, Head] = {}

    def __len__(self) -> int:
        return len(self._known)

    def split(self, data: bytes) -> tuple[Head, bytes] | None:
        """Return the head and the body of `data` when it is one whole request with a known head; else None.

        Parameters
        ----------
        data
            What arrived where a request begins.
        """
        end = data.find(_END) + len(_END)
        head = self._known.get(data[:end])
        if head is None or len(data) - end != head.length:
            return None
        return head, data[end:]

    def learn(self, data: bytes, head: Head, names: Sequence[bytes]) -> None:
        """Remember the head of a request that the parser found to be all of `data`.

        Parameters
        ----------
        data
            One request, nothing before and nothing after it.
        head, names
            What the parser made of its head; the names in lower case.
        """
        assert head.length is not None
        end = len(data) - head.length
        # A parser may end a head at other bytes than these, too. Then this is no head that `split` could find.
        if end > LONGEST or data.find(_END) + len(_END) != end or not PLAIN.issuperset(names):
            return
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[data[:end]] = head
