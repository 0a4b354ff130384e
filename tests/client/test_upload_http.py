"""The transport over HTTP against a real socket that answers well, badly, late, or not at all."""

import base64
import shutil
import ssl
import sys
import threading
import time
import traceback
from contextlib import contextmanager

import pytest

from overstory.client.upload.http import MOST_READ, Request, Response, endpoint, http_transport, parse_object, proxy_of
from overstory.protocol.errors import ParameterError
from overstory.protocol.wire.upload import MEDIA_TYPE, Upload, encode_upload
from support.collector_doubles import accepted, bad_server, http, replying
from support.devices import NOON, Clock, device, queue_report
from support.processes import make_certificate

BODY = encode_upload(Upload(b"b" * 16, "colour", 7, b"reports"))
send = http_transport({})


def request(url, **changed):
    return Request(**({"url": endpoint(url), "body": BODY, "media_type": MEDIA_TYPE, "timeout": 5.0} | changed))


def asked(reply, environ=None, context=None, **changed):
    """What becomes of one request to a server that replies so (bytes or a function), and the server."""
    with bad_server(replying(reply) if isinstance(reply, bytes) else reply, context) as server:
        to = changed.pop("url", server.url).replace("PORT", str(server.port))
        named = {name: value.replace("PORT", str(server.port)) for name, value in (environ or {}).items()}
        return http_transport(named)(request(to, **changed)), server


def test_an_answer_comes_back_with_its_body_and_headers():
    answer, _ = asked(lambda connection, heard: connection.sendall(http(200, accepted(heard.body), Retry_After=7)))
    assert answer.status == 200
    assert answer.headers["retry-after"] == "7"
    assert parse_object(answer) == parse_object(Response(200, {}, accepted(BODY)))
    longest, _ = asked(http(200, b"x" * MOST_READ))
    assert len(longest.body) == MOST_READ


def test_a_request_says_as_little_as_http_lets_it():
    with bad_server(replying(http(200))) as server:
        send(request(server.url, token="public"))
        send(request(server.url))
    first, second = server.heard
    assert first.head.startswith(b"POST /v1/reports HTTP/1.1\r\n")
    assert first.body == second.body == BODY
    needed = {"host", "content-type", "content-length", "connection"}
    assert set(first.headers) == needed | {"authorization"}
    assert set(second.headers) == needed
    assert first.headers["authorization"] == "Bearer public"
    assert first.headers["content-type"] == MEDIA_TYPE
    assert b"ython" not in first.head


def test_every_report_has_a_connection_of_its_own():
    with bad_server(replying(http(200, Connection="keep-alive", Set_Cookie="who=you"))) as server:
        for _ in range(3):
            assert send(request(server.url)).status == 200
    assert server.connections == 3
    assert not any("cookie" in heard.headers for heard in server.heard)


def test_a_redirect_is_an_answer_and_is_not_followed():
    with (
        bad_server(replying(http(200))) as elsewhere,
        bad_server(replying(http(307, Location=elsewhere.url))) as server,
    ):
        assert send(request(server.url)).status == 307
    assert elsewhere.connections == 0


GARBAGE = {
    "nothing": b"",
    "not HTTP": b"220 mail.example ESMTP\r\n",
    "half a status line": b"HTTP/1.1 2",
    "no number": b"HTTP/1.1 fine OK\r\n\r\n",
    "binary": bytes(range(256)),
    "an endless header": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000,
    "headers without end": b"HTTP/1.1 200 OK\r\n" + b"X-Y: z\r\n" * 1000 + b"\r\n",
    "a bad length": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n123",
    "bad chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
}


@pytest.mark.parametrize("raw", GARBAGE.values(), ids=GARBAGE)
def test_garbage_is_no_answer_and_nothing_is_raised(raw):
    answer, _ = asked(raw)
    assert answer.status is None
    assert answer.error


def test_an_answer_without_end_is_cut_off():
    def flood(connection, heard):
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(100 * MOST_READ // 4096):
            connection.sendall(b"x" * 4096)

    assert asked(flood)[0] == Response(None, error="the answer is too long")


@contextmanager
def silent_server():
    """Hears, and says nothing as long as it is there (and a test may well wait)."""
    over = threading.Event()
    with bad_server(lambda connection, heard: over.wait(60)) as server:
        try:
            yield server
        finally:
            over.set()


def test_dribble_ends_when_the_time_is_over():
    over = threading.Event()

    def dribble(connection, heard):
        for byte in b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500:  # a minute of it
            connection.sendall(bytes([byte]))
            if over.wait(0.02):
                return

    with bad_server(dribble) as server:
        started = time.monotonic()
        answer = send(request(server.url, timeout=0.3))
        took = time.monotonic() - started
        over.set()
    assert answer == Response(None, error="no answer in time")
    assert 0.3 <= took < 30


def uploading():
    mine = threading.get_ident()
    stacks = [traceback.extract_stack(frame) for thread, frame in sys._current_frames().items() if thread != mine]
    return any("upload/http.py" in entry.filename for stack in stacks for entry in stack)


def test_what_was_given_up_leaves_no_thread_behind():
    with silent_server() as server:
        send(request(server.url, timeout=0.1))
        until = time.monotonic() + 30
        while uploading():
            assert time.monotonic() < until
            time.sleep(0.01)


def no_start(*_):
    raise RuntimeError("can't create new thread at interpreter shutdown")


def no_memory(*_):
    """What a new thread does that has no memory to begin: the starter is told nothing."""
    return 0


def test_an_interpreter_that_is_leaving_still_sends(monkeypatch):
    with bad_server(replying(http(200))) as server, monkeypatch.context() as patched:
        patched.setattr("_thread.start_new_thread", no_start)
        answer = send(request(server.url))
    assert answer.status == 200


def test_a_thread_without_memory_to_begin_ends_when_the_time_is_over(monkeypatch):
    with bad_server(replying(http(200))) as server, monkeypatch.context() as patched:
        patched.setattr("_thread.start_new_thread", no_memory)
        answer = send(request(server.url, timeout=0.2))
    assert answer == Response(None, error="no answer in time")


@pytest.fixture
def certified(tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here to make a certificate with")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(make_certificate(tmp_path), tmp_path / "key.pem")
    return context


def test_a_certificate_that_nobody_signed_is_refused(certified):
    answer, server = asked(http(200), context=certified, url="https://localhost:PORT")
    assert answer.status is None
    assert "certificate" in answer.error
    assert not server.heard


def test_a_certificate_that_is_trusted_is_accepted(certified, tmp_path, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
    answer, server = asked(http(200), context=certified, url="https://localhost:PORT")
    assert (answer.status, [heard.body for heard in server.heard]) == (200, [BODY])
    by_address, _ = asked(http(200), context=certified, url="https://127.0.0.1:PORT")
    assert by_address.status is None, "the certificate names localhost, no address"


def test_a_proxy_gets_the_whole_address_and_its_own_password():
    answer, proxy = asked(http(200), {"HTTP_PROXY": "http://me:p%40ss@127.0.0.1:PORT"}, url="http://collector.invalid")
    assert answer.status == 200
    (heard,) = proxy.heard
    assert heard.head.startswith(b"POST http://collector.invalid/v1/reports HTTP/1.1\r\n")
    assert heard.headers["host"] == "collector.invalid"
    assert heard.headers["proxy-authorization"] == "Basic " + base64.b64encode(b"me:p@ss").decode()


def test_a_proxy_is_asked_for_a_tunnel_when_the_collector_has_tls():
    refused, environ = b"HTTP/1.1 403 Forbidden\r\n\r\n", {"https_proxy": "127.0.0.1:PORT"}
    answer, proxy = asked(refused, environ, url="https://collector.invalid:8443", token="public")
    assert answer.status is None
    (heard,) = proxy.heard
    assert heard.head.startswith(b"CONNECT collector.invalid:8443 HTTP/1.")
    assert b"public" not in heard.head


@pytest.mark.parametrize(
    ("environ", "error"),
    [
        ({"http_proxy": "127.0.0.1:PORT"}, "the proxy asks for a password"),  # it is no collector
        ({"all_proxy": "socks5://127.0.0.1:9"}, "no connection: proxies of the kind socks5 are not supported"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_said(environ, error):
    assert asked(http(407), environ, url="http://collector.invalid")[0] == Response(None, error=error)


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, None),
        ({"HTTPS_PROXY": "a:1", "https_proxy": "http://b:2"}, "http://b:2"),
        ({"HTTP_PROXY": "a:1"}, None),
        ({"ALL_PROXY": "a:1"}, "http://a:1"),
        ({"HTTPS_PROXY": "a:1", "NO_PROXY": "x.example, .collector.example"}, None),
        ({"HTTPS_PROXY": "a:1", "NO_PROXY": "collector.example:443"}, "http://a:1"),
        ({"HTTPS_PROXY": "a:1", "NO_PROXY": "collector.example:8443"}, None),
        ({"HTTPS_PROXY": "a:1", "NO_PROXY": "lector.example"}, "http://a:1"),
        ({"HTTPS_PROXY": "a:1", "NO_PROXY": "*"}, None),
        ({"HTTPS_PROXY": "a:1", "NO_PROXY": " , "}, "http://a:1"),
        ({"HTTPS_PROXY": "a:1", "REQUEST_METHOD": "GET"}, "http://a:1"),
    ],
)
def test_the_environment_names_the_proxy(environ, found):
    assert proxy_of("https://collector.example:8443/v1/reports", environ) == found


def test_a_cgi_programs_http_proxy_is_a_header_of_whoever_asked():
    assert proxy_of("http://collector.example/", {"HTTP_PROXY": "a:1"}) == "http://a:1"
    assert proxy_of("http://collector.example/", {"HTTP_PROXY": "a:1", "REQUEST_METHOD": "GET"}) is None


NO_HOSTS = ["", "collector.example", "ftp://collector.example", "https://", "https://me@collector.example"]
WRONG_ENDS = ["?x=1", "#x", ":99999", "/a b", "/\r\nHost: x"]


@pytest.mark.parametrize(
    "server", [*NO_HOSTS, *(f"https://collector.example{end}" for end in WRONG_ENDS), "https://bücher.example"]
)
def test_a_server_that_is_no_address_is_refused(server):
    with pytest.raises(ParameterError, match="server = "):
        endpoint(server)


def test_a_token_stays_out_of_what_is_printed():
    assert "public" not in repr(request("http://collector.example", token="public"))


def test_a_device_that_is_offline_is_quiet(tmp_path, capfd, caplog):
    client = device(tmp_path, clock=Clock(), server="http://127.0.0.1:9", spread=0)
    client.record("colour", "red")
    done = client.flush(timeout=2.0).sent
    assert (done.put_off, done.error.partition(":")[0]) == (1, "no connection")
    assert client.flush(timeout=2.0).sent.put_off == 0, "left alone for a while"
    client.close()
    assert (*capfd.readouterr(), caplog.text) == ("", "", "")


def test_the_environment_given_to_a_client_names_its_proxy(tmp_path):
    with bad_server(replying(http(503))) as proxy:
        environ = {"HTTP_PROXY": f"127.0.0.1:{proxy.port}"}
        client = device(tmp_path, clock=Clock(NOON), environ=environ, server="http://collector.invalid", spread=0)
        assert queue_report(client).sent.error == "http-503"
        client.close()
    assert proxy.heard[0].head.startswith(b"POST http://collector.invalid/v1/reports")
