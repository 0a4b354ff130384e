"""A real collector and its store count the reports of a state that was restored, or copied, once."""

import asyncio
import shutil

import httpx
import pytest

from overstory.client import Client
from overstory.client.upload.http import Response
from overstory.collector.app import HotPath
from overstory.collector.service import Collector
from overstory.collector.settings import UpkeepIntervals
from overstory.collector.store import open_store
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.registry import EXAMPLE
from overstory.protocol.wire.upload import MEDIA_TYPE

METRICS = parse_registry(EXAMPLE)
NOON = 1_795_262_400.0
RESTORED = 20


async def elsewhere(scope, receive, send) -> None:
    raise AssertionError("reports go the hot path")


def sent_by(folder, values):
    """What a device sends that is put back from one backup before each of these values, all of one day."""
    bodies = []

    def keeps(request):
        bodies.append(request.body)
        return Response(503)

    def client():
        settings = {"environ": {}, "policy": folder / "no-policy", "spread": 0.0, "transport": keeps}
        return Client("d", registry=METRICS, server="http://c", state=folder / "state", clock=lambda: NOON, **settings)

    with client() as first:
        first.consent("on")
        assert first.record("colour", values[0]) == "recorded"
        first._session._pending.clear()  # a state that has begun, and reported nothing yet
    shutil.copytree(folder / "state", folder / "backup")
    for value in values:
        shutil.rmtree(folder / "state")
        shutil.copytree(folder / "backup", folder / "state")
        with client() as again:
            assert again.record("colour", value) == "recorded"
    return bodies


def counted(url, bodies):
    """What a collector answers, and what its store has of the day."""

    async def main(store):
        intervals = UpkeepIntervals(tokens=0, compact=0, retain=0, checkpoint=0)
        collector = Collector(METRICS, store, intervals=intervals, open_writes=True, clock=lambda: NOON)
        await collector.start()
        transport = httpx.ASGITransport(HotPath(collector.endpoint, elsewhere))
        answers = []
        async with httpx.AsyncClient(transport=transport, base_url="http://collector") as client:
            for body in bodies:
                answer = await client.post("/v1/reports", content=body, headers={"content-type": MEDIA_TYPE})
                answers += answer.json()["results"]
        await collector.stop()
        return answers

    answers = asyncio.run(main(open_store(url, METRICS, create=True)))
    with open_store(url, METRICS) as store:
        (period,) = store.periods("colour")
        (counts,) = store.counts(METRICS["colour"], period, period).values()
    return answers, counts.num_reports


@pytest.mark.parametrize(("values", "expected"), [(["red"] * RESTORED, 1), (["red", "green"] * 3, 2)])
def test_a_restored_devices_day_is_counted_once_for_each_response(tmp_path, values, expected):
    """Two values are two responses, and two counts: what nobody but the copies knows cannot be taken for one."""
    bodies = sent_by(tmp_path, values)
    assert len(bodies) == len(values)
    answers, reports = counted(f"sqlite:///{tmp_path / 'store.db'}", bodies)
    assert reports <= expected  # both colours may have one permanent response
    assert reports == len(set(bodies))
    assert [answer["duplicate"] for answer in answers] == [body in bodies[:at] for at, body in enumerate(bodies)]
