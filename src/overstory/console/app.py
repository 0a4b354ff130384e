"""The console as an ASGI application: a route for each screen and each form of it, and every error as a page."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import socket
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from mimetypes import guess_type
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from overstory.collector.store import StoreError
from overstory.console.access import Access, Gate, allows, check_exposure, make_gate
from overstory.console.data import CandidateLists, ConsoleData
from overstory.console.screens.overview import HealthQuery, OverviewQuery, change_notes, show_board, show_health
from overstory.console.screens.period import ComparisonQuery, PeriodQuery, show_comparison, show_period
from overstory.console.screens.public import show_about, show_collected, show_registry
from overstory.console.screens.series import SeriesQuery, show_series
from overstory.console.view import Screen, ScreenError, View, Viewer, read_query
from overstory.presentation.document import Block, Field, Form, Heading, KeyValues, Links, Notice, Paragraph
from overstory.presentation.formats import finite
from overstory.presentation.render_html import STYLE, as_html, as_svg, document, escaped, policy_of
from overstory.presentation.render_text import as_csv, as_json, for_spreadsheet
from overstory.presentation.result import as_parquet
from overstory.protocol.errors import OverstoryError
from overstory.protocol.wire import parse_digits
from overstory.supervision.connection import BoundedConnection
from overstory.supervision.listening import ConnectionLimits, Listening, ServingError
from overstory.supervision.server import SupervisedServer, server_config
from overstory.supervision.upkeep import Task, Upkeep, full_pool, result_of

STATIC: Final = Path(__file__).parent / "static"

POLICY: Final = "default-src 'self'; base-uri 'none'; object-src 'none'; frame-ancestors 'none'; form-action 'self'"
"""The Content-Security-Policy of every page: nothing inline, and nothing from elsewhere."""


def download_path(path: str) -> str:
    """Return what comes before the dot of a download's address: ``/m`` of ``/m/``, and ``/index`` of ``/``."""
    return path.rstrip("/") or "/index"


def _is_usable(block: Block, viewer: Viewer | None) -> bool:
    """Whether a reader can use a block: a form that changes something is for analysts, or for logging in."""
    is_change = isinstance(block, Form) and block.method == "post" and block.action != "/login"
    return not is_change or (viewer is not None and allows(viewer, "analyst"))


def _files_of(view: View, request: Request) -> Iterator[Block]:
    """Yield links to the downloads of a page."""
    if view.status < 400 and (view.table or view.picture or view.facts):
        path, query = download_path(request.url.path), f"?{request.url.query}" if request.url.query else ""
        forms = (form for form, (_, part, _) in FORMS.items() if not part or getattr(view, part))
        yield Links("The same as a file", tuple((form.upper(), f"{path}.{form}{query}") for form in forms))


def error_view(status: int, title: str, detail: str, more: Sequence[Block] = ()) -> View:
    """Return the page of an error."""
    return View(title, (Heading(1, title), Notice(detail), *more), status=status)


SCREENS: Final = (
    Screen("What is collected", "/", show_collected, viewer=None),
    Screen("About a metric", "/about/{metric}", show_about, viewer=None),
    Screen("Registry", "/registry", show_registry, viewer=None),
    Screen("Board", "/m/", show_board, OverviewQuery),
    Screen("Over time", "/m/{metric}", show_series, SeriesQuery),
    Screen("Compare", "/m/{metric}/compare", show_comparison, ComparisonQuery),
    Screen("Period", "/m/{metric}/{period}", show_period, PeriodQuery),
    Screen("Health", "/health", show_health, HealthQuery, act=change_notes),
)


MOST_FORM_BYTES: Final = 16 * 1024 * 1024  # A form's body, of somebody who is known

LONGEST_ADDRESS: Final = 2_000  # bytes of candidates that an address carries; more are held in memory, under a name

CANDIDATES: Final = "candidates"
LIST: Final = "list"

Fields = Mapping[str, str]  # what a form carries: a text for each field, the lines of which end in a line feed


async def read_form(request: Request, most_bytes: int = MOST_FORM_BYTES) -> Fields:
    """Return a form's fields; a file's text, which must be UTF-8, stands in the field of its name."""
    length = parse_digits(request.headers.get("content-length", ""))
    if length is None or length > most_bytes:
        raise ScreenError(413, f"a form may have {most_bytes:,} bytes here, and states its length")
    fields: dict[str, str] = {}
    async with request.form(max_files=1, max_fields=100, max_part_size=most_bytes) as form:
        for name, value in form.multi_items():
            text = await _text_of(value) if isinstance(value, UploadFile) else value
            if text:
                fields[name] = "\n".join(filter(None, (fields.get(name), *text.splitlines())))
    return fields


async def _text_of(file: UploadFile) -> str:
    try:
        return (await file.read()).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ScreenError(400, f"{file.filename}: this is no text in UTF-8; give one candidate a line") from None


def address_of_form(screen: Screen, path: str, fields: Fields, lists: CandidateLists) -> str:
    """Return the address of `screen` that shows what a form asks for; `lists` hold what is too long for an address."""
    asked = dict(fields)
    candidates = asked.get(CANDIDATES, "")
    if len(urlencode({CANDIDATES: candidates})) > LONGEST_ADDRESS:
        del asked[CANDIDATES]
        asked[LIST] = lists.hold(candidates.split("\n"))
    read_query(screen.query, asked.items())  # a mistake is answered here, not after the redirect
    return f"{path}?{urlencode(asked)}" if asked else path


HOME: Final = "/m/"

MOST_LOGIN_BYTES: Final = 4096  # the form of somebody who is not known yet

_OWN_PATH: Final = re.compile(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]*")
"""An address on this console: two slashes, or a backslash, would lead to another host."""


def login_blocks(then: str) -> tuple[Block, ...]:
    """Return the form that asks for a link or a token, and then leads to `then`."""
    fields = (
        Field("token", "Link or token", kind="password", hint="A link works once, within ten minutes of its making."),
        Field("then", "", then if len(urlencode({"then": then})) < MOST_LOGIN_BYTES - 512 else HOME, kind="hidden"),
    )
    return (
        Paragraph(
            "Open the link that `overstory console` printed, or paste it here. A token of the role viewer, analyst or "
            "admin works as well: `overstory store tokens --add`."
        ),
        Form("Log in", fields, "Log in", "/login", "post"),
    )


async def log_in(console: Console, request: Request) -> Response:
    """Show the form; take a link's token or a token of the store, and set the session's cookie."""
    if request.method != "POST":
        view = View("Log in", (Heading(1, "Log in"), *login_blocks(_then(request.query_params.get("then", "")))))
        return console.page(view, request, None, {})
    fields = await read_form(request, MOST_LOGIN_BYTES)
    token, then = fields.get("token", "").rpartition("#")[2].strip(), _then(fields.get("then", ""))
    session_id = await console.in_thread(lambda: console.gate.log_in(token))
    if session_id is None:
        detail = "This link or token does not work: it was used, has expired, was revoked, or is for a program."
        return console.page(error_view(403, "Not logged in", detail, login_blocks(then)), request, None, {})
    return console.gate.cookie.set(RedirectResponse(then, 303), session_id)


async def log_out(console: Console, request: Request) -> Response:
    """End the session."""
    console.gate.sessions.end(console.gate.cookie.read(request))
    return console.gate.cookie.set(RedirectResponse("/", 303), "")


def _then(address: str) -> str:
    return address if _OWN_PATH.fullmatch(address) and not address.startswith("/login") else HOME


def _json(view: View) -> bytes:
    rows = {} if view.table is None else {"rows": as_json(view.table)}
    return json.dumps({"title": view.title, **_values(view.facts), **rows}, allow_nan=False, indent=2).encode()


def _values(facts: Any) -> Any:
    """Return JSON values, with None for each number that JSON cannot hold."""
    if isinstance(facts, Mapping):
        return {str(key): _values(value) for key, value in facts.items()}
    if isinstance(facts, list | tuple):
        return [_values(value) for value in facts]
    return finite(facts)


FORMS: Final[Mapping[str, tuple[str, str, Callable[[Any], str | bytes]]]] = {
    "json": ("application/json", "", _json),
    "csv": ("text/csv; charset=utf-8", "table", lambda table: "".join(for_spreadsheet(as_csv(table)))),
    "parquet": ("application/vnd.apache.parquet", "table", as_parquet),
    "svg": ("image/svg+xml", "picture", as_svg),
    "toml": ("application/toml", "text", str.encode),
}
"""What a view can be downloaded as: the media type, the part that it is made of (empty: all), and how."""

_STYLE: Final = re.compile(r"<style[^>]*>(.*?)</style>", re.DOTALL)


def as_download(view: View, form: str, name: str) -> Response:
    """Return a view in one of the `FORMS`, as file `name`; 404 where it has no such part."""
    media_type, part, write = FORMS[form]
    if part and not getattr(view, part):
        raise ScreenError(404, f"this page has no {part} to download")
    body = write(getattr(view, part) if part else view)
    headers = {} if form == "json" else {"content-disposition": f'attachment; filename="{name}.{form}"'}
    if isinstance(body, str) and form == "svg":  # which may be opened by itself
        headers["content-security-policy"] = policy_of(*_STYLE.findall(body))
    return Response(body, view.status, headers, media_type)


LOG: Final = logging.getLogger("overstory.console")
THREADS: Final = 16  # pages that are made at the same time; a slow one stops no other

PUBLIC_THREADS: Final = 2
RESTS: Final = 3.0
"""Pages that are made at the same time for people who are not logged in; each thread then rests for so many times as
long as its page took. Strangers take half of one processor from those who are logged in."""

PUBLIC_WAIT: Final = 10.0  # seconds for which a stranger's page waits for a thread before it is refused

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
    503: "The console cannot answer now",
}

Result = TypeVar("Result")


class Console:
    """The application; the order of its routes does not depend on that of the screens."""

    def __init__(self, data: ConsoleData, gate: Gate, screens: Iterable[Screen] | None = None) -> None:
        self.data, self.gate = data, gate
        self.screens = SCREENS if screens is None else tuple(screens)
        own = (path for path in STATIC.iterdir() if path.suffix in {".css", ".js", ".svg"})
        self.files = {"page.css": STYLE.encode(), **{path.name: path.read_bytes() for path in own}}
        self._threads = full_pool(THREADS, "console")
        self.upkeep = Upkeep(LOG)
        self._public_threads = full_pool(PUBLIC_THREADS, "console-public")
        self._app = Starlette(
            routes=self._routes(),
            exception_handlers=dict.fromkeys((ScreenError, HTTPException, OverstoryError, Exception), self._on_error),
        )
        self._app.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
        return await result_of(self._threads.submit(work))

    async def in_public_thread(self, work: Callable[[], Result]) -> Result:
        """Run what somebody asks for who is not logged in, in one of a few threads."""
        future: Future[Result] = Future()
        self._public_threads.submit(_run_and_rest, future, work)
        with suppress(TimeoutError):
            async with asyncio.timeout(PUBLIC_WAIT):
                return await result_of(future)
        if future.cancel():
            raise ScreenError(503, "too many pages are being made for people who are not logged in", refresh=5)
        return await result_of(future)

    def _routes(self) -> list[Route]:
        routes = [
            Route("/static/{name}", self._static),
            Route("/favicon.ico", partial(self._static, name="icon.svg")),
            Route("/readyz", self._ready),
            Route("/login", partial(log_in, self), methods=["GET", "POST"]),
            Route("/logout", partial(log_out, self), methods=["POST"]),
        ]
        # An address of words is before one in whose place any word fits.
        for screen in sorted(self.screens, key=lambda screen: ["{" in part for part in screen.path.split("/")]):
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
        return Response(self.files[name], 200, {"cache-control": "max-age=300"}, guess_type(name)[0])

    async def _ready(self, _: Request) -> Response:
        """Answer 200 while the store was read a moment ago: the page of a load balancer, without a login."""
        ready = not self.upkeep.troubled
        return JSONResponse({"ready": ready}, 200 if ready else 503)

    async def _show(self, screen: Screen, form: str, request: Request) -> Response:
        needed = _needed(screen, request.query_params.multi_items())
        viewer = await self.in_thread(lambda: self.gate.admit(request, needed))
        run = self.in_public_thread if viewer is None else self.in_thread
        return await run(partial(self._answer, screen, form, request, viewer))

    def _answer(self, screen: Screen, form: str, request: Request, viewer: Viewer | None) -> Response:
        query = read_query(screen.query, request.query_params.multi_items())
        path = dict(request.path_params)
        named = f"{path.get('metric')}.{form}"
        if form and screen.path.endswith("{metric}") and named in self.data.registry:
            form, path["metric"] = "", named  # a metric's id may end like a file
        view = screen.view(self.data, query, **path)
        headers = {"cache-control": "max-age=300"} if screen.viewer is None and viewer is None else {}
        if form:
            name = re.sub(r"[^A-Za-z0-9._-]+", "-", request.url.path.rpartition(".")[0].strip("/"))
            download = as_download(view, form, name or "overstory")
            download.headers.update(headers)
            return download
        return self.page(view, request, viewer, headers)

    async def _take(self, screen: Screen, request: Request) -> Response:
        """Take a form: by default its fields become the address of the same screen, which does the rest."""
        await self.in_thread(lambda: self.gate.admit(request, "analyst"))
        fields = await read_form(request)

        def act() -> str:
            if screen.act is not None:
                return screen.act(self.data, fields)
            return address_of_form(screen, request.url.path, fields, self.data.lists)

        return RedirectResponse(await self.in_thread(act), 303)

    def page(self, view: View, request: Request, viewer: Viewer | None, headers: dict[str, str]) -> Response:
        """Return a view as a page for who reads it; None: somebody who is not logged in."""
        path, registry = request.url.path, self.data.registry
        refresh = f'<meta http-equiv="refresh" content="{view.refresh}">\n' if view.refresh else ""
        names = (name for name in self.files if name.endswith(".css"))
        styles = "".join(f'<link rel="stylesheet" href="/static/{name}">\n' for name in names)
        script = "login.js" if path == "/login" or view.status == 401 else "console.js"
        shown = (screen for screen in self.screens if "{" not in screen.path)
        menu = tuple((screen.name, screen.path) for screen in shown if screen.viewer is None or viewer is not None)
        current = next((name for name, address in menu if address == path), "")
        can_leave = viewer is not None and self.gate.cookie.read(request)  # there is a session to end
        leave = [Form("Log out", (), "Log out", "/logout", "post")] if can_leave else []
        blocks = [block for block in view.blocks if _is_usable(block, viewer)]
        if not any(isinstance(block, Heading) and block.level == 1 for block in blocks):
            blocks.insert(0, Heading(1, view.title))
        about = f"{registry.version} (digest {registry.digest.hex()[:16]})"
        foot = as_html([KeyValues((("Registry", about),)), *_files_of(view, request)])
        page = document(
            f'{refresh}<title>{escaped(view.title)} - Overstory</title>\n<link rel="icon" href="/static/icon.svg">\n'
            f'{styles}<script src="/static/{script}" defer></script>\n',
            blocks,
            before=f"<header>{as_html([Links('Console', menu, current)])}{as_html(leave)}</header>\n",
            after=f"<footer>\n{foot}</footer>\n",
            kind="console" if viewer else "console public",
        )
        return Response(page, view.status, headers, media_type="text/html; charset=utf-8")

    def _error_response(self, request: Request, status: int, detail: str, viewer: Viewer | None) -> Response:
        title = TITLES.get(status) or HTTPStatus(status).phrase
        if request.url.path.endswith(tuple(f".{form}" for form in FORMS)):
            problem = {"type": "about:blank", "title": title, "status": status, "detail": detail}
            return JSONResponse(problem, status, media_type="application/problem+json")
        here = f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path
        more = login_blocks(here) if status == 401 else ()
        return self.page(error_view(status, title, _sentence(detail), more), request, viewer, {})

    async def _on_error(self, request: Request, error: Exception) -> Response:
        """Return the page of an error; one that is nobody's mistake but ours is logged by the server."""
        viewer: Viewer | None = None
        status, detail, headers = 500, "please report this error; the console's log has it", dict[str, str]()
        if isinstance(error, StoreError):
            # Who is logged in may need the store, and who is not does not learn its name.
            session = self.gate.sessions.find(self.gate.cookie.read(request))
            viewer = session.viewer if session else None
            status, headers = 503, {"retry-after": "5"}
            detail = str(error) if session else "the store cannot be read at the moment"
        elif isinstance(error, ScreenError | HTTPException | OverstoryError):
            if isinstance(error, HTTPException):
                status, detail, headers = error.status_code, str(error.detail), dict(error.headers or {})
                detail = f"the console has no page {request.url.path}" if status == 404 else detail
            else:
                status, detail = error.status if isinstance(error, ScreenError) else 400, str(error)
            if isinstance(error, ScreenError) and error.refresh:  # a browser asks again by itself
                headers = {"refresh": str(error.refresh), "retry-after": str(error.refresh)}
            with suppress(StoreError):
                viewer = await self.in_thread(lambda: self.gate.viewer(request))
        answer = self._error_response(request, status, detail, viewer)
        answer.headers.update(headers)
        return answer


def _run_and_rest(future: Future[Result], work: Callable[[], Result]) -> None:
    if future.set_running_or_notify_cancel():
        began = time.monotonic()
        try:
            future.set_result(work())
        except Exception as error:  # noqa: BLE001 - it is the answer
            future.set_exception(error)
        time.sleep(RESTS * (time.monotonic() - began))


def _sentence(detail: str) -> str:
    """Return a detail as a sentence; one that begins with a name, such as a parameter's, keeps its small letter."""
    begins_with_word = detail.split(" ", 1)[0].isalpha()
    return f"{detail[:1].upper() if begins_with_word else detail[:1]}{detail[1:].rstrip('.')}."


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


def make_server(console: Console, listening: Listening, announce: Callable[[], object]) -> SupervisedServer:
    """Return what serves a console and then calls `announce`."""
    config = server_config(console, listening, BoundedConnection, lifespan="off", timeout_graceful_shutdown=2)
    return SupervisedServer(config, LOG, announce)


def serve(
    data: ConsoleData,
    listening: Listening,
    access: Access,
    announce: Callable[[str], None],
    *,
    open_link: Callable[[str], object] | None = None,
) -> None:
    """Serve until a signal."""
    check_exposure(listening, access)
    sys.setswitchinterval(0.0005)  # a page that reads the store often waits so long for one that computes
    with listening.bind(ConnectionLimits().taking_seconds) as bound:
        address = listening.address(bound)
        gate = make_gate(data, listening, access, bound.getsockname()[1])

        def announce_link() -> None:
            announce(f"console on {address}/login#{gate.sessions.make_link('admin')}")
            if open_link is not None:
                open_link(f"{address}/login#{gate.sessions.make_link('admin')}")

        console = Console(data, gate)
        server = make_server(console, listening, announce_link)
        sockets = [bound]
        if access.proxy is not None and access.proxy.socket:
            sockets.append(_unix_socket(Path(access.proxy.socket)))
        console.upkeep.start([Task("store", 5.0, 30.0, needed=True, thread="store", work=data.store.tokens)])
        try:
            server.run(sockets)
        finally:
            asyncio.run(console.upkeep.stop(5.0))  # a store that hangs is not waited for
            if access.proxy is not None and access.proxy.socket:
                Path(access.proxy.socket).unlink(missing_ok=True)


def _unix_socket(path: Path) -> socket.socket:
    """Return a socket at `path` that only this user and the path's group can open."""
    with suppress(FileNotFoundError):
        if stat.S_ISSOCK(path.stat().st_mode):
            path.unlink()  # of a console that was killed
    bound = socket.socket(socket.AF_UNIX)
    before = os.umask(0o117)
    try:
        bound.bind(str(path))
    except OSError as error:
        bound.close()
        raise ServingError(f"cannot listen on {path}: {error.strerror or error}") from error
    finally:
        os.umask(before)
    return bound
