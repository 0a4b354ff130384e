"""The entrances for posts, without a framework: `ReportEndpoint` decides and answers after the commit.

`Application` hands every other request to the pages, which are Starlette's.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from overstory.collector.auth import WRITE, TokenTable
from overstory.collector.committer import Committer
from overstory.collector.ingest import JSON, Decision, Ingest, Result
from overstory.collector.telemetry import Telemetry
from overstory.protocol.wire import parse_digits
from overstory.protocol.wire.reasons import Reason
from overstory.protocol.wire.upload import MEDIA_TYPE
from overstory.supervision.answers import (
    Bodies,
    DisconnectedError,
    Message,
    Receive,
    Response,
    Send,
    dumped,
    error_response,
    refusal,
    send_answer,
)
from overstory.supervision.log import SparseLog
from overstory.supervision.upkeep import Reserve

PATH: Final = "/v1/reports"
MESSAGE_PATH: Final = "/v1/oblivious"
RELEASE_PATH: Final = "/v1/oblivious/release"
_TYPES: Final = {MEDIA_TYPE.encode(): MEDIA_TYPE, JSON.encode(): JSON}

_log: Final = logging.getLogger("overstory.collector")


class Head(NamedTuple):
    """The headers of a request that decide whether it may post, and how its body is read."""

    authorization: bytes = b""
    content_type: str = ""
    is_encoded: bool = False  # has a Content-Encoding: randomized reports do not compress, and none is undone
    length: int | None = None


def read_head(headers: Iterable[tuple[bytes, bytes]]) -> Head:
    """Read the headers of a post."""
    authorization = kind = encoding = b""
    length: int | None = None
    for name, value in headers:
        if name == b"authorization":
            authorization = value
        elif name == b"content-type":
            kind = value
        elif name == b"content-length":
            length = parse_digits(value)
        elif name == b"content-encoding":
            encoding = value
    content_type = _TYPES.get(kind) or kind.partition(b";")[0].strip().lower().decode("latin-1")
    is_encoded = encoding.strip().lower() not in {b"", b"identity"}
    return Head(authorization, content_type, is_encoded, length)


_ONE: Final = b'{"results":[{"batch":"%b","accepted":%d,"duplicate":%b,"reason":null,"rejected":[]}]}'


def answer_to(decision: Decision, new: Sequence[bool]) -> Response:
    """Return the answer to a decision after its commit; `new`: of each received batch, whether the store lacked it."""
    results = decision.results
    if len(results) == 1 and len(new) == 1 and not results[0].rejected:
        batch, accepted = results[0].batch.hex().encode(), results[0].accepted if new[0] else 0
        return Response(200, _ONE % (batch, accepted, b"false" if new[0] else b"true"))
    fresh = iter(new)
    listed = [_listed(result, fresh) for result in results]
    if not new:
        reason = next(result.reason for result in results if result.reason is not None)
        return refusal(reason, listed)
    return Response(200, dumped({"results": listed}))


def _listed(result: Result, fresh: Iterator[bool]) -> dict[str, Any]:
    new = result.reason is None and next(fresh)
    return {
        "batch": result.batch.hex(),
        "accepted": result.accepted if new else 0,
        "duplicate": result.reason is None and not new,
        "reason": result.reason,
        "rejected": [{"index": index, "reason": reason} for index, reason in result.rejected],
    }


LONG: Final = 64 * 1024
"""A longer body that must be parsed or opened is worked on in another thread: the event loop serves others."""


class ReportEndpoint:
    """Admits a request and decides on its body; all but `admit` and `decide` is for the event loop."""

    def __init__(
        self,
        ingest: Ingest,
        committer: Committer,
        tokens: TokenTable,
        telemetry: Telemetry,
        clock: Callable[[], float] = time.time,
        *,
        open_writes: bool = False,
    ) -> None:
        self._ingest, self._committer, self._tokens, self.open_writes = ingest, committer, tokens, open_writes
        self.limits, self.telemetry, self._clock = ingest.limits, telemetry, clock
        self.bodies = Bodies(ingest.limits.reading_bytes)
        self.closing = False
        self.reserve = Reserve()
        self._faults = SparseLog(_log)

    def use(self, ingest: Ingest) -> None:
        """Use another registry from now on; what was decided before is committed as it was."""
        self._ingest = ingest

    def admit(self, head: Head) -> Reason | None:
        if self.closing:
            return Reason.CLOSING
        reason = None if self.open_writes else self._tokens.refuse(head.authorization, WRITE, self._clock())
        if reason is not None:
            return reason
        if head.is_encoded or head.content_type not in {MEDIA_TYPE, JSON}:
            return Reason.WRONG_TYPE
        return Reason.TOO_LARGE if self.too_large(head) else self.unavailable()

    def unavailable(self) -> Reason | None:
        if self.closing:
            return Reason.CLOSING
        if self._committer.hangs or not self._committer.alive:
            return Reason.STORE
        if self.reserve.short:
            return Reason.FAULT
        return Reason.QUEUE_FULL if self._committer.full else None

    def most_bytes(self, head: Head) -> int:
        return self.limits.json_bytes if head.content_type == JSON else self.limits.body_bytes

    def too_large(self, head: Head) -> bool:
        return head.length is not None and head.length > self.most_bytes(head)

    def refuse(self, reason: Reason, *, close: bool = False) -> Response:
        self.telemetry.reject(reason)
        return self._counted(refusal(reason, close=close))

    def fault(self, error: BaseException, *, close: bool = False) -> Response:
        self.telemetry.faults += 1
        self._faults.error("a request failed because of an error in the collector", error, trace=True)
        return self.refuse(Reason.FAULT, close=close)

    def decide(self, head: Head, body: bytes, *, oblivious: bool = False) -> Decision:
        return self._ingest.decide(body, head.content_type, self._clock(), oblivious=oblivious)

    async def post(self, head: Head, body: bytes, *, oblivious: bool = False) -> Response:
        """Decide about reports, commit them, and answer; `oblivious`: they came sealed, through a relay."""
        decide = partial(self.decide, head, body, oblivious=oblivious)
        is_long = len(body) > LONG and head.content_type == JSON
        return await self.taken(await self.bodies.in_thread(body, decide) if is_long else decide())

    async def taken(self, decision: Decision) -> Response:
        """Commit what was decided, and return the answer to it."""
        self.telemetry.decided(decision)
        if decision.refused is not None:
            return self._counted(refusal(decision.refused, where=decision.where))
        if not decision.received:
            return self._counted(answer_to(decision, ()))
        committed: asyncio.Future[Sequence[bool] | None] = asyncio.get_running_loop().create_future()
        done = partial(_resolve, committed)
        if not self._committer.submit(decision.received, decision.num_reports, decision.num_bytes, done):
            return self.refuse(Reason.QUEUE_FULL)
        new = await committed
        if new is None:
            return self.refuse(Reason.STORE)
        self.telemetry.stored(decision, new)
        return self._counted(answer_to(decision, new))

    def _counted(self, answer: Response) -> Response:
        self.telemetry.requests[answer.status] += 1
        return answer


def _resolve(committed: asyncio.Future[Sequence[bool] | None], new: Sequence[bool] | None) -> None:
    if not committed.done():  # a server that stops cancels those that wait
        committed.set_result(new)


class Entrance:
    """The entrance for posts to one path: `judge` says why a head is refused, or None; `work` answers a body."""

    def __init__(
        self,
        endpoint: ReportEndpoint,
        judge: Callable[[Head], Reason | Response | None],
        work: Callable[[Head, bytes], Awaitable[Response]],
    ) -> None:
        self.endpoint, self._judge, self._work = endpoint, judge, work

    def refuse(self, head: Head) -> Response | None:
        why = self._judge(head)
        return self.endpoint.refuse(why, close=why is Reason.TOO_LARGE) if isinstance(why, Reason) else why

    async def answer(self, headers: Sequence[tuple[bytes, bytes]], receive: Receive) -> Response | None:
        head = read_head(headers)
        refused = self.refuse(head)
        if refused is not None:
            return refused
        try:
            body = await self.endpoint.bodies.read(receive, self.endpoint.most_bytes(head))
            return self.endpoint.refuse(body, close=True) if isinstance(body, Reason) else await self._work(head, body)
        except DisconnectedError:
            return None
        except Exception as error:  # noqa: BLE001 - any error is the collector's, and the reports may come again
            return self.endpoint.fault(error)


class Application:
    """Answers posts of reports, sealed ones too, by their paths; passes every other request to the pages (ASGI 3)."""

    def __init__(
        self, entrances: Mapping[str, Entrance], pages: Callable[[Message, Receive, Send], Awaitable[None]]
    ) -> None:
        self._entrances, self._pages = entrances, pages

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        entrance = self._entrances.get(scope["path"]) if scope["type"] == "http" else None
        if entrance is None:
            await self._pages(scope, receive, send)
            return
        if scope["method"] == "POST":
            answer = await entrance.answer(scope["headers"], receive)
        else:
            only = error_response(405, "method", f"{scope['path']} takes only POST.")
            answer = only._replace(allow="POST")
        if answer is not None:
            await send_answer(scope, send, answer)
