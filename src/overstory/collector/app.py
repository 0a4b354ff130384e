"""The pages around the hot path: the public registry, counts and estimates, health, what an operator watches."""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final, Literal

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse
from fastapi.security import HTTPBearer

from overstory.analysis.selection import IntervalKind
from overstory.collector.auth import ADMIN
from overstory.collector.http.endpoint import PATH, HotPath
from overstory.collector.http.openapi import ERROR, SCHEMAS, VERSION, operation
from overstory.collector.http.pages import POLICY
from overstory.collector.http.responses import ALWAYS, PROBLEM, AccessError, as_response, handle_errors, refusal
from overstory.collector.service import Collector
from overstory.files.spreadsheet import for_spreadsheet
from overstory.protocol.wire.reasons import Reason
from overstory.queries.counts import PeriodCounts, parse_range, read_store
from overstory.queries.estimates import Aggregation, EstimateOptions, EstimateSeries, read_estimates

READERS: Final = 2
"""So many requests for counts or estimates are worked on at once; others wait."""

First = Annotated[
    str | None,
    Query(
        alias="from",
        description="The first period's label, such as 2026-11-21 (also for shorter ones); else the first stored.",
    ),
]
Last = Annotated[str | None, Query(alias="to", description="The last period's label, likewise; else the last stored.")]
Form = Annotated[
    Literal["json", "csv", "spreadsheet"],
    Query(alias="format", description="Spreadsheet is CSV in which no cell is a formula, whatever a value is."),
]
Reads = Annotated[
    Aggregation,
    Query(description="One estimate of the whole range; one of each period; one of each and all before it."),
]
Intervals = Annotated[
    IntervalKind | None,
    Query(description="Intervals of these reports, or of all devices like these (else: where periods are compared)."),
]

_SAID: Final = "Reports are randomized on the devices; nothing here knows who sent one, or when."
_ERRORS: Final = {
    400: "A parameter is not right.",
    401: "An admin token is needed.",
    404: "There is no such metric.",
    503: "The store cannot be read, or no reports are taken at the moment.",
}


def build_app(collector: Collector) -> HotPath:
    """Return the collector's ASGI application; its lifespan starts and stops the collector."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await collector.start()
        yield
        await collector.stop()

    app = FastAPI(
        title="Overstory collector",
        version=VERSION,
        description=_SAID,
        docs_url=None,  # their scripts would come from elsewhere
        redoc_url=None,
        openapi_url=None,  # the page is below, with the headers of all others
        redirect_slashes=False,  # a redirect would go wherever the Host header says
        lifespan=lifespan,
    )
    handle_errors(app)
    _add_public_pages(app, collector)
    _add_admin_pages(app, collector)
    _add_health(app, collector)
    _describe(app)
    return HotPath(collector.endpoint, app)


def _add_public_pages(app: FastAPI, collector: Collector) -> None:
    @app.get(
        "/",
        tags=["metrics"],
        summary="The same for people: a page, or JSON for who asks for JSON alone",
        response_class=HTMLResponse,
        responses={200: {"content": {"application/json": {"schema": {}}}}},
    )
    async def front(request: Request) -> Response:
        accepted = request.headers.get("accept", "")
        if "application/json" in accepted and "text/html" not in accepted:
            return _json(collector.pages.listed, vary="accept")
        policy = {"content-security-policy": POLICY}
        return _text(collector.pages.html.encode(), "text/html; charset=utf-8", vary="accept", **policy)

    @app.get("/v1/metrics", tags=["metrics"], summary="What is collected, why, and what it reveals")
    async def metrics() -> Response:
        return _json(collector.pages.listed)

    @app.get("/v1/metrics/{metric}", tags=["metrics"], summary="One metric", responses=_responses(404))
    async def metric(metric: str) -> Response:
        pages = collector.pages
        return _json(pages.by_id[pages.registry[metric].id])


def _need_admin(collector: Collector, request: Request) -> None:
    authorization = request.headers.get("authorization", "").encode("latin-1")
    reason = collector.tokens.refuse(authorization, ADMIN, collector.clock())
    if reason is not None:
        raise AccessError(reason)


def _is_local(request: Request) -> bool:
    """Whether a request comes from this machine; the address goes no further."""
    if request.client is None:  # a socket in the file system
        return True
    try:
        return ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False


def _add_admin_pages(app: FastAPI, collector: Collector) -> None:
    bearer = HTTPBearer(auto_error=False, scheme_name="token", description="A token of `overstory store tokens`.")
    readers = asyncio.Semaphore(READERS)

    def admin(request: Request) -> None:
        _need_admin(collector, request)

    async def read(work: Callable[[], Response]) -> Response:
        async with readers:
            return await asyncio.to_thread(work)

    def counted(metric: str, first: str | None, last: str | None) -> PeriodCounts:
        asked = collector.registry[metric]
        return read_store(collector.store, asked, *parse_range(asked, first, last))

    guarded: dict[str, Any] = {
        "tags": ["results"],
        "dependencies": [Depends(admin), Depends(bearer)],
        "responses": _responses(400, 401, 404, 503, csv=True),
    }

    @app.get("/v1/metrics/{metric}/counts", summary="Support counts by period", **guarded)
    async def counts(metric: str, first: First = None, last: Last = None, form: Form = "json") -> Response:
        return await read(lambda: _shown(counted(metric, first, last), form))

    @app.get("/v1/metrics/{metric}/estimates", summary="Estimates: in all, by period, or over time", **guarded)
    async def metric_estimates(
        metric: str,
        first: First = None,
        last: Last = None,
        reading: Reads = "total",
        interval: Intervals = None,
        form: Form = "json",
    ) -> Response:
        options = EstimateOptions(interval_kind=interval)
        return await read(lambda: _shown(read_estimates(counted(metric, first, last), reading, options), form))


def _add_health(app: FastAPI, collector: Collector) -> None:
    @app.get("/healthz", tags=["health"], summary="Whether the process answers")
    async def healthz() -> Response:
        return _json({"healthy": True})

    @app.get("/readyz", tags=["health"], summary="Whether reports are taken", responses=_responses(503))
    async def readyz() -> Response:
        if collector.state == "ready":
            return _json({"ready": True})
        return as_response(refusal(Reason.CLOSING if collector.state == "closing" else Reason.STORE))

    @app.get(
        "/metrics",
        tags=["health"],
        summary="What an operator watches, for Prometheus; from another machine with an admin token",
        response_class=Response,
        responses=_responses(401),
    )
    async def metrics(request: Request) -> Response:
        if not _is_local(request):
            _need_admin(collector, request)
        return _text(collector.telemetry.expose(), "text/plain; version=0.0.4; charset=utf-8")


def _describe(app: FastAPI) -> None:
    """Put POST /v1/reports, and our shape of errors, into the OpenAPI description."""

    def described() -> dict[str, Any]:
        if not app.openapi_schema:
            schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            components = schema.setdefault("components", {})
            components["schemas"] = {**SCHEMAS}
            components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            for path in schema["paths"].values():
                for described_operation in path.values():
                    described_operation["responses"].pop("422", None)  # our own handler answers 400
            schema["paths"] = {PATH: {"post": operation()}} | schema["paths"]
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return _json(described())


def _shown(found: PeriodCounts | EstimateSeries, form: str) -> Response:
    if form in {"csv", "spreadsheet"}:
        lines = found.csv_lines() if form == "csv" else for_spreadsheet(found.csv_lines())
        return _text("".join(lines).encode(), "text/csv; charset=utf-8")
    return _json(found.to_json())


def _json(said: Any, **more: str) -> Response:
    return _text(json.dumps(said, separators=(",", ":"), allow_nan=False).encode(), "application/json", **more)


def _text(body: bytes, media_type: str, **more: str) -> Response:
    headers = {name.decode(): value.decode() for name, value in ALWAYS}
    return Response(body, headers=headers | {"content-type": media_type} | more)


def _responses(*statuses: int, csv: bool = False) -> dict[int | str, dict[str, Any]]:
    """Describe errors, and what a page answers otherwise."""
    error = {PROBLEM: {"schema": {"$ref": f"#/components/schemas/{ERROR}"}}}
    described: dict[int | str, dict[str, Any]] = {
        status: {"description": _ERRORS[status], "content": error} for status in statuses
    }
    if csv:
        described[200] = {"description": "JSON or CSV.", "content": {"text/csv": {"schema": {"type": "string"}}}}
    return described
