"""The page on a person's own machine: legible in the light and in the dark, and served to nobody else."""

import http.client
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from overstory.client.outcomes import Fault, StateError
from overstory.client.person.server import LocalPage
from overstory.presentation.render_html import STYLE, policy_of
from overstory.protocol.metrics.tables import contrast


def test_text_stands_out_in_the_light_and_in_the_dark():
    schemes = [dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", part)) for part in STYLE.split("@media (prefers", 1)]
    assert len(schemes) == 2
    for colours in schemes:
        for ink in ("ink", "muted", "blue", "good", "bad"):
            assert contrast(colours[ink], colours["paper"]) >= 4.5, (ink, colours)
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert ":focus-visible { outline: 2px" in STYLE


@contextmanager
def serving(page: str | Callable[[], str] = "<p>hello</p>") -> Iterator[LocalPage]:
    with LocalPage(page if callable(page) else lambda: page, STYLE) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(5)


def ask(server: LocalPage, path: str | None = None, method: str = "GET", **headers: str):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=5)
    connection.request(method, server.path if path is None else path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, answer.read().decode(), {k.lower(): v for k, v in answer.getheaders()}
    connection.close()
    return found


def test_the_page_is_served_at_its_own_address_alone():
    with serving() as server:
        assert server.url == f"http://127.0.0.1:{server.server_port}{server.path}"
        status, body, _ = ask(server)
        assert (status, body) == (200, "<p>hello</p>")
        for path in ("/", "/favicon.ico", server.path[:-1], server.path + "x", server.path.lower() + "?", "//"):
            assert ask(server, path)[0] == 404, path
        assert server.server_address[0] == "127.0.0.1"


def test_two_pages_have_two_addresses():
    with serving() as one, serving() as other:
        assert one.path != other.path
        assert len(one.path) >= 34, "24 random bytes"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{}", "127.0.0.1", "127.0.0.1:1", "", "localhost.evil:{}"]
)
def test_another_name_for_this_machine_is_refused(host):
    with serving() as server:
        status, body, _ = ask(server, Host=host.format(server.server_port))
        assert ask(server, Host=f"localhost:{server.server_port}")[0] == 200
    assert status == 421
    assert "hello" not in body


def test_two_hosts_or_none_are_refused():
    with serving() as server:
        for hosts in ("", f"Host: 127.0.0.1:{server.server_port}\r\nHost: evil.example\r\n"):
            with socket.create_connection(("127.0.0.1", server.server_port), timeout=5) as raw:
                raw.sendall(f"GET {server.path} HTTP/1.1\r\n{hosts}\r\n".encode())
                assert b" 421 " in raw.makefile("rb").readline()


def test_headers_keep_the_page_to_itself():
    with serving() as server:
        _, _, headers = ask(server)
    assert headers["content-security-policy"] == f"{policy_of(STYLE)}; frame-ancestors 'none'"
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "server" not in headers
    assert "access-control-allow-origin" not in headers


def test_only_reading_is_possible(capfd):
    with serving() as server:
        status, body, headers = ask(server, method="HEAD")
        assert (status, body, headers["content-length"]) == (200, "", "12")
        assert ask(server, method="POST")[0] == 501
        assert ask(server, method="DELETE")[0] == 501
        assert "ython" not in str(ask(server, method="POST"))
        path = server.path
    assert path not in "".join(capfd.readouterr()), "the path is a secret"


def test_what_cannot_be_shown_is_said(capfd):
    def lost() -> str:
        raise StateError(Fault.LOST, "the secret was there and is lost")

    with serving(lost) as server:
        assert ask(server)[:2] == (500, "the secret was there and is lost")
    assert capfd.readouterr().err == ""


def test_a_browser_that_goes_away_is_not_spoken_of(capfd):
    shown = threading.Event()
    big = "x" * (1 << 24)

    def slow() -> str:
        shown.wait(10)
        return big

    with serving(slow) as server:
        raw = socket.create_connection(("127.0.0.1", server.server_port), timeout=5)
        raw.sendall(f"GET {server.path} HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n\r\n".encode())
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw.close()
        shown.set()
        assert ask(server)[0] == 200
    assert capfd.readouterr().err == ""
