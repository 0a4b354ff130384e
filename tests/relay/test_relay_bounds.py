"""What one address may send, and what slow and many connections can do to a relay: nothing to the others."""

import asyncio
import contextlib
import http.client
import math
import socket
import ssl
import time
import tracemalloc
from bisect import bisect_left, bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.protocol.oblivious.formats import REQUEST_TYPE
from overstory.relay.process import MOST_OF_ONE
from overstory.relay.service import (
    MOST_UNDER_WAY,
    Head,
    HourlyLimit,
    RelayService,
    Troubles,
    forwarded_address,
    network_of,
)
from overstory.relay.spool import Rules
from overstory.supervision.answers import Response
from support.devices import Clock
from support.processes import make_certificate
from support.relays import StagedRelay, health, message, post, raw_post, receiving, relaying, settings_of


def most_in_an_hour(times):
    return max((bisect_right(times, began + 3600) - number for number, began in enumerate(times)), default=0)


pauses = st.one_of(
    st.just(0.0),
    st.floats(0, 5000, allow_subnormal=False),
    st.sampled_from([1e-9, 59.999999, 60.0, 3540.0, 3599.999999, 3600.0, 3660.0]),
)


@given(
    per_hour=st.integers(1, 6), begun=st.floats(0, 1e9), steps=st.lists(st.tuples(pauses, st.booleans()), max_size=80)
)
def test_whatever_the_times_no_hour_has_more_than_the_limit_and_no_slower_sender_is_refused(per_hour, begun, steps):
    """A refused sender tries again at once, or waits for the seconds that the refusal names, and is then taken."""
    clock = Clock(begun)
    limit = HourlyLimit(per_hour, clock=clock)
    taken = []
    for pause, waits in steps:
        clock.now += pause
        seconds = limit.take("192.0.2.1")
        if seconds:
            assert 0 < seconds <= 3660
            recent = len(taken) - bisect_left(taken, clock.now - 3660)
            assert recent >= per_hour, "refused, though fewer came in the last 61 minutes"
            if not waits:
                continue
            clock.now += math.ceil(seconds)  # as Retry-After has it
            assert limit.take("192.0.2.1") == 0.0
        taken.append(clock.now)
    assert most_in_an_hour(taken) <= per_hour


def test_addresses_are_forgotten_and_their_number_is_bounded():
    clock = Clock(0.0)
    limit = HourlyLimit(50, most=1000, clock=clock)
    for number in range(5000):
        limit.take(f"10.0.{number >> 8}.{number & 255}")
    assert len(limit) == 1000
    clock.now = 3659.0
    limit.forget()
    assert len(limit) == 1000
    clock.now = 3660.0
    limit.forget()
    assert len(limit) == 0


def test_memory_is_bounded_however_long_and_evenly_an_address_sends():
    clock = Clock(0.0)
    limit = HourlyLimit(1 << 20, most=100, clock=clock)
    peaks = []
    tracemalloc.start()
    for _ in range(3):
        tracemalloc.reset_peak()
        for _ in range(122):
            clock.now += 30.0
            for number in range(100):
                limit.take(f"192.0.2.{number}")
        peaks.append(tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
    assert peaks[-1] < 100 * 1000, "bytes: 61 minutes of 100 addresses, 8 bytes each"
    assert peaks[-1] < 1.1 * peaks[0]


def test_an_ipv6_sender_is_its_network():
    limit = HourlyLimit(1)
    assert limit.take("2001:db8:0:1::1") == 0.0
    assert limit.take("2001:db8:0:1:ffff::2") > 0
    assert limit.take("2001:db8:0:2::1") == 0.0
    assert network_of("fe80::1%eth0") == "fe80::"
    assert [network_of(address) for address in ("192.0.2.7", "::ffff:192.0.2.7")] == ["192.0.2.7", "192.0.2.7"]


def test_a_fault_that_repeats_is_one_line_a_minute():
    troubles = Troubles()
    for _ in range(2):
        troubles.add("no connection")
    assert (troubles.lines(), troubles.lines()) == (["2 times in the last minute: no connection"], [])


def test_the_nearest_proxy_names_the_sender():
    assert forwarded_address("198.51.100.9, 192.0.2.7", "127.0.0.1") == "192.0.2.7"
    assert forwarded_address("unknown", "127.0.0.1") == "127.0.0.1"


def test_no_address_is_in_what_is_counted():
    limit = HourlyLimit(1)
    limit.take("192.0.2.77")
    assert "192.0.2.77" not in repr(vars(limit))
    assert HourlyLimit(1).name("192.0.2.77") != limit.name("192.0.2.77"), "the key is the process's"


def test_messages_under_way_are_bounded_their_senders_gone_or_not():
    async def flooding():
        answered = asyncio.Event()

        async def deliver(_message, _name):
            await answered.wait()
            return Response(202, b"")

        service = RelayService(deliver, HourlyLimit(1), Troubles())
        head, body = Head("POST", "/", REQUEST_TYPE, len(message(0))), message(0)
        waiting = [asyncio.create_task(service.answer("192.0.2.1", head, body)) for _ in range(MOST_UNDER_WAY)]
        await asyncio.sleep(0)
        refused = await asyncio.wait_for(service.answer("198.51.100.1", head, body), 30)
        answered.set()
        taken = [answer.status for answer in await asyncio.gather(*waiting)]
        return refused, taken, await service.answer("198.51.100.1", head, body)

    refused, taken, later = asyncio.run(flooding())
    assert (refused.status, refused.retry_after, set(taken), later.status) == (503, 30, {202}, 202)


class ShufflingRelay(StagedRelay):
    def __init__(self, folder, *options):
        line = ["relay", "--gateway", "http://c", "--spool", str(folder / "spool"), "OVERSTORY_RELAY_CAPACITY=5000"]
        self.settings = settings_of([*line, *options], folder)
        asked = self.settings.shuffling
        super().__init__(folder, asked.rules, asked.capacity, now=1.8e9)

    def open(self):
        super().open()
        limit = HourlyLimit(self.settings.per_hour, clock=lambda: self.now)
        self.service = RelayService(self.shuffler.deliver, limit, Troubles())

    def post(self, address, *messages):
        async def posting():
            answers = []
            for one in messages:
                head = Head("POST", "/", REQUEST_TYPE, len(one))
                refused = self.service.judge(address, head)
                answers.append(refused or await self.service.answer(address, head, one))
            return [answer.status for answer in answers]

        return asyncio.run(posting())


@contextlib.contextmanager
def shuffling_relay(folder, *options):
    relay = ShufflingRelay(folder, *options)
    try:
        yield relay
    finally:
        relay.spool.close()


def of_address(relay, number):
    return [one[7:15] for one in relay.released].count(number.to_bytes(8, "big"))


def test_by_default_one_address_has_a_twentieth_of_a_release_whenever_it_sends(tmp_path, caplog):
    """`least` 1000, `every` 24h: the limit of each hour alone let one address send 1,200 of a release."""
    caplog.set_level("INFO")
    with shuffling_relay(tmp_path) as relay:
        for _ in range(24 * 60):
            relay.post("192.0.2.1", message(0), message(0))
            relay.now += 60
        relay.look()
        assert (relay.sent, relay.spool.count) == ([], 50), "it alone does not make a release"
        for number in range(1, 951):
            assert relay.post(f"198.51.{number >> 8}.{number & 255}", message(number)) == [202]
        relay.look()
        assert (len(relay.released), of_address(relay, 0)) == (1000, 50)
        assert "one address sent at most 50 of them (5.0%), k addresses at most k times that" in caplog.text
        relay.now += 3600
        assert relay.post("192.0.2.1", message(0)) == [202], "the next release has a count of its own"


@pytest.mark.parametrize("restarts", [1, 3])
def test_a_restart_lets_no_address_have_a_larger_share(tmp_path, restarts):
    with shuffling_relay(tmp_path, "OVERSTORY_RELAY_LEAST=100") as relay:
        for run in range(restarts + 1):
            if run:
                relay.restart()
            statuses = relay.post("192.0.2.1", *(message(0) for _ in range(9)))
            assert statuses == [202] * 5 + [429] * 4
        relay.now += 86400.0
        for number in range(1, 2000):
            relay.look()
            if relay.sent:
                break
            relay.post(f"198.51.{number >> 8}.{number & 255}", message(number))
        released = len(relay.released)
        assert of_address(relay, 0) == 5 * (restarts + 1)
        assert released == 100 * (restarts + 1), "the smallest of which that is a twentieth"


def test_a_restart_holds_nothing_back_where_no_address_sends_much(tmp_path):
    with shuffling_relay(tmp_path, "OVERSTORY_RELAY_LEAST=100") as relay:
        for number in range(100):
            assert relay.post(f"198.51.100.{number}", message(number)) == [202]
            if number % 25 == 10:
                relay.restart()
        relay.now += 86400.0
        relay.look()
        assert len(relay.released) == 100


def test_of_a_small_release_one_address_has_one_message(tmp_path):
    with shuffling_relay(tmp_path, "OVERSTORY_RELAY_LEAST=10") as relay:
        assert relay.post("192.0.2.1", message(1), message(2)) == [202, 429]
        assert Rules(least=10).of_one == 1


def test_copies_of_one_message_count_once(tmp_path):
    one = message(1)
    with shuffling_relay(tmp_path, "OVERSTORY_RELAY_LEAST=20", "OVERSTORY_RELAY_PER_RELEASE=20") as relay:
        assert relay.post("192.0.2.1", *[one] * 30) == [202] * 30, "a device that got no answer sends it again"
        assert relay.post("192.0.2.2", one) == [202]
        relay.restart()
        relay.post("192.0.2.1", one)
        relay.now += 86400.0
        relay.look()
        assert (relay.sent, relay.spool.count) == ([], 1)
        relay.post("192.0.2.1", *(message(n) for n in range(2, 21)))
        relay.look()
        assert len(relay.released) == 20


def test_what_counts_an_address_is_not_on_the_disk_and_ends_with_the_release(tmp_path):
    with shuffling_relay(tmp_path, "OVERSTORY_RELAY_LEAST=2", "OVERSTORY_RELAY_PER_RELEASE=1") as relay:
        relay.post("192.0.2.1", message(1))
        name, key = relay.service.limit.name("192.0.2.1"), relay.spool._key
        relay.post("192.0.2.2", message(2))
        assert set(relay.spool._sent.values()) == {1}
        files = b"".join(path.read_bytes() for path in (tmp_path / "spool").iterdir())
        assert not any(what in files for what in (b"192.0.2.1", name, key, *relay.spool._held))
        relay.now += 86400.0
        relay.look()
        assert (len(relay.sent), relay.spool._sent, relay.spool._held) == (1, {}, set())
        assert relay.spool._key != key


def test_too_many_messages_get_429_and_a_time():
    with receiving() as side, relaying(side.url, "OVERSTORY_RELAY_PER_HOUR=2") as relay:
        statuses = [post(relay.address, message(n), **{"X-Forwarded-For": f"192.0.2.{n}"})[0] for n in range(3)]
        assert statuses == [200, 200, 429], "what a sender says of its address is not listened to"
        status, headers, _ = post(relay.address, message(9))
        assert status == 429
        assert 3590 <= int(headers["retry-after"]) <= 3660
        assert health(relay.address)["answers"] == {"200": 2, "429": 2}
        assert len(side.passed) == 2


def test_behind_a_proxy_the_address_that_the_proxy_names_counts():
    with (
        receiving() as side,
        relaying(side.url, "OVERSTORY_RELAY_PER_HOUR=1", "OVERSTORY_RELAY_TRUST_FORWARDED=1") as relay,
    ):
        forwarded = ("192.0.2.1", "192.0.2.2", "192.0.2.9, 192.0.2.1", "192.0.2.1, 192.0.2.3")
        statuses = [post(relay.address, message(1), **{"X-Forwarded-For": header})[0] for header in forwarded]
        assert statuses == [200, 200, 429, 200]
        assert "waiting" not in health(relay.address, **{"X-Forwarded-For": "192.0.2.1"})
        assert set(health(relay.address, **{"X-Forwarded-For": "192.0.2.1"})) == {"status"}


def test_idle_connections_of_one_address_keep_no_other_out():
    with (
        receiving() as side,
        relaying(side.url, "OVERSTORY_RELAY_PER_HOUR=1000") as relay,
        contextlib.ExitStack() as idle,
    ):
        for _ in range(3 * MOST_OF_ONE):
            idle.enter_context(contextlib.closing(socket.create_connection(relay.address, 10)))
        time.sleep(0.3)
        with socket.create_connection(relay.address, 10, source_address=("127.0.0.2", 0)) as other:
            other.sendall(raw_post(message(1)))
            assert other.recv(100).startswith(b"HTTP/1.1 200")
        with pytest.raises((OSError, http.client.HTTPException)):
            post(relay.address, message(2), timeout=5)
    assert len(side.passed) == 1


@pytest.mark.slow
def test_a_request_that_comes_byte_by_byte_ends_in_time_and_holds_nobody_up():
    with receiving() as side, relaying(side.url) as relay, socket.create_connection(relay.address, 60) as slow:
        started = time.monotonic()
        slow.sendall(b"POST / HTTP/1.1\r\n")
        with contextlib.suppress(OSError):
            while time.monotonic() - started < 40:
                slow.sendall(b"X: y\r\n")
                slow.settimeout(0.5)
                with contextlib.suppress(TimeoutError):
                    if slow.recv(100) == b"":
                        break
                assert post(relay.address, message(1), timeout=5)[0] in {200, 429}
        assert 19 < time.monotonic() - started < 30


def test_more_connections_than_there_is_room_for_wait_and_are_answered():
    with (
        receiving() as side,
        relaying(side.url, "OVERSTORY_RELAY_PER_HOUR=100000", "OVERSTORY_RELAY_TRUST_FORWARDED=1") as relay,
    ):
        with contextlib.ExitStack() as idle:
            for _ in range(600):  # more than the relay holds open at once
                idle.enter_context(contextlib.closing(socket.create_connection(relay.address, 10)))
            time.sleep(0.3)
            assert relay.resident < 150_000_000
        assert post(relay.address, message(1))[0] == 200
    assert len(side.passed) == 1


def test_over_tls(tmp_path):
    certificate = make_certificate(tmp_path)
    with receiving() as side:
        options = (f"OVERSTORY_RELAY_TLS_CERTIFICATE={certificate}", f"OVERSTORY_RELAY_TLS_KEY={tmp_path / 'key.pem'}")
        with relaying(side.url, *options) as relay:
            trusted = ssl.create_default_context(cafile=str(certificate))
            connection = http.client.HTTPSConnection("localhost", relay.address[1], context=trusted, timeout=10)
            connection.request("POST", "/", message(1), {"Content-Type": REQUEST_TYPE})
            assert connection.getresponse().status == 200
            connection.close()
            with socket.create_connection(relay.address, 10) as plain:
                plain.sendall(b"POST / HTTP/1.1\r\n\r\n")
                assert b"HTTP/1.1 200" not in plain.recv(100)
    assert len(side.passed) == 1
