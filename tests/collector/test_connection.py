"""What a sender can make a collector do on one connection: each attack is played on a socket, and ends in bounds."""

import json
import logging
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overstory.collector.ingest import Ingest
from overstory.collector.settings import MEBIBYTE, Limits
from overstory.protocol.kinds.base import Report
from overstory.supervision.connection import BoundedConnection
from support.collector_in_process import METRICS, REGISTRY, batch_id, packed, raising, sound, upload
from support.collector_processes import CollectorProcess
from support.served import Wire, post, served

MIXED = upload(raw=packed(METRICS["bloom"], [Report(12, 0), *sound(METRICS["bloom"], 2)]), batch=bytes(16))

REQUESTS = {
    "one": post(upload(batch=b"1" * 16)),
    "again": post(upload(batch=b"1" * 16)),
    "many": post(upload("bloom", 3_000, batch=b"2" * 16)),
    "mixed": post(MIXED),
    "ended": post(upload("ended", batch=b"4" * 16)),
    "damaged": post(b"nonsense"),
    "empty": post(b""),
    "no type": b"POST /v1/reports HTTP/1.1\r\nHost: c\r\nContent-Length: 0\r\n\r\n",
    "get": b"GET /v1/reports HTTP/1.1\r\nHost: c\r\n\r\n",
    "elsewhere": b"GET /v1/metrics/nope HTTP/1.1\r\nHost: c\r\n\r\n",
    "query": post(upload(batch=b"5" * 16)).replace(b"/v1/reports ", b"/v1/reports?a=b "),
    "escaped": post(upload(batch=b"6" * 16)).replace(b"/v1/reports", b"/v1/%72eports"),
    "chunked": post(b"", b"Transfer-Encoding: chunked").replace(b"Content-Length: 0\r\n", b"") + b"0\r\n\r\n",
    "expecting": post(b"", b"Expect: 200-nothing"),
}


@given(
    st.lists(st.sampled_from(sorted(REQUESTS)), min_size=2, max_size=6),
    st.lists(st.integers(1, 400), min_size=1, max_size=8),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pipelined_and_cut_anywhere_answers_come_in_order(listening, names, cuts):
    raw = b"".join(REQUESTS[name] for name in names)
    with Wire(listening) as wire:
        for cut in cuts:
            wire.send(raw[:cut])
            raw = raw[cut:]
        wire.send(raw)
        statuses = [wire.answer()[0] for _ in names]
    expected = {"ended": 410, "damaged": 400, "empty": 400, "no type": 415, "get": 405, "elsewhere": 404}
    expected |= {"chunked": 400, "expecting": 400}
    assert statuses == [expected.get(name, 200) for name in names]


def test_a_sender_that_waits_to_be_asked_for_its_body_is_asked(listening):
    with Wire(listening) as wire:
        body = upload()
        wire.send(post(b"", b"Expect: 100-continue", length=len(body)))
        assert wire.answer()[0] == 100
        assert wire.send(body).answer()[0] == 200


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"POST /v1/reports HTTP/9.9\r\n\r\n",
        b"POST /v1/reports HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/reports HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"POST /v1/reports HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"POST /v1/reports HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /v1/reports HTTP/1.1\r\nBad Header\r\n\r\n",
        b"\0" * 1_000,
    ],
)
def test_what_is_no_http_is_answered_in_json_and_hung_up(listening, raw):
    with Wire(listening) as wire:
        status, headers, body = wire.send(raw).answer()
        assert (status, headers["connection"]) == (400, "close")
        assert set(json.loads(body)) >= {"type", "title", "status", "detail", "reason"}
        assert wire.ended()


@given(raw=st.binary(min_size=1, max_size=300))
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_after_any_bytes_the_next_sender_is_served(listening, raw):
    with Wire(listening) as wire:
        wire.send(raw)
    with Wire(listening) as wire:
        assert wire.send(REQUESTS["one"]).answer()[0] == 200


def test_a_head_is_bounded():
    with served(Limits(head_bytes=5_000)) as (_, address), Wire(address) as wire:
        assert wire.send(post(upload(), b"X: " + b"x" * 4_000)).answer()[0] == 200
        status, headers, body = wire.send(b"GET / HTTP/1.1\r\nX: " + b"x" * 6_000).answer()
        assert (status, headers["connection"], json.loads(body)["reason"]) == (431, "close", "head")
        assert wire.ended()


@pytest.mark.parametrize(
    "begun",
    [b"", b"POST /v1/rep", post(upload())[:-4], post(upload("bloom", 10_000))[:-4]],
    ids=["nothing", "head", "body", "large"],
)
def test_a_request_that_does_not_arrive_is_given_up(begun):
    with served(Limits(reading_seconds=0.2)) as (collector, address), Wire(address) as wire:
        started = time.monotonic()
        status, _, body = wire.send(begun).answer()
        assert (status, json.loads(body)["reason"]) == (408, "slow")
        assert wire.ended()
        assert 0.15 < time.monotonic() - started < 5
        assert collector.store.kept == {}


def test_who_hangs_up_before_the_answer_costs_nobody_else_theirs():
    with served() as (collector, address):
        opened = threading.Event()
        collector.store.before = lambda: opened.wait(10)
        wires = [Wire(address).send(post(upload(batch=batch_id()))) for _ in range(10)]
        for wire in wires[::2]:
            wire.close()
        time.sleep(0.1)
        opened.set()
        assert [wire.answer()[0] for wire in wires[1::2]] == [200] * 5
        for wire in wires[1::2]:
            wire.close()
        with Wire(address) as wire:
            assert wire.send(post(upload())).answer()[0] == 200
        assert len(collector.store.kept) == 11


GET = b"GET /healthz HTTP/1.1\r\nHost: c\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
BEGUN = {"page": GET + CHUNKED, "post": post(b"", b"Transfer-Encoding: chunked").replace(b"Content-Length: 0\r\n", b"")}


@pytest.fixture
def process(tmp_path):
    (tmp_path / "metrics.toml").write_text(REGISTRY)
    options = ("OVERSTORY_COMPACT_EVERY=0",)
    with CollectorProcess(tmp_path / "metrics.toml", str(tmp_path / "store.db"), options) as process:
        yield process


def sent(wire, piece, most):
    total = 0
    with suppress(OSError):
        while total < most:
            wire.send(piece)
            total += len(piece)
    return total


@pytest.mark.parametrize("begun", BEGUN.values(), ids=BEGUN)
def test_trailers_without_end_take_no_memory(process, begun):
    before = process.resident
    with Wire(process.address) as wire:
        wire.send(begun + b"0\r\n")
        sent(wire, b"a: b\r\n" * 10_000, 20 * MEBIBYTE)
    assert process.resident - before < 8 * MEBIBYTE
    with Wire(process.address) as wire:
        assert wire.send(GET + b"\r\n").answer()[0] == 200


@pytest.mark.parametrize(
    ("begun", "endless"),
    [(b"0\r\n", b"a: b\r\n" * 100), (b"0\r\n", b"a" * 600), (b"1;", b"x" * 600)],
    ids=["trailers", "one trailer", "a chunk's extension"],
)
def test_what_frames_a_body_is_bounded_as_a_head_is(begun, endless):
    with served(Limits(head_bytes=5_000)) as (collector, address), Wire(address) as wire:
        wire.send(BEGUN["post"] + begun)
        for _ in range(20):
            with suppress(OSError):
                wire.send(endless)
        status, headers, body = wire.answer()
        assert (status, headers["connection"], json.loads(body)["reason"]) == (431, "close", "head")
        assert wire.ended()
        assert collector.store.kept == {}


def test_a_few_trailers_are_read_over():
    body = upload()
    with served() as (collector, address), Wire(address) as wire:
        for _ in range(2):
            wire.send(BEGUN["post"] + b"%x\r\n%b\r\n0\r\nA: b\r\nAuthorization: c\r\n\r\n" % (len(body), body))
            assert wire.answer()[0] == 200
        assert len(collector.store.kept) == 1


def test_requests_that_nobody_takes_the_answers_of_take_no_memory_and_keep_nobody_waiting(process):
    before = process.resident
    wires = [Wire(process.address) for _ in range(20)]
    flood = (GET + b"\r\n") * 8_000
    for wire in wires:
        wire.flood(flood)
    time.sleep(0.3)
    waited = []
    with Wire(process.address) as other:
        for _ in range(5):
            started = time.monotonic()
            assert other.send(GET + b"\r\n").answer()[0] == 200
            waited.append(time.monotonic() - started)
    grown = process.resident - before
    for wire in wires:
        wire.close()
    assert max(waited) < 1.0
    assert grown < 64 * MEBIBYTE


def test_however_many_requests_arrive_together_all_are_answered_in_order():
    pages = [b"GET /v1/metrics/%b HTTP/1.1\r\nHost: c\r\n\r\n" % name for name in (b"bloom", b"nope", b"colour")]
    with served() as (collector, address), Wire(address) as wire:
        wire.flood((b"".join(pages) + post(upload(batch=bytes(16)))) * 150)
        statuses = [wire.answer()[0] for _ in range(600)]
        assert statuses == [200, 404, 200, 200] * 150
        assert len(collector.store.kept) == 1


@pytest.mark.parametrize("after", [b"\x16\x03\x01 no HTTP\r\n\r\n", b"GET /v1 HTTP/1.1\r\n\r\n"], ids=["bytes", "host"])
def test_what_is_no_http_is_answered_after_the_sound_request_before_it(after):
    with served() as (collector, address):
        slow = threading.Event()
        collector.store.before = lambda: slow.wait(0.2)
        for before, status in ((post(upload()), 200), (GET + b"\r\n", 200), (post(b"nonsense"), 400)):
            with Wire(address) as wire:
                wire.send(before + after)
                assert wire.answer()[0] == status
                assert wire.answer()[0] == 400
                assert wire.ended()


@pytest.mark.parametrize("name", ["Upgrade", "upgrade"])
@pytest.mark.parametrize("connection", [b"Upgrade, HTTP2-Settings", b"keep-alive, upgrade"])
def test_an_offer_to_speak_another_protocol_is_ignored(name, connection):
    offer = (b"Connection: " + connection, name.encode() + b": h2c", b"HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA")
    with served() as (collector, address), Wire(address) as wire:
        for count in (1, 1, 3, 10_000):
            assert wire.send(post(upload("bloom", count), *offer)).answer()[0] == 200
        raw = post(upload(), *offer)
        for at in range(0, len(raw), 7):
            wire.send(raw[at : at + 7])
        assert wire.answer()[0] == 200
        assert wire.send(GET + b"\r\n").answer()[0] == 200
        assert collector.store.num_reports == 10_006


@pytest.mark.parametrize("length", [9 * MEBIBYTE, 20 * MEBIBYTE])
def test_a_sender_that_writes_before_it_reads_learns_that_its_body_is_too_large(length):
    with served() as (_, address), Wire(address) as wire:
        wire.send(post(bytes(length)))
        status, headers, body = wire.answer()
        assert (status, headers["connection"], json.loads(body)["reason"]) == (413, "close", "too-large")


def test_a_refused_body_is_not_read_for_longer_than_a_while(monkeypatch):
    monkeypatch.setattr("overstory.supervision.connection.LINGER_SECONDS", 0.3)
    monkeypatch.setattr("overstory.supervision.connection.LINGER_BYTES", MEBIBYTE)
    with served() as (collector, address):
        with Wire(address) as wire:
            wire.send(post(b"", length=9 * MEBIBYTE))
            assert sent(wire, bytes(65_536), 9 * MEBIBYTE) < 8 * MEBIBYTE
        with Wire(address) as wire:
            wire.send(post(b"", length=9 * MEBIBYTE))
            assert wire.answer()[0] == 413
            until_gone(wire)
        assert collector.state == "ready"


def until_gone(wire, seconds=5.0):
    started = time.monotonic()
    while time.monotonic() - started < seconds:
        try:
            wire.send(b"x")
        except OSError:
            return time.monotonic() - started
        time.sleep(0.05)
    raise AssertionError(f"still open after {seconds} s")


DRIPPING = {
    "a head": b"POST /v1/reports HTTP/1.1\r\nX: ",
    "a page's body": GET + b"Content-Length: 5000\r\n\r\n",
    "a page's chunks": GET + CHUNKED + b"800\r\n",
    "a trailer": GET + CHUNKED + b"0\r\na: ",
    "a refused post's body": post(b"", length=5_000).replace(b"vnd.overstory", b"vnd.other"),
    "a taken post's body": post(b"", length=5_000),
    "a large post's body": post(b"", length=500_000),
}


@pytest.mark.parametrize("begun", DRIPPING.values(), ids=DRIPPING)
def test_a_request_has_one_time_to_arrive_whole(begun, monkeypatch):
    monkeypatch.setattr("overstory.supervision.connection.LINGER_SECONDS", 0.1)
    with served(Limits(reading_seconds=0.5)) as (_, address), Wire(address) as wire:
        wire.send(begun)
        assert until_gone(wire) < 3


@pytest.mark.skipif(sys.platform != "linux", reason="the system has no bound on answers that nobody reads")
def test_answers_that_nobody_takes_leave_the_systems_memory_too():
    """All of them fit in the system's buffers: the process has nothing left to send, and closes what it likes."""
    with served(Limits(taking_seconds=0.5)) as (_, (host, port)), socket.socket() as sender:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sender.connect((host, port))
        sender.sendall(b"GET /v1/metrics HTTP/1.1\r\nHost: c\r\n\r\n" * 20)
        ends = f":{port:04X}", f":{sender.getsockname()[1]:04X}"
        deadline = time.monotonic() + 20
        while _held_by_the_system(*ends) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not _held_by_the_system(*ends)


def _held_by_the_system(local, remote):
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(fields[1].endswith(local) and fields[2].endswith(remote) for fields in lines)


def test_a_sender_that_leaves_is_no_fault_of_ours(caplog):
    """What is written to a closed transport is dropped: uvloop raises, and uvicorn logs that as our error."""
    waiting = post(b"", b"Transfer-Encoding: chunked", b"Expect: 100-continue").replace(b"Content-Length: 0\r\n", b"")
    pages = b"GET /v1/metrics HTTP/1.1\r\nHost: c\r\n\r\n" * 3_000
    with caplog.at_level(logging.ERROR), served(Limits(taking_seconds=0.5)) as (collector, address):
        with Wire(address) as wire:
            assert wire.send(waiting + b"no length\r\n\r\n").answer()[0] == 400
        with Wire(address) as wire:
            wire.flood(pages)
            deadline = time.monotonic() + 20
            while collector.telemetry.untaken == 0 and time.monotonic() < deadline:
                time.sleep(0.1)
        with Wire(address) as wire:
            assert wire.send(GET + b"\r\n").answer()[0] == 200
        assert (collector.telemetry.faults, collector.telemetry.untaken) == (0, 1)
    assert caplog.records == []


def test_a_sender_that_takes_its_answers_slowly_keeps_its_connection():
    with served(Limits(taking_seconds=0.5)) as (_, address), Wire(address) as wire:
        for _ in range(30):
            assert wire.send(GET + b"\r\n").answer()[0] == 200
            time.sleep(0.1)


SAID = {"small": lambda: post(upload()), "large": lambda: post(upload("bloom", 10_000)), "page": lambda: GET + b"\r\n"}


@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
def test_a_sender_that_has_said_all_it_has_to_say_is_answered(said):
    with served() as (_, address):
        for _ in range(5):
            with Wire(address) as wire:
                wire.send(said())
                wire.half_close()
                assert wire.answer()[0] == 200
                assert wire.ended()


@pytest.fixture
def broken(monkeypatch):
    monkeypatch.setattr(Ingest, "decide", raising(MemoryError()))


@pytest.mark.parametrize("count", [1, 20_000])
def test_a_fault_of_ours_is_no_refusal(broken, caplog, monkeypatch, count):
    body = upload("bloom", count)
    with caplog.at_level(logging.ERROR, "overstory.collector"), served() as (collector, address), Wire(address) as wire:
        for _ in range(2):
            status, headers, answer = wire.send(post(body)).answer()
            assert (status, json.loads(answer)["reason"]) == (503, "fault")
            assert int(headers["retry-after"]) > 0
        assert b"overstory_faults_total 2.0" in collector.telemetry.expose()
        assert any("MemoryError" in record.getMessage() for record in caplog.records)
        monkeypatch.undo()
        assert wire.send(post(body)).answer()[0] == 200  # the same bytes
        assert collector.store.num_reports == count


def test_a_fault_while_a_request_is_parsed_is_no_refusal_either(monkeypatch):
    with served() as (_, address):
        with monkeypatch.context() as patched:
            patched.setattr(BoundedConnection, "_refused_head", raising(MemoryError()))
            with Wire(address) as wire:
                status, headers, body = wire.send(post(upload())).answer()
            assert (status, headers["connection"], json.loads(body)["reason"]) == (503, "close", "fault")
            assert int(headers["retry-after"]) > 0
        with Wire(address) as wire:
            assert wire.send(post(upload())).answer()[0] == 200


MANNERS = {
    "no host": (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
    "two hosts": (b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    "no host on a post": (post(upload()).replace(b"Host: c\r\n", b""), 400),
    "old, no host": (b"GET /healthz HTTP/1.0\r\n\r\n", 200),
    "a coding that is not read": (GET + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    "connect": (b"CONNECT c:443 HTTP/1.1\r\nHost: c\r\n\r\n", 400),
    "no path": (b"OPTIONS http://c HTTP/1.1\r\nHost: c\r\n\r\n", 400),
}


@pytest.mark.parametrize(("raw", "status"), MANNERS.values(), ids=MANNERS)
def test_a_head_that_says_too_little_or_too_much_is_refused(raw, status):
    with served() as (collector, address), Wire(address) as wire:
        assert wire.send(raw).answer()[0] == status
        assert wire.ended()
        assert collector.store.kept == {}
