"""Nothing lost, nothing doubled: devices, a faulty network, collectors that are killed; then the books are balanced."""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from overstory.analysis.alarms.sums import PAIR_REPORTS, ReportSums, Watch
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.collector.store import open_store
from overstory.protocol.metrics import MetricRegistry, load_registry
from overstory.protocol.wire.upload import MEDIA_TYPE, Upload, encode_upload
from support.collector_processes import CollectorProcess
from support.faulty_network import Address, FaultyNetwork, closing, whole_message
from support.registry_texts import registry_of

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

    def enter(self, upload: Upload, reports: ReportBatch, answer: dict[str, object]) -> None:
        """Note an acknowledged upload, as the device that sent it may."""
        (result,) = answer["results"]  # type: ignore[misc]
        assert result["reason"] is None, answer  # type: ignore[index]
        assert not result["rejected"], answer  # type: ignore[index]
        assert result["duplicate"] or result["accepted"] == len(reports), answer  # type: ignore[index]
        self.uploads += 1
        self.duplicates += bool(result["duplicate"])  # type: ignore[index]
        place = upload.metric, upload.period
        known = self.acknowledged.get(place, SupportCounts.empty(reports.num_cohorts, reports.num_bits))
        self.acknowledged[place] = known + reports.accumulate()
        watch = Watch.of(self.registry[upload.metric].mechanism)
        assert watch is not None
        summed = watch.sum(reports)
        self.sums[place] = self.sums[place] + summed if place in self.sums else summed

    def balance(self, url: str) -> None:
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


def write_registry(folder: Path) -> Path:
    (folder / "engines.txt").write_text("alpha\nbeta\ngamma\ndelta\n")
    path = folder / "metrics.toml"
    path.write_text(METRICS)
    return path


class Devices:  # senders that go on until they are answered, with the very same bytes each time
    def __init__(self, registry: MetricRegistry, seed: int) -> None:
        self.registry, self.books = registry, Books(registry)
        self._rng, self._random = np.random.default_rng(seed), random.Random(seed)

    def upload(self) -> tuple[Upload, ReportBatch]:
        """Make up reports of one metric and period: one, or a relay's many. Random bits: any mix-up shows."""
        metric = self.registry[self._random.choice(sorted(self.registry.metrics))]
        mechanism, reports = metric.mechanism, self._random.choice((1, 1, 1, 7, 300))
        now = metric.period.number(time.time())
        bits = self._rng.integers(0, 2**mechanism.payload_bits - 1, (reports, 1), np.uint64, endpoint=True)
        cohorts = self._rng.integers(0, mechanism.num_cohorts, reports, np.uint16)
        batch = ReportBatch(cohorts, bits, mechanism.payload_bits, mechanism.num_cohorts)
        wire = batch.to_wire(mechanism.digest)
        return Upload(self._random.randbytes(16), metric.id, now - self._random.randrange(3), wire), batch

    async def send(self, to: Address) -> None:
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
    head = f"POST /v1/reports HTTP/1.1\r\nHost: x\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n"
    try:
        async with asyncio.timeout(patience):
            reader, writer = await asyncio.open_connection(*to)
            async with closing(writer):
                writer.write(head.encode() + b"\r\n" + body)
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
async def sending(devices: Devices, to: Address, at_once: int) -> AsyncIterator[None]:
    """Keep `at_once` devices sending; on leaving, each finishes the upload it has begun."""
    going = True

    async def one() -> None:
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


def rounds_balance(url: str, folder: Path, *, number: int, collectors: int, seed: int) -> tuple[Books, Counter[str]]:
    """Run the rounds, balance the books, and return what happened, so that a test can see that something did."""
    path = write_registry(folder)
    often = ("--open-writes", "OVERSTORY_COMPACT_EVERY=0.05", "OVERSTORY_COMPACT_WITHIN=0")
    running = [CollectorProcess(path, url, often) for _ in range(collectors)]
    network = FaultyNetwork(lambda: [c.address for c in running if c.address is not None], seed=seed)
    books, met = asyncio.run(rounds(running, network, path, number=number, seed=seed, at_once=8))
    books.balance(url)
    return books, met


def seen(met: Counter[str], faults: Sequence[str] = ("lose_request", "lose_answer", "double", "delay")) -> bool:
    return all(met[fault] for fault in faults)
