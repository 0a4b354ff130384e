"""From devices to the store, each killed and started again at random: every period of every device is counted once.

The metric's second round changes nothing, so a device that holds one value sends the same bits in every period if its
permanent response is the same. Then all periods of the store hold equal counts, bit for bit: a lost report, a doubled
one, or a permanent response drawn anew would each show.
"""

import asyncio
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from overstory.collector.store import open_store
from overstory.protocol.metrics import MetricRegistry, load_registry
from support.collector_in_process import METRICS as SERVED
from support.collector_in_process import NOW, FakeStore
from support.collector_processes import CollectorProcess
from support.device_program import METRIC
from support.devices import Clock, device
from support.faulty_network import FaultyNetwork
from support.registry_texts import plain_registry
from support.served import served

PROGRAM = Path(__file__).parents[1] / "support" / "device_program.py"
REGISTRY = plain_registry(
    "colours",
    oracle='"basic-rappor-one-time"',
    domain='{kind = "integers", min = 0, max = 15, outside = "reject"}',
    parameters="{f = 0.5}",
    grace_days="60",
    expires="2999-01-01",
)
PERIODS = 4


def program(folder, number, registry, server, beginning):
    told = [folder / f"device-{number}", registry, server, number % 16, beginning, PERIODS]
    return [sys.executable, str(PROGRAM), *map(str, told)]


async def killed_device(command, chance, kills):
    killed = 0
    for _ in range(kills):
        process = await asyncio.create_subprocess_exec(*command)
        await asyncio.sleep(chance.uniform(0.15, 0.9))
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
            killed += 1
        await process.wait()
    for _ in range(3):  # a start that finds the outbox leased by a dead one may have to come again
        process = await asyncio.create_subprocess_exec(*command, stderr=subprocess.PIPE)
        _, said = await process.communicate()
        if process.returncode == 0:
            return killed
    raise AssertionError(said.decode())


async def live(url, folder, *, devices, kills, restarts, seed):
    registry = folder / "metrics.toml"
    registry.write_text(REGISTRY)
    chance = random.Random(seed)
    collector = CollectorProcess(registry, url)
    await asyncio.to_thread(collector.start)
    network = FaultyNetwork(lambda: [collector.address] if collector.address is not None else [], seed=seed)
    beginning = time.time() - 20 * 86_400
    try:
        async with network.listening() as (host, port):
            server = f"http://{host}:{port}"
            commands = [program(folder, number, registry, server, beginning) for number in range(devices)]
            running = [asyncio.create_task(killed_device(command, random.Random(seed), kills)) for command in commands]
            for _ in range(restarts):
                await asyncio.sleep(chance.uniform(0.2, 0.8))
                collector.kill()
                await asyncio.to_thread(collector.start)
            return sum(await asyncio.gather(*running))
    finally:
        collector.kill()


def balance(url, folder, devices):
    registry = load_registry(folder / "metrics.toml")
    metric = registry[METRIC]
    with open_store(url, registry) as store:
        periods = store.periods(METRIC)
        counts = store.counts(metric, min(periods), max(periods))
    assert len(counts) == PERIODS
    first, *others = counts.values()
    assert first.num_reports == devices
    for other in others:
        assert other.num_reports == devices
        np.testing.assert_array_equal(other.ones, first.ones)


def test_a_few_devices(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    killed = asyncio.run(live(url, tmp_path, devices=2, kills=2, restarts=1, seed=31))
    assert killed >= 2
    balance(url, tmp_path, devices=2)


def test_the_balance_shows_a_report_too_many(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    asyncio.run(live(url, tmp_path, devices=1, kills=0, restarts=0, seed=32))
    balance(url, tmp_path, devices=1)
    with pytest.raises(AssertionError):
        balance(url, tmp_path, devices=2)


@pytest.mark.slow
def test_many_devices_killed_two_hundred_times(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    killed = asyncio.run(live(url, tmp_path, devices=8, kills=30, restarts=10, seed=33))
    assert killed >= 200
    balance(url, tmp_path, devices=8)


# A real collector and its store count the reports of a state that was restored, or copied, once
# A client that is rolled out before its collector is ready for it loses nothing
BEFORE = MetricRegistry({name: SERVED[name] for name in ("bloom", "colour")}, "before")


class Device:
    def __init__(self, folder, *metrics):
        self.folder, self.clock = folder, Clock(NOW)
        with self.client() as client:
            client.consent("on")
            for metric in metrics:
                assert client.record(metric, "red" if metric == "colour" else 7) == "recorded"

    def client(self, **settings):
        return device(self.folder, clock=self.clock, choice=None, registry=SERVED, spread=0, **settings)

    def flush(self, address, path="", token=""):
        with self.client(server=f"http://{address[0]}:{address[1]}{path}", token=token) as client:
            client.consent("on")  # to this collector
            client.flush()
            status = client.status()
        self.clock.tomorrow()
        return status


def test_a_client_that_comes_before_its_metrics_loses_no_report(tmp_path):
    device, store = Device(tmp_path, "colour", "hashed", "chosen"), FakeStore()
    with served(store=store, metrics=BEFORE) as (_, address):
        status = device.flush(address)
    assert {one.metric for one in store.kept.values()} == {"colour"}
    assert (status.outbox["waiting"], status.dropped) == (2, {})
    assert status.problem == "the collector refuses chosen, hashed (unknown-metric) since 2026-11-21"
    with served(store=store, port=address[1]) as (_, address):
        for _ in range(3):
            status = device.flush(address)
    assert {one.metric for one in store.kept.values()} == {"colour", "hashed", "chosen"}
    assert (status.outbox["waiting"], status.outbox["sent"], status.problem) == (0, 3, None)


def test_a_token_that_is_wrong_and_a_path_that_is_mistyped_lose_no_report(tmp_path):
    device, store = Device(tmp_path, "colour"), FakeStore()
    problems = []
    with served(store=store, open_writes=False) as (_, address):
        problems += [device.flush(address).problem, device.flush(address, token="wrong").problem]
    with served(store=store, port=address[1]) as (_, address):
        problems += [device.flush(address, path="/typo").problem, device.flush(address).problem]
    assert problems == [
        "the collector refuses (no-token) since 2026-11-21",
        "the collector refuses (unknown-token) since 2026-11-22",
        "the answers are not the collector's (http-404, not-found) since 2026-11-23",
        None,
    ]
    assert [one.metric for one in store.kept.values()] == ["colour"]
