"""The entrance for posts, which no framework answers: bodies are read within one bound, in time, and answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeVar

from overstory.collector.http.endpoint import Head, ReportEndpoint, Response, read_head, request_timeout
from overstory.collector.ingest.ingest import JSON, Decision
from overstory.collector.settings import Limits
from overstory.protocol.wire.reasons import Reason
from overstory.supervision.upkeep import in_thread

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

Result = TypeVar("Result")

LONG: Final = 64 * 1024
"""A longer body that must be parsed or opened is worked on in another thread: the event loop serves others."""


THREADS: Final = 4
"""Bodies that are worked on in other threads at a time: each may be inflated to megabytes."""


class DisconnectedError(Exception):
    """The sender disconnected before its body had arrived."""


class Bodies:
    """Reads bodies, as long as all that are being read, or wait for a thread, fit together."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._held = 0
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
                if self._held > self._limits.reading_bytes:
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


class Entrance:
    """The entrance for posts to one path: it refuses by the head, or reads within bounds, in time, and answers.

    `judge` returns why a post is refused by its head, as a reason or as an answer, or None; `work` answers a body.
    """

    def __init__(
        self,
        endpoint: ReportEndpoint,
        bodies: Bodies,
        judge: Callable[[Head], Reason | Response | None],
        work: Callable[[Head, bytes], Awaitable[Response]],
    ) -> None:
        self.endpoint, self.bodies, self._judge, self._work = endpoint, bodies, judge, work

    def refuse(self, head: Head) -> Response | None:
        """Return the answer that refuses a post by its head, or None."""
        why = self._judge(head)
        return self.endpoint.refuse(why, close=why is Reason.TOO_LARGE) if isinstance(why, Reason) else why

    async def answer(self, headers: Sequence[tuple[bytes, bytes]], receive: Receive) -> Response | None:
        """Read a post and return its answer; None where its sender has gone."""
        head = read_head(headers)
        refused = self.refuse(head)
        if refused is not None:
            return refused
        try:
            async with asyncio.timeout(self.endpoint.limits.reading_seconds):
                body = await self.bodies.read(receive, partial(self.endpoint.too_large, head))
            return self.endpoint.refuse(body, close=True) if isinstance(body, Reason) else await self._work(head, body)
        except TimeoutError:
            return request_timeout()
        except DisconnectedError:
            return None
        except Exception as error:  # noqa: BLE001 - any error is the collector's, and the reports may come again
            return self.endpoint.fault(error)


class ReportEntrance(Entrance):
    """POST /v1/reports."""

    def __init__(self, endpoint: ReportEndpoint, bodies: Bodies) -> None:
        super().__init__(endpoint, bodies, endpoint.admit, self.post)

    async def post(self, head: Head, body: bytes, *, oblivious: bool = False) -> Response:
        """Decide about reports and commit them; `oblivious`: they came sealed, through a relay."""

        def decide() -> Decision:
            return self.endpoint.decide(head, body, oblivious=oblivious)

        # A few bytes can be inflated to megabytes.
        is_long = head.encoding not in {"", "identity"} or (len(body) > LONG and head.content_type == JSON)
        return await self.endpoint.taken(await self.bodies.in_thread(body, decide) if is_long else decide())

    def of_other_shards(self) -> Entrance:
        """Return the entrance of another shard than the collector's: it refuses each post before its body is read."""

        def judge(head: Head) -> Response:
            return self.endpoint.refuse(self.endpoint.admit(head) or Reason.WRONG_SHARD, close=True)

        return Entrance(self.endpoint, self.bodies, judge, self.post)
