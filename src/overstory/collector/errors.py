"""Every error of a page is JSON: a reason for programs, a sentence for people."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from overstory.collector.answers import RETRY_AFTER, Answer, trouble
from overstory.collector.store import StoreError
from overstory.collector.store.errors import RecountError
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import UnknownMetricError
from overstory.protocol.reasons import Reason

NAMES: Final = {404: "not-found", 405: "method"}


class AccessError(Exception):
    """A page that needs a token, asked for without a right one."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason
        super().__init__(reason.value)


def as_response(answer: Answer, **headers: str) -> Response:
    """Return an answer as the framework's response."""
    own = {name.decode(): value.decode() for name, value in answer.headers}
    return Response(answer.body, answer.status, own | headers)


def handle_errors(app: FastAPI) -> None:
    """Let every error of `app` be answered in JSON."""
    handlers: dict[Any, Callable[[Request, Any], Awaitable[Response]]] = {
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


async def _access(_: Request, error: AccessError) -> Response:
    said = {
        Reason.NO_TOKEN: "This page needs an admin token: send it as Authorization: Bearer.",
        Reason.UNKNOWN_TOKEN: "The admin token is not known here, was revoked, or has expired.",
    }[error.reason]
    return as_response(trouble(401, error.reason, said))


async def _unknown(_: Request, error: UnknownMetricError) -> Response:
    return as_response(trouble(404, Reason.UNKNOWN_METRIC, str(error)))


async def _parameters(_: Request, error: ParameterError | RecountError) -> Response:
    return as_response(trouble(400, "parameters", str(error)))


async def _invalid(_: Request, error: RequestValidationError) -> Response:
    said = "; ".join(f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in error.errors())
    return as_response(trouble(400, "parameters", said))


async def _store(_: Request, error: StoreError) -> Response:  # noqa: ARG001 - it names the store, which is nobody's business
    return as_response(
        trouble(503, Reason.STORE, "The collector cannot read its store at the moment."),
        **{"retry-after": str(RETRY_AFTER[Reason.STORE])},
    )


async def _http(_: Request, error: HTTPException) -> Response:
    answer = trouble(error.status_code, NAMES.get(error.status_code, "request"), str(error.detail))
    return as_response(answer, **dict(error.headers or {}))


async def _fault(_: Request, error: Exception) -> Response:  # noqa: ARG001 - it is logged where it was raised
    return as_response(trouble(500, "fault", "This is a fault of ours; please report it."))
