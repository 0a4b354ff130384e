"""Metrics for operators: counters in plain integers, in Prometheus's text format."""

from __future__ import annotations

import logging
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

from prometheus_client import CollectorRegistry, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from overstory import __version__
from overstory.collector.committer import Committed
from overstory.collector.ingest import Decision
from overstory.collector.settings import DAY
from overstory.collector.store.operations import CollectorState
from overstory.protocol.metrics import MetricRegistry
from overstory.protocol.wire.reasons import Reason

LOG: Final = logging.getLogger("overstory.collector")

SECONDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
SIZES: Final = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)


class Telemetry(Collector):
    """All counters and histograms, which do not reveal who sent a report, or when; the event loop changes them."""

    def __init__(self) -> None:
        self.accepted: Counter[str] = Counter()
        self.duplicates: Counter[str] = Counter()
        # By a metric of the registry, never a sender's words; None: of all together.
        self.rejected: Counter[tuple[str | None, Reason]] = Counter()
        self.requests: Counter[int] = Counter()
        self.opened: Counter[str] = Counter()  # messages of Oblivious HTTP, by the key that opened them
        self.unopened: Counter[str] = Counter()  # by reason
        self.failed_commits = 0
        self.failed_upkeep: Counter[str] = Counter()
        self.faults = 0
        self.untaken = 0
        self.upkeep: Callable[[], dict[str, float]] = dict
        self.queue: Callable[[], tuple[int, int]] = lambda: (0, 0)
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self)
        disable_created_metrics()  # type: ignore[no-untyped-call]
        of_commits = partial(Histogram, namespace="overstory", registry=self.registry)
        self._commits = of_commits("commit_seconds", "Duration of a commit in seconds.", buckets=SECONDS)
        self._commit_reports = of_commits("commit_reports", "Reports in a commit.", buckets=SIZES)

    def decided(self, decision: Decision) -> None:
        if decision.refused is not None:
            self.reject(decision.refused)
        for result in decision.results:
            if result.rejected:
                for reason, count in Counter(reason for _, reason in result.rejected).items():
                    self.reject(reason, result.metric, count)
            elif result.reason is not None:
                self.reject(result.reason, result.metric)

    def reject(self, reason: Reason, metric: str | None = None, count: int = 1) -> None:
        self.rejected[None, reason] += count
        if metric is not None and reason is not Reason.UNKNOWN_METRIC:
            self.rejected[metric, reason] += count

    def stored(self, decision: Decision, new: Iterable[bool]) -> None:
        """Count the batches of a decision that were committed, as new or as duplicates."""
        for received, is_new in zip(decision.received, new, strict=True):
            counted = self.accepted if is_new else self.duplicates
            counted[received.metric] += received.num_reports

    def committed(self, commit: Committed) -> None:
        if commit.failed:
            self.failed_commits += 1
        self._commits.observe(commit.seconds)
        self._commit_reports.observe(commit.reports)

    def expose(self) -> bytes:
        return generate_latest(self.registry)

    def collect(self) -> Iterator[Metric]:
        yield _counter("reports_accepted", "Reports committed, by metric.", "metric", self.accepted)
        yield _counter(
            "reports_duplicate", "Reports in batches that were committed before, by metric.", "metric", self.duplicates
        )
        rejected = {reason.value: self.rejected[None, reason] for reason in Reason}
        yield _counter("rejected", "Reports, batches or requests refused, by reason.", "reason", rejected)
        statuses = {str(status): count for status, count in list(self.requests.items())}
        yield _counter(
            "answers", "Answers to POST /v1/reports, by status; those to sealed requests, too.", "status", statuses
        )
        opened = "Messages of Oblivious HTTP that were opened, by the id of the key."
        yield _counter("oblivious_opened", opened, "key", self.opened)
        unopened = "Messages of Oblivious HTTP that could not be opened, by reason."
        yield _counter("oblivious_refused", unopened, "reason", self.unopened)
        failed = {"commit": self.failed_commits, **dict.fromkeys(self.upkeep(), 0), **self.failed_upkeep}
        yield _counter("store_failures", "Failures of the store, by kind of work.", "work", failed)
        ages = GaugeMetricFamily(
            "overstory_upkeep_age_seconds", "Seconds since the last success of an upkeep task.", labels=["task"]
        )
        for task, age in self.upkeep().items():
            ages.add_metric([task], age)
        yield ages
        yield CounterMetricFamily(
            "overstory_faults", "Requests that failed because of an error in the collector.", value=self.faults
        )
        untaken = "Connections closed because the sender did not read its answers."
        yield CounterMetricFamily("overstory_answers_untaken", untaken, value=self.untaken)
        reports, size = self.queue()
        yield GaugeMetricFamily("overstory_queue_reports", "Reports that are waiting for their commit.", float(reports))
        yield GaugeMetricFamily("overstory_queue_bytes", "Bytes that are waiting for their commit.", float(size))


def _counter(name: str, description: str, label: str, counts: dict[str, int] | Counter[str]) -> CounterMetricFamily:
    family = CounterMetricFamily(f"overstory_{name}", description, labels=[label])
    for value, count in sorted(counts.items()):
        family.add_metric([value], float(count))
    return family


BEAT: Final = 15.0  # seconds between two heartbeats; refusals are stored whenever there are new ones


class StateReporter:
    """Stores what this process refused since the last time, which is lost if it is killed before, and its heartbeat."""

    def __init__(
        self, telemetry: Telemetry, store: Any, registry: Callable[[], MetricRegistry], clock: Callable[[], float]
    ) -> None:
        self._telemetry, self._store, self.registry, self._clock = telemetry, store, registry, clock
        self._id, self._started = secrets.token_hex(8), int(clock())
        self._stored: dict[tuple[str | None, Reason], int] = {}
        self._beat_at = float("-inf")

    def report(self) -> None:
        """Store what is new; after an error, the next call stores it."""
        now, telemetry = self._clock(), self._telemetry
        total = dict(telemetry.rejected)  # a copy in one step, which no other thread can interrupt
        refused: dict[tuple[str | None, int, str], int] = {}
        for (name, reason), count in total.items():
            metric = None if name is None else self.registry().metrics.get(name)
            new = count - self._stored.get((name, reason), 0)
            if new and (name is None or metric is not None):
                refused[name, int(now // DAY) if metric is None else metric.period.number(now), reason] = new
        due = not 0 <= now - self._beat_at < BEAT
        if refused or due:
            waiting, _ = telemetry.queue()
            state = CollectorState(self._id, __version__, self._started, int(now), waiting)
            self._store.report_state(state if due else None, refused)
        self._stored = total
        if due:
            self._beat_at = now
