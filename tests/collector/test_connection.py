"""The connection: small posts answered without a task are answered as by the application; and what is not HTTP."""

import json
import os
import threading
import time
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overstory.collector.http.connection import LONGEST, MOST, HeaderCache
from overstory.collector.http.endpoint import Head
from overstory.collector.settings import Limits
from overstory.protocol.kinds.base import Report
from support.collector_in_process import METRICS, batch_id, packed, sound, upload
from support.differential import Side, fuzz
from support.served import Wire, post, served

MIXED = upload(raw=packed(METRICS["bloom"], [Report(12, 0), *sound(METRICS["bloom"], 2)]), batch=bytes(16))

REQUESTS = {
    "one": post(upload(batch=b"1" * 16)),
    "again": post(upload(batch=b"1" * 16)),
    "many": post(upload("bloom", 3_000, batch=b"2" * 16)),
    "larger than small": post(upload("bloom", 10_000, batch=b"3" * 16)),
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


class Seen(HeaderCache):
    def __init__(self):
        super().__init__()
        self.taken = 0

    def split(self, data):
        found = super().split(data)
        self.taken += found is not None
        return found


@pytest.fixture
def heads(monkeypatch):
    seen = Seen()
    monkeypatch.setattr("overstory.collector.http.connection.HeaderCache", lambda: seen)
    return seen


def test_a_head_like_an_earlier_one_is_not_parsed_on_whatever_connection(heads):
    with served() as (collector, address):
        for _ in range(3):
            with Wire(address) as wire:
                for _ in range(3):
                    assert wire.send(post(upload(batch=batch_id()))).answer()[0] == 200
        assert (len(heads), heads.taken) == (1, 8)
        assert len(collector.store.kept) == 9


def test_a_known_head_gives_no_right_that_has_ended(heads):
    with served() as (collector, address), Wire(address) as wire:
        assert [wire.send(post(upload(batch=batch_id()))).answer()[0] for _ in range(2)] == [200, 200]
        collector.endpoint.open_writes = False
        status, headers, body = wire.send(post(upload(batch=batch_id()))).answer()
        assert (status, headers["www-authenticate"], json.loads(body)["reason"]) == (401, "Bearer", "no-token")
        assert (heads.taken, len(collector.store.kept)) == (2, 2)


@pytest.mark.parametrize(
    "first",
    [
        b"GET /v1/nope HTTP/1.1\r\nHost: c\r\n\r\nX",
        post(upload()) + b"X",
        b"X",
        b"POST /v1/reports HTTP/1.1\r\nX: ",
        post(b"", b"X: y", length=5_000),
        post(upload(), b"Connection: close"),
    ],
    ids=["after a get", "after a post", "letter", "in a head", "in a body", "closing"],
)
def test_a_known_head_elsewhere_than_at_a_beginning_is_no_head(heads, first):
    known = post(upload(batch=batch_id()))
    with served() as (_, address):
        with Wire(address) as wire:
            assert [wire.send(known).answer()[0] for _ in range(2)] == [200, 200]
        taken = heads.taken
        with Wire(address) as wire, suppress(OSError):  # hung up on, perhaps
            wire.send(first)
            time.sleep(0.05)
            wire.send(known)
            time.sleep(0.05)
        assert heads.taken == taken == 1


@given(
    st.lists(st.sampled_from(sorted(REQUESTS)), min_size=2, max_size=6),
    st.lists(st.integers(1, 400), min_size=1, max_size=8),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


NAMES = (b"host", b"content-length")


def request(body=b"abc", more=b""):
    return b"POST /v1/reports HTTP/1.1\r\nHost: c\r\nContent-Length: %d\r\n%b\r\n%b" % (len(body), more, body)


def learned(*requests, names=NAMES, length=3):
    known = HeaderCache()
    for one in requests:
        known.learn(one, Head(length=length), names)
    return known


@pytest.mark.parametrize("name", [b"x-forwarded-for", b"user-agent", b"forwarded", b"cookie", b"transfer-encoding"])
def test_nothing_of_who_sends_is_remembered(name):
    assert not len(learned(request(), names=(*NAMES, name)))


@pytest.mark.parametrize("before", [b"\r\n\r\n", b"a\r\n\r\nb"])
def test_a_head_that_ends_elsewhere_is_not_remembered(before):
    assert not len(learned(before + request()))
    assert not len(learned(request().replace(b"\r\n\r\n", b"\n\n")))


def test_heads_are_bounded():
    assert not len(learned(request(more=b"Accept: %b\r\n" % (b"x" * LONGEST))))
    known = learned(*(request(more=b"Accept: %d\r\n" % number) for number in range(3 * MOST)))
    assert 0 < len(known) <= MOST


# What a shortcut answers is answered alike without it, whatever bytes come in whatever pieces
FUZZED = int(os.environ.get("FUZZ_REQUESTS", "1000000"))
SECONDS = 60 * float(os.environ.get("FUZZ_MINUTES", "0.5"))


def test_nothing_differs_in_two_thousand_requests():
    outcome = fuzz(2_000, seed=1)
    assert outcome.differences == []
    assert outcome.unparsed > 200  # the shortcuts were taken
    assert {b"200", b"400", b"404", b"405", b"410"} <= set(outcome.statuses)
    assert {status for status in outcome.statuses if status.startswith(b"5")} <= {b"501"}  # a coding that is not read


def test_a_shortcut_that_does_something_else_is_noticed():
    sides = Side(shortcuts=True), Side(shortcuts=False)
    templates = sides[0].kind.endpoint._ingest._templates
    recognise = templates.recognise

    def twisted(body, now):
        found = recognise(body, now)
        return None if found is None else found._replace(bits=bytes(len(found.bits)))

    templates.recognise = twisted
    assert fuzz(1_000, seed=2, sides=sides).differences


@pytest.mark.slow
def test_nothing_differs_in_some_minutes_of_requests():
    """FUZZ_REQUESTS and FUZZ_MINUTES (half a minute) say how many, and how long at most."""
    outcome = fuzz(FUZZED, seed=20261122, seconds=SECONDS)
    assert outcome.differences == []
    assert outcome.requests >= min(FUZZED, 150 * SECONDS)
    assert outcome.unparsed > outcome.requests / 20
    assert {status for status in outcome.statuses if status.startswith(b"5")} <= {b"501"}  # a coding that is not read
