"""A console on a socket and a Chromium that looks at it, with everything that a page does wrong written down."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from overstory.console.access import Access, make_gate
from overstory.console.app import SCREENS, Console, make_server
from overstory.console.data import ConsoleData
from overstory.console.view import Screen, Viewer
from overstory.protocol.metrics import MetricRegistry
from overstory.supervision.listening import Listening
from support.console_in_process import HOSTILE
from support.console_store import NOW

ALL: Final[tuple[Screen, ...]] = (HOSTILE, *SCREENS)  # the screens, after one in which every word is hostile

METRICS: Final = ("theme", "start", "home", "over", "quiet")


def addresses(screen: Screen, registry: MetricRegistry) -> list[str]:
    """Return the addresses of a screen: one, or one for each metric, in the newest period that is over."""
    if "{" not in screen.path:
        return [screen.path]
    filled = []
    for name in METRICS:
        period = registry[name].period
        label = period.label(period.number(NOW) - (10 if name == "over" else 1))
        filled.append(screen.path.replace("{metric}", name).replace("{period}", label))
    return filled


WIDE, NARROW = 1280, 390

PATIENCE = 60  # times that a page is asked for again, half a second apart, while its estimates are made

# A listener that outlives no page: `problems` reads it before the page is left.
LISTENER = """
window.__violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.__violations.push(`${event.violatedDirective}: ${event.blockedURI || event.sample}`));
"""


@dataclass
class ServedConsole:  # a console that listens, in a thread of this process
    console: Console
    address: str
    connections: set[object]  # the connections that are open
    ready: set[str] = field(default_factory=set)
    """The pages that were seen with their estimates, which are then in the cache."""

    def link(self, viewer: Viewer = "admin") -> str:
        return f"{self.address}/login#{self.console.gate.sessions.make_link(viewer)}"


@contextmanager
def served_console(data: ConsoleData, screens: Iterable[Screen] = ALL) -> Iterator[ServedConsole]:
    listening, ready = Listening(port=0), threading.Event()
    with listening.bind() as bound:
        port = bound.getsockname()[1]
        console = Console(data, make_gate(data, listening, Access(), port), screens)
        server = make_server(console, listening, ready.set)
        thread = threading.Thread(target=server.run, args=([bound],))
        thread.start()
        try:
            assert ready.wait(20)
            yield ServedConsole(console, f"http://127.0.0.1:{port}", server.server_state.connections)
        finally:
            server.should_exit = True
            thread.join(20)
    assert not thread.is_alive()


def chromium() -> str:
    """Return the path of Chromium; without it, skip the test, or fail it where OVERSTORY_BROWSER=required."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is not None:
        return path
    why = "there is no Chromium: on Debian and Ubuntu, `make browser` installs it"
    if os.environ.get("OVERSTORY_BROWSER") == "required":
        pytest.fail(f"OVERSTORY_BROWSER=required, but {why}")
    pytest.skip(why)


@contextmanager
def launched() -> Iterator[Any]:
    path = chromium()
    from playwright.sync_api import sync_playwright

    sandbox = ["--no-sandbox"] if os.getuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=sandbox)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Reader:  # a page in a browser context of its own, and what went wrong on the pages that it has shown
    page: Any
    served: ServedConsole
    problems: list[str] = field(default_factory=list)

    def open(self, path: str):
        """Go to a page of the console and return the response, once its estimates are there."""
        address = self.served.address + path
        for _ in range(
            0 if path in self.served.ready else PATIENCE
        ):  # not in the page: one that decodes loads itself again, and would interrupt
            if self.page.context.request.get(address).status != 202:
                break
            time.sleep(0.5)
        self.served.ready.add(path)
        response = self.page.goto(address)
        assert response.status != 202, f"{path} still decodes"
        self.note_violations()
        return response

    def note_violations(self) -> None:
        self.problems += [f"policy: {text}" for text in self.page.evaluate("window.__violations || []")]

    def log_in(self, viewer: Viewer = "admin") -> Reader:
        self.page.goto(self.served.link(viewer))
        self.page.wait_for_url(lambda address: urlsplit(address).path != "/login")
        return self


@contextmanager
def reader(browser, served, scheme="light", width=WIDE, *, scripts=True):
    """Give a page that notes console errors, exceptions, and requests to anywhere but the console."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=scripts, locale="en-GB"
    )
    context.set_default_timeout(60_000)
    if scripts:
        context.add_init_script(LISTENER)
    page = context.new_page()
    reading = Reader(page, served)

    def on_console(message) -> None:
        if message.type in {"error", "warning"} and "status of 4" not in message.text:
            reading.problems.append(f"console: {message.text}")

    def on_request(request) -> None:
        if not request.url.startswith((served.address, "data:")):
            reading.problems.append(f"elsewhere: {request.url}")

    page.on("console", on_console)
    page.on("pageerror", lambda error: reading.problems.append(f"exception: {error}"))
    page.on("request", on_request)
    try:
        yield reading
    finally:
        context.close()


def logged_in(browser, served: ServedConsole, **named):
    """Return a context manager that gives a reader who is logged in, also where there are no scripts."""

    @contextmanager
    def given() -> Iterator[Reader]:
        with reader(browser, served, **named) as reading:
            session = served.console.gate.log_in(served.console.gate.sessions.make_link("admin"))
            assert session is not None
            name = served.console.gate.cookie.names[-1]
            reading.page.context.add_cookies([{"name": name, "value": session, "url": served.address}])
            yield reading

    return given()


def axe_violations(page) -> list[str]:
    """Return what axe has against the current page: rule, impact, and the first element."""
    from axe_playwright_python.sync_playwright import Axe

    violations = Axe().run(page).response["violations"]
    return [f"{one['id']} ({one['impact']}): {one['nodes'][0]['html'][:200]}" for one in violations]
