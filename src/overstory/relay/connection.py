"""One request and its answer on one connection, by h11: bounded in size and in time, with few headers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import h11

from overstory.protocol.wire import parse_digits

MOST_HEAD: Final = 8192
READ_SECONDS: Final = 20.0
"""For a complete request, however slowly it comes."""

WRITE_SECONDS: Final = 10.0
LINGER_SECONDS: Final = 1.0
CHUNK: Final = 1 << 13
PROBLEM: Final = "application/problem+json"


class Answer(NamedTuple):
    """What is sent back; nothing else is."""

    status: int
    media_type: str = ""
    body: bytes = b""
    retry_after: int | None = None  # seconds
    allow: str = ""  # the methods of the page, where another was used


@dataclass(frozen=True, slots=True)
class Head:
    """What decides over a request before its body is read."""

    method: str
    path: str
    media_type: str
    forwarded: str  # X-Forwarded-For, which a proxy in front may have added
    length: int | None


def problem(status: int, detail: str, retry_after: int | None = None, allow: str = "") -> Answer:
    """Return an error of the relay's own, as problem details (RFC 9457)."""
    return Answer(status, PROBLEM, json.dumps({"status": status, "detail": detail}).encode(), retry_after, allow)


class RefusedError(Exception):
    """A request that gets an answer without its body having been read to the end."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        super().__init__(answer.status)


class Connection:
    """One connection of a sender."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most_body: int) -> None:
        self._reader, self._writer, self._most_body = reader, writer, most_body
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST_HEAD)

    async def read(self, judge: Callable[[Head], None]) -> tuple[Head, bytes] | None:
        """Return the request; None when the sender leaves before its end, or is too slow.

        `judge` raises `RefusedError` for what needs no body to be refused.
        """
        try:
            async with asyncio.timeout(READ_SECONDS):
                return await self._read(judge)
        except h11.RemoteProtocolError as error:
            raise RefusedError(problem(error.error_status_hint, "this is no request of HTTP/1.1")) from None
        except (TimeoutError, OSError):
            return None

    async def _read(self, judge: Callable[[Head], None]) -> tuple[Head, bytes] | None:
        head, body = None, bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    await self._send(h11.InformationalResponse(status_code=100, headers=[]))
                self._http.receive_data(await self._reader.read(CHUNK))
            elif isinstance(event, h11.Request):
                head = _head(event)
                judge(head)
                self._check_size(head.length or 0)
            elif isinstance(event, h11.Data):
                body += event.data
                self._check_size(len(body))
            elif isinstance(event, h11.EndOfMessage):
                assert head is not None
                return head, bytes(body)
            else:
                return None

    def _check_size(self, size: int) -> None:
        if size > self._most_body:
            raise RefusedError(problem(413, f"a message has at most {self._most_body} bytes"))

    async def write(self, answer: Answer) -> None:
        """Send the answer, and end the connection."""
        headers = [("content-length", str(len(answer.body))), ("connection", "close")]
        if answer.media_type:
            headers.insert(0, ("content-type", answer.media_type))
        if answer.retry_after is not None:
            headers.append(("retry-after", str(answer.retry_after)))
        if answer.allow:
            headers.append(("allow", answer.allow))
        with contextlib.suppress(OSError, TimeoutError, h11.LocalProtocolError):
            async with asyncio.timeout(WRITE_SECONDS):
                await self._send(h11.Response(status_code=answer.status, headers=headers))
                await self._send(h11.Data(data=answer.body))
                await self._send(h11.EndOfMessage())
                await self._linger()

    async def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            self._writer.write(data)
            await self._writer.drain()

    async def _linger(self) -> None:
        """Read what is left of a refused body, for a moment: a reset would take the answer away from its reader."""
        if self._http.their_state in {h11.DONE, h11.MUST_CLOSE, h11.CLOSED}:
            return
        if self._writer.can_write_eof():
            self._writer.write_eof()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                for _ in range(64):
                    if not await self._reader.read(CHUNK):
                        return


def _head(request: h11.Request) -> Head:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers}
    return Head(
        request.method.decode("latin-1"),
        _path(request.target.decode("latin-1")),
        headers.get("content-type", "").partition(";")[0].strip().lower(),
        headers.get("x-forwarded-for", ""),
        parse_digits(headers.get("content-length", "")),
    )


def _path(target: str) -> str:
    """Return the path of a request's target, which names the relay as well where it was sent to a proxy.

    >>> _path("/healthz?now"), _path("http://relay.example.net/"), _path("http://relay.example.net")
    ('/healthz', '/', '/')
    """
    if target.startswith(("http://", "https://")):
        target = "/" + target.split("://", 1)[1].partition("/")[2]
    return target.partition("?")[0]
