"""A console in this process: its application without a socket, on a store of its own."""

import asyncio
from pathlib import Path

import httpx

from overstory.collector.store import Store, open_store
from overstory.console.access import Cookie, Gate, Sessions, TokenRoles, names_of
from overstory.console.app import SCREENS, Console
from overstory.console.data import ConsoleData
from overstory.console.view import Query, Screen, ScreenError, View
from overstory.presentation.document import Field, Form, Heading, Table
from overstory.presentation.svg import Picture
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.registry import EXAMPLE
from support.decoding import shared_estimates
from support.devices import Clock

PORT = 8001
ADDRESS = f"http://127.0.0.1:{PORT}"
MOMENT = 1_800_000_000.0  # in 2027: tokens that a test revokes, by the real clock, are revoked by then
SAME_ORIGIN = {"sec-fetch-site": "same-origin"}


class HostileQuery(Query):
    candidates: str = ""
    list: str = ""
    fail: str = ""


def show_hostile(data: ConsoleData, query: HostileQuery) -> View:
    """Every word is hostile, and it fails as it is asked to."""
    if query.fail == "bug":
        raise ZeroDivisionError("a bug")
    if query.fail:
        raise ScreenError(int(query.fail), "it was asked for")
    word = "<script>alert(1)</script>\u202egnp"
    table = Table.of_cells("Words", ("word", "formula"), [(word, "=cmd()"), (query.candidates or "none", "-1.5")])
    form = Form("Decode", (Field("candidates", "Candidates", kind="lines"),), "Decode", "", "post")
    drawing = '<svg xmlns="http://www.w3.org/2000/svg" width="9px" height="9px"><style>a{}</style></svg>'
    picture = Picture("drawn", "Caption", "Text", drawing)
    held = data.lists.find(query.list)
    facts = {"held": None if held is None else len(held), "not_a_number": float("nan")}
    return View(word, (Heading(1, word), form, table), table, picture, facts)


HOSTILE = Screen("Hostile", "/m/hostile", show_hostile, HostileQuery)
PUBLIC = Screen("Public", "/public", lambda *_: View("Public", (Heading(1, "Public"),)), viewer=None)


def open_test_store(folder: Path) -> Store:
    return open_store(str(folder / "store.db"), create=True)


def console_on(store, *, proxy=None, screens=None, clock=None, registry=None):
    """Return a console whose clock a test moves; it has a hostile and a public screen, and all real ones."""
    clock = clock or Clock(MOMENT)
    gate = Gate(
        names_of("127.0.0.1", ["console.example.org"]),
        Sessions(clock),
        Cookie(PORT, plain=True),
        TokenRoles(store.tokens, clock=clock, timer=clock),
        proxy,
    )
    data = ConsoleData(registry or parse_registry(EXAMPLE), store, clock, shared_estimates())
    return Console(data, gate, (HOSTILE, PUBLIC, *SCREENS) if screens is None else screens)


class Client:  # a browser without a screen: it keeps cookies, follows no redirect, and gets errors as pages
    def __init__(self, console, client: tuple[str, int]) -> None:
        transport = httpx.ASGITransport(console, raise_app_exceptions=False, client=client)
        self._client = httpx.AsyncClient(transport=transport, base_url=ADDRESS)
        self.cookies = self._client.cookies

    def get(self, address: str, **named) -> httpx.Response:
        return asyncio.run(self._client.get(address, **named))

    def post(self, address: str, **named) -> httpx.Response:
        return asyncio.run(self._client.post(address, **named))


def client_of(console, client: tuple[str, int] = ("127.0.0.1", 50_000)) -> Client:
    return Client(console, client)


def log_in(client: Client, token: str, **fields: str) -> httpx.Response:
    """Post the login form as the console's own page does."""
    return client.post("/login", data={"token": token, **fields}, headers=SAME_ORIGIN)


def analyst_of(data: ConsoleData) -> Client:
    """Return a browser whose analyst has logged in to a console that shows these data."""
    console = console_on(data.store, clock=Clock(data.clock()))
    console.data = data
    browser = client_of(console)
    log_in(browser, console.gate.sessions.make_link("analyst"))
    return browser
