"""What a part of a release may make a collector hold: no more than its own bytes, and nothing without a token."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import os
import tracemalloc
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from test_oblivious_endpoint import RELEASE_ID, collecting, release
from test_oblivious_endpoint import pass_through as pass_one

from overstory.collector.oblivious.endpoint import SLICE, SLICE_BYTES, slices
from overstory.collector.settings import MEBIBYTE
from overstory.protocol.mechanisms.base import Report
from overstory.protocol.metrics import parse_registry
from overstory.protocol.wire.reasons import Reason
from overstory.protocol.wire.upload import MEDIA_TYPE, Upload, encode_reports, encode_upload
from support.collector_in_process import ABOUT, TODAY
from support.registry_texts import STRINGS, registry_of
from support.sealed_reports import RING, ROUTE, seal, sealed_quickly, upload

WIDE = parse_registry(
    registry_of(
        {
            "wide": {
                "domain": STRINGS,
                "oracle": '"rappor"',
                "parameters": "{num_bits = 4096, num_cohorts = 4, num_hashes = 2, f = 0.5, p = 0.25, q = 0.75}",
                "transport": '"oblivious"',
            }
        },
        version="1",
        **ABOUT,
    )
    + ROUTE
)
ENCODINGS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress}


def wide(count: int) -> bytes:
    """An upload of equal reports, 514 bytes each: it deflates to a thousandth."""
    reports = encode_reports(WIDE["wide"].mechanism, [Report(0, 0)] * count)
    return encode_upload(Upload(os.urandom(16), "wide", TODAY, reports))


class Measured:
    """The keys; when the first message is opened, the peak of memory is measured from there."""

    before = 0

    def open(self, message: bytes) -> Any:
        if not self.before:
            self.before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
        return RING.open(message)


def released(messages: Sequence[bytes], times: int = 1, **more: Any) -> tuple[list[Any], list[int], Any, int]:
    """Release messages; return answers, sizes of the bodies decided about, collector, and the peak since the first."""

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
    assert collector.telemetry.rejected == {reason: len(messages)}
    assert len(collector.store.kept) == 1


@pytest.mark.parametrize("token", [None, "ovw_w"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_nothing_in_a_message_is_inflated(token, encoding):
    body = ENCODINGS[encoding](wide(30_000))
    fields = (("content-type", MEDIA_TYPE), ("Content-Encoding", encoding))
    messages = [seal(body, token=token, fields=fields).body for _ in range(8)]
    answers, sizes, _, peak = released(messages, registry=WIDE)
    assert answers == [{"taken": 0, "refused": {"wrong-type": 8}, "again": []}]
    assert sizes == []
    assert peak < 4 * MEBIBYTE  # inflated, one has 15 MiB
    response, parsed, *_ = pass_one(body, token="ovw_w", fields=fields)
    assert (response.status, parsed["reason"]) == (415, "wrong-type")
    assert "no Content-Encoding" in parsed["detail"]


def test_identity_is_no_encoding():
    fields = (("content-type", MEDIA_TYPE), ("content-encoding", "identity"))
    assert pass_one(upload(), fields=fields)[0].status == 200


def test_large_honest_messages_are_all_taken_once_within_a_bound():
    """A part of nearly 8 MiB, released twice, from devices of one metric."""
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
