"""A pass-through relay as a process: what goes on, what comes back, and what is refused.

So is nginx, with the configuration of examples/deploy: somebody else's program, and no less is promised of it.
"""

import re
import socket
import threading
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from overstory.protocol.oblivious.formats import REQUEST_TYPE, RESPONSE_TYPE
from support.nginx import free_port, running
from support.relayed_devices import collecting
from support.relays import COMMON, RelayProcess, health, message, post, raw_post, receiving, relaying


@pytest.fixture(scope="module")
def side():
    with receiving() as side:
        yield side


@pytest.fixture(scope="module")
def relay(side, tmp_path_factory):
    log = tmp_path_factory.mktemp("relay") / "log"
    with relaying(side.url, "OVERSTORY_RELAY_PER_HOUR=100000", log=log) as relay:
        relay.log, relay.host = log, side.url.removeprefix("http://")
        yield relay


ROOT = Path(__file__).parents[2]
CONFIGURATION = ROOT / "examples" / "deploy" / "relay-nginx.conf"


def here(text, port, gateway):
    text = re.sub(r" *ssl_certificate(_key)? .*\n", "", text)
    assert text.count("listen 443 ssl;") == text.count("proxy_pass https://collector.example.org/") == 1
    text = text.replace("listen 443 ssl;", f"listen 127.0.0.1:{port};")
    return text.replace("https://collector.example.org/", f"{gateway}/")


@pytest.fixture(scope="module")
def foreign(side, tmp_path_factory):
    folder, port = tmp_path_factory.mktemp("nginx"), free_port()
    with running(folder, here(CONFIGURATION.read_text(), port, side.url), port) as address:
        yield SimpleNamespace(address=address, host="collector.example.org", folder=folder)


NOSY = {
    "Authorization": "Bearer of-the-device",
    "User-Agent": "curl/8",
    "Cookie": "id=1",
    "X-Forwarded-For": "203.0.113.9",
    "Forwarded": "for=203.0.113.9",
    "X-Request-Id": "17",
    "Accept-Language": "de",
    "Via": "1.1 proxy",
    "Content-Encoding": "identity",
}


@pytest.mark.parametrize("kind", ["relay", "foreign"])
@pytest.mark.parametrize("more", [NOSY, {}], ids=["nosy", "plain"])
def test_the_body_alone_goes_on(request, side, kind, more):
    relay, body = request.getfixturevalue(kind), message(1)
    status, headers, answered = post(relay.address, body, **more)
    assert (status, headers["content-type"], answered) == (200, RESPONSE_TYPE, b"sealed")
    headers, passed = side.passed[-1]
    assert passed == body
    assert headers == {
        "host": relay.host,
        "content-type": REQUEST_TYPE,
        "connection": "close",
        "content-length": str(len(body)),
    }


def test_status_class_media_type_and_body_alone_come_back(relay, side):
    side.answer = (200, {"Content-Type": RESPONSE_TYPE, "Set-Cookie": "id=1", "Server": "collector/9"}, b"sealed")
    status, headers, body = post(relay.address, message(1))
    assert (status, body) == (200, b"sealed")
    assert headers == COMMON | {"content-type": RESPONSE_TYPE, "content-length": "6", "connection": "close"}


@pytest.mark.parametrize(
    ("answered", "comes"),
    [
        ((201, {"Content-Type": RESPONSE_TYPE}, b"s"), (200, b"s")),
        ((401, {"Content-Type": "application/problem+json"}, b"{}"), (400, b"{}")),
        ((422, {"Content-Type": "text/html"}, b"<html>"), (400, b"")),
        ((429, {"Content-Type": "application/problem+json", "Retry-After": "77"}, b"{}"), (400, b"{}")),
    ],
)
def test_of_a_status_its_class_comes_back(relay, side, answered, comes):
    side.answer = answered
    status, headers, body = post(relay.address, message(1))
    assert (status, body) == comes
    assert set(headers) <= {"content-type", "content-length", "connection", *COMMON}


@pytest.mark.parametrize(
    "answered",
    [
        (200, {"Content-Type": "text/html"}, b"<html>log in</html>"),
        (302, {"Location": "http://127.0.0.1:1/"}, b""),
        (500, {"Content-Type": RESPONSE_TYPE}, b"s"),
        (200, {"Content-Type": RESPONSE_TYPE}, bytes(1 << 17)),
    ],
    ids=["portal", "redirect", "fault", "too long"],
)
def test_what_is_no_answer_of_a_gateway_is_a_passing_fault_of_the_relay(relay, side, answered):
    side.answer = answered
    status, headers, body = post(relay.address, message(1))
    assert (status, headers["content-type"]) == (502, "application/problem+json")
    assert b"later" in body


def test_a_gateway_that_is_not_there_is_a_passing_fault():
    with socket.create_server(("127.0.0.1", 0)) as unused:
        gateway = f"http://127.0.0.1:{unused.getsockname()[1]}"
    with relaying(gateway) as relay:
        assert post(relay.address, message(1))[0] == 502
        assert health(relay.address)["answers"] == {"502": 1}


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        ("/other", message(1), {}, 404),
        ("/v1/oblivious", message(1), {}, 404),
        ("/", message(1), {"Content-Type": "application/json"}, 415),
        ("/", b"too short", {}, 400),
        ("/", bytes((1 << 16) + 1), {}, 413),
    ],
)
def test_what_is_no_message_is_refused_and_not_passed_on(relay, foreign, side, path, body, headers, status):
    before = len(side.passed)
    if status != 400:  # nginx does not look into a body
        assert post(foreign.address, body, path, **headers)[0] == status
    answered, more, content = post(relay.address, body, path, **headers)
    assert (answered, more["content-type"], b'"detail": "' in content) == (status, "application/problem+json", True)
    assert len(side.passed) == before


def exchange(address, raw, timeout=10.0):
    with socket.create_connection(address, timeout) as wire:
        wire.sendall(raw)
        received = b""
        while data := wire.recv(1 << 16):
            received += data
        return received


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: r\r\n\r\n", b"405"),
        (b"POST /healthz HTTP/1.1\r\nHost: r\r\nContent-Length: 0\r\n\r\n", b"405"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nHost: r\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", b"431"),
        (b"POST / HTTP/1.1\r\nHost: r\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", b"400"),
    ],
    ids=["GET", "healthz", "nonsense", "long head", "two lengths"],
)
def test_odd_requests_get_one_answer_and_the_end(relay, raw, status):
    answered = exchange(relay.address, raw)
    assert answered.startswith(b"HTTP/1.1 " + status)
    assert answered.count(b"HTTP/1.1 4") == 1


def test_a_body_in_chunks_is_bounded_as_any_other(relay, side):
    head = f"POST / HTTP/1.1\r\nHost: r\r\nContent-Type: {REQUEST_TYPE}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    chunk = b"4000\r\n" + bytes(0x4000) + b"\r\n"
    assert exchange(relay.address, head + chunk * 5).startswith(b"HTTP/1.1 413")
    side.answer = (200, {"Content-Type": RESPONSE_TYPE}, b"sealed")
    assert exchange(relay.address, head + chunk + b"0\r\n\r\n").startswith(b"HTTP/1.1 200")
    assert side.passed[-1][1] == bytes(0x4000)


def test_a_request_that_names_the_relay_as_a_proxy_s_does_is_answered(relay):
    answered = exchange(
        relay.address, b"GET http://relay.example.net/healthz HTTP/1.1\r\nHost: relay.example.net\r\n\r\n"
    )
    assert answered.startswith(b"HTTP/1.1 200")


def test_where_messages_cross_a_network_as_they_are_the_relay_warns(tmp_path):
    log = tmp_path / "log"
    with relaying("http://collector.example.org", "--host", "0.0.0.0", log=log):
        warnings = [line for line in log.read_text().splitlines() if " warning " in line]
    assert [line.split(": ")[0].split("warning ")[1] for line in warnings] == [
        "0.0.0.0 can be reached from other machines without TLS",
        "the gateway is reached without TLS",
    ]


def test_a_second_request_on_a_connection_is_not_read(relay, side):
    before = len(side.passed)
    assert exchange(relay.address, raw_post(message(1)) * 2).count(b"HTTP/1.1 ") == 1
    assert len(side.passed) == before + 1


def test_counts_without_addresses_are_for_this_machine(relay):
    facts = health(relay.address)
    assert facts["mode"] == "pass-through"
    assert facts["status"] == "ok"
    assert "127.0.0.1" not in str(facts)


def test_nothing_about_a_sender_is_logged(relay, side):
    side.answer = (500, {}, b"")
    for serial in range(5):
        post(relay.address, message(serial), **NOSY)
    lines = relay.log.read_text().splitlines()
    assert len(lines) == 1, "the start, and no line about a message"
    assert "relaying from http://127.0.0.1" in lines[0]


def test_what_has_begun_is_answered_before_the_end():
    answered = []
    with receiving() as side:
        relay = RelayProcess(side.url)
        address = relay.start()
        with socket.create_connection(address, 10) as slow:
            body = message(1)
            slow.sendall(raw_post(body)[:-400])
            time.sleep(0.3)
            ending = threading.Thread(target=lambda: answered.append(relay.stop()))
            ending.start()
            time.sleep(0.3)
            slow.sendall(body[-400:])
            assert slow.recv(1 << 16).startswith(b"HTTP/1.1 200")
        ending.join(30)
        assert answered == [0]
        assert [body for _, body in side.passed] == [body]


def test_an_address_that_sends_too_much_is_refused_and_nothing_of_it_is_written(foreign, side):
    side.answer = (200, {"Content-Type": RESPONSE_TYPE}, b"sealed")
    statuses = [post(foreign.address, message(n))[0] for n in range(60)]
    assert statuses.count(429) >= 9
    assert set(statuses) == {200, 429}
    written = [path for path in foreign.folder.rglob("*") if path.is_file() and path.name not in {"nginx.conf", "pid"}]
    assert [path.read_bytes() for path in written if path.stat().st_size] == []


@pytest.mark.slow
def test_devices_report_to_a_collector_through_it(tmp_path):
    with collecting(tmp_path / "collector") as site:
        server, port = "http://{}:{}".format(*site.collector.address), free_port()
        with running(tmp_path, here(CONFIGURATION.read_text(), port, server), port) as address:
            sent = Counter(site.report(number, "http://{}:{}/".format(*address), server) for number in range(8))
        assert site.counts() == sent
