"""The console as an ASGI application: a route for each screen and each form of it, and every error as a page."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from typing import Any, Final, TypeVar

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from overstory.collector.store import StoreError
from overstory.console.access.gate import Gate
from overstory.console.data import ConsoleData
from overstory.console.downloads import as_download
from overstory.console.forms import address_of_form, read_form
from overstory.console.layout import FORMS, POLICY, Place, as_page, download_path, error_view, static_files
from overstory.console.login import log_in, log_out, login_blocks
from overstory.console.screens.registry import SCREENS
from overstory.console.view import Screen, ScreenError, View, Viewer, read_query
from overstory.protocol.errors import OverstoryError

THREADS: Final = 16
"""Pages that are made at the same time; a slow one stops no other."""

ALWAYS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Headers of every answer that sets none of these itself."""

TITLES: Final = {
    202: "Decoding",
    400: "This address cannot be read",
    401: "Log in",
    403: "Not allowed",
    404: "There is no such page",
    405: "This page takes no such request",
    413: "This is too large",
    421: "Another console",
    500: "The console failed",
    503: "The store does not answer",
}

STATIC_TYPES: Final = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}

Result = TypeVar("Result")


class Console:
    """The application.

    Parameters
    ----------
    data
        What the screens read.
    gate
        Decides who may see what.
    screens
        The screens; None: all. The order of routes does not depend on theirs.
    """

    def __init__(self, data: ConsoleData, gate: Gate, screens: Iterable[Screen] | None = None) -> None:
        self.data, self.gate = data, gate
        self.screens = SCREENS if screens is None else tuple(screens)
        self.files = static_files()
        self._threads = ThreadPoolExecutor(THREADS, "console")
        self._app = Starlette(
            routes=[*self._own_routes(), *self._screen_routes()],
            exception_handlers={
                ScreenError: self._on_screen_error,
                HTTPException: self._on_http_error,
                StoreError: self._on_store_error,
                OverstoryError: self._on_overstory_error,
                Exception: self._on_fault,
            },
        )
        self._app.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI 3)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        app: ASGIApp = self._app
        try:
            self.gate.check(Request(scope))
        except ScreenError as error:
            app = self._error_response(Request(scope), error.status, error.detail, None)
        await app(scope, receive, partial(_send_with_headers, send))

    async def in_thread(self, work: Callable[[], Result]) -> Result:
        """Run what reads the store or computes; requests are answered meanwhile."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _own_routes(self) -> list[Route]:
        return [
            Route("/static/{name}", self._static),
            Route("/favicon.ico", partial(self._static, name="icon.svg")),
            Route("/login", partial(log_in, self), methods=["GET", "POST"]),
            Route("/logout", partial(log_out, self), methods=["POST"]),
        ]

    def _screen_routes(self) -> list[Route]:
        routes = []
        for screen in sorted(self.screens, key=_route_order):
            for form in FORMS:
                address = f"{download_path(screen.path)}.{form}"
                routes.append(Route(address, partial(self._show, screen, form)))
            routes.append(Route(screen.path, partial(self._show, screen, ""), methods=["GET"]))
            routes.append(Route(screen.path, partial(self._take, screen), methods=["POST"]))
        return routes

    async def _static(self, request: Request, name: str = "") -> Response:
        name = name or request.path_params["name"]
        if name not in self.files:
            raise ScreenError(404, f"there is no file {name}")
        media_type = STATIC_TYPES[name.rpartition(".")[2]]
        return Response(self.files[name], media_type=media_type, headers={"cache-control": "max-age=300"})

    async def _show(self, screen: Screen, form: str, request: Request) -> Response:
        return await self.in_thread(partial(self._answer, screen, form, request))

    def _answer(self, screen: Screen, form: str, request: Request) -> Response:
        pairs = request.query_params.multi_items()
        viewer = self.gate.admit(request, _needed(screen, pairs))
        query = read_query(screen.query, pairs)
        path = dict(request.path_params)
        named = f"{path.get('metric')}.{form}"
        if form and screen.path.endswith("{metric}") and named in self.data.registry:
            form, path["metric"] = "", named  # a metric's id may end like a file
        view = screen.view(self.data, query, **path)
        headers = {"cache-control": "max-age=300"} if screen.viewer is None and viewer is None else {}
        if form:
            name = re.sub(r"[^A-Za-z0-9._-]+", "-", request.url.path.rpartition(".")[0].strip("/"))
            download = as_download(view, form, name or "overstory")
            return Response(
                download.body, view.status, headers | dict(download.headers), media_type=download.media_type
            )
        return self.page(view, request, viewer, headers)

    async def _take(self, screen: Screen, request: Request) -> Response:
        """Take a form: by default its fields become the address of the same screen, which does the rest."""
        await self.in_thread(lambda: self.gate.admit(request, "analyst"))
        fields = await read_form(request)

        def act() -> str:
            address = screen.act(self.data, fields, **request.path_params)
            return address or address_of_form(screen, request.url.path, fields, self.data.lists)

        return Response(status_code=303, headers={"location": await self.in_thread(act)})

    def page(self, view: View, request: Request, viewer: Viewer | None, headers: dict[str, str]) -> Response:
        """Return a view as a page."""
        has_session = bool(self.gate.cookie.read(request.headers.get("cookie", "")))
        place = Place(
            request.url.path,
            request.url.query,
            viewer,
            self._menu(viewer),
            self._rests_on(),
            can_leave=has_session and viewer is not None,
            scripts=("login.js",) if request.url.path == "/login" or view.status == 401 else ("console.js",),
        )
        return Response(
            as_page(view, place, tuple(self.files)), view.status, headers, media_type="text/html; charset=utf-8"
        )

    def _menu(self, viewer: Viewer | None) -> tuple[tuple[str, str], ...]:
        """Return the screens that have one address, as far as a reader may open them."""
        shown = (screen for screen in self.screens if "{" not in screen.path)
        return tuple((screen.name, screen.path) for screen in shown if screen.viewer is None or viewer is not None)

    def _rests_on(self) -> tuple[tuple[str, str], ...]:
        registry = self.data.registry
        return (("Registry", f"{registry.version} (digest {registry.digest.hex()[:16]})"),)

    def _error_response(self, request: Request, status: int, detail: str, viewer: Viewer | None) -> Response:
        title = TITLES.get(status) or HTTPStatus(status).phrase
        if request.url.path.endswith(tuple(f".{form}" for form in FORMS)):
            problem = {"type": "about:blank", "title": title, "status": status, "detail": detail}
            return Response(json.dumps(problem), status, media_type="application/problem+json")
        more = login_blocks(_next(request)) if status == 401 else ()
        return self.page(error_view(status, title, _sentence(detail), more), request, viewer, {})

    async def _on_screen_error(self, request: Request, error: Any) -> Response:
        answer = await self._answer_error(request, error.status, error.detail)
        if error.refresh:  # a browser asks again by itself, a program when it reads the second
            answer.headers.update({"refresh": str(error.refresh), "retry-after": str(error.refresh)})
        return answer

    async def _on_http_error(self, request: Request, error: Any) -> Response:
        detail = f"the console has no page {request.url.path}" if error.status_code == 404 else str(error.detail)
        answer = await self._answer_error(request, error.status_code, detail)
        answer.headers.update(error.headers or {})
        return answer

    async def _on_store_error(self, request: Request, error: Any) -> Response:
        # Who is logged in may need the store, and who is not does not learn its name.
        session = self.gate.sessions.find(self.gate.cookie.read(request.headers.get("cookie", "")))
        detail = str(error) if session is not None else "the store cannot be read at the moment"
        answer = self._error_response(request, 503, detail, session.viewer if session else None)
        answer.headers["retry-after"] = "5"
        return answer

    async def _on_overstory_error(self, request: Request, error: Any) -> Response:
        return await self._answer_error(request, 400, str(error))

    async def _on_fault(self, request: Request, error: Exception) -> Response:  # noqa: ARG002 - the server logs it
        return self._error_response(request, 500, "please report this error; the console's log has it", None)

    async def _answer_error(self, request: Request, status: int, detail: str) -> Response:
        try:
            viewer = await self.in_thread(lambda: self.gate.viewer(request))
        except StoreError:
            viewer = None
        return self._error_response(request, status, detail, viewer)


def _sentence(detail: str) -> str:
    """Return a detail as a sentence; one that begins with a name, such as a parameter's, keeps its small letter."""
    begins_with_word = detail.split(" ", 1)[0].isalpha()
    return f"{detail[:1].upper() if begins_with_word else detail[:1]}{detail[1:].rstrip('.')}."


def _next(request: Request) -> str:
    return f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path


def _route_order(screen: Screen) -> tuple[bool, ...]:
    """Return a key that puts an address of words before one in whose place any word fits."""
    return tuple("{" in part for part in screen.path.split("/"))


def _needed(screen: Screen, pairs: Sequence[tuple[str, str]]) -> Viewer | None:
    """Return who may open a screen at this address: another list of candidates is for analysts."""
    if screen.viewer == "viewer" and any(name in {"candidates", "list"} and value for name, value in pairs):
        return "analyst"
    return screen.viewer


async def _send_with_headers(send: Send, message: Message) -> None:
    if message["type"] == "http.response.start":
        headers = MutableHeaders(scope=message)
        for name, value in ALWAYS.items():
            headers.setdefault(name, value)
    await send(message)
