"""Pages as JSON and text with the headers of all answers, and every error of a page as problem details."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi import Response as PageResponse
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from overstory.collector.http.endpoint import ALWAYS, RETRY_AFTER, Response, error_response
from overstory.collector.store import StoreError
from overstory.collector.store.databases.database import RecountError
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import UnknownMetricError
from overstory.protocol.wire.reasons import Reason

NAMES: Final = {404: "not-found", 405: "method"}


class AccessError(Exception):
    """A request without a valid token for a page that needs one."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason
        super().__init__(reason.value)


def as_page(response: Response, **headers: str) -> PageResponse:
    """Return a response as the framework's."""
    own = {name.decode(): value.decode() for name, value in response.headers}
    return PageResponse(response.body, response.status, own | headers)


def handle_errors(app: FastAPI) -> None:
    """Answer every error of `app` with problem details."""
    handlers: dict[Any, Callable[[Request, Any], Awaitable[PageResponse]]] = {
        AccessError: _access,
        UnknownMetricError: _unknown,
        ParameterError: _parameters,
        RecountError: _parameters,  # it does not pass: another range or another registry is needed
        RequestValidationError: _invalid,
        StoreError: _store,
        HTTPException: _http,
        Exception: _fault,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)


async def _access(_: Request, error: AccessError) -> PageResponse:
    detail = {
        Reason.NO_TOKEN: "This page needs an admin token: send it as Authorization: Bearer.",
        Reason.UNKNOWN_TOKEN: "The admin token is unknown, revoked or expired.",
    }[error.reason]
    return as_page(error_response(401, error.reason, detail))


async def _unknown(_: Request, error: UnknownMetricError) -> PageResponse:
    return as_page(error_response(404, Reason.UNKNOWN_METRIC, str(error)))


async def _parameters(_: Request, error: ParameterError | RecountError) -> PageResponse:
    return as_page(error_response(400, "parameters", str(error)))


async def _invalid(_: Request, error: RequestValidationError) -> PageResponse:
    wrong = "; ".join(f"{'.'.join(map(str, fault['loc'][1:]))}: {_fault_text(fault)}" for fault in error.errors())
    return as_page(error_response(400, "parameters", wrong))


def _fault_text(fault: Any) -> str:
    return "this page has no such parameter" if fault["type"] == "extra_forbidden" else str(fault["msg"])


async def _store(_: Request, error: StoreError) -> PageResponse:  # noqa: ARG001 - it names the store, which is not public
    return as_page(
        error_response(503, Reason.STORE, "The collector cannot read its store at the moment."),
        **{"retry-after": str(RETRY_AFTER[Reason.STORE])},
    )


async def _http(_: Request, error: HTTPException) -> PageResponse:
    answer = error_response(error.status_code, NAMES.get(error.status_code, "request"), str(error.detail))
    return as_page(answer, **dict(error.headers or {}))


async def _fault(_: Request, error: Exception) -> PageResponse:  # noqa: ARG001 - it is logged where it was raised
    return as_page(error_response(500, "fault", "The collector failed; please report this error."))


def json_page(body: Any, **headers: str) -> PageResponse:
    """Return JSON values as a page."""
    text = json.dumps(body, separators=(",", ":"), allow_nan=False)
    return text_page(text.encode(), "application/json", **headers)


def text_page(body: bytes, media_type: str, **headers: str) -> PageResponse:
    """Return a text as a page; `headers` replace those that every answer has, or are added to them."""
    always = {name.decode(): value.decode() for name, value in ALWAYS}
    return PageResponse(body, headers=always | {"content-type": media_type} | headers)
