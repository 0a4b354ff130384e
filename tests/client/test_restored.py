"""A state that goes back, or is in two places: the same period and value are the same upload, which counts once."""

import os
import shutil

import pytest
from test_true_values import metric_of

from overstory.client import Outcome
from overstory.client.randomizer import Randomizer
from overstory.client.upload.http import Response
from overstory.protocol.kinds.base import Report
from overstory.protocol.metrics import MetricRegistry
from overstory.protocol.sampling import SystemEntropy
from support.collector_doubles import CountingCollector
from support.devices import DAY, NOON, Clock, device, queue_report, registry, rows_of

RESTORED = {"rappor": 50}
A_FEW = 8
METRICS = {
    "rappor": ("rappor", ["{f = 0.5}"], "a page"),
    "f = 0": ("rappor", ["{f = 0.0, p = 0.25, q = 0.75}"], "a page"),
    "wb": ("wb", ["{epsilon = 1.0, window = 4}"], 3),
    "opt-wb": ("opt-wb", ["{epsilon = 1.0, window = 4}"], 3),
    "l-grr": ("l-grr", ["{epsilon_permanent = 2.0, epsilon_report = 1.0}"], 3),
    "grr": ("grr", ["{epsilon = 1.0}"], 3),
}


def one_metric(name):
    oracle, parameters, value = METRICS[name]
    return MetricRegistry({"m": metric_of(oracle, parameters)}, "now"), value


def sends(folder, clock, metrics, collector):
    return device(folder, clock=clock, registry=metrics, choice=None, server="http://c", transport=collector, spread=0)


def restored_again_and_again(folder, metrics, value, collector, times=A_FEW):
    """A folder put back from one backup so many times; each time a report of one day is made and sent."""
    clock = Clock()
    client = device(folder, clock=clock, registry=metrics, server="http://c", transport=collector, spread=0)
    client.record("m", value)
    client.close()
    shutil.copytree(folder / "state", folder / "backup")
    clock.tomorrow()
    for _ in range(times):
        shutil.rmtree(folder / "state")
        shutil.copytree(folder / "backup", folder / "state")
        client = sends(folder, clock, metrics, collector)
        assert client.record("m", value) is Outcome.RECORDED
        client.close()
    return collector.bodies[1:]


@pytest.mark.parametrize("name", METRICS)
def test_a_day_reported_again_after_every_restore_is_one_upload(tmp_path, name):
    metrics, value = one_metric(name)
    collector = CountingCollector()
    times = RESTORED.get(name, A_FEW)
    bodies = restored_again_and_again(tmp_path, metrics, value, collector, times)
    assert len(bodies) == times
    assert len(set(bodies)) == 1
    assert len(collector.counted) == 2  # the day of before, and this one


def test_a_device_that_draws_its_noise_from_the_system_is_caught(tmp_path, monkeypatch):
    def drawn(self, _, permanent):
        return os.urandom(16), Report(self.cohort, self._instantaneous(permanent, SystemEntropy().bits))

    monkeypatch.setattr(Randomizer, "report_in", drawn)
    metrics, value = one_metric("opt-wb")
    bodies = restored_again_and_again(tmp_path, metrics, value, CountingCollector())
    assert len(set(bodies)) == A_FEW


def test_two_days_two_values_and_two_metrics_share_nothing():
    """What makes the second round fresh: its stream differs in every part of what it is about."""
    built = metric_of("rappor", ["{f = 0.5}"]).mechanism
    one, other = (Randomizer(built, secret=bytes(32), metric=name) for name in ("m", "n"))
    again = Randomizer(built, secret=bytes(32), metric="m")
    permanent, another = one.permanent("a"), one.permanent("b")
    assert one.report_in(7, permanent) == again.report_in(7, permanent)
    asked = [one.report_in(7, permanent), one.report_in(8, permanent), one.report_in(7, another)]
    asked += [other.report_in(7, permanent), Randomizer(built, secret=b"1" * 32, metric="m").report_in(7, permanent)]
    elsewhere = Randomizer(built, secret=bytes(32), metric="m", cohort=(one.cohort + 1) % built.num_cohorts)
    asked.append(elsewhere.report_in(7, permanent))
    assert len({batch for batch, _ in asked}) == len({report.bits for _, report in asked}) == len(asked)


def test_a_state_whose_copy_has_reported_says_so(tmp_path):
    metrics, value = one_metric("rappor")
    collector = CountingCollector()
    restored_again_and_again(tmp_path, metrics, value, collector)
    client = sends(tmp_path, Clock(NOON + DAY), metrics, collector)
    (said,) = client.status().caveats
    assert "restored from a backup, or copied" in said
    assert "at least" in said
    assert said in list(client.status().words())


def test_a_state_that_sent_its_reports_itself_does_not(tmp_path):
    """A retry whose first answer was lost is a duplicate too, and no sign of a copy."""
    metrics, value = one_metric("rappor")
    collector, clock, lost = CountingCollector(), Clock(), [True]

    def forgetful(request):
        answer = collector(request)
        return Response(503) if lost.pop() else answer

    lost[:] = [False, True]
    client = device(tmp_path, clock=clock, registry=metrics, server="http://c", transport=forgetful, spread=0)
    queue_report(client, "m", value)
    clock.now += 12 * 3600
    assert client.flush().sent.sent == 1
    assert len(collector.bodies) == 2
    assert [row.answer for row in rows_of(client)] == ["duplicate"]
    assert client.status().caveats == ()


def test_the_system_is_asked_for_randomness_once(tmp_path, monkeypatch):
    """Law 2: on a device all randomness of reports comes from the secret, and the secret from the system."""
    asked = []
    real = os.urandom
    monkeypatch.setattr(os, "urandom", lambda count: asked.append(count) or real(count))
    monkeypatch.setattr("overstory.protocol.sampling._from_system", lambda count: asked.append(count) or real(count))
    client = device(tmp_path, registry=registry())
    assert client.record("colour", "red") is Outcome.RECORDED
    assert client.record("engine", "x") is Outcome.RECORDED
    client.flush()
    assert asked.count(32) == 1
    assert not any(count == 16 for count in asked)
    SystemEntropy().bits(64)
    assert asked[-1] == 8, "the test sees what is asked"
