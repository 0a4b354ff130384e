"""POST /v1/oblivious and its releases through ASGI, in this process: what is sealed, what is plain, what is counted."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from overstory.collector.app import build_app
from overstory.collector.oblivious.endpoint import MOST_MESSAGES, SLICE
from overstory.collector.oblivious.keys import PrivateKey
from overstory.collector.service import Collector
from overstory.collector.settings import Limits, UpkeepIntervals
from overstory.collector.store import Released, StoreError, Token
from overstory.protocol.metrics import MetricRegistry
from overstory.protocol.oblivious.binary_http import RESPONSES_PADDED_TO
from overstory.protocol.oblivious.messages import REQUEST_TYPE, RESPONSE_TYPE
from overstory.protocol.oblivious.release import RELEASE_TYPE, Release
from overstory.protocol.wire.reasons import Reason
from overstory.protocol.wire.upload import MEDIA_TYPE
from support.collector_in_process import NOW, TODAY, FakeStore, batch_id, raising
from support.sealed_reports import KEYS, METRICS, RING, opened, seal, upload

NEVER = UpkeepIntervals(tokens=0, compact=0, retain=0, checkpoint=0)
RELEASE_ID = bytes(range(16))


def token(plain: str, role: str) -> Token:
    from overstory.collector.auth import sha256

    return Token(plain, sha256(plain), role, "t", 0, None, None)


@asynccontextmanager
async def collecting(ring: Any = RING, limits: Limits | None = None, registry: MetricRegistry = METRICS, **more: Any):
    store = FakeStore()
    store.listed = [token("ovw_w", "write"), token("ovr_r", "relay"), token("ova_a", "admin")]
    collector = Collector(registry, store, limits=limits, intervals=NEVER, ring=ring, clock=lambda: NOW, **more)
    await collector.start()
    transport = httpx.ASGITransport(build_app(collector))
    async with httpx.AsyncClient(transport=transport, base_url="http://collector") as client:
        yield collector, client
    await collector.stop()


def post(body: bytes, kind: str = REQUEST_TYPE, path: str = "/v1/oblivious", **more: Any):
    """Post once; return the answer and the collector."""

    async def main():
        async with collecting(**more) as (collector, client):
            return await client.post(path, content=body, headers={"content-type": kind}), collector

    return asyncio.run(main())


def pass_through(body: bytes = b"", *, token: str | None = "ovw_w", collecting: Any = None, **how: Any):
    """Send one sealed request; return the response inside, its JSON, the answer and the collector."""
    sealed = seal(body, token=token, **how)
    answer, collector = post(sealed.body, **(collecting or {}))
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == RESPONSE_TYPE
    response, parsed = opened(sealed, answer.content)
    return response, parsed, answer, collector


def test_a_sealed_report_is_committed_and_its_answer_sealed():
    batch = batch_id()
    response, parsed, answer, collector = pass_through(upload(batch=batch))
    assert response.status == 200
    assert parsed["results"][0] | {"batch": batch.hex(), "accepted": 1} == parsed["results"][0]
    assert list(collector.store.kept) == [batch]
    assert collector.store.kept[batch].released is None
    assert answer.headers["cache-control"] == "no-store"
    assert collector.telemetry.opened == {"2": 1}
    assert collector.telemetry.accepted == {"hidden": 1}


@pytest.mark.parametrize("key", KEYS, ids=["the earlier key", "the current key"])
def test_both_keys_of_a_rotation_open(key: PrivateKey):
    assert pass_through(upload(), key=key)[0].status == 200


def test_a_direct_metric_may_come_sealed_too():
    assert pass_through(upload("plain"))[0].status == 200


def test_what_is_wrong_inside_is_answered_inside():
    cases = {
        404: {"path": "/v1/metrics"},
        405: {"method": "GET"},
        415: {"fields": (("content-type", "text/plain"),)},
        401: {"token": None},
        400: {},
    }
    for status, how in cases.items():
        response, parsed, answer, collector = pass_through(b"junk", **how)
        assert (response.status, parsed["status"]) == (status, status)
        assert len(answer.content) == RESPONSES_PADDED_TO + 32 + 16  # the response's nonce and tag
        assert not collector.store.kept
    # An admin's token, or a relay's, is no token of a device.
    for other in ("ova_a", "ovr_r", "ovw_unknown"):
        assert pass_through(upload(), token=other)[1]["reason"] == "unknown-token"


def test_an_inner_request_that_is_no_request_is_answered_inside():
    from overstory.protocol.oblivious.messages import seal_request

    sealed = seal_request(b"\x07junk", KEYS[1].public)
    answer, _ = post(sealed.body)
    assert opened(sealed, answer.content)[1]["reason"] == "damaged"


async def test_every_altered_byte_is_refused_in_plain():
    body = seal(upload(), token="ovw_w").body
    async with collecting() as (collector, client):
        reasons = []
        for place in range(len(body)):
            altered = bytearray(body)
            altered[place] ^= 1 << place % 8
            answer = await client.post("/v1/oblivious", content=bytes(altered), headers={"content-type": REQUEST_TYPE})
            assert answer.status_code == 400
            assert answer.headers["content-type"] == "application/problem+json"
            reasons.append(answer.json()["reason"])
        for length in (0, 1, 7, 38, 54, 55, len(body) - 1):
            cut = await client.post("/v1/oblivious", content=body[:length], headers={"content-type": REQUEST_TYPE})
            assert (cut.status_code, cut.json()["reason"]) == (400, "undecryptable")
    assert set(reasons[:7]) == {"ohttp-key"}
    assert set(reasons[7:]) == {"undecryptable"}
    assert not collector.store.kept
    assert collector.telemetry.unopened.total() == len(body) + 7


def test_an_unknown_key_has_the_standards_problem_type():
    stranger = PrivateKey(9, KEYS[0].created, bytes(range(3, 35)))
    answer, _ = post(seal(upload(), key=stranger).body)
    assert answer.status_code == 400
    assert answer.json()["type"] == "https://iana.org/assignments/http-problem-types#ohttp-key"
    assert "there is no key 9 here" in answer.json()["detail"]


@pytest.mark.parametrize("path", ["/v1/oblivious", "/v1/oblivious/release"])
def test_without_keys_the_paths_are_not_found_with_a_reason(path):
    answer, _ = post(b"x", path=path, ring=None)
    assert answer.status_code == 404
    assert "--oblivious-keys" in answer.json()["detail"]


def test_other_methods_and_media_types_and_sizes_are_refused():
    assert post(b"x", "text/plain")[0].json()["reason"] == "wrong-type"
    assert post(bytes(2000), limits=Limits(body_bytes=1000))[0].json()["reason"] == "too-large"

    async def main():
        async with collecting() as (_, client):
            got = await client.get("/v1/oblivious")
            return got.status_code, got.headers["allow"], (await client.get("/v1/oblivious/keys")).status_code

    assert asyncio.run(main()) == (405, "POST", 404)  # keys come with the registry, one list for everybody


async def test_a_collector_that_ends_refuses_in_plain():
    async with collecting() as (collector, client):
        collector.endpoint.closing = True
        answer = await client.post("/v1/oblivious", content=b"x" * 99, headers={"content-type": REQUEST_TYPE})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")


async def test_a_store_that_fails_is_a_passing_problem_inside():
    sealed = seal(upload(), token="ovw_w")
    async with collecting() as (collector, client):
        collector.store.before = raising(StoreError("full"))
        answer = await client.post("/v1/oblivious", content=sealed.body, headers={"content-type": REQUEST_TYPE})
    assert opened(sealed, answer.content)[0].status == 503


async def test_an_oblivious_metric_is_refused_directly_also_after_sealed_ones_were_taken():
    """A template that a sealed upload left must not let a direct one through."""
    async with collecting(open_writes=True) as (collector, client):
        for _ in range(3):
            sealed = seal(upload())
            answer = await client.post("/v1/oblivious", content=sealed.body, headers={"content-type": REQUEST_TYPE})
            assert opened(sealed, answer.content)[0].status == 200
        direct = await client.post("/v1/reports", content=upload(), headers={"content-type": MEDIA_TYPE})
        both = await client.post(
            "/v1/reports", content=upload("plain") + upload(), headers={"content-type": MEDIA_TYPE}
        )
    assert (direct.status_code, direct.json()["reason"]) == (403, "wrong-transport")
    assert Reason.WRONG_TRANSPORT.final
    assert [result["reason"] for result in both.json()["results"]] == [None, "wrong-transport"]
    assert collector.telemetry.accepted == {"hidden": 3, "plain": 1}
    assert collector.telemetry.rejected_of == {("hidden", Reason.WRONG_TRANSPORT): 2}


# Releases


async def release(
    client: httpx.AsyncClient, messages: list[bytes], *, token: str = "ovr_r", number: bytes = RELEASE_ID
):
    headers = {"content-type": RELEASE_TYPE, "authorization": f"Bearer {token}"}
    return await client.post(
        "/v1/oblivious/release", content=Release(number, tuple(messages)).encode(), headers=headers
    )


async def test_a_release_is_answered_by_how_many_were_taken_and_why_others_were_not():
    good = [seal(upload(), token="ovw_w").body for _ in range(3)]
    bad = {
        "undecryptable": [good[0][:-1] + b"\0", b""],
        "unknown-token": [seal(upload(), token="ovw_no").body],
        "no-token": [seal(upload()).body],
        "damaged": [seal(b"junk", token="ovw_w").body],
        "period-future": [seal(upload(period=TODAY + 9), token="ovw_w").body],
        "not-found": [seal(upload(), token="ovw_w", path="/v1/metrics").body],
    }
    messages = [good[0], *itertools.chain(*bad.values()), good[1], good[2], good[1]]
    async with collecting() as (collector, client):
        first, second = await release(client, messages), await release(client, messages)
    expected = {"taken": 4, "refused": {reason: len(some) for reason, some in sorted(bad.items())}, "again": []}
    assert first.json() == second.json() == expected
    assert len(collector.store.kept) == 3
    places = [0, len(messages) - 3, len(messages) - 2]
    released = sorted(batch.released for batch in collector.store.kept.values())
    assert released == [Released(RELEASE_ID, place) for place in places]


async def test_messages_that_meet_a_full_queue_or_a_failed_store_are_to_be_sent_again():
    messages = [seal(upload(), token="ovw_w").body for _ in range(SLICE + 5)]
    calls = itertools.count()
    async with collecting() as (collector, client):

        def fail_first() -> None:
            if next(calls) == 0:
                raise StoreError("full")

        collector.store.before = fail_first
        counted = (await release(client, messages)).json()
    again = counted["again"]
    assert again
    assert all(0 <= place < SLICE for place in again)
    assert counted == {"taken": len(messages) - len(again), "refused": {}, "again": again}
    assert len(collector.store.kept) == counted["taken"]


async def test_a_release_needs_a_token_of_its_own_role_and_the_right_form():
    async with collecting(open_writes=True) as (_, client):
        for wrong in ("ovw_w", "ova_a", "ovr_x"):
            answer = await release(client, [], token=wrong)
            assert (answer.status_code, answer.json()["reason"]) == (401, "unknown-token")
            assert answer.headers["www-authenticate"] == "Bearer"
        headers = {"authorization": "Bearer ovr_r", "content-type": RELEASE_TYPE}
        for body in (b"", b"OVSR\x01", Release(RELEASE_ID, (b"abc",)).encode()[:-1]):
            answer = await client.post("/v1/oblivious/release", content=body, headers=headers)
            assert (answer.status_code, answer.json()["reason"]) == (400, "damaged")
        many = await release(client, [b""] * (MOST_MESSAGES + 1))
        assert (many.status_code, many.json()["reason"]) == (413, "too-many")
        assert (await release(client, [])).json() == {"taken": 0, "refused": {}, "again": []}


async def test_a_relays_token_posts_no_reports():
    async with collecting() as (_, client):
        headers = {"content-type": MEDIA_TYPE, "authorization": "Bearer ovr_r"}
        answer = await client.post("/v1/reports", content=upload("plain"), headers=headers)
    assert answer.json()["reason"] == "unknown-token"


async def test_a_length_of_five_thousand_digits_stops_no_message():
    poison = seal(upload(), token="ovw_w", fields=(("content-type", MEDIA_TYPE), ("content-length", "9" * 5000)))
    async with collecting() as (collector, client):
        counted = (await release(client, [seal(upload(), token="ovw_w").body, poison.body])).json()
    assert counted["again"] == []
    assert collector.telemetry.faults == 0


@pytest.mark.parametrize("step", ["open", "admit", "decide", "taken"])
async def test_a_message_that_the_collector_fails_on_twice_is_refused_and_the_others_are_taken(step, monkeypatch):
    messages = [seal(upload(), token="ovw_w").body for _ in range(5)]
    async with collecting() as (collector, client):
        owner = type(collector.oblivious.ring if step == "open" else collector.endpoint)
        work, left = getattr(owner, step), [0]

        def fail_on_one(self, *args, **named):
            left[0] -= 1
            if left[0] == 0:
                raise KeyError("a defect")
            return work(self, *args, **named)

        async def failing_on(place, messages):
            left[0] = place
            return (await release(client, messages)).json()

        monkeypatch.setattr(owner, step, fail_on_one)
        first = await failing_on(3, messages)
        left_over = [messages[place] for place in first["again"]]
        second, third = await failing_on(1, left_over), await failing_on(1, left_over)
    assert (first["taken"], first["refused"], len(first["again"])) == (4, {}, 1)
    assert second == third == {"taken": 0, "refused": {"fault": 1}, "again": []}
    assert collector.telemetry.faults == 3


async def test_a_moment_without_memory_refuses_nothing_for_good(monkeypatch):
    messages = [seal(upload(), token="ovw_w").body for _ in range(3)]
    async with collecting() as (collector, client):
        with monkeypatch.context() as poor:
            poor.setattr(type(collector.endpoint), "decide", raising(MemoryError()))
            statuses = [(await release(client, messages)).status_code for _ in range(3)]
        answer = statuses, (await release(client, messages)).json()
    assert answer == ([503] * 3, {"taken": 3, "refused": {}, "again": []})
