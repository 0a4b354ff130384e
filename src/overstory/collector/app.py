"""The ASGI application: `HotPath` answers posts of reports, Starlette the pages: registry, counts, health."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response as PageResponse
from starlette.responses import StreamingResponse
from starlette.routing import Route

from overstory.analysis.alarms.sums import Watch
from overstory.analysis.kinds.base import server_half
from overstory.collector.auth import ADMIN, MONITOR
from overstory.collector.http.endpoint import PATH, Entrance
from overstory.collector.service import Collector
from overstory.collector.store import StoreError
from overstory.collector.store.databases.database import RecountError
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import Metric
from overstory.protocol.metrics.registry import UnknownMetricError
from overstory.protocol.wire import is_loopback
from overstory.protocol.wire.reasons import Reason
from overstory.queries.counts import PeriodCounts, parse_range, read_store, with_sums
from overstory.supervision.answers import ALWAYS_TEXT, JSON, RETRY_AFTER, Response, error_response, refusal
from overstory.supervision.bodies import Receive, Send
from overstory.supervision.upkeep import in_thread

Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

DESCRIPTION: Final = Path(__file__).parent / "http" / "openapi.json"
"""All pages and posts for programs. Its version is the interface's, which changes when clients may notice."""


def build_app(collector: Collector) -> HotPath:
    """Return the collector's ASGI application; its lifespan starts and stops the collector."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await collector.start()
        yield
        await collector.stop()

    pages = Pages(collector)
    routes = [
        Route("/", pages.front),
        Route("/v1/metrics", pages.metrics),
        Route("/v1/metrics/{metric}", pages.metric),
        Route("/v1/metrics/{metric}/counts", pages.counts),
        Route("/healthz", pages.healthz),
        Route("/readyz", pages.readyz),
        Route("/metrics", pages.telemetry),
        Route("/openapi.json", pages.openapi),
    ]
    app = Starlette(routes=routes, exception_handlers=dict.fromkeys(ERRORS, answer_error), lifespan=lifespan)
    app.router.redirect_slashes = False  # a redirect would go to whatever the Host header names
    return HotPath(collector, app)


class Pages:
    """What is read of a collector."""

    def __init__(self, collector: Collector) -> None:
        self._collector, self._readers = collector, asyncio.Semaphore(READERS)
        self._description = DESCRIPTION.read_bytes()

    async def front(self, request: Request) -> PageResponse:
        """Answer with the public registry as a web page, or as JSON for a request that accepts JSON only."""
        accepted, pages = request.headers.get("accept", ""), self._collector.pages
        if "application/json" in accepted and "text/html" not in accepted:
            return json_page(pages.listed, vary="accept")
        policy = {"content-security-policy": pages.policy}
        return text_page(pages.html.encode(), "text/html; charset=utf-8", vary="accept", **policy)

    async def metrics(self, _: Request) -> PageResponse:
        return json_page(self._collector.pages.listed)

    async def metric(self, request: Request) -> PageResponse:
        pages = self._collector.pages
        return json_page(pages.by_id[pages.registry[request.path_params["metric"]].id])

    async def counts(self, request: Request) -> PageResponse:
        """Answer with support counts, read out of the way of reports, and streamed a period at a time."""
        self._need(ADMIN, request)
        query = read_query(request)
        metric = self._collector.registry[request.path_params["metric"]]
        async with self._readers:
            counted = await in_thread(self._read_counts, metric, query)
        return StreamingResponse(_blocks(counts_text(counted)), headers=ALWAYS_TEXT | {"content-type": JSON})

    def _read_counts(self, metric: Metric, query: dict[str, str]) -> PeriodCounts:
        first, last = parse_range(metric, query.get("from"), query.get("to"))
        store = self._collector.store
        periods = [
            period
            for period in store.periods(metric.id)
            if (first is None or period >= first) and (last is None or period <= last)
        ]
        check_counts(metric, len(periods))
        return with_sums(store, read_store(store, metric, first, last, group=query.get("group")))

    async def healthz(self, _: Request) -> PageResponse:
        return json_page({"healthy": True})

    async def readyz(self, _: Request) -> PageResponse:
        if self._collector.state == "ready":
            return json_page({"ready": True})
        return as_page(refusal(Reason.CLOSING if self._collector.state == "closing" else Reason.STORE))

    async def telemetry(self, request: Request) -> PageResponse:
        """Answer with metrics for Prometheus; to another machine with a monitor token."""
        # The address is not used for anything else. None: a socket in the file system.
        if request.client is not None and not is_loopback(request.client.host):
            self._need(MONITOR, request)
        return text_page(self._collector.telemetry.expose(), "text/plain; version=0.0.4; charset=utf-8")

    async def openapi(self, _: Request) -> PageResponse:
        return text_page(self._description, "application/json")

    def _need(self, role: str, request: Request) -> None:
        authorization = request.headers.get("authorization", "").encode("latin-1")
        reason = self._collector.tokens.refuse(authorization, role, self._collector.clock())
        if reason is not None:
            raise AccessError(reason)


class HotPath:
    """Answers posts of reports, sealed ones too; passes every other request to the application."""

    def __init__(self, collector: Collector, app: Application) -> None:
        self._app = app
        self._entrances: dict[str, Entrance] = {PATH: collector.reports} | collector.oblivious.entrances

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        entrance = None
        if scope["type"] == "http":
            path = scope["path"]
            entrance = self._entrances.get(path)
        if entrance is not None and scope["method"] == "POST":
            answer = await entrance.answer(scope["headers"], receive)
            if answer is not None:
                await as_page(answer)(scope, receive, send)
        elif entrance is not None:
            only = error_response(405, "method", f"{path} takes only POST.")
            await as_page(only._replace(allow="POST"))(scope, receive, send)
        else:
            await self._app(scope, receive, send)


NAMES: Final = {404: "not-found", 405: "method"}
NEEDED: Final = {
    Reason.NO_TOKEN: "This page needs an admin token: send it as Authorization: Bearer.",
    Reason.UNKNOWN_TOKEN: "The admin token is unknown, revoked or expired.",
}


class AccessError(Exception):
    """A request without a valid token for a page that needs one."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason
        super().__init__(reason.value)


def as_page(response: Response, **headers: str) -> PageResponse:
    """Return a response as the framework's."""
    own = {name.decode(): value.decode() for name, value in response.headers}
    return PageResponse(response.body, response.status, own | headers)


ERRORS: Final = (AccessError, UnknownMetricError, ParameterError, RecountError, StoreError, HTTPException, Exception)
"""What is answered with problem details."""


async def answer_error(_: Request, error: Exception) -> PageResponse:
    """Return the problem details of an error."""
    headers: dict[str, str] = {}
    match error:
        case AccessError():
            answer = error_response(401, error.reason, NEEDED[error.reason])
        case UnknownMetricError():
            answer = error_response(404, Reason.UNKNOWN_METRIC, str(error))
        case ParameterError() | RecountError():  # neither passes: another range or another registry is needed
            answer = error_response(400, "parameters", str(error))
        case StoreError():  # its text names the store, which is not public
            detail = "The collector cannot read its store at the moment."
            answer = error_response(503, Reason.STORE, detail)._replace(retry_after=RETRY_AFTER[Reason.STORE])
        case HTTPException():
            answer = error_response(error.status_code, NAMES.get(error.status_code, "request"), str(error.detail))
            headers = {"allow": "GET, HEAD"} if error.status_code == 405 else dict(error.headers or {})
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


READERS: Final = 2  # answers that are read from the store at once; others wait
MOST_COUNTS: Final = 10_000_000  # counts in one answer: periods times cohorts times bits. As JSON that is about 60 MB.
BLOCK: Final = 1 << 16  # characters that are written at once: each block is one step of a thread and one write

PARAMETERS: Final = ("from", "to", "group")


def read_query(request: Request) -> dict[str, str]:
    """Return the parameters of a request; ParameterError names one that is unknown, malformed or given twice."""
    given = request.query_params.multi_items()
    query = dict(given)
    for name in query:
        if name not in PARAMETERS:
            raise ParameterError(f"{name}: this page has no such parameter")
        if sum(name == other for other, _ in given) > 1:
            raise ParameterError(f"{name}: give it once")
    return query


def check_counts(metric: Metric, periods: int) -> None:
    """Refuse to read the counts of so many periods where these are too many numbers."""
    watch = Watch.of(metric.mechanism)
    each = server_half(metric.mechanism).num_counts(metric.labels) + (0 if watch is None else watch.num_sums)
    if periods * each > MOST_COUNTS:
        raise ParameterError(
            f"{periods:,} periods of {each:,} counts of {metric.id} are {periods * each:,} numbers, and an answer "
            f"has at most {MOST_COUNTS:,}: ask for at most {MOST_COUNTS // each:,} periods (from=, to=), or run "
            "overstory decode --store"
        )


def counts_text(counted: PeriodCounts) -> Iterator[str]:
    """Yield the counts as JSON, a period at a time."""
    yield f'{_json(counted.summary_json())[:-1]},"periods":['
    for number, period in enumerate(counted.periods):
        yield ("," if number else "") + _json(counted.period_json(period))
    yield f'],"other_parameters":{_json(counted.others_json())}}}'


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _blocks(texts: Iterator[str]) -> Iterator[str]:
    held: list[str] = []
    size = 0
    for text in texts:
        held.append(text)
        size += len(text)
        if size >= BLOCK:
            yield "".join(held)
            held, size = [], 0
    yield "".join(held)
