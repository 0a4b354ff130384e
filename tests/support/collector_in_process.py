"""A registry, reports and uploads for the collector's tests."""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from httpx import ASGITransport, AsyncClient

from overstory.collector.ingest import Received
from overstory.collector.server import build_app
from overstory.collector.service import Collector
from overstory.collector.settings import UpkeepIntervals
from overstory.collector.store.upkeep import Compacted, Retained
from overstory.protocol.kinds.base import Report
from overstory.protocol.metrics import Metric, parse_registry
from overstory.protocol.wire.upload import Upload, encode_columns, encode_reports, encode_upload
from support.registry_texts import COLOURS, STRINGS, registry_of

DAY = 86_400
NOW = 20_778 * DAY + 1234.5
TODAY = 20_778

ABOUT = {"title": '"t"', "purpose": '"https://example.org/issues/7"', "grace_days": "30", "expires": "2040-01-01"}
REGISTRY = registry_of(
    {
        "bloom": {
            "domain": STRINGS,
            "oracle": '"rappor"',
            "parameters": "{num_bits = 20, num_cohorts = 12, num_hashes = 2, f = 0.5, p = 0.25, q = 0.75}",
        },
        "colour": {"domain": COLOURS},
        "hashed": {
            "domain": '{kind = "integers", min = 0, max = 999}',
            "oracle": '"olh"',
            "parameters": "{epsilon = 2.0}",
        },
        "chosen": {"domain": '{kind = "integers", min = 0, max = 20}', "oracle": '"subset"'},
        "point": {"domain": '{kind = "integers", min = 0, max = 999}', "oracle": '"projective"'},
        "ended": {"domain": COLOURS, "expires": "2026-01-01"},
    },
    version="2026-11-21",
    **ABOUT,
)
METRICS = parse_registry(REGISTRY)

_numbers = itertools.count(1)


def batch_id() -> bytes:
    return next(_numbers).to_bytes(8, "big") + b"batch id"


class Words:  # a generator's bits, as a randomizer draws them
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def bits(self, count: int) -> int:
        return self._rng.getrandbits(count) if count else 0


def sound(metric: Metric, count: int, seed: int = 1) -> list[Report]:
    words, values = Words(random.Random(seed)), ["a", "b"] if metric.id == "bloom" else [0, 1]
    return [metric.mechanism.randomize(values[i % 2], words) for i in range(count)]


def packed(metric: Metric, rows: Sequence[Report]) -> bytes:
    """A batch of these reports, sound or not, with a right checksum."""
    mechanism = metric.mechanism
    wide, width = 2 if mechanism.num_cohorts <= 1 << 16 else 4, (mechanism.payload_bits + 7) // 8
    cohorts = b"".join(row.cohort.to_bytes(wide, "little") for row in rows)
    bits = b"".join(row.bits.to_bytes(width, "little") for row in rows)
    return encode_columns(mechanism.digest, mechanism.payload_bits, mechanism.num_cohorts, cohorts, bits)


def upload(name="bloom", count=1, *, period=TODAY, batch=None, raw=None):
    metric = METRICS[name]
    reports = encode_reports(metric.mechanism, sound(metric, count)) if raw is None else raw
    return encode_upload(Upload(batch or batch_id(), name, period, reports))


async def until(condition: Callable[[], object]) -> None:
    """Wait for what another task or thread brings about."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what is waited for is not ours to set an event in
            await asyncio.sleep(0.001)


def raising(error: BaseException) -> Callable[..., Any]:

    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


class FakeStore:  # a store in memory: it remembers ids, can be slow, and can fail
    url = "memory"

    def __init__(self) -> None:
        self.kept: dict[bytes, Received] = {}
        self.calls: list[int] = []
        self.before: Callable[[], None] = lambda: None
        self.listed: list[object] = []
        self.closed = False

    def add(self, received: Sequence[Received]) -> list[bool]:
        self.before()
        self.calls.append(len(received))
        new = []
        for one in received:
            new.append(one.batch not in self.kept)
            self.kept.setdefault(one.batch, one)
        return new

    def tokens(self) -> list[object]:
        return self.listed

    def compact(self, now: float, *, within: float = 0.0, forgetting: bool = True) -> Compacted:
        """Nothing to fold."""
        return Compacted()

    def warm_up(self) -> None:
        """Nothing to load."""

    def last_day(self) -> None:
        """Never forgot."""

    def retain(self, now: float) -> Retained:
        """Nothing to delete."""
        return Retained(0, 0)

    def checkpoint(self) -> None:
        """Nothing to copy."""

    def report_state(self, state: object, refused: object) -> None:
        """Nothing to show."""

    def close(self) -> None:
        self.closed = True

    @property
    def num_reports(self) -> int:
        return sum(one.num_reports for one in self.kept.values())


NEVER = UpkeepIntervals(tokens=0, compact=0, retain=0, checkpoint=0)


@asynccontextmanager
async def asked(collector: Collector, *, client=("127.0.0.1", 1), **more) -> AsyncIterator[AsyncClient]:
    """Run a collector without a socket, and give a client to it, whose address is `client`."""
    await collector.start()
    try:
        transport = ASGITransport(build_app(collector), client=client)
        async with AsyncClient(transport=transport, base_url="http://collector", **more) as http:
            yield http
    finally:
        await collector.stop()
