"""From the outbox to a sink: consent is asked for before every request, and what is remembered of it is true."""

from __future__ import annotations

import pytest

from overstory.client.state.rows import RowState
from overstory.client.state.state import State
from overstory.client.upload.delivery import CollectorHealth, Delivery
from overstory.client.upload.http import Request, Response
from overstory.gateway.gateway import Gateway, Settings
from overstory.gateway.sinks import CollectorSink
from overstory.protocol.wire.upload import decode_uploads
from support.collector_doubles import CountingCollector
from support.gateway_samples import FIRST, REGISTRY, Discard, at, reading


def rows_of(gateway):
    with State(gateway.client.paths).snapshot() as rows:
        return rows.outbox.rows()


@pytest.mark.parametrize(
    ("answer", "sink", "left"),
    [
        (CountingCollector(), {"most_uploads": 5}, 5),
        (CountingCollector(), {"most_bytes": 1}, 1),
        (lambda _: Response(413), {}, 20),
        (lambda _: Response(400), {"most_uploads": 8}, 8),
    ],
)
def test_consent_is_asked_for_before_every_request_of_a_round(tmp_path, answer, sink, left):
    asked: list[Request] = []

    def transport(request):
        asked.append(request)
        sending.client.consent("off")
        return answer(request)

    to = CollectorSink("http://c.example", transport, **sink)
    sending = Gateway(REGISTRY, Settings("energy", tmp_path / "state", agree="on"), to, environ={})
    for period in range(20):
        sending.take(reading(period, 0.5))
    sending.finish()
    assert [len(decode_uploads(request.body, 99)) for request in asked] == [left]
    found = rows_of(sending)
    assert {(row.state, row.answer) for row in found} == {(RowState.DROPPED, "consent withdrawn")}
    sent = {upload.batch for upload in decode_uploads(asked[0].body, 99)}
    assert all(row.attempts for row in found if row.batch in sent), "it may have arrived"
    sending.client.consent("on")
    sending.flush()
    assert len(asked) == 1


def waits(state, metric, period):
    with state.transaction() as rows:
        rows.outbox.add(bytes(16), metric, period, b"bytes", account=bytes(16), due=0.0, state=RowState.WAITING)
        CollectorHealth(4, 0.0).save(rows)


@pytest.mark.parametrize(
    ("metric", "period", "became"),
    [
        ("gone", FIRST, (RowState.DROPPED, "unknown-metric", 0)),
        ("energy", FIRST - 10_000, (RowState.DROPPED, "period-closed", 0)),
        ("energy", FIRST + 10_000, (RowState.WAITING, "period-future", 0)),
        ("energy", FIRST, (RowState.WAITING, None, 0)),  # the sink takes nothing
    ],
)
def test_what_is_decided_without_asking_was_not_tried_and_makes_no_collector_well(tmp_path, metric, period, became):
    device = Gateway(REGISTRY, Settings("energy", tmp_path / "state", agree="local"), environ={})
    state = State(device.client.paths)
    waits(state, metric, period)
    Delivery(state, REGISTRY, Discard(), lambda: "mark", clock=lambda: at(0)).run()
    (row,) = rows_of(device)
    assert (row.state, row.answer, row.attempts) == became
    assert row.answer is not None or row.due == 0.0
    with state.snapshot() as rows:
        assert CollectorHealth.of(rows) == CollectorHealth(4, 0.0)
