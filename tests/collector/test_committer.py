"""The writer: everything that waits in one commit, each told its own outcome, bounded, drained."""

import asyncio
import threading
import time
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from overstory.collector.committer import Committer
from overstory.collector.http.endpoint import LONG, ReportEndpoint, read_head
from overstory.collector.ingest import Ingest
from overstory.collector.service import Collector
from overstory.collector.settings import Limits
from overstory.collector.store import StoreError
from overstory.protocol.wire.upload import MEDIA_TYPE
from overstory.supervision.answers import THREADS, Bodies
from support.collector_in_process import METRICS, NEVER, NOW, FakeStore, asked, raising, until, upload


def received(count=1):
    decision = Ingest(METRICS).decide(upload("bloom", count), MEDIA_TYPE, NOW)
    return decision.received, decision.num_reports, decision.num_bytes


class Gate:
    def __init__(self, store):
        self.entered, self._open = threading.Event(), threading.Event()
        store.before = self._wait

    def _wait(self):
        self.entered.set()
        assert self._open.wait(10)

    def open(self):
        self._open.set()


@asynccontextmanager
async def committing(limits=None):
    store, told = FakeStore(), []
    committer = Committer(store, limits or Limits(), told.append)
    committer.start()
    yield store, committer, told
    await committer.drain()
    assert (committer.reports, committer.size) == (0, 0)


async def test_what_waits_goes_into_one_commit_and_each_hears_its_own():
    async with committing() as (store, committer, told):
        gate = Gate(store)
        outcomes = {}
        first = received()
        assert committer.submit(*first, lambda new: outcomes.update(first=new))
        await asyncio.to_thread(gate.entered.wait, 10)
        second = received()
        assert committer.submit(*second, lambda new: outcomes.update(second=new))
        assert committer.submit(*first, lambda new: outcomes.update(again=new))
        both = (second[0] + received()[0], 2, 100)
        assert committer.submit(*both, lambda new: outcomes.update(both=new))
        assert committer.reports == 5
        gate.open()
        await committer.drain()
        assert outcomes == {"first": [True], "second": [True], "again": [False], "both": [False, True]}
        assert [(one.requests, one.reports, one.failed) for one in told] == [(1, 1, False), (3, 4, False)]
    assert store.calls == [1, 4]


async def test_a_full_queue_takes_nothing_more_until_it_is_empty_again():
    async with committing(Limits(queue_reports=10)) as (store, committer, _):
        gate = Gate(store)
        done = asyncio.Event()
        assert committer.submit(*received(6), lambda _: None)
        assert not committer.submit(*received(5), lambda _: pytest.fail("was not taken"))
        assert committer.submit(*received(4), lambda _: done.set())
        assert committer.full
        assert not committer.submit(*received(1), lambda _: pytest.fail("was not taken"))
        gate.open()
        await asyncio.wait_for(done.wait(), 10)
        assert committer.submit(*received(10), lambda _: None)
    assert store.num_reports == 20


async def test_bytes_are_bounded_too_and_one_request_always_fits():
    async with committing(Limits(queue_bytes=200)) as (store, committer, _):
        gate = Gate(store)
        assert committer.submit(*received(100), lambda _: None)  # more than fits, but alone
        assert not committer.submit(*received(1), lambda _: pytest.fail("was not taken"))
        gate.open()


@pytest.mark.parametrize("log_fails", [False, True])
async def test_a_store_that_fails_is_told_to_everyone_in_the_commit_and_the_next_one_goes_on(log_fails, monkeypatch):
    async with committing() as (store, committer, told):
        if log_fails:
            monkeypatch.setattr(committer._faults, "line", raising(MemoryError()))
        outcomes = []

        def fail():
            store.before = lambda: None
            raise StoreError("the disk is full")

        store.before = fail
        committer.submit(*received(), outcomes.append)
        await until(lambda: outcomes)
        committer.submit(*received(), outcomes.append)
        await committer.drain()
        assert outcomes == [None, [True]]
        assert [one.failed for one in told] == [True, False]
    assert store.num_reports == 1


async def test_an_answer_that_fails_does_not_keep_the_others_from_theirs(caplog):
    async with committing() as (store, committer, _):
        gate = Gate(store)
        outcomes = []

        def broken(_):
            raise RuntimeError

        for done in (broken, outcomes.append):
            committer.submit(*received(), done)
        gate.open()
        await committer.drain()
        assert outcomes == [[True]]
    assert "an answer could not be sent" in caplog.text


async def test_a_fault_before_the_store_is_asked_ends_no_thread_and_keeps_nobody_waiting():
    async with committing() as (store, committer, told):
        outcomes = []
        committer.submit(None, 1, 10, outcomes.append)  # no list of batches: gathering them fails
        await until(lambda: told)
        assert committer.alive
        committer.submit(*received(), outcomes.append)
        await committer.drain()
        assert outcomes[-1] == [True]
    assert store.num_reports == 1


async def test_large_groups_are_split(monkeypatch):
    monkeypatch.setattr("overstory.collector.committer.GROUP_BYTES", 1_000)
    async with committing() as (store, committer, _):
        gate = Gate(store)
        committer.submit(*received(), lambda _: None)
        await asyncio.to_thread(gate.entered.wait, 10)
        for _ in range(10):
            committer.submit(received()[0], 1, 400, lambda _: None)
        committer.submit(received()[0], 1, 4_000, lambda _: None)
        gate.open()
    assert store.calls == [1, 2, 2, 2, 2, 2, 1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("where", ["commit", "gather"])
async def test_whatever_ends_the_writer_nobody_waits_for_an_answer_that_never_comes(where, monkeypatch, caplog):
    class Fatal(BaseException):
        pass

    store, outcomes, told = FakeStore(), [], []
    committer = Committer(store, Limits(), told.append)
    gate = Gate(store)

    def die(*_):
        gate._wait()
        raise Fatal

    if where == "commit":
        store.before = die
    else:
        monkeypatch.setattr(committer, "_gather", die)
    committer.start()
    for _ in range(3):
        committer.submit(*received(), outcomes.append)
    await asyncio.to_thread(gate.entered.wait, 10)
    committer.submit(*received(), outcomes.append)
    gate.open()
    await until(lambda: len(outcomes) == 4)
    await until(lambda: not committer.alive)
    committer.submit(*received(), outcomes.append)
    assert outcomes == [None] * 5
    assert (committer.reports, committer.size, store.num_reports) == (0, 0, 0)
    await committer.drain()

    assert "the writer thread has failed: no reports are taken" in caplog.text


# POST /v1/reports through ASGI, in this process: answers, limits, refusals, and what is counted
KIND = {"content-type": MEDIA_TYPE}


@asynccontextmanager
async def collecting(limits=None):
    collector = Collector(METRICS, FakeStore(), limits=limits, intervals=NEVER, open_writes=True, clock=lambda: NOW)
    async with asked(collector) as client:
        yield collector, client


async def test_a_body_without_a_length_is_bounded_as_it_comes():
    async def chunks():
        for _ in range(1_000):
            yield bytes(1 << 16)

    async with collecting(Limits(body_bytes=1 << 18)) as (_, client):
        answer = await client.post("/v1/reports", content=chunks(), headers=KIND)
    assert (answer.status_code, answer.json()["reason"]) == (413, "too-large")
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "deflate", "br", "gzip, gzip", "Identity"])
async def test_a_compressed_body_is_refused_unread(encoding):
    async with collecting() as (collector, client):
        headers = KIND | {"content-encoding": encoding}
        answer = await client.post("/v1/reports", content=upload("bloom", 5_000), headers=headers)
    accepted = encoding == "Identity"
    assert (answer.status_code, collector.store.num_reports) == ((200, 5_000) if accepted else (415, 0))


async def test_all_bodies_being_read_are_bounded_together():
    async with collecting(Limits(reading_bytes=100_000)) as (_, client):
        going = asyncio.Event()

        async def slow():
            yield bytes(80_000)
            await going.wait()

        first = asyncio.create_task(client.post("/v1/reports", content=slow(), headers=KIND))
        await asyncio.sleep(0.05)
        refused = await client.post("/v1/reports", content=bytes(30_000), headers=KIND)
        going.set()
        await first
        taken = await client.post("/v1/reports", content=upload("bloom", 2_000), headers=KIND)
    assert (refused.status_code, refused.json()["reason"]) == (429, "queue-full")
    assert taken.status_code == 200


async def test_bodies_that_wait_for_a_thread_are_bounded_with_those_being_read():
    long, kind = b"[" * 80_000, {"content-type": "application/json"}
    async with collecting(Limits(reading_bytes=100_000)) as (collector, client):
        judged, decide = threading.Event(), collector.endpoint.decide

        def busy(head, body, *, oblivious):
            judged.wait(10)
            return decide(head, body, oblivious=oblivious)

        collector.endpoint.decide = busy
        first = asyncio.create_task(client.post("/v1/reports", content=long, headers=kind))
        await asyncio.sleep(0.05)
        second = await client.post("/v1/reports", content=long, headers=kind)
        judged.set()
        first, third = await first, await client.post("/v1/reports", content=long, headers=kind)
    assert (second.status_code, second.json()["reason"]) == (429, "queue-full")
    assert first.json()["reason"] == third.json()["reason"] == "damaged"


class Endpoint(ReportEndpoint):
    def __init__(self):
        self.bodies = Bodies(Limits().reading_bytes)

    def decide(self, head, body, *, oblivious):
        return threading.current_thread()

    async def taken(self, decision):
        return decision


@pytest.mark.parametrize(
    ("content_type", "size", "on_loop"),
    [
        ("application/octet-stream", 100, True),
        ("application/octet-stream", LONG + 1, True),
        ("application/json", 100, True),
        ("application/json", LONG + 1, False),
        ("application/json; charset=utf-8", LONG + 1, False),
    ],
)
def test_what_can_take_long_is_not_decided_on_the_event_loop(content_type, size, on_loop):
    head = read_head([(b"content-type", content_type.encode())])
    decided = cast("Any", asyncio.run(Endpoint().post(head, bytes(size))))
    assert (decided is threading.current_thread()) == on_loop


def test_few_bodies_are_worked_on_at_a_time():
    at_once = most = 0
    lock = threading.Lock()

    def work():
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.01)
        with lock:
            at_once -= 1

    async def post_all():
        bodies = Bodies(Limits().reading_bytes)
        await asyncio.gather(*(bodies.in_thread(b"", work) for _ in range(20)))

    asyncio.run(post_all())
    assert 1 < most <= THREADS
