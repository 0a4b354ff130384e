"""Every acknowledged report is counted exactly once, whatever the network does and whoever is killed."""

import asyncio
import os
import random
import time

import numpy as np
import pytest

from overstory.analysis.reports import SupportCounts
from overstory.collector.store import open_store
from overstory.protocol.metrics import load_registry
from overstory.protocol.wire.upload import MEDIA_TYPE, encode_upload
from support.collector_processes import CollectorProcess
from support.faulty_network import closing, whole_message
from support.lossless import LEAST, Books, Devices, rounds_balance, seen, write_registry
from support.served import post
from support.store_databases import fresh


def long(*row):
    return pytest.param(*row, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("kind", "collectors", "number", "seed"),
    [
        ("sqlite", 1, 2, 11),
        ("postgresql", 1, 2, 11),
        ("postgresql", 2, 2, 12),
        long("sqlite", 1, 120, 21),
        long("postgresql", 1, 20, 23),
        long("postgresql", 2, 40, 24),
    ],
)
def test_rounds_of_killed_collectors(server_folder, tmp_path, kind, collectors, number, seed):
    with fresh(kind, server_folder) as url:
        books, met = rounds_balance(url, tmp_path, number=number, collectors=collectors, seed=seed)
    assert seen(met), met
    assert books.uploads >= LEAST
    assert books.duplicates > number / 2 - 1  # answers did get lost after their reports were committed


def test_the_books_do_not_balance_when_a_report_is_missing_or_doubled(tmp_path):
    path, url = write_registry(tmp_path), f"sqlite:///{tmp_path / 'store.db'}"
    collector = CollectorProcess(path, url)
    collector.start()
    assert collector.stop() == 0
    registry = load_registry(path)
    colours = registry["colours"].mechanism
    one = SupportCounts([1], np.ones((1, colours.payload_bits), np.int64))
    books = Books(registry, {("colours", 20_000): one})
    with pytest.raises(AssertionError):
        books.balance(url)
    open_store(url, registry).close()
    Books(registry).balance(url)


# Mixed load for a while: no 5xx, and as much memory as after warming up (OVERSTORY_SOAK_SECONDS, half a minute)
SECONDS = float(os.environ.get("OVERSTORY_SOAK_SECONDS", "30"))
WARM = 0.34  # of the time: the first third fills caches and pools
GROWTH = 24 << 20


async def exchanged(to, request):
    reader, writer = await asyncio.open_connection(*to)
    async with closing(writer):
        writer.write(request)
        try:
            answer = await asyncio.wait_for(whole_message(reader), 20)
        except asyncio.IncompleteReadError:
            return 0
    return int(answer.split(b" ", 2)[1])


def nonsense(chance, good):
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


async def soak(collector, devices, seconds):
    to, chance, end, memory = collector.address, random.Random(41), time.monotonic() + seconds, []

    async def sender():
        while time.monotonic() < end:
            await devices.send(to)
            upload, _ = devices.upload()
            status = await exchanged(to, nonsense(chance, encode_upload(upload)))
            assert status < 500, status
            assert await exchanged(to, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") == 200

    async def watch():
        while time.monotonic() < end:
            memory.append((time.monotonic(), collector.resident))
            await asyncio.sleep(0.5)

    await asyncio.gather(watch(), *(sender() for _ in range(6)))
    return memory


@pytest.mark.slow
def test_memory_stays_flat_under_good_and_bad_requests(tmp_path):
    url, path = f"sqlite:///{tmp_path / 'store.db'}", write_registry(tmp_path)
    collector = CollectorProcess(path, url, options=("--open-writes", "OVERSTORY_COMPACT_EVERY=1"))
    collector.start()
    devices = Devices(load_registry(path), seed=42)
    memory = asyncio.run(soak(collector, devices, SECONDS))
    assert collector.stop() == 0
    assert devices.books.uploads > 2 * SECONDS
    begun = memory[0][0]
    warm = max(size for when, size in memory if when - begun < WARM * SECONDS)
    last = max(size for when, size in memory if when - begun > 0.8 * SECONDS)
    assert last < warm + GROWTH, f"{warm >> 20} MiB when warm, {last >> 20} MiB at the end"
