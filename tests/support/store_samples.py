"""Metrics and batches for the store's tests, and the plain model that a store must agree with."""

import asyncio
import json
import random
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import httpx
import numpy as np

from overstory.analysis.alarms.sums import ReportSums, Watch
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.collector.ingest import Received
from overstory.collector.service import Collector
from overstory.collector.store import open_store
from overstory.collector.store.upkeep import without_few
from overstory.protocol.kinds.base import Report
from overstory.protocol.metrics import Metric, MetricRegistry, parse_registry
from overstory.protocol.metrics.metric import FEWEST_TOGETHER
from overstory.queries.counts import sum_by_key
from support.collector_in_process import NEVER, asked, batch_id
from support.registry_texts import COLOURS, STRINGS, registry_of

DAY = 86_400
NOW = 20_000 * DAY + 1234.5

ABOUT = {"purpose": '"https://example.org/issues/7"', "expires": "2040-01-01"}


def sample_metrics() -> dict[str, dict[str, str]]:
    """Return metrics of bits by cohort, of symbols, and of symbols under seeds, of which `seeds` says more."""
    return {
        "bloom": {
            "domain": STRINGS,
            "oracle": '"rappor"',
            "parameters": "{num_bits = 16, num_cohorts = 4, num_hashes = 2, f = 0.5, p = 0.25, q = 0.75}",
        },
        "colour": {"domain": COLOURS},
        "size": {
            "domain": '{kind = "categories", names = ["s", "m", "l"]}',
            "oracle": '"olh"',
            "parameters": "{epsilon = 1.0}",
        },
    }


def registry(retention: int = 90, candidates: Sequence[str] = ("ash", "elm", "oak"), folder=None) -> MetricRegistry:
    """Return a registry of every way of counting: bits by cohort, symbols, under shared and own seeds."""
    metrics = sample_metrics()
    if folder is not None:
        names = f'{{kind = "categories", names = {json.dumps(list(candidates))}}}'
        metrics["tree"] = {"domain": names, "oracle": '"linear-hash"', "parameters": "{epsilon = 1.0}"}
    return parse_registry(registry_of(metrics, **ABOUT, retention_days=str(retention)), folder)


def reports(metric: Metric, count: int, rng: random.Random) -> list[Report]:
    mechanism = metric.mechanism
    below = getattr(mechanism.encoding, "num_symbols", 1 << mechanism.payload_bits)
    return [Report(rng.randrange(mechanism.num_cohorts), rng.randrange(below)) for _ in range(count)]


def received(metric, period, sent, *, batch=None, forget_after=None):
    wire = ReportBatch.of(metric.mechanism, sent)
    given = {"batch": batch, "forget_after": forget_after}
    return received_batch(metric, period, wire)._replace(**{k: v for k, v in given.items() if v is not None})


def received_batch(metric: Metric, period: int, wire: ReportBatch) -> Received:
    """Return reports as the collector hands them over."""
    return Received(
        metric=metric.id,
        period=period,
        batch=batch_id(),
        digest=metric.mechanism.digest,
        num_bits=wire.num_bits,
        num_cohorts=wire.num_cohorts,
        num_reports=len(wire),
        cohorts=wire.cohorts.tobytes(),
        bits=wire.octets().tobytes(),
        forget_after=metric.accept_until(period),
        ends=metric.period.start(period + 1),
    )


def ids_in_file(sql: sqlite3.Connection) -> list[bytes]:
    """Return the batch ids that a store's SQLite file remembers."""
    days = sql.execute("SELECT day FROM batch_ids ORDER BY day").fetchall()
    return [one for (day,) in days for (one,) in sql.execute(f"SELECT id FROM batch_ids_{day}")]


def some(metric: Metric, period: int, count: int, seed: int) -> Received:
    return received(metric, period, reports(metric, count, random.Random(seed)))


def counted(metric: Metric, sent: Sequence[Report]) -> SupportCounts:
    """Count reports in the plainest way there is: what a store must agree with."""
    return FrequencyOracle(metric.mechanism).accumulate(list(sent))


def summed(metric: Metric, sent: Sequence[Report]) -> ReportSums:
    watch = Watch.of(metric.mechanism)
    assert watch is not None
    return watch.sum(ReportBatch.of(metric.mechanism, sent))


Key = tuple[str, int, str]  # metric, period and group


@dataclass
class Model:  # a store as it should be: lists in memory, and counts of what was compacted
    ids: set[bytes] = field(default_factory=set)
    waiting: dict[Key, list[Report]] = field(default_factory=lambda: defaultdict(list))
    kept: dict[Key, list[Report]] = field(default_factory=lambda: defaultdict(list))  # compacted
    compacted: dict[Key, SupportCounts] = field(default_factory=dict)
    ever: dict[Key, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, key: Key, batch: bytes, sent: Sequence[Report]) -> bool:
        """Keep a batch, once."""
        if batch in self.ids:
            return False
        self.ids.add(batch)
        self.waiting[key] += sent
        return True

    def compact(self, metrics: MetricRegistry) -> int:
        """Count what waits, and return how many reports that are."""
        moved = {key: sent for key, sent in self.waiting.items() if sent}
        for key, sent in moved.items():
            self.compacted[key] = self._counts(metrics[key[0]], key)
            self.kept[key] += sent
            self.ever[key] += len(sent)
        self.waiting.clear()
        return sum(map(len, moved.values()))

    def retain(self, metrics: MetricRegistry) -> int:
        """Delete the compacted reports, and counts of few; return how many reports were deleted."""
        for key in self.kept:
            stay = without_few(self.compacted[key], metrics[key[0]].mechanism.num_cohorts, FEWEST_TOGETHER)
            if stay.num_reports or self.ever[key] >= FEWEST_TOGETHER:
                self.compacted[key] = stay
            else:
                del self.compacted[key], self.ever[key]
        deleted = sum(map(len, self.kept.values()))
        self.kept.clear()
        return deleted

    def _counts(self, metric: Metric, key: Key) -> SupportCounts:
        waiting = counted(metric, self.waiting.get(key, []))
        before = self.compacted.get(key)
        return waiting if before is None else before + waiting

    def keys(self, name: str, groups: Collection[str] | None = None) -> list[Key]:
        """Return the keys that a metric has reports or counts of."""
        keys = {key for key, sent in self.waiting.items() if sent} | self.compacted.keys()
        return sorted(key for key in keys if key[0] == name and (groups is None or key[2] in groups))

    def counts(self, metric: Metric, groups: Collection[str] | None = None) -> dict[int, SupportCounts]:
        return sum_by_key((key[1], self._counts(metric, key)) for key in self.keys(metric.id, groups))

    def stored(self, metric: Metric, groups: Collection[str] | None = None) -> dict[int, list[Report]]:
        """Return the reports of each period that are still there."""
        found: dict[int, list[Report]] = defaultdict(list)
        for key in self.keys(metric.id, groups):
            found[key[1]] += [*self.kept.get(key, ()), *self.waiting.get(key, ())]
        return {period: sent for period, sent in found.items() if sent}


def as_multiset(batch: ReportBatch) -> list[tuple[int, ...]]:
    rows = np.column_stack([batch.cohorts.astype(np.uint64), batch.bits])
    return sorted(tuple(int(x) for x in row) for row in rows)


def pages_of(metrics: MetricRegistry, url: str, *paths: str) -> list[httpx.Response]:
    """Return what a collector of these metrics answers to an admin, page by page."""

    async def main() -> list[httpx.Response]:
        store = open_store(url, metrics)
        headers = {"authorization": f"Bearer {store.add_token('admin', 'ops')}"}
        collector = Collector(metrics, store, intervals=NEVER, clock=lambda: NOW)
        async with asked(collector, headers=headers) as client:
            return [await client.get(f"/v1/metrics/{path}") for path in paths]

    return asyncio.run(main())
