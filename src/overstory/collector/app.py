"""The ASGI application: `HotPath` answers posts of reports, FastAPI the pages: registry, counts, estimates, health."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from fastapi import Depends, FastAPI, Request
from fastapi import Response as PageResponse
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from overstory.collector.auth import ADMIN, MONITOR
from overstory.collector.http.endpoint import (
    ALWAYS_TEXT,
    PATH,
    PROBLEM,
    RETRY_AFTER,
    ReportEndpoint,
    Response,
    error_response,
    refusal,
)
from overstory.collector.http.openapi import ERROR, VERSION, describe
from overstory.collector.http.pages import POLICY
from overstory.collector.http.posts import (
    Bodies,
    Message,
    OtherShardPost,
    Post,
    Receive,
    ReportPost,
    Send,
    answer_post,
    only_posts,
    respond,
)
from overstory.collector.http.results import Decoding, add_result_pages
from overstory.collector.oblivious.endpoint import ObliviousEndpoint
from overstory.collector.service import Collector
from overstory.collector.store import StoreError
from overstory.collector.store.databases.database import RecountError
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import UnknownMetricError
from overstory.protocol.wire import is_loopback
from overstory.protocol.wire.reasons import Reason

OTHER_SHARD: Final = re.compile(re.escape(PATH) + "/[0-9]{1,4}", re.ASCII)
"""The path of any shard's reports."""

Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_DESCRIPTION: Final = "Reports are randomized on the devices. The collector stores neither their sender nor their time."
_ERRORS: Final = {
    400: "A parameter is invalid.",
    401: "A token of the page's role is required.",
    404: "No such metric.",
    503: "The store cannot be read, or the collector takes no reports at the moment.",
}


def build_app(collector: Collector) -> HotPath:
    """Return the collector's ASGI application; its lifespan starts and stops the collector."""
    decoding = Decoding()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await collector.start()
        yield
        decoding.close()
        await collector.stop()

    app = FastAPI(
        title="Overstory collector",
        version=VERSION,
        description=_DESCRIPTION,
        docs_url=None,  # its scripts would come from another server
        redoc_url=None,
        openapi_url=None,  # `_add_description` adds it with the headers of all pages
        redirect_slashes=False,  # a redirect would go to whatever the Host header names
        lifespan=lifespan,
    )
    handle_errors(app)
    _add_public_pages(app, collector)
    _add_admin_pages(app, collector, decoding)
    _add_health(app, collector)
    _add_description(app)
    return HotPath(collector.endpoint, app, collector.oblivious)


def _add_public_pages(app: FastAPI, collector: Collector) -> None:
    @app.get(
        "/",
        tags=["metrics"],
        summary="The public registry as a web page; as JSON for a request that accepts JSON only",
        response_class=HTMLResponse,
        responses={200: {"content": {"application/json": {"schema": {}}}}},
    )
    async def front(request: Request) -> PageResponse:
        accepted = request.headers.get("accept", "")
        if "application/json" in accepted and "text/html" not in accepted:
            return json_page(collector.pages.listed, vary="accept")
        policy = {"content-security-policy": POLICY}
        return text_page(collector.pages.html.encode(), "text/html; charset=utf-8", vary="accept", **policy)

    @app.get(
        "/v1/metrics", tags=["metrics"], summary="The public registry: what is collected, why, and what it reveals"
    )
    async def metrics() -> PageResponse:
        return json_page(collector.pages.listed)

    @app.get("/v1/metrics/{metric}", tags=["metrics"], summary="One metric", responses=_responses(404))
    async def metric(metric: str) -> PageResponse:
        pages = collector.pages
        return json_page(pages.by_id[pages.registry[metric].id])


def _need(role: str, collector: Collector, request: Request) -> None:
    authorization = request.headers.get("authorization", "").encode("latin-1")
    reason = collector.tokens.refuse(authorization, role, collector.clock())
    if reason is not None:
        raise AccessError(reason)


def _add_admin_pages(app: FastAPI, collector: Collector, decoding: Decoding) -> None:
    bearer = HTTPBearer(auto_error=False, scheme_name="token", description="A token of `overstory store tokens`.")

    def admin(request: Request) -> None:
        _need(ADMIN, collector, request)

    guarded: dict[str, Any] = {
        "tags": ["results"],
        "dependencies": [Depends(admin), Depends(bearer)],
        "responses": _responses(400, 401, 404, 503, csv=True),
        "response_class": PageResponse,
    }
    add_result_pages(app, decoding, collector.registry, collector.store, guarded)


def _add_description(app: FastAPI) -> None:
    app.openapi = partial(describe, app)  # type: ignore[method-assign]

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> PageResponse:
        return json_page(describe(app))


def _add_health(app: FastAPI, collector: Collector) -> None:
    @app.get("/healthz", tags=["health"], summary="Whether the process answers")
    async def healthz() -> PageResponse:
        return json_page({"healthy": True})

    @app.get("/readyz", tags=["health"], summary="Whether the collector takes reports", responses=_responses(503))
    async def readyz() -> PageResponse:
        if collector.state == "ready":
            return json_page({"ready": True})
        return as_page(refusal(Reason.CLOSING if collector.state == "closing" else Reason.STORE))

    @app.get(
        "/metrics",
        tags=["health"],
        summary="Metrics for Prometheus; from another machine with a monitor token",
        response_class=PageResponse,
        responses=_responses(401),
    )
    async def metrics(request: Request) -> PageResponse:
        # The address is not used for anything else. None: a socket in the file system.
        if request.client is not None and not is_loopback(request.client.host):
            _need(MONITOR, collector, request)
        return text_page(collector.telemetry.expose(), "text/plain; version=0.0.4; charset=utf-8")


def _responses(*statuses: int, csv: bool = False) -> dict[int | str, dict[str, Any]]:
    """Describe the errors of a page, and its CSV."""
    error = {PROBLEM: {"schema": {"$ref": f"#/components/schemas/{ERROR}"}}}
    described: dict[int | str, dict[str, Any]] = {
        status: {"description": _ERRORS[status], "content": error} for status in statuses
    }
    if csv:
        content = {"application/json": {"schema": {}}, "text/csv": {"schema": {"type": "string"}}}
        described[200] = {"description": "JSON or CSV.", "content": content}
    return described


class HotPath:
    """Answers posts of reports, sealed ones too; passes every other request to the application."""

    def __init__(self, endpoint: ReportEndpoint, app: Application, oblivious: ObliviousEndpoint | None = None) -> None:
        self._endpoint, self._app = endpoint, app
        self._bodies = oblivious.bodies if oblivious is not None else Bodies(endpoint.limits)
        reports = ReportPost(endpoint, self._bodies)
        self._posts: dict[str, Post] = {url.decode(): reports for url in endpoint.urls}
        self._posts |= {} if oblivious is None else oblivious.posts
        self._elsewhere = OtherShardPost(endpoint)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request (ASGI 3)."""
        post = None
        if scope["type"] == "http":  # other shards' paths are refused, not unknown
            path = scope["path"]
            post = self._posts.get(path) or (self._elsewhere if OTHER_SHARD.fullmatch(path) else None)
        if post is not None and scope["method"] == "POST":
            answer = await answer_post(post, self._endpoint, self._bodies, scope["headers"], receive)
            if answer is not None:
                await respond(send, answer)
        elif post is not None:
            await respond(send, only_posts(scope["path"]), (b"allow", b"POST"))
        elif scope["type"] == "http" and scope["method"] == "HEAD":
            await self._app({**scope, "method": "GET"}, receive, partial(_without_body, send))
        else:
            await self._app(scope, receive, send)


async def _without_body(send: Send, message: Message) -> None:
    if message["type"] == "http.response.body":
        message = {**message, "body": b""}
    await send(message)


NAMES: Final = {404: "not-found", 405: "method"}
NEEDED: Final = {
    Reason.NO_TOKEN: "This page needs an admin token: send it as Authorization: Bearer.",
    Reason.UNKNOWN_TOKEN: "The admin token is unknown, revoked or expired.",
}
NO_PARAMETER: Final = "this page has no such parameter"


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
    known = AccessError, UnknownMetricError, ParameterError, RecountError, RequestValidationError, StoreError
    for kind in (*known, HTTPException, Exception):
        app.add_exception_handler(kind, _answer_error)


async def _answer_error(_: Request, error: Exception) -> PageResponse:
    headers: dict[str, str] = {}
    match error:
        case AccessError():
            answer = error_response(401, error.reason, NEEDED[error.reason])
        case UnknownMetricError():
            answer = error_response(404, Reason.UNKNOWN_METRIC, str(error))
        case ParameterError() | RecountError():  # neither passes: another range or another registry is needed
            answer = error_response(400, "parameters", str(error))
        case RequestValidationError():
            faults = [(".".join(map(str, fault["loc"][1:])), fault) for fault in error.errors()]
            wrong = (
                f"{name}: {NO_PARAMETER if fault['type'] == 'extra_forbidden' else fault['msg']}"
                for name, fault in faults
            )
            answer = error_response(400, "parameters", "; ".join(wrong))
        case StoreError():  # its text names the store, which is not public
            detail = "The collector cannot read its store at the moment."
            answer = error_response(503, Reason.STORE, detail)._replace(retry_after=RETRY_AFTER[Reason.STORE])
        case HTTPException():
            answer = error_response(error.status_code, NAMES.get(error.status_code, "request"), str(error.detail))
            headers = dict(error.headers or {})
        case _:  # it is logged where it was raised
            answer = error_response(500, "fault", "The collector failed; please report this error.")
    return as_page(answer, **headers)


def json_page(body: Any, **headers: str) -> PageResponse:
    """Return JSON values as a page."""
    text = json.dumps(body, separators=(",", ":"), allow_nan=False)
    return text_page(text.encode(), "application/json", **headers)


def text_page(body: bytes, media_type: str, **headers: str) -> PageResponse:
    """Return a text as a page; `headers` replace those that every answer has, or are added to them."""
    return PageResponse(body, headers=ALWAYS_TEXT | {"content-type": media_type} | headers)
