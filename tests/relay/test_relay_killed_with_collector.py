"""Relay and collector, both real and both killed at random, and devices that send until they are answered.

A message whose answer was lost is sent again, sealed anew: two of it may wait in the spool, and leave with two
releases. What the collector counts is what was sent, each once.

OVERSTORY_KILLS=200 kills as often as it says:

    OVERSTORY_KILLS=200 python -m pytest -m slow tests/relay/test_relay_killed_with_collector.py
"""

import os
import random
import sqlite3
import threading
import time
from collections import Counter
from contextlib import closing

import pytest

from overstory.client.upload.delivery import oblivious_transport
from overstory.client.upload.http import Request, http_transport
from overstory.protocol.metrics import parse_registry
from overstory.protocol.wire.upload import MEDIA_TYPE, Upload, encode_reports, encode_upload
from support.collector_in_process import Words
from support.eavesdroppers import listening_in
from support.misfortunes import until
from support.relayed_devices import METRIC, NAMES, collecting
from support.relays import RelayProcess, shuffling
from support.rounds import rounds
from support.store_samples import ids_in_file

pytestmark = pytest.mark.slow

LEAST = 5
KILLS = rounds(10)


class Senders:
    def __init__(self, site, relay, seed):
        registry = parse_registry(site.registry.replace("RELAY", relay))
        self._metric, self._token = registry[METRIC], site.tokens["write"]
        self._send = oblivious_transport(registry.oblivious, http_transport({}))
        self._draws, self._lock = random.Random(seed), threading.Lock()
        self.sent, self.again, self.over = Counter(), 0, threading.Event()

    def upload(self):
        with self._lock:
            value, seed = self._draws.randrange(len(NAMES)), self._draws.random()
            self.sent[NAMES[value]] += 1
        report = self._metric.mechanism.randomize(value, Words(random.Random(seed)))
        packed = encode_reports(self._metric.mechanism, [report])
        return encode_upload(Upload(os.urandom(16), METRIC, self._metric.period.number(time.time()), packed))

    def deliver(self):
        body = self.upload()
        while True:
            request = Request("http://collector.example/v1/reports", body, MEDIA_TYPE, self._token, timeout=10)
            answer = self._send(request)
            if answer.status == (202 if answer.relay else 200):
                return
            self.again += 1
            time.sleep(0.05)

    def run(self):
        while not self.over.is_set():
            self.deliver()


@pytest.mark.parametrize("shuffle", [True, False], ids=["shuffle", "pass-through"])
def test_every_report_is_counted_once_however_both_are_killed(tmp_path, shuffle):
    draws, relayed = random.Random(3), tmp_path / "relay"
    relayed.mkdir()
    with collecting(tmp_path / "collector") as site, listening_in(site.collector.address) as behind:
        with listening_in(("127.0.0.1", 1)) as before:
            options = shuffling(relayed, least=LEAST, every="0.2s") if shuffle else ["OVERSTORY_RELAY_PER_HOUR=1000000"]
            (relayed / "relay-token").write_text(site.tokens["relay"])
            relay = RelayProcess("http://{}:{}".format(*behind.address), options)
            senders = Senders(site, "http://{}:{}/".format(*before.address), seed=4)
            threads = [threading.Thread(target=senders.run) for _ in range(2)]
            before.to = relay.start(relayed / "log")
            for thread in threads:
                thread.start()
            for _ in range(KILLS):
                time.sleep(draws.uniform(0.0, 1.0))
                if draws.random() < 0.7:
                    relay.kill()
                    before.to = relay.start(relayed / "log")
                else:
                    site.collector.kill()
                    behind.to = site.collector.start()
            senders.over.set()
            for thread in threads:
                thread.join()
            for _ in range(LEAST):  # enough for a last release
                senders.deliver()
            sent = senders.sent
            until(lambda: site.counts().total() >= sent.total(), 60)
            assert relay.stop() == 0
        assert site.counts() == sent
        assert site.collector.stop() == 0
        with closing(sqlite3.connect(site.store)) as store:
            assert len(ids_in_file(store)) == sent.total()
            released = store.execute("select sum(messages) from releases where release <> x''").fetchone()
            assert released == (sent.total() if shuffle else None,)
    assert senders.again > 5, "answers were lost"
    assert senders.sent.total() > 40
