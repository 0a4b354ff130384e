"""nginx as the relay, with the configuration of examples/deploy: somebody else's program, and no less is promised."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from overstory.protocol.oblivious.formats import REQUEST_TYPE, RESPONSE_TYPE
from support.nginx import free_port, nginx, running
from support.relayed_devices import collecting
from support.relays import message, post, receiving

ROOT = Path(__file__).parents[2]
CONFIGURATION = ROOT / "examples" / "deploy" / "relay-nginx.conf"


def here(text: str, port: int, gateway: str) -> str:
    """Return the configuration without TLS, on a port of this machine, for a gateway of this machine."""
    text = re.sub(r" *ssl_certificate(_key)? .*\n", "", text)
    assert text.count("listen 443 ssl;") == text.count("proxy_pass https://collector.example.org/") == 1
    text = text.replace("listen 443 ssl;", f"listen 127.0.0.1:{port};")
    return text.replace("https://collector.example.org/", f"{gateway}/")


@pytest.fixture(scope="module")
def side():
    with receiving() as side:
        yield side


@pytest.fixture(scope="module")
def relay(side, tmp_path_factory):
    folder = tmp_path_factory.mktemp("nginx")
    port = free_port()
    with running(folder, here(CONFIGURATION.read_text(), port, side.url), port) as address:
        yield address, folder


def test_the_body_alone_goes_on_and_the_response_comes_back(relay, side):
    address, _ = relay
    body = message(1)
    nosy = {"Authorization": "Bearer x", "User-Agent": "curl/8", "X-Forwarded-For": "203.0.113.9", "Cookie": "id=1"}
    status, headers, answered = post(address, body, **nosy)
    assert (status, headers["content-type"], answered) == (200, RESPONSE_TYPE, b"sealed")
    passed, content = side.passed[-1]
    assert content == body
    assert passed == {
        "host": "collector.example.org",
        "content-type": REQUEST_TYPE,
        "connection": "close",
        "content-length": str(len(body)),
    }


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        ("/v1/reports", message(1), {}, 404),
        ("/", message(1), {"Content-Type": "application/json"}, 415),
        ("/", bytes((1 << 16) + 1), {}, 413),
    ],
)
def test_what_is_no_message_is_not_passed_on(relay, side, path, body, headers, status):
    before = len(side.passed)
    assert post(relay[0], body, path, **headers)[0] == status
    assert len(side.passed) == before


def test_an_address_that_sends_too_much_is_refused_and_nothing_of_it_is_written(relay, side):
    address, folder = relay
    statuses = [post(address, message(n))[0] for n in range(60)]
    assert statuses.count(429) >= 9
    assert set(statuses) == {200, 429}
    written = [path for path in folder.rglob("*") if path.is_file() and path.name not in {"nginx.conf", "pid"}]
    assert [path.read_bytes() for path in written if path.stat().st_size] == []


@pytest.mark.slow
def test_devices_report_to_a_collector_through_it(tmp_path):
    with collecting(tmp_path / "collector") as site:
        server, port = "http://{}:{}".format(*site.collector.address), free_port()
        with running(tmp_path, here(CONFIGURATION.read_text(), port, server), port) as address:
            sent = Counter(site.report(number, "http://{}:{}/".format(*address), server) for number in range(8))
        assert site.counts() == sent


def test_without_nginx_a_test_is_skipped_or_fails_where_it_is_required(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    monkeypatch.delenv("OVERSTORY_NGINX", raising=False)
    with pytest.raises(pytest.skip.Exception, match="apt install nginx-light"):
        nginx()
    monkeypatch.setenv("OVERSTORY_NGINX", "required")
    with pytest.raises(pytest.fail.Exception, match="OVERSTORY_NGINX=required"):
        nginx()
