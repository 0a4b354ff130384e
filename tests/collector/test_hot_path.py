"""POST /v1/reports through ASGI, in this process: answers, limits, refusals, and what is counted."""

import asyncio
import gzip
import json
import random
import threading
import time
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from overstory.collector.http.endpoint import LONG, Head, ReportEntrance, read_head
from overstory.collector.service import Collector
from overstory.collector.settings import Limits
from overstory.protocol.wire.upload import MEDIA_TYPE
from overstory.supervision.bodies import THREADS, Bodies
from support.collector_in_process import METRICS, NEVER, NOW, FakeStore, asked, upload

KIND = {"content-type": MEDIA_TYPE}


@asynccontextmanager
async def collecting(limits: Limits | None = None):
    """A collector on a store in memory, and a client to it."""
    collector = Collector(METRICS, FakeStore(), limits=limits, intervals=NEVER, open_writes=True, clock=lambda: NOW)
    async with asked(collector) as client:
        yield collector, client


async def test_a_body_without_a_length_is_bounded_as_it_comes() -> None:
    async def chunks():
        for _ in range(1_000):
            yield bytes(1 << 16)

    async with collecting(Limits(body_bytes=1 << 18)) as (_, client):
        answer = await client.post("/v1/reports", content=chunks(), headers=KIND)
    assert (answer.status_code, answer.json()["reason"]) == (413, "too-large")
    assert answer.headers["connection"] == "close"


async def test_compressed_and_json_bodies_are_taken() -> None:
    colour = METRICS["colour"].mechanism.digest.hex()
    about = {"batch": "0" * 32, "metric": "colour", "period": "2026-11-21", "digest": colour}
    body = json.dumps({"uploads": [about | {"reports": [[0, "02"]] * 10_000}]})
    sent = (
        (gzip.compress(upload("bloom", 5_000)), KIND | {"content-encoding": "GZIP"}, 5_000),
        (body, {"content-type": "application/json; charset=utf-8"}, 10_000),
    )
    async with collecting() as (collector, client):
        for content, headers, count in sent:
            answer = await client.post("/v1/reports", content=content, headers=headers)
            assert answer.json()["results"][0]["accepted"] == count
    assert collector.store.num_reports == 15_000


async def test_all_bodies_being_read_are_bounded_together() -> None:
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


async def test_bodies_that_wait_for_a_thread_are_bounded_with_those_being_read() -> None:
    packed_up = gzip.compress(random.Random(1).randbytes(80_000))
    kind = KIND | {"content-encoding": "gzip"}
    async with collecting(Limits(reading_bytes=100_000)) as (collector, client):
        judged, decide = threading.Event(), collector.endpoint.decide

        def busy(head, body, *, oblivious):
            judged.wait(10)
            return decide(head, body, oblivious=oblivious)

        collector.endpoint.decide = busy
        first = asyncio.create_task(client.post("/v1/reports", content=packed_up, headers=kind))
        await asyncio.sleep(0.05)
        second = await client.post("/v1/reports", content=packed_up, headers=kind)
        judged.set()
        first, third = await first, await client.post("/v1/reports", content=packed_up, headers=kind)
    assert (second.status_code, second.json()["reason"]) == (429, "queue-full")
    assert first.json()["reason"] == third.json()["reason"] == "damaged"


class Endpoint:
    """Notes the thread that decides."""

    def admit(self, head: Head) -> None:
        return None

    def decide(self, head: Head, body: bytes, *, oblivious: bool) -> threading.Thread:
        return threading.current_thread()

    async def taken(self, decision: threading.Thread) -> threading.Thread:
        return decision


@pytest.mark.parametrize(
    ("encoding", "content_type", "size", "on_loop"),
    [
        ("", "application/octet-stream", 100, True),
        ("", "application/octet-stream", LONG + 1, True),
        ("identity", "application/octet-stream", 100, True),
        ("", "application/json", 100, True),
        ("", "application/json", LONG + 1, False),
        ("gzip", "application/octet-stream", 100, False),  # a few bytes can be inflated to megabytes
        ("gzip", "application/json", 100, False),
    ],
)
def test_what_can_take_long_is_not_decided_on_the_event_loop(
    encoding: str, content_type: str, size: int, on_loop: bool
) -> None:
    head = read_head([(b"content-type", content_type.encode()), (b"content-encoding", encoding.encode())])
    post = ReportEntrance(cast("Any", Endpoint()), Bodies(Limits().reading_bytes))
    decided = cast("Any", asyncio.run(post.post(head, bytes(size))))
    assert (decided is threading.current_thread()) == on_loop


def test_few_bodies_are_worked_on_at_a_time() -> None:
    at_once = most = 0
    lock = threading.Lock()

    def work() -> None:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.01)
        with lock:
            at_once -= 1

    async def post_all() -> None:
        bodies = Bodies(Limits().reading_bytes)
        await asyncio.gather(*(bodies.in_thread(b"", work) for _ in range(20)))

    asyncio.run(post_all())
    assert 1 < most <= THREADS
