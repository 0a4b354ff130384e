"""POST /v1/reports, from the head of a request to its answer: `ReportEndpoint` decides, and answers after the commit.

No web framework and no socket is involved. Every error is problem details (RFC 9457), with a `reason` for programs.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from overstory.collector.auth import WRITE, TokenTable
from overstory.collector.committer import Committer
from overstory.collector.ingest.ingest import JSON, Decision, Ingest, Result
from overstory.collector.telemetry import Telemetry
from overstory.protocol.wire import parse_digits
from overstory.protocol.wire.reasons import Reason, problem_title, problem_type
from overstory.protocol.wire.upload import MEDIA_TYPE
from overstory.supervision.log import SparseLog
from overstory.supervision.upkeep import Reserve

PATH: Final = "/v1/reports"
MESSAGE_PATH: Final = "/v1/oblivious"
RELEASE_PATH: Final = "/v1/oblivious/release"
URL: Final = PATH.encode()
_TYPES: Final = {MEDIA_TYPE.encode(): MEDIA_TYPE, JSON.encode(): JSON}

_log: Final = logging.getLogger("overstory.collector")


class Head(NamedTuple):
    """The headers of a request that decide whether it may post, and how its body is read."""

    authorization: bytes = b""
    content_type: str = ""
    encoding: str = ""
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
    return Head(authorization, content_type, encoding.strip().lower().decode("latin-1"), length)


RETRY_AFTER: Final = {Reason.QUEUE_FULL: 5, Reason.CLOSING: 10, Reason.STORE: 30, Reason.FAULT: 60}
"""Seconds after which the same bytes may be sent again."""

ON_ALL: Final = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
)
ALWAYS: Final = ((b"content-type", b"application/json"), *ON_ALL)
"""Headers of every answer of JSON."""
ALWAYS_TEXT: Final = {name.decode(): value.decode() for name, value in ALWAYS}
PROBLEM: Final = "application/problem+json"
"""The media type of errors (RFC 9457)."""

LONGEST_WHERE: Final = 1024
"""Bytes, in JSON, of what an answer says is wrong in a body."""

_ONE: Final = b'{"results":[{"batch":"%b","accepted":%d,"duplicate":%b,"reason":null,"rejected":[]}]}'


class Response(NamedTuple):
    """An answer: JSON, or a sealed response."""

    status: int  # the HTTP status
    body: bytes
    retry_after: int | None = None  # seconds, where the same request may be sent again
    close: bool = False  # whether the connection ends with it: further bytes of the sender are not read
    media_type: str = ""  # empty: that of JSON, or of errors

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers, without those about keeping the connection."""
        kind = self.media_type or (JSON if self.status < 400 else PROBLEM)
        headers = [(b"content-type", kind.encode()), *ON_ALL, (b"content-length", b"%d" % len(self.body))]
        if self.retry_after is not None:
            headers.append((b"retry-after", b"%d" % self.retry_after))
        if self.status == Reason.NO_TOKEN.status:
            headers.append((b"www-authenticate", b"Bearer"))
        if self.close:
            headers.append((b"connection", b"close"))
        return headers


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


def refuse_head(headers: Sequence[tuple[bytes, bytes]], url: bytes, version: str) -> Response | None:
    """Return the response to a head that does not say how to read the request (RFC 9112, 3.2 and 6.1), or None."""
    hosts = sum(name == b"host" for name, _ in headers)
    codings = [value.strip().lower() for name, value in headers if name == b"transfer-encoding"]
    if hosts > 1 or (hosts == 0 and version == "1.1"):
        return error_response(400, "http", "A request must have exactly one Host header.", close=True)
    if codings and codings != [b"chunked"]:
        return error_response(501, "transfer-encoding", "Transfer-Encoding must be chunked or absent.", close=True)
    if url != URL and not _has_path(url):
        return error_response(400, "http", "The request has no path.", close=True)
    return None


def _has_path(url: bytes) -> bool:
    import httptools  # it called us: without it h11 parses

    try:
        httptools.parse_url(url).path.decode("ascii")
    except (httptools.HttpParserError, UnicodeDecodeError, AttributeError):
        return False
    return True


def without_upgrade(method: bytes, url: bytes, version: str, headers: Sequence[tuple[bytes, bytes]]) -> bytes | None:
    """Return the bytes of a head without its offer to speak another protocol; None where that cannot be written."""
    lines = [b"%b %b HTTP/%b" % (method, url, version.encode())]
    for name, value in headers:
        if name == b"connection":
            options = [option.strip() for option in value.split(b",")]
            lines.append(b"connection: " + b", ".join([option for option in options if option.lower() != b"upgrade"]))
        elif name != b"upgrade":
            lines.append(b"%b: %b" % (name, value))
    if method == b"CONNECT" or any(b"\r" in line or b"\n" in line for line in lines):
        return None
    return b"\r\n".join([*lines, b"", b""])


def dumped(body: Any) -> bytes:
    """Return JSON values as compact text."""
    return json.dumps(body, separators=(",", ":")).encode()


# An overloaded collector refuses most requests: these bodies are made once.
_REFUSED: Final = {
    reason: dumped(_problem(reason.status, reason, reason.detail) | {"results": []}) for reason in Reason
}


Answered = Callable[[Response], None]


class ReportEndpoint:
    """Admits a request by its head, checks its body, and answers after its valid reports are committed.

    All methods are called on the event loop. `urls` are the request targets of reports: PATH, and below it the path of
    the collector's shard, if it has one.
    """

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
        shard = ingest.shard
        self.urls: frozenset[bytes] = frozenset({URL} if shard is None else {URL, b"%b/%d" % (URL, shard)})
        self.closing = False
        self.reserve = Reserve()
        self._faults = SparseLog(_log)

    def use(self, ingest: Ingest) -> None:
        """Use another registry from now on; what was decided before is committed as it was."""
        self._ingest = ingest

    def admit(self, head: Head) -> Reason | None:
        """Return why a request is refused before its body is read, or None."""
        if self.closing:
            return Reason.CLOSING
        reason = None if self.open_writes else self._tokens.refuse(head.authorization, WRITE, self._clock())
        if reason is not None:
            return reason
        if head.content_type not in {MEDIA_TYPE, JSON}:
            return Reason.WRONG_TYPE
        if head.length is not None and self.too_large(head, head.length):
            return Reason.TOO_LARGE
        return self.unavailable()

    def unavailable(self) -> Reason | None:
        """Return why no reports are taken at the moment, or None."""
        if self.closing:
            return Reason.CLOSING
        if self._committer.hangs or not self._committer.alive:
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
        """Return the answer to a request that failed because of an error in the collector; log and count it."""
        self.telemetry.faults += 1
        self._faults.error("a request failed because of an error in the collector", error, trace=True)
        return self.refuse(Reason.FAULT, close=close)

    def decide(self, head: Head, body: bytes, *, oblivious: bool = False) -> Decision:
        """Decide about a body, which may have come sealed; only this method may run in another thread."""
        return self._ingest.decide(body, head.content_type, self._clock(), encoding=head.encoding, oblivious=oblivious)

    async def taken(self, decision: Decision) -> Response:
        """Commit what was decided, and return the answer."""
        answered: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self.take(decision, partial(_resolve, answered))
        return await answered

    def take(self, decision: Decision, answered: Answered) -> None:
        """Commit what was decided; `answered` is called once, at once or after the commit."""
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


def _resolve(answered: asyncio.Future[Response], answer: Response) -> None:
    if not answered.done():  # a server that stops cancels those that wait
        answered.set_result(answer)
