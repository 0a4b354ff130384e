"""A collector that is killed while it takes releases: nothing acknowledged is lost, nothing counts twice, and no
release is stated larger than it was. Real processes, real HTTP, a real store."""

import random
import secrets
import threading
import time

import httpx
import pytest

from overstory.collector.oblivious.endpoint import SLICE
from overstory.collector.store import open_store
from overstory.protocol.oblivious.formats import RELEASE_TYPE, Release
from support.collector_in_process import batch_id
from support.collector_processes import CollectorProcess
from support.sealed_reports import METRICS, sealed_quickly, upload, write_files

PART = 2 * SLICE + 30
METRIC = METRICS["hidden"]


class Rounds:
    """A relay's view of a collector that is killed: what was acknowledged is what the store must hold."""

    def __init__(self, folder, seed):
        self.rng = random.Random(seed)
        registry, keys = write_files(folder)
        self.url = str(folder / "store.db")
        with open_store(self.url, METRICS, create=True) as store:
            self.token, self.relay = store.add_token("write", "devices"), store.add_token("relay", "relay")
        self.collector = CollectorProcess(
            registry, self.url, (f"OVERSTORY_OBLIVIOUS_KEYS={keys}", "OVERSTORY_COMPACT_EVERY=1")
        )
        self.period = METRIC.period.number(time.time())
        self.batches: dict[bytes, bytes] = {}  # of each batch: the release that brought it first
        self.unanswered = 0

    def sealed(self, batch):
        return sealed_quickly(upload("hidden", period=self.period, batch=batch), token=self.token)

    def post(self, body):
        headers = {"Content-Type": RELEASE_TYPE, "Authorization": f"Bearer {self.relay}"}
        url = f"{self.collector.url}/v1/oblivious/release"
        answer = httpx.post(url, content=body, headers=headers, timeout=30, trust_env=False)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def release(self, *, kill):
        release = secrets.token_bytes(16)
        repeated = self.rng.sample(list(self.batches), min(20, len(self.batches)))  # a device that sent twice
        batches = [*(batch_id() for _ in range(PART - len(repeated))), *repeated]
        self.rng.shuffle(batches)
        messages = [self.sealed(batch) for batch in batches]
        killer = threading.Timer(self.rng.uniform(0.0, 0.4), self.collector.kill) if kill else None
        if killer is not None:
            killer.start()
        while messages:
            try:
                counted = self.post(Release(release, tuple(messages)).encode())
            except httpx.TransportError:
                self.unanswered += 1
                assert killer is not None
                killer.join()
                self.collector.start()
                continue
            assert counted["refused"] == {}, counted
            assert counted["taken"] == len(messages) - len(counted["again"])
            messages = [messages[place] for place in counted["again"]]
        if killer is not None:
            killer.join()
            if self.collector.address is None:
                self.collector.start()
        for batch in batches:
            self.batches.setdefault(batch, release)

    def balance(self):
        with open_store(self.url, METRICS) as store:
            counts = store.counts(METRIC, self.period, self.period)[self.period]
            released = store.releases("hidden", self.period, self.period)[self.period]
        sizes = {}
        for release in self.batches.values():
            sizes[release] = sizes.get(release, 0) + 1
        assert counts.num_reports == len(self.batches) == released.reports
        assert (released.releases, released.smallest) == (len(sizes), min(sizes.values()))


@pytest.mark.parametrize("rounds", [2, pytest.param(30, marks=pytest.mark.slow)])
def test_a_killed_collector_states_its_releases_exactly(tmp_path, rounds):
    books = Rounds(tmp_path, seed=rounds)
    with books.collector:
        for _ in range(rounds):
            books.release(kill=True)
            books.balance()
        books.release(kill=False)
        books.balance()
    assert books.unanswered or rounds < 5  # some of many kills fell into a post


def test_books_that_are_one_report_off_do_not_balance(tmp_path):
    books = Rounds(tmp_path, seed=1)
    with books.collector:
        books.release(kill=False)
    books.balance()
    books.batches[b"missing"] = next(iter(books.batches.values()))
    with pytest.raises(AssertionError):
        books.balance()
