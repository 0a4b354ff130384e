"""What another site, another port and another name can do with a logged-in browser: show a page, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from support.console_browser import logged_in, reader

pytestmark = pytest.mark.browser


@contextmanager
def other_site(page: str) -> Iterator[int]:
    """Serve a page on another port of this machine, and give the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def attack_page(target: str) -> str:
    field = '<input name="candidates" value="ash">'
    return (
        f'<form method="post" action="{target}/m/hostile">{field}<button>Go</button></form>'
        f'<form method="post" action="{target}/logout"><button>Out</button></form><a href="{target}/m/hostile">See</a>'
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_form_on_another_port_or_name_is_refused_and_a_link_works(browser, served, host) -> None:
    with other_site(attack_page(served.address)) as port, logged_in(browser, served) as reading:
        page = reading.page
        for button in ("Go", "Out"):
            page.goto(f"http://{host}:{port}/")
            with page.expect_navigation() as navigation:
                page.get_by_role("button", name=button).click()
            assert navigation.value.status == 403
        page.goto(f"http://{host}:{port}/")
        with page.expect_navigation() as navigation:
            page.get_by_role("link", name="See").click()
        assert navigation.value.status == 200  # the cookie travels with a link: a shared address shows the page


def test_the_same_form_on_the_consoles_own_page_is_taken(browser, served) -> None:
    with logged_in(browser, served) as reading:
        reading.open("/m/hostile")
        reading.page.get_by_label("Candidates").fill("ash\noak")
        with reading.page.expect_navigation() as navigation:
            reading.page.get_by_role("button", name="Decode").click()
        assert (navigation.value.status, navigation.value.url) == (
            200,
            f"{served.address}/m/hostile?candidates=ash%0Aoak",
        )


def test_a_page_cannot_be_put_into_a_frame(browser, served) -> None:
    with other_site(f'<iframe src="{served.address}/login"></iframe>') as port, reader(browser, served) as reading:
        reading.page.goto(f"http://127.0.0.1:{port}/")
        assert any("frame-ancestors" in problem for problem in reading.problems)


def test_hostile_words_are_shown_as_text(browser, served) -> None:
    with logged_in(browser, served) as reading:
        dialogs: list[str] = []
        reading.page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        reading.open("/m/hostile?candidates=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
        heading = reading.page.get_by_role("heading", level=1).inner_text()
        assert heading.startswith("<script>alert(1)</script>")
        assert "\u202e" not in reading.page.content()
        assert reading.page.locator("main img, main script").count() == 0
        assert (dialogs, reading.problems) == ([], [])
