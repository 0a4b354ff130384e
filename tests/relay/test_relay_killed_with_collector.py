"""Relay, collector and devices, all real and all killed at random, and devices that send until they are answered.

A message whose answer was lost is sent again, sealed anew: two of it may wait in the spool, and leave with two
releases. What the collector counts is what was sent, each once.

OVERSTORY_KILLS=200 kills as often as it says:

    OVERSTORY_KILLS=200 python -m pytest -m slow tests/relay/test_relay_killed_with_collector.py
"""

import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from overstory.client.upload.delivery import oblivious_transport
from overstory.client.upload.http import Request, http_transport
from overstory.protocol.metrics import parse_registry
from overstory.protocol.wire.upload import MEDIA_TYPE, Upload, encode_reports, encode_upload
from support.collector_in_process import Words
from support.eavesdroppers import listening_in
from support.relayed_devices import METRIC, NAMES, collecting
from support.relays import RelayProcess, shuffling
from support.rounds import rounds
from support.store_samples import ids_in_file

pytestmark = pytest.mark.slow

LEAST = 5
KILLS = rounds(10)
PROGRAM = Path(__file__).parents[1] / "support" / "device_program.py"


class KilledDevices:
    """Programs of `support.device_program` with one report each; one runs at a time, and is killed."""

    def __init__(self, site, relay, draws):
        self._folder, self._token, self._draws = site.folder.parent, site.tokens["write"], draws
        self._registry, self._began = self._folder / "of-devices.toml", time.time()
        self._registry.write_text(site.registry.replace("RELAY", relay))
        self.sent, self.killed, self._unfinished = Counter(), 0, []

    def _start(self, number):
        state, value = self._folder / f"device-{number}", NAMES[number % len(NAMES)]
        what = state, self._registry, "http://collector.example", value, self._began, 1, METRIC, self._token
        return subprocess.Popen([sys.executable, str(PROGRAM), *map(str, what)])

    def start(self):
        """Start a device of its own, and return after a part of the time that one takes."""
        number = self.sent.total()
        self.sent[NAMES[number % len(NAMES)]] += 1
        self._running = self._start(number)
        time.sleep(self._draws.uniform(0, self._takes))

    def measure(self):
        """Let a device send undisturbed, and note how long it takes."""
        self._takes = 0.0
        began = time.monotonic()
        self.start()
        self.wait()
        self._takes = time.monotonic() - began

    def kill(self):
        if self._running.poll() is None:
            self._running.kill()
            self.killed += 1
        self.wait()

    def wait(self):
        if self._running.wait(60) != 0:
            self._unfinished.append(self.sent.total() - 1)

    def finish(self):
        for number in self._unfinished:
            until = time.monotonic() + 120  # the outbox may be leased to one that was killed
            while self._start(number).wait(60) != 0:
                assert time.monotonic() < until


class Senders:
    """Devices in two threads, each of which sends one upload after the other until it is answered."""

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
            devices = KilledDevices(site, "http://{}:{}/".format(*before.address), draws)
            devices.measure()
            rounds_over = 0
            while rounds_over < KILLS or devices.killed <= KILLS // 4:
                rounds_over += 1
                time.sleep(draws.uniform(0.0, 1.0))
                devices.start()
                of_relay, first = draws.random() < 0.7, draws.random() < 0.5
                (relay if of_relay else site.collector).kill()
                if first:  # what it sends to is not there: it cannot be done
                    devices.kill()
                if of_relay:
                    before.to = relay.start(relayed / "log")
                else:
                    behind.to = site.collector.start()
                if not first:
                    devices.kill()
            senders.over.set()
            for thread in threads:
                thread.join()
            devices.finish()
            for _ in range(LEAST):  # enough for a last release
                senders.deliver()
            sent = senders.sent + devices.sent
            until = time.monotonic() + 60
            while site.counts().total() < sent.total() and time.monotonic() < until:
                time.sleep(0.2)
            assert relay.stop() == 0
        assert site.counts() == sent
        assert site.collector.stop() == 0
        with closing(sqlite3.connect(site.store)) as store:
            assert len(ids_in_file(store)) == sent.total()
            released = store.execute("select sum(messages) from releases where release <> x''").fetchone()
            assert released == (sent.total() if shuffle else None,)
    assert senders.again > 5, "answers were lost"
    assert senders.sent.total() > 40
