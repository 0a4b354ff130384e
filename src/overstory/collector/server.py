"""A collector as a process, from its start to a clean end, and what is read of it: registry, counts, health."""

from __future__ import annotations

import asyncio
import gc
import json
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response as PageResponse
from starlette.responses import StreamingResponse
from starlette.routing import Route

from overstory import __version__
from overstory.analysis.alarms.sums import Watch
from overstory.analysis.kinds.base import server_half
from overstory.collector.auth import ADMIN, MONITOR
from overstory.collector.http.endpoint import PATH, Application
from overstory.collector.oblivious.keys import KeyRing
from overstory.collector.service import Collector
from overstory.collector.store import Store, StoreError
from overstory.collector.store.databases.database import RecountError
from overstory.collector.telemetry import LOG
from overstory.presentation.formats import plural
from overstory.protocol.errors import OverstoryError, ParameterError
from overstory.protocol.metrics import Metric, MetricRegistry
from overstory.protocol.metrics.registry import UnknownMetricError
from overstory.protocol.wire import is_loopback
from overstory.protocol.wire.reasons import Reason
from overstory.queries.counts import PeriodCounts, parse_range, read_store
from overstory.supervision.answers import ALWAYS_TEXT, JSON, RETRY_AFTER, Response, error_response, refusal
from overstory.supervision.connection import BoundedConnection
from overstory.supervision.listening import Listening
from overstory.supervision.server import SWEEP, SupervisedServer, server_config
from overstory.supervision.upkeep import in_thread

DESCRIPTION: Final = Path(__file__).parent / "http" / "openapi.json"
"""All pages and posts for programs. Its version is the interface's, which changes when clients may notice."""


def build_app(collector: Collector) -> Application:
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
    return Application({PATH: collector.reports} | collector.oblivious.entrances, app)


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
        return read_store(store, metric, first, last, group=query.get("group"), has_sums=True)

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
    each = math.prod(server_half(metric.mechanism).shape(metric.labels)) + (0 if watch is None else watch.num_sums)
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


KEEP_ALIVE: Final = 30  # seconds that a connection may be idle between two requests
PATIENCE: Final = 30  # seconds that unfinished requests have when the process ends

BACKLOG: Final = 2048


class Connection(BoundedConnection):
    """One connection of a collector, which counts its faults and the answers that nobody reads."""

    collector: ClassVar[Collector]

    def _fault(self, error: BaseException) -> Response:
        return self.collector.endpoint.fault(error, close=True)

    def _note_untaken(self) -> None:
        self.collector.telemetry.untaken += 1


class Server(SupervisedServer):
    """The server of a collector: it refuses posts before it stops, and reads its files again at SIGHUP."""

    def __init__(
        self,
        collector: Collector,
        listening: Listening,
        announce: Callable[[], object],
        reread: Callable[[], MetricRegistry] | None = None,
        reread_keys: Callable[[], KeyRing] | None = None,
    ) -> None:
        config = server_config(
            build_app(collector),
            listening,
            type("Connection", (Connection,), {"collector": collector, "limits": collector.limits}),
            lifespan="on",
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=PATIENCE,
        )
        config.load()
        super().__init__(config, LOG, announce, collector.endpoint.reserve.look)
        self._collector, self._listening, self._reread, self._reread_keys = collector, listening, reread, reread_keys
        self._ends_at = float("inf")
        self._reloading = asyncio.Lock()
        self._reloads: set[asyncio.Task[None]] = set()
        self._closing_logged = False
        self._memory_was_short = False

    def hang_up(self) -> None:
        if not self._collector.endpoint.closing:
            task = asyncio.get_running_loop().create_task(self.reload())
            self._reloads.add(task)
            task.add_done_callback(self._reloads.discard)

    async def reload(self) -> None:
        """Read registry, certificate, tokens and keys again; what cannot be used replaces nothing, and is logged."""
        async with self._reloading:
            for name, work in (
                ("registry", self._reload_registry),
                ("certificate", self._reload_certificate),
                ("tokens", partial(in_thread, self._collector.tokens.refresh)),
                ("keys", self._reload_keys),
            ):
                try:
                    await work()
                except Exception as error:  # noqa: BLE001 - where a new file has any fault, the old one stays in use
                    LOG.error(
                        "reload: the %s is unchanged: %s",
                        name,
                        error if isinstance(error, OverstoryError | OSError) else f"{type(error).__name__}: {error}",
                    )

    async def _reload_registry(self) -> None:
        if self._reread is None:
            return
        registry = await in_thread(self._reread)
        before = self._collector.registry.digest
        await in_thread(self._collector.renew, registry)
        changed = "as before" if registry.digest == before else "changed"
        LOG.info("reloaded: %s, %s", _described(registry), changed)

    async def _reload_keys(self) -> None:
        if self._reread_keys is not None:
            self._collector.oblivious.ring = ring = await in_thread(self._reread_keys)
            ids = ", ".join(str(key.key_id) for key in ring.keys)
            LOG.info("reloaded: keys %s of Oblivious HTTP", ids)

    async def _reload_certificate(self) -> None:
        if self._listening.certificate is None or self.config.ssl is None:
            return
        await in_thread(self._listening.check_certificate)
        # Within the loop: a handshake between the new certificate and its key would fail.
        self.config.ssl.load_cert_chain(self._listening.certificate, self._listening.key)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Refuse posts from now on, stop listening after the grace; at a second signal, at once."""
        del sig, frame
        self._ends_at = 0.0 if self._collector.endpoint.closing else time.monotonic() + self._listening.grace
        self._collector.endpoint.closing = True

    async def on_tick(self, counter: int) -> bool:
        """Return whether to end; look at the memory and at the commit. Called ten times a second."""
        if self._collector.endpoint.closing and not self._closing_logged:
            self._closing_logged = True
            LOG.info("stopping: reports are refused; listening ends in %g s", self._listening.grace)
        self._log_memory()
        if counter % SWEEP == 0:
            self._collector.committer.look()
        return await super().on_tick(counter) or time.monotonic() >= self._ends_at

    def _log_memory(self) -> None:
        short = self._collector.endpoint.reserve.short
        if short and not self._memory_was_short:
            LOG.error("memory is low: reports are refused with 503 until more is free; senders will retry")
        elif self._memory_was_short and not short:
            LOG.warning("enough memory is free again: reports are taken")
        self._memory_was_short = short


def _described(registry: MetricRegistry) -> str:
    return f"registry {registry.version} (digest {registry.digest.hex()}), {plural(len(registry), 'metric')}"


def serve(
    collector: Collector,
    listening: Listening,
    announce: Callable[[str], None] = print,
    reread: Callable[[], MetricRegistry] | None = None,
    reread_keys: Callable[[], KeyRing] | None = None,
) -> None:
    """Serve until a signal, then commit what is queued and close the store."""
    collector.tokens.refresh()  # a store that does not answer is reported before anything listens
    with listening.bind(collector.limits.taking_seconds) as bound:
        started = partial(_announce, collector, listening.address(bound), announce)
        server = Server(collector, listening, started, reread, reread_keys)
        # Permanent objects take no part in garbage collection, which would look through all of them again and again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        server.run(sockets=[bound])
    _log_stop(collector.store)


def _announce(collector: Collector, address: str, announce: Callable[[str], None]) -> None:
    about = _described(collector.registry)
    LOG.info("overstory %s serves %s: %s, store %s", __version__, address, about, collector.store.url)
    announce(f"listening on {address}")


def _log_stop(store: Store) -> None:
    if store.in_place():
        LOG.info("stopped: everything that was acknowledged is in the store")
        return
    LOG.error(
        "stopped: reports that were acknowledged are missing from the store: %s was deleted, moved or replaced while "
        "the collector ran",
        store.url,
    )
