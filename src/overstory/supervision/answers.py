"""What a daemon reads and answers over HTTP: bodies within a bound; errors as problem details (RFC 9457)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeVar

from overstory.protocol.wire.reasons import Reason, problem_title, problem_type
from overstory.supervision.upkeep import in_thread

STATUS: Final = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
"""The first line of each answer."""

JSON: Final = "application/json"

RETRY_AFTER: Final = {Reason.QUEUE_FULL: 5, Reason.CLOSING: 10, Reason.STORE: 30, Reason.FAULT: 60}
"""Seconds after which the same bytes may be sent again."""

ON_ALL: Final = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
)
ALWAYS: Final = ((b"content-type", b"application/json"), *ON_ALL)  # headers of every answer of JSON
ALWAYS_TEXT: Final = {name.decode(): value.decode() for name, value in ALWAYS}
PROBLEM: Final = "application/problem+json"  # the media type of errors (RFC 9457)
LONGEST_WHERE: Final = 1024  # bytes, in JSON, of what an answer says is wrong in a body


class Response(NamedTuple):
    """An answer: JSON, or a sealed response."""

    status: int  # the HTTP status
    body: bytes
    retry_after: int | None = None  # seconds, where the same request may be sent again
    close: bool = False  # whether the connection ends with it: further bytes of the sender are not read
    media_type: str = ""  # empty: that of JSON, or of errors
    allow: str = ""  # the methods of the page, where another was used

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers; that of the length is the last."""
        kind = self.media_type or (JSON if self.status < 400 else PROBLEM)
        headers = [(b"content-type", kind.encode())] if self.body else []
        headers += ON_ALL
        if self.retry_after is not None:
            headers.append((b"retry-after", b"%d" % self.retry_after))
        if self.status == Reason.NO_TOKEN.status:
            headers.append((b"www-authenticate", b"Bearer"))
        if self.allow:
            headers.append((b"allow", self.allow.encode()))
        if self.close:
            headers.append((b"connection", b"close"))
        return [*headers, (b"content-length", b"%d" % len(self.body))]

    @property
    def head(self) -> bytes:
        """The first line and the headers, but for the length's value."""
        return _head(self._replace(body=self.body[:1]))


@lru_cache(maxsize=256)
def _head(like: Response) -> bytes:
    lines = b"".join([b"%b: %b\r\n" % line for line in like.headers[:-1]])
    return STATUS[like.status] + lines + b"content-length: "


WHOLE: Final = "overstory.response"
"""The extension of ASGI by which our connections take a whole answer at once."""


async def send_answer(scope: Mapping[str, Any], send: Send, answer: Response) -> None:
    """Send a whole answer: in one write by our own connections."""
    whole = scope.get("extensions", {}).get(WHOLE)
    if whole is not None:
        await whole["send"](answer)
    else:  # another server
        await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
        await send({"type": "http.response.body", "body": answer.body})


def refusal(
    reason: Reason, results: Sequence[dict[str, Any]] = (), *, where: str = "", close: bool = False
) -> Response:
    """Return the answer that refuses a request."""
    if results or where:
        # It may quote the body, and a sealed answer has one length whatever was sent.
        shortened = where if len(dumped(where)) <= LONGEST_WHERE else f"{where[:80]} ..."
        more = {"results": list(results)} | ({"where": shortened} if where else {})
        body = dumped(_problem(reason.status, reason, reason.detail) | more)
    else:
        body = _REFUSED[reason]
    return Response(reason.status, body, RETRY_AFTER.get(reason), close)


def error_response(status: int, reason: str, detail: str, *, close: bool = False) -> Response:
    """Return an error that is not about reports."""
    return Response(status, dumped(_problem(status, reason, detail)), close=close)


def _problem(status: int, reason: str, detail: str) -> dict[str, Any]:
    kind = {"type": problem_type(reason), "title": problem_title(reason), "status": status}
    return kind | {"detail": detail, "reason": str(reason)}


def request_timeout() -> Response:
    """Return the answer to a request that did not arrive in time: it may be sent again."""
    return error_response(408, "slow", "The request did not arrive in time: send it again.", close=True)


def dumped(body: Any) -> bytes:
    """Return JSON values as compact text."""
    return json.dumps(body, separators=(",", ":")).encode()


# An overloaded collector refuses most requests: these bodies are made once.
_REFUSED: Final = {
    reason: dumped(_problem(reason.status, reason, reason.detail) | {"results": []}) for reason in Reason
}


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

    async def read(self, receive: Receive, most: int) -> bytes | Reason:
        """Return a body of at most so many bytes, or why it is not read to its end."""
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
                if size > most:
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
