"""The one path that is hot: POST /v1/reports as bare ASGI, in front of an application that answers all the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any, Final

from overstory.collector.answers import Answer, too_slow, trouble
from overstory.collector.ingest import JSON, Decision
from overstory.collector.intake import PATH, Head, Intake, read_head
from overstory.protocol.reasons import Reason

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

LONG: Final = 64 * 1024
"""A longer body that must be inflated or parsed is judged in another thread: the event loop has others to serve."""


class _Gone(Exception):  # noqa: N818 - no error: the other side hung up
    """The sender went away before its body was here."""


class HotPath:
    """Answers POST /v1/reports; hands every other request on.

    Parameters
    ----------
    intake
        What decides.
    app
        An ASGI application.
    """

    def __init__(self, intake: Intake, app: Application) -> None:
        self._intake, self._app = intake, app
        self._reading = 0

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request (ASGI 3)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["path"] != PATH and scope["method"] == "HEAD":
            await self._app({**scope, "method": "GET"}, receive, partial(_without_body, send))
        elif scope["path"] != PATH:
            await self._app(scope, receive, send)
        elif scope["method"] == "POST":
            await self._post(scope, receive, send)
        else:
            await respond(send, trouble(405, "method", f"{PATH} takes POST alone."), (b"allow", b"POST"))

    async def _post(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        head = read_head(scope["headers"])
        reason = self._intake.admit(head)
        if reason is not None:
            await respond(send, self._intake.refuse(reason, close=reason is Reason.TOO_LARGE))
            return
        try:
            async with asyncio.timeout(self._intake.limits.reading_seconds):
                body = await self._body(head, receive)
            answer = body if isinstance(body, Answer) else await self._answer(head, body)
        except TimeoutError:
            answer = too_slow()
        except _Gone:
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, it is ours, and the reports may come again
            answer = self._intake.fault(error)
        await respond(send, answer)

    async def _body(self, head: Head, receive: Receive) -> bytes | Answer:
        """Read the body, as long as all the bodies that are being read fit."""
        chunks: list[bytes] = []
        size = 0
        try:
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise _Gone
                chunk = message.get("body", b"")
                chunks.append(chunk)
                size += len(chunk)
                self._reading += len(chunk)
                if self._intake.too_large(head, size):
                    return self._intake.refuse(Reason.TOO_LARGE, close=True)
                if self._reading > self._intake.limits.reading_bytes:
                    return self._intake.refuse(Reason.QUEUE_FULL, close=True)
                if not message.get("more_body"):
                    return b"".join(chunks)
        finally:
            self._reading -= size

    async def _answer(self, head: Head, body: bytes) -> Answer:
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._intake.take(await self._decide(head, body), lambda answer: _settle(answered, answer))
        return await answered

    async def _decide(self, head: Head, body: bytes) -> Decision:
        if len(body) > LONG and (head.encoding or head.content_type == JSON):
            self._reading += len(body)  # however many wait for a thread, they are held within the same bound
            try:
                return await asyncio.to_thread(self._intake.decide, head, body)
            finally:
                self._reading -= len(body)
        return self._intake.decide(head, body)


def _settle(answered: asyncio.Future[Answer], answer: Answer) -> None:
    if not answered.done():  # a server that is stopped for good cancels who still waits
        answered.set_result(answer)


async def _without_body(send: Send, message: Message) -> None:
    if message["type"] == "http.response.body":
        message = {**message, "body": b""}
    await send(message)


async def respond(send: Send, answer: Answer, *more: tuple[bytes, bytes]) -> None:
    """Send an answer."""
    await send({"type": "http.response.start", "status": answer.status, "headers": [*answer.headers, *more]})
    await send({"type": "http.response.body", "body": answer.body})
