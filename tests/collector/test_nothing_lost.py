"""Every acknowledged report is counted exactly once, whatever the network does and whoever is killed."""

import asyncio
import datetime as dt
import os
import random
import re
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from overstory.analysis.reports import SupportCounts
from overstory.collector.store import open_store
from overstory.protocol.metrics import load_registry, parse_registry
from overstory.protocol.wire.upload import MEDIA_TYPE, encode_upload
from support.collector_in_process import REGISTRY, batch_id, upload
from support.collector_processes import CollectorProcess
from support.faulty_network import FaultyNetwork, closing, whole_message
from support.lossless import LEAST, Books, Devices, posted, rounds_balance, seen, write_registry
from support.lossless import rounds as lossless_rounds
from support.nginx import free_port, nginx, running
from support.rounds import rounds
from support.served import post, served
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


# Sharded collectors behind a balancer, killed at random: every acknowledged report is counted exactly once
PATH = re.compile(rb"POST /v1/reports(?:/(\d+))? ")


def shard_in(request):
    matched = PATH.match(request)
    assert matched, request[:60]
    return int(matched[1] or 0)


@dataclass
class Balancer(FaultyNetwork):
    """Forwards a request to the collector of the shard in its path, which may be down; or, if meant, to any."""

    at_random: bool = False

    def known(self, request):
        listed = self.collectors()
        chosen = listed if self.at_random else [listed[shard_in(request)]]
        return [address for address in chosen if address[1]]


def write_sharded_registry(folder, table):
    path = write_registry(folder)
    if table:
        path.write_text(path.read_text() + f"\n[shards]\n{table}\n")
    return path


def collectors_of(path, folder, count):
    sharded = load_registry(path).shards is not None
    return [
        CollectorProcess(
            path,
            f"sqlite:///{folder / f'shard{shard}.db'}",
            ("--open-writes", *((f"OVERSTORY_SHARD={shard}",) if sharded else ())),
        )
        for shard in range(count)
    ]


def run_rounds(folder, table, *, count, number, seed, at_random=False):
    path = write_sharded_registry(folder, table)
    servers = collectors_of(path, folder, count)
    network = Balancer(lambda: [c.address or ("", 0) for c in servers], seed=seed, at_random=at_random)
    books, met = asyncio.run(lossless_rounds(servers, network, path, number=number, seed=seed, at_once=6))
    return books, met, [collector.store for collector in servers]


def reports_in(folder, stores):
    registry, total = load_registry(folder / "metrics.toml"), 0
    for url in stores:
        with open_store(url, registry) as store:
            total += sum(
                number for name in registry for number in store.tally(name, -(1 << 31), (1 << 31) - 1).values()
            )
    return total


def acknowledged(books):
    return sum(counts.num_reports for counts in books.acknowledged.values())


def test_every_acknowledged_report_is_in_one_of_two_stores(tmp_path):
    books, met, stores = run_rounds(tmp_path, "count = 2", count=2, number=3, seed=31)
    books.balance(*stores)
    assert seen(met), met
    assert books.duplicates
    for url in stores:
        assert reports_in(tmp_path, [url]) > 0


def test_a_balancer_that_routes_at_random_delays_reports_and_doubles_none(tmp_path):
    """The collectors go by the batch id: the path is only for the balancer."""
    books, _, stores = run_rounds(tmp_path, "count = 2", count=2, number=0, seed=32, at_random=True)
    books.balance(*stores)


def test_without_shards_the_same_balancer_doubles_reports(tmp_path):
    """The control: two stores that take whatever comes both count what was sent twice."""
    books, _, stores = run_rounds(tmp_path, "", count=2, number=0, seed=33, at_random=True)
    assert reports_in(tmp_path, stores) > acknowledged(books)
    with pytest.raises(AssertionError):
        books.balance(stores[0])


@pytest.mark.slow
@pytest.mark.parametrize(("count", "number", "seed"), [(2, rounds(12), 41), (4, rounds(12), 42)])
def test_many_kills(tmp_path, count, number, seed):
    books, met, stores = run_rounds(tmp_path, f"count = {count}", count=count, number=number, seed=seed)
    books.balance(*stores)
    assert seen(met), met
    assert books.duplicates > number / 2


@pytest.mark.slow
def test_many_kills_while_periods_of_two_numbers_are_open(tmp_path):
    today = dt.datetime.now(dt.UTC).date()
    table = f"count = 2\nfrom = {{{today.isoformat()} = 3}}"
    books, met, stores = run_rounds(tmp_path, table, count=3, number=rounds(12), seed=43)
    books.balance(*stores)
    assert seen(met), met


# nginx with the example's configuration routes each upload to the collector of its shard, and every retry too
CONFIGURATION = Path(__file__).parents[2] / "examples" / "deploy" / "shards-nginx.conf"
SHARDED = parse_registry(REGISTRY + "\n[shards]\ncount = 4\n")


def balanced(port, collectors):
    text = re.sub(r" *ssl_certificate(_key)? .*\n", "", CONFIGURATION.read_text())
    text = re.sub(r" *error_log .*? crit;\n", "", text)
    text = text.replace("listen 443 ssl;", f"listen 127.0.0.1:{port};")
    for shard, to in enumerate(collectors):
        assert text.count(f"server 10.0.0.1{shard}:8000;") == 1
        text = text.replace(f"server 10.0.0.1{shard}:8000;", f"server 127.0.0.1:{to};")
    return text


def test_every_upload_sent_twice_is_counted_once_by_the_collector_of_its_shard(tmp_path):
    nginx()
    with ExitStack() as stack:
        collectors = [stack.enter_context(served(metrics=SHARDED, shard=shard)) for shard in range(4)]
        port = free_port()
        server = balanced(port, [address[1] for _, address in collectors])
        door = stack.enter_context(running(tmp_path, server, port))
        for number in range(24):
            batch = number.to_bytes(2, "big") + batch_id()[2:]
            body, path = upload("colour", batch=batch), f"/v1/reports/{number % 4}"
            answers = [asyncio.run(posted(door, body, path=path)) for _ in range(2)]
            assert [answer["results"][0]["duplicate"] for answer in answers] == [False, True]
        stored = [collector.store.num_reports for collector, _ in collectors]
        # The path of another shard: the balancer routes it, and the collector there takes nothing.
        assert asyncio.run(posted(door, upload("colour", batch=bytes(16)), path="/v1/reports/1")) is None
        assert [collector.store.num_reports for collector, _ in collectors] == stored == [6, 6, 6, 6]


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
