"""Bodies of requests as they arrive: how much of them is held at once is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from overstory.protocol.wire.reasons import Reason
from overstory.supervision.upkeep import in_thread

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

Result = TypeVar("Result")

THREADS: Final = 4  # bodies that are worked on in other threads at a time: JSON takes twenty times its size


class DisconnectedError(Exception):
    """The sender disconnected before its body had arrived."""


class Bodies:
    """Reads bodies, as long as all that are being read, or wait for a thread, fit together."""

    def __init__(self, reading_bytes: int) -> None:
        self._most, self._held = reading_bytes, 0
        self._threads = asyncio.Semaphore(THREADS)

    async def read(self, receive: Receive, too_large: Callable[[int], bool]) -> bytes | Reason:
        """Return a body, or why it is not read to its end."""
        chunks: list[bytes] = []
        size = 0
        try:
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise DisconnectedError
                chunk = message.get("body", b"")
                chunks.append(chunk)
                size += len(chunk)
                self._held += len(chunk)
                if too_large(size):
                    return Reason.TOO_LARGE
                if self._held > self._most:
                    return Reason.QUEUE_FULL
                if not message.get("more_body"):
                    return b"".join(chunks)
        finally:
            self._held -= size

    async def in_thread(self, body: bytes, work: Callable[[], Result]) -> Result:
        """Return what `work` makes of a body, from another thread; the body is within the bound until then."""
        with self.holding(len(body)):
            async with self._threads:
                return await in_thread(work)

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """Count a body that was read as one that is being read."""
        self._held += size
        try:
            yield
        finally:
            self._held -= size
