"""POST /v1/oblivious and its releases through ASGI, in this process: what is sealed, what is plain, what is counted."""

import asyncio
import gzip
import itertools
import json
import os
import tracemalloc
import zlib
from contextlib import asynccontextmanager

import pytest

from overstory.collector.auth import Token, sha256
from overstory.collector.http.endpoint import answer_to
from overstory.collector.ingest import JSON, Decision, Released, Result
from overstory.collector.oblivious.endpoint import MOST_MESSAGES, SLICE, SLICE_BYTES, slices, write_inner
from overstory.collector.oblivious.keys import PrivateKey
from overstory.collector.service import Collector
from overstory.collector.settings import MEBIBYTE, Limits
from overstory.collector.store import StoreError
from overstory.protocol.kinds.base import Report
from overstory.protocol.metrics import parse_registry
from overstory.protocol.oblivious.formats import RELEASE_TYPE, REQUEST_TYPE, RESPONSE_TYPE, RESPONSES_PADDED_TO, Release
from overstory.protocol.oblivious.messages import seal_request
from overstory.protocol.wire.reasons import Reason
from overstory.protocol.wire.upload import MEDIA_TYPE, Upload, encode_columns, encode_reports, encode_upload
from overstory.supervision.answers import error_response, refusal
from support.collector_in_process import ABOUT, NEVER, NOW, TODAY, FakeStore, asked, batch_id, raising, sound
from support.registry_texts import COLOURS, STRINGS, registry_of
from support.sealed_reports import KEYS, METRICS, RING, ROUTE, opened, seal, sealed_quickly, upload

RELEASE_ID = bytes(range(16))


def token(plain, role):
    return Token(plain, sha256(plain), role, "t", 0, None, None)


@asynccontextmanager
async def collecting(ring=RING, limits=None, registry=METRICS, **more):
    store = FakeStore()
    store.listed = [token("ovw_w", "write"), token("ovr_r", "relay"), token("ova_a", "admin")]
    collector = Collector(registry, store, limits=limits, intervals=NEVER, ring=ring, clock=lambda: NOW, **more)
    async with asked(collector) as client:
        yield collector, client


def post(body, kind=REQUEST_TYPE, path="/v1/oblivious", **more):
    async def main():
        async with collecting(**more) as (collector, client):
            return await client.post(path, content=body, headers={"content-type": kind}), collector

    return asyncio.run(main())


def pass_through(body=b"", *, token="ovw_w", collecting=None, **how):
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


def test_a_direct_metric_may_come_sealed_too():
    assert pass_through(upload("plain"))[0].status == 200


def test_an_inner_request_that_is_no_request_is_answered_inside():
    sealed = seal_request(b"\x07junk", KEYS[1].public)
    answer, _ = post(sealed.body)
    assert opened(sealed, answer.content)[1]["reason"] == "damaged"


async def test_an_altered_message_is_refused_in_plain():
    body = seal(upload(), token="ovw_w").body
    altered = [body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :] for place in (0, 6, 7, 38, 99)]
    async with collecting() as (collector, client):
        for message in (*altered, b"", body[:55], body[:-1]):
            answer = await client.post("/v1/oblivious", content=message, headers={"content-type": REQUEST_TYPE})
            assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
            assert answer.json()["reason"] == ("ohttp-key" if message in altered[:2] else "undecryptable")
    assert not collector.store.kept
    assert collector.telemetry.unopened.total() == 8


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
    assert "oblivious_keys" in answer.json()["detail"]


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
    assert collector.telemetry.rejected == {(of, Reason.WRONG_TRANSPORT): 2 for of in (None, "hidden")}


# Releases
async def release(client, messages, *, token="ovr_r", number=RELEASE_ID):
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

        def fail_first():
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


# What a relay sees of an answer: its length, which is one for every answer to one report
AROUND = 32 + 16  # the response's nonce and tag
LONG, ENDED, GROUP = "m" * 64, "e" * 64, "g" * 32
TABLE = {"domain": COLOURS, "groups": f'{{by = "{"b" * 64}", shares = {{"{GROUP}" = 0.5}}, devices = 100000}}'}
REGISTRY = parse_registry(
    registry_of({LONG: TABLE, ENDED: TABLE | {"expires": "2026-01-01"}}, version="1", **ABOUT) + ROUTE
)
METRIC = REGISTRY[LONG]


def longest(name=LONG, *, period=TODAY, group=GROUP, raw=None, batch=None):
    packed = encode_reports(METRIC.mechanism, sound(METRIC, 1)) if raw is None else raw
    return encode_upload(Upload(batch or batch_id(), name, period, packed, group))


def columns(digest=METRIC.mechanism.digest, cohort=b"\0\0", bits=b"\0"):
    mechanism = METRIC.mechanism
    return encode_columns(digest, mechanism.payload_bits, mechanism.num_cohorts, cohort, bits)


def in_json(**other):
    digest, batch = METRIC.mechanism.digest.hex(), batch_id().hex()
    entry = {"batch": batch, "metric": LONG, "period": "2026-11-21", "digest": digest, "reports": [[0, "00"]]}
    return json.dumps({"uploads": [entry | other]}).encode()


def damaged_name(byte):
    body = bytearray(longest())
    body[6] = 255
    return bytes(body[:32]) + bytes([byte]) * 255 + bytes(body[32:])


AS_JSON = {"fields": (("content-type", JSON),)}
ANSWERS = {
    "taken": (longest(), {}),
    "unknown-metric": (longest("u" * 64), {}),
    "wrong-parameters": (longest(raw=columns(digest=bytes(16))), {}),
    "unknown-group": (longest(group="h" * 32), {}),
    "metric-expired": (longest(ENDED), {}),
    "period-closed": (longest(period=1), {}),
    "period-future": (longest(period=TODAY + 9), {}),
    "damaged": (b"junk", {}),
    "damaged: a long name of zeros": (damaged_name(0), {}),
    "damaged: a long name of backslashes": (damaged_name(92), {}),
    "damaged: a long period": (in_json(period="\U0001f600" * 5000), AS_JSON),
    "damaged: a long group": (in_json(group="\U0001f600" * 5000), AS_JSON),
    "damaged: no keys": (json.dumps({"uploads": [{}]}).encode(), AS_JSON),
    "bits": (in_json(reports=[[0, "ff" * 5000]]), AS_JSON),
    "too-large": (b"x" * (1 << 21), AS_JSON),
    "too-many": (longest() * 1_001, {}),
    "wrong-type": (longest(), {"fields": (("content-type", "text/plain"),)}),
    "no-token": (longest(), {"token": None}),
    "unknown-token": (longest(), {"token": "ovw_unknown"}),
    "unknown-token: an admin's": (longest(), {"token": "ova_a"}),
    "unknown-token: a relay's": (longest(), {"token": "ovr_r"}),
    "not-found": (longest(), {"path": "/v1/metrics"}),
    "method": (longest(), {"method": "PUT"}),
}


def test_every_answer_to_one_report_has_one_length():
    lengths = {}
    for name, (body, how) in ANSWERS.items():
        response, parsed, answer, collector = pass_through(body, collecting={"registry": REGISTRY}, **how)
        assert parsed.get("reason", "taken") == name.partition(":")[0], parsed
        assert response.status == parsed.get("status", 200)
        assert bool(collector.store.kept) == (name == "taken")
        lengths[name] = len(answer.content)
    assert set(lengths.values()) == {RESPONSES_PADDED_TO + AROUND}, lengths


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_the_length_of_taken(reason):
    """Of the request, of the upload, or of its one report; with the longest text about what is wrong in the body."""
    batch, rejected = bytes(range(240, 256)), ((0, reason),)
    answers = [
        answer_to(Decision(None, [Result(batch, LONG, 1)]), [True]),
        answer_to(Decision(None, [Result(batch, LONG, 1)]), [False]),
        answer_to(Decision(None, [Result(batch, LONG, reason=reason)]), ()),
        answer_to(Decision(None, [Result(batch, LONG, reason=reason, rejected=rejected)]), ()),
        refusal(reason, close=True),
        error_response(reason.status, reason, reason.detail, close=True),
    ]
    texts = [letter * count for letter in "a\0é\U0001f600" for count in (1, 80, 85, 170, 171, 511, 1022, 1023, 5000)]
    answers += [refusal(reason, where=text, close=True) for text in texts]
    assert {len(write_inner(answer)) for answer in answers} == {RESPONSES_PADDED_TO}


def test_a_text_about_what_is_wrong_is_cut_only_where_it_is_long():
    texts = ["uploads[0].period: missing", "a" * 1000]
    assert [json.loads(refusal(Reason.DAMAGED, where=text).body)["where"] for text in texts] == texts
    assert json.loads(refusal(Reason.DAMAGED, where="ab" * 1000).body)["where"] == "ab" * 40 + " ..."


# What a part of a release may make a collector hold: no more than its own bytes, and nothing without a token
FILTERS = "{num_bits = 4096, num_cohorts = 4, num_hashes = 2, f = 0.5, p = 0.25, q = 0.75}"
LARGE = {"domain": STRINGS, "oracle": '"rappor"', "parameters": FILTERS, "transport": '"oblivious"'}
WIDE = parse_registry(registry_of({"wide": LARGE}, version="1", **ABOUT) + ROUTE)
ENCODINGS = {"gzip": gzip.compress, "deflate": zlib.compress}


def wide(count):
    """An upload of equal reports, 514 bytes each: it deflates to a thousandth."""
    reports = encode_reports(WIDE["wide"].mechanism, [Report(0, 0)] * count)
    return encode_upload(Upload(os.urandom(16), "wide", TODAY, reports))


class Measured:
    """The keys; when the first message is opened, the peak of memory is measured from there."""

    before = 0

    def open(self, message):
        if not self.before:
            self.before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
        return RING.open(message)


def released(messages, times=1, **more):
    ring = Measured()

    async def main():
        async with collecting(ring, **more) as (collector, client):
            sizes, decide = [], collector.endpoint.decide

            def counted(head, body, *, oblivious=False):
                sizes.append(len(body))
                return decide(head, body, oblivious=oblivious)

            collector.endpoint.decide = counted
            tracemalloc.start()
            try:
                answers = [(await release(client, list(messages), number=RELEASE_ID)).json() for _ in range(times)]
                return answers, sizes, collector, tracemalloc.get_traced_memory()[1] - ring.before
            finally:
                tracemalloc.stop()

    return asyncio.run(main())


@pytest.mark.parametrize(("token", "reason"), [(None, "no-token"), ("ovw_no", "unknown-token")])
def test_nothing_is_decided_about_messages_without_a_valid_token(token, reason):
    messages = [seal(upload(), token=token).body for _ in range(SLICE + 3)]
    good = seal(upload(), token="ovw_w").body
    answers, sizes, collector, _ = released([*messages, good])
    assert answers == [{"taken": 1, "refused": {reason: len(messages)}, "again": []}]
    assert len(sizes) == 1
    assert collector.telemetry.rejected == {(None, reason): len(messages)}
    assert len(collector.store.kept) == 1


@pytest.mark.parametrize("token", [None, "ovw_w"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_nothing_in_a_message_is_inflated(token, encoding):
    body = ENCODINGS[encoding](wide(30_000))
    fields = (("content-type", MEDIA_TYPE), ("Content-Encoding", encoding))
    messages = [seal(body, token=token, fields=fields).body for _ in range(8)]
    answers, sizes, _, peak = released(messages, registry=WIDE)
    assert answers == [{"taken": 0, "refused": {"wrong-type" if token else "no-token": 8}, "again": []}]
    assert sizes == []
    assert peak < 4 * MEBIBYTE  # inflated, one has 15 MiB
    response, parsed, *_ = pass_through(body, token="ovw_w", fields=fields)
    assert (response.status, parsed["reason"]) == (415, "wrong-type")
    assert "Content-Encoding" in parsed["detail"]


def test_identity_is_no_encoding():
    fields = (("content-type", MEDIA_TYPE), ("content-encoding", "identity"))
    assert pass_through(upload(), fields=fields)[0].status == 200


def test_large_honest_messages_are_all_taken_once_within_a_bound():
    messages = [sealed_quickly(wide(400), token="ovw_w") for _ in range(39)]
    body = sum(map(len, messages))
    assert 7 * MEBIBYTE < body < 8 * MEBIBYTE
    _, _, collector, peak = released(messages, registry=WIDE)
    assert collector.store.num_reports == 39 * 400
    kept = 39 * 400 * 514  # the store is in memory
    assert peak - kept < 3 * SLICE_BYTES
    answers, sizes, collector, _ = released(messages, times=2, registry=WIDE)
    assert answers == [{"taken": 39, "refused": {}, "again": []}] * 2
    assert len(sizes) == 2 * 39
    assert collector.store.num_reports == 39 * 400
    assert collector.telemetry.duplicates == {"wide": 39 * 400}
    assert len(collector.store.kept) == 39


async def test_a_full_queue_is_asked_about_before_anything_is_decided():
    messages = [seal(upload(), token="ovw_w").body for _ in range(5)]
    async with collecting() as (collector, client):
        decided, room = [], itertools.chain([None], itertools.repeat(Reason.QUEUE_FULL))
        collector.endpoint.unavailable = lambda: next(room)  # there is room for the part when its head comes
        collector.endpoint.decide = lambda *_, **__: decided.append(1)
        answer = (await release(client, messages)).json()["reason"], decided
    assert answer == ("queue-full", [])


def test_a_slice_ends_at_a_number_of_messages_and_of_bytes():
    large, small = bytes(SLICE_BYTES * 2 // 5), bytes(500)
    cases = [
        ([], []),
        ([small] * SLICE, [SLICE]),
        ([small] * (2 * SLICE + 1), [SLICE, SLICE, 1]),
        ([large] * 5, [2, 2, 1]),
        ([bytes(SLICE_BYTES + 1), small, bytes(SLICE_BYTES + 1), small], [1, 1, 1, 1]),
        ([bytes(SLICE_BYTES // 2)] * 4, [2, 2]),
    ]
    for messages, lengths in cases:
        divided = list(slices(messages))
        assert [len(some) for _, some in divided] == lengths
        assert [start for start, _ in divided] == [sum(lengths[:place]) for place in range(len(lengths))]
        assert [message for _, some in divided for message in some] == messages
