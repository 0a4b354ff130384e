"""Posts: which are decided on the event loop, and which in another thread."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any, cast

import pytest

from overstory.collector.http.endpoint import Head, read_head
from overstory.collector.http.posts import LONG, THREADS, Bodies, ReportPost
from overstory.collector.settings import Limits


class Endpoint:
    """Notes the thread that decides."""

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
    post = ReportPost(cast("Any", Endpoint()), Bodies(Limits()))
    decided = cast("Any", asyncio.run(post.answer(head, bytes(size))))
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
        bodies = Bodies(Limits())
        await asyncio.gather(*(bodies.in_thread(b"", work) for _ in range(20)))

    asyncio.run(post_all())
    assert 1 < most <= THREADS
