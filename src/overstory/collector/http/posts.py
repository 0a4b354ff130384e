"""Posts that no framework answers: their bodies are read within one bound, in time, and then answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypeVar

from overstory.collector.http.endpoint import Head, ReportEndpoint, Response, error_response, read_head, request_timeout
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


class Post(Protocol):
    """What one path does with a post."""

    def admit(self, head: Head) -> Response | None:
        """Return the answer that refuses a post by its head, or None."""
        ...

    def too_large(self, head: Head, size: int) -> bool:
        """Whether a body of that kind may not have that many bytes."""
        ...

    async def answer(self, head: Head, body: bytes) -> Response:
        """Return the answer to a post."""
        ...


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


async def answer_post(
    post: Post, endpoint: ReportEndpoint, bodies: Bodies, headers: Sequence[tuple[bytes, bytes]], receive: Receive
) -> Response | None:
    """Read a post and return its answer; None where its sender has gone."""
    head = read_head(headers)
    refused = post.admit(head)
    if refused is not None:
        return refused
    try:
        async with asyncio.timeout(endpoint.limits.reading_seconds):
            body = await bodies.read(receive, lambda size: post.too_large(head, size))
        return endpoint.refuse(body, close=True) if isinstance(body, Reason) else await post.answer(head, body)
    except TimeoutError:
        return request_timeout()
    except DisconnectedError:
        return None
    except Exception as error:  # noqa: BLE001 - any error is the collector's, and the reports may come again
        return endpoint.fault(error)


def only_posts(path: str) -> Response:
    """Return the answer to a request of another method."""
    return error_response(405, "method", f"{path} takes only POST.")


async def respond(send: Send, answer: Response, *more: tuple[bytes, bytes]) -> None:
    """Send an answer."""
    await send({"type": "http.response.start", "status": answer.status, "headers": [*answer.headers, *more]})
    await send({"type": "http.response.body", "body": answer.body})


class OtherShardPost:
    """POST /v1/reports/N of another shard than the collector's: refused before its body is read."""

    def __init__(self, endpoint: ReportEndpoint) -> None:
        self._endpoint = endpoint

    def admit(self, head: Head) -> Response | None:
        return self._endpoint.refuse(self._endpoint.admit(head) or Reason.WRONG_SHARD, close=True)

    def too_large(self, head: Head, size: int) -> bool:
        """Whether a body may not have that many bytes: none is read."""
        del head
        return size > 0

    async def answer(self, head: Head, body: bytes) -> Response:
        del head, body
        return self._endpoint.refuse(Reason.WRONG_SHARD)


class ReportPost:
    """POST /v1/reports, as one task."""

    def __init__(self, endpoint: ReportEndpoint, bodies: Bodies) -> None:
        self._endpoint, self._bodies = endpoint, bodies

    def admit(self, head: Head) -> Response | None:
        reason = self._endpoint.admit(head)
        return None if reason is None else self._endpoint.refuse(reason, close=reason is Reason.TOO_LARGE)

    def too_large(self, head: Head, size: int) -> bool:
        return self._endpoint.too_large(head, size)

    async def answer(self, head: Head, body: bytes, *, oblivious: bool = False) -> Response:
        """Decide and commit; `oblivious`: the reports came sealed, through a relay."""

        def decide() -> Decision:
            return self._endpoint.decide(head, body, oblivious=oblivious)

        # A few bytes can be inflated to megabytes.
        is_long = head.encoding not in {"", "identity"} or (len(body) > LONG and head.content_type == JSON)
        decision = await self._bodies.in_thread(body, decide) if is_long else decide()
        return await self._endpoint.taken(decision)
