"""Crafted reports in a store: an amber alarm of the console, and a note of an estimate."""

import datetime as dt
import json

import pytest

from overstory.analysis.reports import ReportBatch
from overstory.collector.store import open_store
from overstory.console.alarms import find_alarms
from overstory.console.data import ConsoleData
from overstory.console.estimates.estimates import Estimates
from overstory.protocol.kinds.base import Report
from overstory.protocol.metrics import load_registry
from overstory.queries.counts import read_store, with_sums
from overstory.queries.estimates import read_estimates
from support.console_alarms import make_store
from support.running import within
from support.store_samples import received_batch

NOW = dt.datetime(2026, 11, 18, 12, tzinfo=dt.UTC).timestamp()
LIARS = 120


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A quiet store, and 3% liars in its newest week who set two bits and clear all others."""
    file, url = make_store(tmp_path_factory.mktemp("liars"), NOW)
    metric = load_registry(file)["fit"]
    period = metric.period.number(NOW) - 1
    liars = ReportBatch.of(metric.mechanism, [Report(number % 4, 0b11) for number in range(LIARS)])
    with open_store(url, load_registry(file)) as store:
        assert store.add([received_batch(metric, period, liars)]) == [True]
        store.compact(NOW)
    return file, url, period


@pytest.fixture
def data(place):
    file, url, _ = place
    with open_store(url) as store:
        made = ConsoleData(load_registry(file), store, lambda: NOW, Estimates(patience=None))
        yield made
        made.decoder.close()


def test_the_console_raises_an_amber_alarm_that_says_what_it_means(data, place):
    alarms = [alarm for alarm in find_alarms(data) if alarm.kind == "crafted"]
    assert {alarm.metric for alarm in alarms} == {"fit"}
    assert {alarm.severity for alarm in alarms} == {"amber"}
    ones = next(alarm for alarm in alarms if alarm.numbers["name"] == "ones")
    assert ones.text.startswith("Reports vote for more or fewer values than honest ones do")
    assert "Not seen by this check: reports with a usual number of votes." in ones.text
    assert ones.period == data.registry["fit"].period.label(place[2])


def test_an_alarm_is_a_note_and_changes_no_number(data, place):
    metric = data.registry["fit"]
    counted = read_store(data.store, metric, place[2], place[2])
    noted, plain = (read_estimates(one) for one in (with_sums(data.store, counted), counted))
    before, after = plain.parts[0].estimate, noted.parts[0].estimate
    assert {check.name for check in noted.checks} - {check.name for check in plain.checks} == {"ones"}
    assert any(note.startswith("alarm, in 2026-W46: Reports vote for") for note in after.notes)
    assert set(before.notes) < set(after.notes)
    for name in ("counts", "raw_counts", "standard_errors", "p_values"):
        assert (getattr(before, name) == getattr(after, name)).all()


def test_decode_prints_the_alarm_and_its_stable_keys(place, tmp_path):
    file, url, _ = place
    source = ("--store", url, "--registry", file, "--metric", "fit", "--from", "2026-W46")
    text = within("decode", *source, cwd=tmp_path).stdout
    assert "note: alarm, in 2026-W46: Reports vote for more or fewer values" in " ".join(text.split())
    checks = json.loads(within("decode", *source, "--json", cwd=tmp_path).stdout)["checks"]
    assert {check["name"] for check in checks if check["alarm"]} >= {"ones"}
    keys = ["name", "period", "statistic", "p_value", "adjusted", "alarm", "means", "cannot_see"]
    assert all(list(check) == keys for check in checks)
