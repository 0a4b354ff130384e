"""The parts of a collector, its public pages among them, and how they start and stop together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from typing import Any, Final

from overstory.collector.auth import TokenTable
from overstory.collector.committer import Committer
from overstory.collector.http.endpoint import Entrance, ReportEndpoint
from overstory.collector.ingest import Ingest
from overstory.collector.oblivious.endpoint import ObliviousEndpoint
from overstory.collector.oblivious.keys import KeyRing
from overstory.collector.settings import DAY, Limits, UpkeepIntervals
from overstory.collector.store import Store, open_store
from overstory.collector.store.databases.connection import MissingStoreError
from overstory.collector.telemetry import LOG, StateReporter, Telemetry
from overstory.presentation.document import Block, Heading, Lines, Link, Paragraph
from overstory.presentation.render_html import STYLE, as_page, policy_of
from overstory.privacy import statement
from overstory.privacy.registry.cost import headline, in_two_sentences
from overstory.privacy.registry.page import metric_page
from overstory.privacy.terms import metric_terms
from overstory.protocol.metrics import Metric, MetricRegistry
from overstory.supervision.clock import ClockWatch, steady
from overstory.supervision.upkeep import Task, Upkeep, ended, in_thread

STOP_SECONDS: Final = 30.0
"""Seconds for which a store that does not answer holds up the end, twice: its running task, and the last writes."""

PATIENCE: Final = 60  # compactions in a row that left deleted rows readable before it is logged: a backup takes a while


def open_to_serve(url: str, registry: MetricRegistry) -> Store:
    """Open a store for this process alone, create it where there is none, and let it count as the registry says."""
    try:
        store = open_store(url)
    except MissingStoreError:
        LOG.info("there is no store yet: creating it")
        store = open_store(url, create=True)
    try:
        store.serve_alone()  # before anything is written to another collector's store
        store.remember(registry)
    except BaseException:
        store.close()
        raise
    return store


def public_metric(metric: Metric) -> dict[str, Any]:
    """Return a metric as the registry lists it, with every epsilon and its meaning in plain words."""
    reports = sorted({1, metric.window or 1})
    privacy = statement(metric.mechanism, reports=reports, terms=metric_terms(metric)).to_json()
    names = ("epsilon_report", "epsilon_n", "epsilon_permanent", "epsilon_any", "plain_words")
    return metric.to_json() | {"privacy": {name: privacy[name] for name in names}}


def public_registry(registry: MetricRegistry) -> dict[str, Any]:
    """Return the public registry."""
    return {
        "registry": registry.version,
        "digest": registry.digest.hex(),
        **({} if registry.opt_out is None else {"opt_out": registry.opt_out}),
        **({} if registry.operator is None else {"operator": registry.operator.to_json()}),
        **({} if registry.oblivious is None else {"oblivious": registry.oblivious.to_json()}),
        "metrics": [public_metric(registry[name]) for name in sorted(registry)],
    }


class PublicPages:
    """What the public may read about a registry, as JSON and as a web page. Each is made at its first request."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.registry = registry

    @cached_property
    def listed(self) -> dict[str, Any]:
        return public_registry(self.registry)

    @cached_property
    def by_id(self) -> dict[str, dict[str, Any]]:
        return {metric["id"]: metric for metric in self.listed["metrics"]}

    @cached_property
    def html(self) -> str:
        return public_html(self.registry)

    @cached_property
    def policy(self) -> str:
        """The Content-Security-Policy of the web page: its own style and nothing else."""
        return f"{policy_of(STYLE)}; frame-ancestors 'none'"


def public_html(registry: MetricRegistry) -> str:
    """Return what is collected as a web page without scripts."""
    return as_page(_page_blocks(registry))


def _page_blocks(registry: MetricRegistry) -> Iterator[Block]:
    count = f"{len(registry)} metrics are" if len(registry) != 1 else "One metric is"
    yield Heading(1, registry.title)
    yield Paragraph(
        "This is an Overstory collector. Programs send it reports that were randomized on the devices they come from. "
        "No report reveals its sender's value for certain, and the collector does not store who sent it."
    )
    if registry.opt_out is not None:
        yield Paragraph(f"How to stop it: {registry.opt_out}")
    if registry:
        yield Lines(*in_two_sentences(registry))
    yield Paragraph(f"{count} collected, according to registry {registry.version}. The same for programs:")
    yield Link("the public registry as JSON", "/v1/metrics")
    if registry:
        yield Paragraph(headline(registry).sentence)
    for name in sorted(registry):
        yield from metric_page(registry[name], route=registry.oblivious, budget=registry.budget).blocks()
        yield Link(f"{name} as JSON", f"/v1/metrics/{name}")


class Collector:
    """A collector on one event loop; `clock` gives unix time, `even` the seconds of a clock that never jumps."""

    def __init__(
        self,
        registry: MetricRegistry,
        store: Store,
        *,
        limits: Limits | None = None,
        intervals: UpkeepIntervals | None = None,
        open_writes: bool = False,
        ring: KeyRing | None = None,
        clock: Callable[[], float] = time.time,
        even: Callable[[], float] = steady,
    ) -> None:
        self._watch, self._trusted = ClockWatch(clock, even), True
        self.registry, self.store, self.clock = registry, store, self._watch.read
        self.pages = PublicPages(registry)
        self.limits, self._intervals = limits or Limits(), intervals or UpkeepIntervals()
        self.telemetry = Telemetry()
        self.tokens = TokenTable(store.tokens)
        self.committer = Committer(store, self.limits, self.telemetry.committed)
        ingest = Ingest(registry, self.limits)
        self.endpoint = ReportEndpoint(
            ingest, self.committer, self.tokens, self.telemetry, self.clock, open_writes=open_writes
        )
        self.reports = Entrance(self.endpoint, self.endpoint.admit, self.endpoint.post)
        self.oblivious = ObliviousEndpoint(self.reports, self.tokens, ring, self.clock)
        self.telemetry.queue = lambda: (self.committer.reports, self.committer.size)
        self._reporter = StateReporter(self.telemetry, store, lambda: self.registry, self.clock)
        self._upkeep = Upkeep(LOG, self.telemetry.failed_upkeep)
        self.telemetry.upkeep = self._upkeep.ages
        self._started = False
        self._remains = 0  # compactions in a row after which deleted rows could still be read

    @property
    def state(self) -> str:
        """`ready`, or why not: `starting`, `closing`, or `store`, also where memory or a task of the upkeep fails."""
        if self.endpoint.closing:
            return "closing"
        if not self._started:
            return "starting"
        failing = self.committer.failing or not self.committer.alive
        return "store" if failing or self._upkeep.troubled or self.endpoint.reserve.short else "ready"

    async def start(self) -> None:
        await in_thread(self.tokens.refresh)
        self.committer.start()
        intervals = self._intervals
        # Permanent threads have their memory and their connection; tokens are read however long a compaction takes.
        tasks = (
            Task("tokens", intervals.tokens, 10.0, needed=True, thread="tokens", work=self.tokens.refresh),
            Task("compact", intervals.compact, 300.0, needed=False, thread="upkeep", work=self._compact),
            Task("retain", intervals.retain, 7200.0, needed=False, thread="upkeep", work=self._retain),
            Task(
                "checkpoint", intervals.checkpoint, 30.0, needed=True, thread="checkpoint", work=self.store.checkpoint
            ),
            # In its own thread: it reports during a long compaction too.
            Task("state", intervals.state, 7200.0, needed=False, thread="state", work=self._reporter.report),
        )
        warm_up = Task("warm_up", 0.0, 0.0, needed=False, thread="upkeep", work=self.store.warm_up)
        self._upkeep.start((task for task in tasks if task.seconds), first=[warm_up] if intervals.compact else [])
        self._started = True

    def renew(self, registry: MetricRegistry) -> None:
        """Use another registry from now on; blocks. After an error nothing has changed."""
        ingest, pages = Ingest(registry, self.limits), PublicPages(registry)
        _ = pages.by_id, pages.html  # made before they are asked for
        self.store.remember(registry)
        self.registry, self.pages = registry, pages
        self.endpoint.use(ingest)

    async def stop(self) -> None:
        """Refuse new requests, commit what is queued, end the upkeep, close the store; a store that hangs is left."""
        self.endpoint.closing = True
        await self.committer.drain()
        # A thread that may be left behind: those of the event loop keep the process from ending.
        last = threading.Thread(target=self._close, name="overstory-close", daemon=True)
        if await self._upkeep.stop(STOP_SECONDS):
            last.start()
        if last.ident is None or not await ended([last], STOP_SECONDS):
            LOG.error("%s: no answer for %g seconds: it is left as it is", self.store.url, STOP_SECONDS)

    def _close(self) -> None:
        for last in (self._reporter.report, self.store.close):
            with suppress(Exception):  # the last refusals must not stop the rest
                last()

    def _compact(self) -> None:
        if self.endpoint.reserve.short:
            raise MemoryError("compaction waits for free memory")
        now = self.clock()
        done = self.store.compact(int(now), within=self._intervals.within, forgetting=self._forgetting(now))
        self._remains = self._remains + 1 if done.remains else 0
        if self._remains % PATIENCE == 1 and self._remains > 1:
            remains = "; ".join(done.remains)
            LOG.warning("%s: deleted rows can still be read in its files: %s", self.store.url, remains)

    def _retain(self) -> None:
        now = self.clock()
        if self._forgetting(now):
            done = self.store.retain(int(now))
            if done.remains:
                remains = "; ".join(done.remains)
                LOG.warning("%s: after retention, rows can still be read in its files: %s", self.store.url, remains)

    def _forgetting(self, now: float) -> bool:
        """Whether the clock is trusted for deletions; log when it is not any more."""
        trusted = self._watch.trusted
        if not trusted and not self._watch.jumped:
            # After a start, the clock is trusted if it continues from the day that the store last saw.
            last = self.store.last_day()
            trusted = last is None or now // DAY <= last + 1
            if last is not None and last <= now // DAY <= last + 1:
                self._watch.vouch()
        if not trusted and self._trusted:
            LOG.warning(
                "the clock has jumped, or differs from the store's last day: batch ids and reports past retention are "
                "not deleted until it has run evenly for an hour"
            )
        self._trusted = trusted
        return trusted
