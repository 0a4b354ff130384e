"""POST /v1/reports: `ReportEndpoint` decides and answers after the commit, `HotPath` calls it from ASGI.

No web framework is involved in a post; `HotPath` passes all other requests to the application behind it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from overstory.collector.auth import WRITE, TokenTable
from overstory.collector.committer import Committer
from overstory.collector.http.responses import Response, answer_to, error_response, refusal, request_timeout
from overstory.collector.ingest.ingest import JSON, Decision, Ingest
from overstory.collector.log import SparseLog
from overstory.collector.telemetry import Telemetry
from overstory.collector.upkeep import Reserve
from overstory.protocol.wire.reasons import Reason
from overstory.protocol.wire.upload import MEDIA_TYPE

PATH: Final = "/v1/reports"
_TYPES: Final = {MEDIA_TYPE.encode(): MEDIA_TYPE, JSON.encode(): JSON}

_log: Final = logging.getLogger("overstory.collector")

Answered = Callable[[Response], None]


class Head(NamedTuple):
    """What a request's headers say about its sender's right to post, and about its body."""

    authorization: bytes = b""
    content_type: str = ""
    encoding: str = ""
    length: int | None = None


def read_head(headers: Iterable[tuple[bytes, bytes]]) -> Head:
    """Read the headers of a post.

    Examples
    --------
    >>> read_head([(b"content-type", b"Application/JSON; charset=utf-8"), (b"content-length", b"2")])
    Head(authorization=b'', content_type='application/json', encoding='', length=2)
    """
    authorization = kind = encoding = b""
    length: int | None = None
    for name, value in headers:
        if name == b"authorization":
            authorization = value
        elif name == b"content-type":
            kind = value
        elif name == b"content-length":
            length = int(value) if value.isdigit() else None
        elif name == b"content-encoding":
            encoding = value
    return Head(authorization, _media_type(kind), encoding.strip().lower().decode("latin-1"), length)


class ReportEndpoint:
    """Admits a request by its head, judges its body, and answers once what is sound is committed.

    Everything is called on the event loop.

    Parameters
    ----------
    clock
        Unix time in seconds.
    """

    def __init__(
        self,
        ingest: Ingest,
        committer: Committer,
        tokens: TokenTable,
        telemetry: Telemetry,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._ingest, self._committer, self._tokens = ingest, committer, tokens
        self.limits, self.telemetry, self._clock = ingest.limits, telemetry, clock
        self.closing = False
        self.reserve = Reserve()
        self._faults = SparseLog(_log)

    def judge_by(self, ingest: Ingest) -> None:
        """Judge what arrives from now on by another registry; what was judged before is committed as it was."""
        self._ingest = ingest

    def admit(self, head: Head) -> Reason | None:
        """Say why a request is refused before its body is read, or None."""
        if self.closing:
            return Reason.CLOSING
        reason = self._tokens.refuse(head.authorization, WRITE, self._clock())
        if reason is not None:
            return reason
        if head.content_type not in {MEDIA_TYPE, JSON}:
            return Reason.WRONG_TYPE
        if head.length is not None and self.too_large(head, head.length):
            return Reason.TOO_LARGE
        return self._no_room()

    def _no_room(self) -> Reason | None:
        """Say why nothing is taken at the moment, or None."""
        if not self._committer.alive:
            return Reason.STORE
        if self.reserve.short:
            return Reason.FAULT
        return Reason.QUEUE_FULL if self._committer.full else None

    def too_large(self, head: Head, size: int) -> bool:
        """Whether a body of that kind may not have that many bytes."""
        return size > (self.limits.json_bytes if head.content_type == JSON else self.limits.body_bytes)

    def refuse(self, reason: Reason, *, close: bool = False) -> Response:
        """Return the answer that refuses a request for one reason, and count it."""
        self.telemetry.rejected[reason] += 1
        return self._counted(refusal(reason, close=close))

    def fault(self, error: BaseException, *, close: bool = False) -> Response:
        """Return the answer to a request that something of ours failed on; log and count it."""
        self.telemetry.faults += 1
        self._faults.error("a request failed by a fault of ours", error, trace=True)
        return self.refuse(Reason.FAULT, close=close)

    def decide(self, head: Head, body: bytes) -> Decision:
        """Judge a body; this alone may run in another thread."""
        return self._ingest.decide(body, head.content_type, self._clock(), encoding=head.encoding)

    def take(self, decision: Decision, answered: Answered) -> None:
        """Have what was decided committed; `answered` is called once, at once or after the commit."""
        self.telemetry.decided(decision)
        if decision.refused is not None:
            answered(self._counted(refusal(decision.refused, where=decision.where)))
        elif not decision.received:
            answered(self._counted(answer_to(decision, ())))
        else:
            done = partial(self._committed, decision, answered)
            if not self._committer.submit(decision.received, decision.num_reports, decision.num_bytes, done):
                answered(self.refuse(Reason.QUEUE_FULL))

    def _committed(self, decision: Decision, answered: Answered, new: Sequence[bool] | None) -> None:
        if new is None:
            answered(self.refuse(Reason.STORE))
            return
        self.telemetry.stored(decision, new)
        answered(self._counted(answer_to(decision, new)))

    def _counted(self, answer: Response) -> Response:
        self.telemetry.requests[answer.status] += 1
        return answer


def _media_type(value: bytes) -> str:
    """Return a content type's media type, without parameters, in lower case."""
    known = _TYPES.get(value)
    return known or value.partition(b";")[0].strip().lower().decode("latin-1")


Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

LONG: Final = 64 * 1024
"""A longer body that must be inflated or parsed is judged in another thread: the event loop has others to serve."""


class _Gone(Exception):  # noqa: N818 - no error: the other side hung up
    """The sender went away before its body was here."""


class HotPath:
    """Answers POST /v1/reports; hands every other request on."""

    def __init__(self, endpoint: ReportEndpoint, app: Application) -> None:
        self._endpoint, self._app = endpoint, app
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
            await respond(send, error_response(405, "method", f"{PATH} takes POST alone."), (b"allow", b"POST"))

    async def _post(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        head = read_head(scope["headers"])
        reason = self._endpoint.admit(head)
        if reason is not None:
            await respond(send, self._endpoint.refuse(reason, close=reason is Reason.TOO_LARGE))
            return
        try:
            async with asyncio.timeout(self._endpoint.limits.reading_seconds):
                body = await self._body(head, receive)
            answer = body if isinstance(body, Response) else await self._answer(head, body)
        except TimeoutError:
            answer = request_timeout()
        except _Gone:
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, it is ours, and the reports may come again
            answer = self._endpoint.fault(error)
        await respond(send, answer)

    async def _body(self, head: Head, receive: Receive) -> bytes | Response:
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
                if self._endpoint.too_large(head, size):
                    return self._endpoint.refuse(Reason.TOO_LARGE, close=True)
                if self._reading > self._endpoint.limits.reading_bytes:
                    return self._endpoint.refuse(Reason.QUEUE_FULL, close=True)
                if not message.get("more_body"):
                    return b"".join(chunks)
        finally:
            self._reading -= size

    async def _answer(self, head: Head, body: bytes) -> Response:
        answered: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._endpoint.take(await self._decide(head, body), lambda answer: _resolve(answered, answer))
        return await answered

    async def _decide(self, head: Head, body: bytes) -> Decision:
        if len(body) > LONG and (head.encoding or head.content_type == JSON):
            self._reading += len(body)  # however many wait for a thread, they are held within the same bound
            try:
                return await asyncio.to_thread(self._endpoint.decide, head, body)
            finally:
                self._reading -= len(body)
        return self._endpoint.decide(head, body)


def _resolve(answered: asyncio.Future[Response], answer: Response) -> None:
    if not answered.done():  # a server that is stopped for good cancels who still waits
        answered.set_result(answer)


async def _without_body(send: Send, message: Message) -> None:
    if message["type"] == "http.response.body":
        message = {**message, "body": b""}
    await send(message)


async def respond(send: Send, answer: Response, *more: tuple[bytes, bytes]) -> None:
    """Send an answer."""
    await send({"type": "http.response.start", "status": answer.status, "headers": [*answer.headers, *more]})
    await send({"type": "http.response.body", "body": answer.body})
