"""A device and a gateway post each upload to the path of its shard, every time to the same."""

from __future__ import annotations

from overstory.client.state.rows import RowState
from overstory.client.upload.http import Response
from overstory.client.upload.retry import RetryPolicy, decide
from overstory.gateway.gateway import Gateway, Settings
from overstory.gateway.sinks import CollectorSink
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.shards import shard_of
from overstory.protocol.wire.reasons import Reason
from overstory.protocol.wire.upload import decode_uploads
from support.collector_doubles import CountingCollector, refusal
from support.devices import NOON, Clock, device, registry, rows_of
from support.gateway_samples import reading, registry_text

SHARDED = registry(more="[shards]\ncount = 5\n")
SERVER = "https://c.example/here"


def address_of(batch, count):
    return f"{SERVER}/v1/reports/{shard_of(batch, count)}"


def collector_after(*answers):
    """A collector that gives these answers first."""
    left = list(answers)
    return CountingCollector(lambda _: left.pop(0) if left else None)


def test_a_device_sends_each_report_to_its_shard_and_a_retry_to_the_same(tmp_path):
    clock, collectors = Clock(NOON), collector_after(Response(None, error="no connection"))
    client = device(tmp_path, clock=clock, registry=SHARDED, server=SERVER, transport=collectors)
    for _ in range(8):
        client.record("colour", "red")
        clock.tomorrow()
        client.flush()
    client.flush()
    urls: dict[bytes, set[str]] = {}
    for request in collectors.requests:
        (upload,) = decode_uploads(request.body, 1)
        urls.setdefault(upload.batch, set()).add(request.url)
    assert len(collectors.requests) > len(urls) > 2
    assert urls == {batch: {address_of(batch, 5)} for batch in urls}


def test_a_report_that_another_shard_takes_waits_by_itself(tmp_path):
    clock, collectors = Clock(NOON), CountingCollector(lambda _: refusal(Reason.WRONG_SHARD))
    client = device(tmp_path, clock=clock, registry=SHARDED, server=SERVER, transport=collectors)
    client.record("colour", "red")
    clock.tomorrow()
    client.flush()
    (row,) = rows_of(client)
    assert (row.state, row.answer) == (RowState.WAITING, "wrong-shard")
    assert len(collectors.requests) == 1
    answer = decide(
        row, refusal(Reason.WRONG_SHARD), now=clock(), failures=3, policy=RetryPolicy(), uniform=lambda: 0.5
    )
    assert answer.resume is None, "other reports are not kept waiting"
    assert answer.due > clock()


def gateway(folder, collectors):
    sharded = parse_registry(registry_text() + "\n[shards]\ncount = 4\n")
    sink = CollectorSink(SERVER, collectors)
    return Gateway(sharded, Settings("energy", folder / "state", agree="on"), sink, environ={})


def test_a_gateway_sends_one_request_to_each_shard(tmp_path):
    collectors = CountingCollector()
    sending = gateway(tmp_path, collectors)
    for period in range(40):
        sending.take(reading(period, 0.5))
    sending.finish()
    assert len(collectors.requests) == len({request.url for request in collectors.requests}) == 4
    for request in collectors.requests:
        assert {address_of(upload.batch, 4) for upload in decode_uploads(request.body, 99)} == {request.url}


def test_a_shard_that_is_down_does_not_keep_the_others_reports_back(tmp_path):
    collectors = collector_after(Response(503))
    sending = gateway(tmp_path, collectors)
    for period in range(40):
        sending.take(reading(period, 0.5))
    sending.finish()
    states = {row.batch: row.state for row in rows_of(sending.client)}
    down, *_ = collectors.requests
    assert len({request.url for request in collectors.requests}) == 4
    failed = {upload.batch for upload in decode_uploads(down.body, 99)}
    waiting = {batch for batch, state in states.items() if state is RowState.WAITING}
    assert waiting == failed
