"""A collector under mixed load for a while: no 5xx, and as much memory as after warming up.

`OVERSTORY_SOAK_SECONDS` sets how long, half a minute unless given; `bench/load.py --minutes 10` watches it longer.
"""

from __future__ import annotations

import asyncio
import os
import random
import time

import pytest

from overstory.protocol.metrics import load_registry
from overstory.protocol.wire.upload import MEDIA_TYPE, encode_upload
from support.collector_processes import CollectorProcess
from support.faulty_network import closing, whole_message
from support.lossless import Devices, write_registry
from support.served import post

SECONDS = float(os.environ.get("OVERSTORY_SOAK_SECONDS", "30"))
WARM = 0.34  # of the time: the first third fills caches and pools
GROWTH = 24 << 20


async def exchanged(to: tuple[str, int], request: bytes) -> int:
    """Send a request and return the answer's status; 0 when the collector hung up, as it may on nonsense."""
    reader, writer = await asyncio.open_connection(*to)
    async with closing(writer):
        writer.write(request)
        try:
            answer = await asyncio.wait_for(whole_message(reader), 20)
        except asyncio.IncompleteReadError:
            return 0
    return int(answer.split(b" ", 2)[1])


def nonsense(chance: random.Random, good: bytes) -> bytes:
    """A request that no collector should take."""
    at = chance.randrange(len(good))
    altered = good[:at] + bytes([good[at] ^ (1 + chance.randrange(255))]) + good[at + 1 :]
    return chance.choice(
        [
            post(altered),
            post(good[: len(good) // 2]),
            post(b"{").replace(MEDIA_TYPE.encode(), b"application/json"),
            post(chance.randbytes(500)),
            post(good).replace(MEDIA_TYPE.encode(), b"text/plain"),
            b"GET /v1/metrics/nothing HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET /v1/metrics/colours/counts HTTP/1.1\r\nHost: x\r\n\r\n",
        ]
    )


async def soak(collector: CollectorProcess, devices: Devices, seconds: float) -> list[tuple[float, int]]:
    """Send good and bad requests until the time is over; return memory over time."""
    to, chance, end, memory = collector.address, random.Random(41), time.monotonic() + seconds, []

    async def sender() -> None:
        while time.monotonic() < end:
            await devices.send(to)
            upload, _ = devices.upload()
            status = await exchanged(to, nonsense(chance, encode_upload(upload)))
            assert status < 500, status
            assert await exchanged(to, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") == 200

    async def watch() -> None:
        while time.monotonic() < end:
            memory.append((time.monotonic(), collector.resident))
            await asyncio.sleep(0.5)

    await asyncio.gather(watch(), *(sender() for _ in range(6)))
    return memory


@pytest.mark.slow
def test_memory_stays_flat_under_good_and_bad_requests(tmp_path):
    url, path = f"sqlite:///{tmp_path / 'store.db'}", write_registry(tmp_path)
    collector = CollectorProcess(path, url, options=("--open-writes", "--compact-every", "1"))
    collector.start()
    devices = Devices(load_registry(path), seed=42)
    memory = asyncio.run(soak(collector, devices, SECONDS))
    assert collector.stop() == 0
    assert devices.books.uploads > 2 * SECONDS
    begun = memory[0][0]
    warm = max(size for when, size in memory if when - begun < WARM * SECONDS)
    last = max(size for when, size in memory if when - begun > 0.8 * SECONDS)
    assert last < warm + GROWTH, f"{warm >> 20} MiB when warm, {last >> 20} MiB at the end"
