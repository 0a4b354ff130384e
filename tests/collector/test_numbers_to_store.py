"""Numbers, live: real devices over HTTP to a collector that is killed, a store that compacts, and what is read of it.

A device that holds one value sends the same report in every period. So all periods hold equal counts, pair for pair and
bucket for bucket, if no report is lost, doubled or drawn again.
"""

import json
import shutil
import time

import numpy as np
import pytest

from overstory.client import Client, Outcome
from overstory.collector.store import open_store
from overstory.protocol.metrics import load_registry
from support.collector_processes import CollectorProcess
from support.registry_texts import registry_of
from support.running import within

REST = {"period": '"day"', "grace_days": "60", "expires": "2999-01-01", "max_values": "2", "over_cap": '"nearest"'}
ROOM = '{kind = "interval", min = -10, max = 50}'
REGISTRY = registry_of(
    {
        "temperature": {"domain": ROOM, "oracle": '"hybrid"', "parameters": "{epsilon = 4.0, resolution = 60}"},
        "energy": {"domain": ROOM, "oracle": '"square-wave"', "parameters": "{epsilon = 4.0, resolution = 60}"},
        "age": {
            "domain": '{kind = "integers", min = 0, max = 19}',
            "oracle": '"ranges"',
            "parameters": "{epsilon = 4.0}",
        },
    },
    **REST,
)
DEVICES, PERIODS = 24, 3


def held(number):
    """Return what a device holds: one of them a value that is none."""
    nothing = number == DEVICES - 1
    return {
        "temperature": float("nan") if nothing else 18.3 + number % 4,
        "energy": float("inf") if nothing else number * 2.0,
        "age": None if nothing else number % 20,
    }


def record_and_send(state, registry, server, number, now):
    """Live through one day on one device; return the outcomes."""
    settings = {"environ": {}, "policy": state / "no-policy", "spread": 0.0}
    with Client("device", registry=registry, server=server, state=state, clock=lambda: now, **settings) as client:
        client.consent("on")
        outcomes = {metric: client.record(metric, value) for metric, value in held(number).items()}
        client.flush(timeout=10.0)
        if client.status().outbox.get("waiting"):
            raise AssertionError("a report still waits")
        return outcomes


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    """A registry and a store, after three days in which the collector was killed and devices repeated themselves."""
    folder = tmp_path_factory.mktemp("numbers")
    registry, url = folder / "metrics.toml", f"sqlite:///{folder / 'store.db'}"
    registry.write_text(REGISTRY)
    collector = CollectorProcess(registry, url)
    beginning, outcomes = time.time() - 10 * 86_400, []
    for day in range(PERIODS):
        collector.start()
        for number in range(DEVICES):
            state, before = folder / f"device-{number}", folder / f"before-{number}"
            if day == 1 and number % 3 == 0:
                shutil.copytree(state, before)
            sent = record_and_send(state, registry, collector.url, number, beginning + day * 86_400)
            outcomes.append((number, sent))
            if before.exists():  # a copy of the device repeats the very same uploads
                record_and_send(before, registry, collector.url, number, beginning + day * 86_400)
        collector.kill()
    return folder, registry, url, outcomes


def test_a_value_that_is_none_is_reported_as_nothing(lived):
    for number, sent in lived[3]:
        assert set(sent.values()) == {Outcome.UNFIT if number == DEVICES - 1 else Outcome.RECORDED}


@pytest.mark.parametrize("metric", ["temperature", "energy", "age"])
def test_every_report_is_counted_once_before_and_after_compaction(lived, metric):
    _, registry_path, url, _ = lived
    registry = load_registry(registry_path)
    with open_store(url, registry) as store:
        days = store.periods(metric)
        assert len(days) == PERIODS
        before = store.counts(registry[metric], days[0], days[-1])
        store.compact(time.time())
        after = store.counts(registry[metric], days[0], days[-1])
    for counts in (before, after):
        first, *others = counts.values()
        assert first.num_reports == DEVICES
        for other in others:
            np.testing.assert_array_equal(other.ones, first.ones)
            np.testing.assert_array_equal(other.totals, first.totals)
        assert first == before[days[0]]


def test_what_decode_says_of_a_store_and_of_its_collector(lived, monkeypatch):
    folder, registry, url, _ = lived
    asked = ("--registry", registry, "--metric", "temperature", "--json")
    of_store = json.loads(within("decode", "--store", url, *asked, cwd=folder).stdout)
    with open_store(url, load_registry(registry)) as store:
        token = store.add_token("admin", "analyst")
    with CollectorProcess(registry, url) as collector:
        monkeypatch.setenv("OVERSTORY_ADMIN_TOKEN", token)
        of_url = json.loads(within("decode", "--store", collector.url, *asked, cwd=folder).stdout)
    assert of_url == of_store
    assert of_store["reports"] == DEVICES * PERIODS
    (mean,) = of_store["readings"][0]["estimates"]
    assert mean["low"] < mean["value"] < mean["high"]
    # Secrets are drawn anew in each run: five standard errors, which chance exceeds once in a million runs.
    assert abs(mean["value"] - 20) < 5 * mean["standard_error"]


@pytest.mark.parametrize("metric", ["temperature", "energy", "age"])
@pytest.mark.parametrize("form", [(), ("--aggregate", "per-period"), ("--aggregate", "cumulative")])
def test_every_reading_is_printed_written_and_drawn(lived, tmp_path, metric, form):
    _, registry, url, _ = lived
    asked = ("decode", "--store", url, "--registry", registry, "--metric", metric, *form)
    done = within(*asked, "-o", "out", "--plot", "picture.svg", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "95% intervals for all devices like these" in done.stdout
    lines = (tmp_path / "out" / "estimates.csv").read_text().splitlines()
    assert lines[0] == "from,to,estimate,of,value,standard_error,low,high"
    assert len(lines) > len(form)
    assert "<svg" in (tmp_path / "picture.svg").read_text()


def test_two_days_are_compared(lived, tmp_path):
    _, registry, url, _ = lived
    with open_store(url, load_registry(registry)) as store:
        first, *_, last = (load_registry(registry)["energy"].period.label(day) for day in store.periods("energy"))
    asked = ("decode", "--store", url, "--registry", registry, "--metric", "energy", "--compare", last, first)
    rows = json.loads(within(*asked, "--json", cwd=tmp_path).stdout)["differences"]
    assert rows[0]["estimate"] == "mean"
    assert all(row["difference"] == pytest.approx(0) and not row["changed"] for row in rows)
    assert "difference" in within(*asked, cwd=tmp_path).stdout


def test_options_for_shares_are_refused(lived, tmp_path):
    _, registry, url, _ = lived
    asked = ("decode", "--store", url, "--registry", registry, "--metric", "temperature")
    refused = within(*asked, "--steps", "norm-sub", cwd=tmp_path)
    assert refused.returncode == 2
    assert "temperature is a metric of numbers: post-processing is for shares of values" in refused.stderr
