"""Every acknowledged report is counted exactly once, whatever the network does and whoever is killed.

Devices, a faulty network, and collectors that are killed; then the books are balanced.
"""

import asyncio
import json
import os
import random
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import numpy as np
import pytest

from overstory.analysis.alarms.sums import PAIR_REPORTS, ReportSums, Watch
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.collector.store import open_store
from overstory.protocol.metrics import MetricRegistry, load_registry
from overstory.protocol.wire.upload import MEDIA_TYPE, Upload, encode_upload
from support.collector_processes import CollectorProcess
from support.faulty_network import FaultyNetwork, closing, whole_message
from support.registry_texts import registry_of
from support.served import post
from support.store_databases import fresh

LEAST = 100  # uploads that a run acknowledges at least, one of them twice

PATIENCE = 120.0

METRICS = registry_of(
    {
        "colours": {
            "oracle": '"basic-rappor"',
            "domain": '{kind = "integers", min = 0, max = 63, outside = "reject"}',
            "parameters": "{f = 0.5, p = 0.5, q = 0.75}",
        },
        "engines": {
            "oracle": '"rappor"',
            "domain": '{kind = "strings", candidates = "engines.txt"}',
            "parameters": "{num_bits = 32, num_hashes = 2, num_cohorts = 8, f = 0.5, p = 0.5, q = 0.75}",
            "period": '"hour"',
        },
    },
    version="balance",
    expires="2999-01-01",
)


@dataclass
class Books:  # what was sent and acknowledged, by (metric, period)
    registry: MetricRegistry
    acknowledged: dict[tuple[str, int], SupportCounts] = field(default_factory=dict)
    sums: dict[tuple[str, int], ReportSums] = field(default_factory=dict)
    uploads: int = 0
    attempts: int = 0
    duplicates: int = 0

    def enter(self, upload, reports, answer):
        """Note an acknowledged upload, as the device that sent it may."""
        (result,) = answer["results"]
        assert result["reason"] is None, answer
        assert not result["rejected"], answer
        assert result["duplicate"] or result["accepted"] == len(reports), answer
        self.uploads += 1
        self.duplicates += bool(result["duplicate"])
        place = upload.metric, upload.period
        known = self.acknowledged.get(place, SupportCounts.empty(reports.num_cohorts, reports.num_bits))
        self.acknowledged[place] = known + reports.accumulate()
        watch = Watch.of(self.registry[upload.metric].mechanism)
        assert watch is not None
        summed = watch.sum(reports)
        self.sums[place] = self.sums[place] + summed if place in self.sums else summed

    def balance(self, url):
        """Hold the store against the books: every (metric, period), cohort and bit."""
        with open_store(url, self.registry) as store:
            for name, metric in self.registry.metrics.items():
                mine = {period: counts for (of, period), counts in self.acknowledged.items() if of == name}
                assert sorted(store.periods(name)) == sorted(mine)
                if mine:
                    stored = store.counts(metric, min(mine), max(mine))
                    assert {p: (c.totals.tolist(), c.ones.tolist()) for p, c in stored.items()} == {
                        p: (c.totals.tolist(), c.ones.tolist()) for p, c in mine.items()
                    }
                    sums = {period: of_period for (of, period), of_period in self.sums.items() if of == name}
                    held = store.sums(metric, min(mine), max(mine))
                    assert {p: s.num_reports for p, s in held.items()} == {p: s.num_reports for p, s in sums.items()}
                    few = [p for p, s in sums.items() if s.num_reports <= PAIR_REPORTS]  # of more, the first have pairs
                    assert [held[p] for p in few] == [sums[p] for p in few], [
                        (p, sums[p].num_reports, held[p].pair_reports, sums[p].pair_reports) for p in sums
                    ]


def write_registry(folder):
    (folder / "engines.txt").write_text("alpha\nbeta\ngamma\ndelta\n")
    path = folder / "metrics.toml"
    path.write_text(METRICS)
    return path


class Devices:  # senders that go on until they are answered, with the very same bytes each time
    def __init__(self, registry, seed):
        self.registry, self.books = registry, Books(registry)
        self._rng, self._random = np.random.default_rng(seed), random.Random(seed)

    def upload(self):
        """Make up reports of one metric and period: one, or a relay's many. Random bits: any mix-up shows."""
        metric = self.registry[self._random.choice(sorted(self.registry.metrics))]
        mechanism, reports = metric.mechanism, self._random.choice((1, 1, 1, 7, 300))
        now = metric.period.number(time.time())
        bits = self._rng.integers(0, 2**mechanism.payload_bits - 1, (reports, 1), np.uint64, endpoint=True)
        cohorts = self._rng.integers(0, mechanism.num_cohorts, reports, np.uint16)
        batch = ReportBatch(cohorts, bits, mechanism.payload_bits, mechanism.num_cohorts)
        wire = batch.to_wire(mechanism.digest)
        return Upload(self._random.randbytes(16), metric.id, now - self._random.randrange(3), wire), batch

    async def send(self, to):
        upload, reports = self.upload()
        body = encode_upload(upload)
        longest = 0.025
        while True:
            self.books.attempts += 1
            answer = await posted(to, body)
            if answer is not None:
                self.books.enter(upload, reports, answer)
                return
            longest = min(2 * longest, 0.4)  # a collector that starts needs the processor more than they do
            await asyncio.sleep(self._random.uniform(0.005, longest))


async def posted(to, body, patience=20.0):
    """Post an upload on a connection of its own; nothing when it was not acknowledged, for whatever passing reason."""
    try:
        async with asyncio.timeout(patience):
            reader, writer = await asyncio.open_connection(*to)
            async with closing(writer):
                writer.write(post(body))
                answer = await whole_message(reader)
    except (OSError, asyncio.IncompleteReadError, TimeoutError):
        return None
    status = int(answer.split(b" ", 2)[1])
    if status in {429, 502, 503, 504}:  # 502 and 504: a proxy whose collector was killed
        return None
    assert status == 200, answer
    read: dict[str, object] = json.loads(answer.partition(b"\r\n\r\n")[2])
    return read


@asynccontextmanager
async def sending(devices, to, at_once):
    """Keep `at_once` devices sending; on leaving, each finishes the upload it has begun."""
    going = True

    async def one():
        while going:
            await devices.send(to)

    tasks = [asyncio.create_task(one()) for _ in range(at_once)]
    try:
        yield
    finally:
        going = False
        await asyncio.gather(*tasks)


async def rounds(running, network, path, *, number, seed, at_once):
    """Kill and restart collectors `number` times under load, then let every device finish."""
    chance = random.Random(seed)
    for collector in running:
        await asyncio.to_thread(collector.start)
    devices = Devices(load_registry(path), seed)
    try:
        async with network.listening() as door, sending(devices, door, at_once):
            for _ in range(number):
                await asyncio.sleep(chance.uniform(0.02, 0.4))
                victim = chance.choice(running)
                victim.kill()
                await asyncio.to_thread(victim.start)
            async with asyncio.timeout(PATIENCE):  # on a slow machine the rounds alone may be over too soon
                while devices.books.uploads < LEAST or not devices.books.duplicates or not seen(network.met):  # noqa: ASYNC110 - a tally has no event
                    await asyncio.sleep(0.05)
    finally:
        for collector in running:
            collector.kill()
    return devices.books, network.met


def rounds_balance(url, folder, *, number, collectors, seed):
    """Run the rounds, balance the books, and return what happened, so that a test can see that something did."""
    path = write_registry(folder)
    often = ("--open-writes", "OVERSTORY_COMPACT_EVERY=0.05", "OVERSTORY_COMPACT_WITHIN=0")
    running = [CollectorProcess(path, url, often) for _ in range(collectors)]
    network = FaultyNetwork(lambda: [c.address for c in running if c.address is not None], seed=seed)
    books, met = asyncio.run(rounds(running, network, path, number=number, seed=seed, at_once=8))
    books.balance(url)
    return books, met


def seen(met, faults=("lose_request", "lose_answer", "double", "delay")):
    return all(met[fault] for fault in faults)


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
