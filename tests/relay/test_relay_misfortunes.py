"""Ten seconds of each misfortune to a shuffling relay under load; then everything that it acknowledged is released."""

import http.client
import threading
import time

import pytest

from support.misfortunes import EVERYWHERE, SECONDS, disk_for, unlucky, until
from support.relays import RelayProcess, Senders, page, receiving, shuffling, take_all

pytestmark = pytest.mark.slow

LEAST = 20


def ready(address):
    try:
        return page(address, "/readyz")[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def lives_through(side, relay, block):
    """Let a block befall a relay that has messages waiting, and check that nothing of it stays."""
    with Senders(relay, pause=0.02) as senders:
        until(lambda: len(senders.acknowledged) > 2 * LEAST)
        with block:
            time.sleep(SECONDS)
        before, parts = len(senders.acknowledged), len(side.parts)
        until(lambda: len(senders.acknowledged) > before + 3 * LEAST)
        until(lambda: len(side.parts) > parts)
    until(lambda: ready(relay.address))
    acknowledged = set(senders.acknowledged)
    until(lambda: senders.once() and acknowledged <= side.counted.keys())  # others come until a last release is full
    assert senders.statuses <= {202, 503}
    assert all(len(ids) == 1 for ids in side.ids.values()), "a message left with two releases"
    assert relay.stop() == 0


@pytest.mark.parametrize("name", EVERYWHERE)
def test_after_ten_seconds_of_it_every_message_is_released(name, tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir(mode=0o700)
    with receiving() as side, disk_for(name, folder):
        relay = RelayProcess(side.url, shuffling(folder, least=LEAST, every="1s"), unlucky(folder, "relay"))
        relay.start(tmp_path / "log")
        try:
            lives_through(side, relay, EVERYWHERE[name](relay.pid, folder))
        finally:
            relay.kill()
        log = (tmp_path / "log").read_text()
        assert "Traceback" not in log
        assert "dropped" not in log


class Hanging:
    """A collector that gives no answer for a while, after it has taken what came."""

    def __init__(self):
        self.hangs, self.over = False, threading.Event()

    def __call__(self, release):
        if self.hangs:
            self.over.wait(60)
        return take_all(release)

    def __enter__(self):
        self.hangs = True

    def __exit__(self, *_):
        self.hangs = False
        self.over.set()


def test_a_collector_that_hangs_holds_up_no_message(tmp_path):
    peer = Hanging()
    with receiving(peer) as side:
        relay = RelayProcess(side.url, shuffling(tmp_path, least=LEAST, every="1s"))
        relay.start(tmp_path / "log")
        try:
            lives_through(side, relay, peer)
        finally:
            relay.kill()
