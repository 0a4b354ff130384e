"""What a collector answers: a status, a few headers, a JSON body.

Every error is problem details (RFC 9457), with a `reason` for programs.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from fastapi import FastAPI, Request
from fastapi import Response as FastAPIResponse
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from overstory.collector.ingest.ingest import Decision, Result
from overstory.collector.store import StoreError
from overstory.collector.store.database import RecountError
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import UnknownMetricError
from overstory.protocol.wire.reasons import Reason, problem_title, problem_type

RETRY_AFTER: Final = {Reason.QUEUE_FULL: 5, Reason.CLOSING: 10, Reason.STORE: 30, Reason.FAULT: 60}
"""Seconds after which the same bytes may be sent again."""

_ON_ALL: Final = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
)
ALWAYS: Final = ((b"content-type", b"application/json"), *_ON_ALL)
"""What stands on every answer of JSON."""
PROBLEM: Final = "application/problem+json"
"""The media type of errors (RFC 9457)."""
_ON_PROBLEMS: Final = ((b"content-type", PROBLEM.encode()), *_ON_ALL)

_ONE: Final = b'{"results":[{"batch":"%b","accepted":%d,"duplicate":%b,"reason":null,"rejected":[]}]}'


class Response(NamedTuple):
    """An answer of JSON."""

    status: int  # the HTTP status
    body: bytes  # the JSON text
    retry_after: int | None = None  # seconds, where the same request may be sent again
    close: bool = False  # whether the connection ends with it: what the sender goes on sending is not read

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """All headers but those that say how the connection goes on."""
        headers = [*(ALWAYS if self.status < 400 else _ON_PROBLEMS), (b"content-length", b"%d" % len(self.body))]
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
    """Return the answer that refuses a request.

    Examples
    --------
    >>> answer = refusal(Reason.QUEUE_FULL)
    >>> answer.status, answer.retry_after, answer.body[:30]
    (429, 5, b'{"type":"/problems/queue-full"')
    """
    if results or where:
        more = {"results": list(results)} | ({"where": where} if where else {})
        body = _dumped(_problem(reason.status, reason, reason.detail) | more)
    else:
        body = _REFUSED[reason]
    return Response(reason.status, body, RETRY_AFTER.get(reason), close)


def error_response(status: int, reason: str, detail: str, *, close: bool = False) -> Response:
    """Return an error that is not about reports."""
    return Response(status, _dumped(_problem(status, reason, detail)), close=close)


def _problem(status: int, reason: str, detail: str) -> dict[str, Any]:
    kind = {"type": problem_type(reason), "title": problem_title(reason), "status": status}
    return kind | {"detail": detail, "reason": str(reason)}


def request_timeout() -> Response:
    """Return the answer to a request that does not arrive: it may be sent again."""
    return error_response(408, "slow", "The request did not arrive in time: send it again.", close=True)


def answer_to(decision: Decision, new: Sequence[bool]) -> Response:
    """Return the answer to a decision, once what it took is committed.

    Parameters
    ----------
    new
        For each of ``decision.received``, whether the store saw its batch for the first time.
    """
    results = decision.results
    if len(results) == 1 and len(new) == 1 and not results[0].rejected:
        return Response(200, _ONE % _single(results[0], new=new[0]))
    fresh = iter(new)
    listed = [_listed(result, fresh) for result in results]
    if not new:
        reason = next(result.reason for result in results if result.reason is not None)
        return refusal(reason, listed)
    return Response(200, _dumped({"results": listed}))


def _single(result: Result, *, new: bool) -> tuple[bytes, int, bytes]:
    return result.batch.hex().encode(), result.accepted if new else 0, b"false" if new else b"true"


def _listed(result: Result, fresh: Iterator[bool]) -> dict[str, Any]:
    new = result.reason is None and next(fresh)
    return {
        "batch": result.batch.hex(),
        "accepted": result.accepted if new else 0,
        "duplicate": result.reason is None and not new,
        "reason": result.reason,
        "rejected": [{"index": index, "reason": reason} for index, reason in result.rejected],
    }


def _dumped(body: Any) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


# An overloaded collector refuses most: these bodies are made once.
_REFUSED: Final = {
    reason: _dumped(_problem(reason.status, reason, reason.detail) | {"results": []}) for reason in Reason
}


NAMES: Final = {404: "not-found", 405: "method"}


class AccessError(Exception):
    """A page that needs a token, asked for without a right one."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason
        super().__init__(reason.value)


def as_response(answer: Response, **headers: str) -> FastAPIResponse:
    """Return an answer as the framework's response."""
    own = {name.decode(): value.decode() for name, value in answer.headers}
    return FastAPIResponse(answer.body, answer.status, own | headers)


def handle_errors(app: FastAPI) -> None:
    """Let every error of `app` be answered in JSON."""
    handlers: dict[Any, Callable[[Request, Any], Awaitable[FastAPIResponse]]] = {
        AccessError: _access,
        UnknownMetricError: _unknown,
        ParameterError: _parameters,
        RecountError: _parameters,  # no trouble that passes: another range, or another registry, is what helps
        RequestValidationError: _invalid,
        StoreError: _store,
        HTTPException: _http,
        Exception: _fault,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)


async def _access(_: Request, error: AccessError) -> FastAPIResponse:
    detail = {
        Reason.NO_TOKEN: "This page needs an admin token: send it as Authorization: Bearer.",
        Reason.UNKNOWN_TOKEN: "The admin token is not known here, was revoked, or has expired.",
    }[error.reason]
    return as_response(error_response(401, error.reason, detail))


async def _unknown(_: Request, error: UnknownMetricError) -> FastAPIResponse:
    return as_response(error_response(404, Reason.UNKNOWN_METRIC, str(error)))


async def _parameters(_: Request, error: ParameterError | RecountError) -> FastAPIResponse:
    return as_response(error_response(400, "parameters", str(error)))


async def _invalid(_: Request, error: RequestValidationError) -> FastAPIResponse:
    wrong = "; ".join(f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in error.errors())
    return as_response(error_response(400, "parameters", wrong))


async def _store(_: Request, error: StoreError) -> FastAPIResponse:  # noqa: ARG001 - it names the store, which is nobody's business
    return as_response(
        error_response(503, Reason.STORE, "The collector cannot read its store at the moment."),
        **{"retry-after": str(RETRY_AFTER[Reason.STORE])},
    )


async def _http(_: Request, error: HTTPException) -> FastAPIResponse:
    answer = error_response(error.status_code, NAMES.get(error.status_code, "request"), str(error.detail))
    return as_response(answer, **dict(error.headers or {}))


async def _fault(_: Request, error: Exception) -> FastAPIResponse:  # noqa: ARG001 - it is logged where it was raised
    return as_response(error_response(500, "fault", "This is a fault of ours; please report it."))
