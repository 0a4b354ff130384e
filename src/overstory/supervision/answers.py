"""The answers of a daemon over HTTP: their headers, and errors as problem details (RFC 9457) with a `reason`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from overstory.protocol.wire.reasons import Reason, problem_title, problem_type

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
        kind = self.media_type or (JSON if self.status < 400 else PROBLEM)
        headers = [(b"content-type", kind.encode()), *ON_ALL, (b"content-length", b"%d" % len(self.body))]
        if self.retry_after is not None:
            headers.append((b"retry-after", b"%d" % self.retry_after))
        if self.status == Reason.NO_TOKEN.status:
            headers.append((b"www-authenticate", b"Bearer"))
        if self.allow:
            headers.append((b"allow", self.allow.encode()))
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


def dumped(body: Any) -> bytes:
    """Return JSON values as compact text."""
    return json.dumps(body, separators=(",", ":")).encode()


# An overloaded collector refuses most requests: these bodies are made once.
_REFUSED: Final = {
    reason: dumped(_problem(reason.status, reason, reason.detail) | {"results": []}) for reason in Reason
}
