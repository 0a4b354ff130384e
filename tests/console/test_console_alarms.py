"""The alarms of a store, and `overstory console --check` as a process."""

import datetime as dt
import json
import time
from dataclasses import replace

import numpy as np
import pytest

from overstory.analysis.estimate import Estimate
from overstory.collector.store import open_store
from overstory.console.alarms import MetricHistory, check, find_alarms, read_history
from overstory.console.data import ConsoleData
from overstory.console.estimates.estimates import Estimates
from overstory.console.estimates.worker import Worker
from overstory.console.view import ScreenError
from overstory.protocol.metrics import load_registry
from overstory.protocol.metrics.period import DAY, WEEK, Period
from support.console_alarms import TROUBLES, make_store
from support.console_weeks import registry
from support.decoding import dead, shared_estimates
from support.running import overstory, within

NOW = dt.datetime(2026, 11, 18, 12, tzinfo=dt.UTC).timestamp()


@pytest.fixture(scope="module")
def troubled(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("troubled"), time.time(), TROUBLES)


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("quiet"), time.time())


def checked(place, cwd, run=within):
    file, url = place
    done = run("console", "--check", "--registry", file, "--store", url, cwd=cwd)
    return done, json.loads(done.stdout)


def test_a_check_of_a_store_with_every_trouble_exits_with_1_and_names_each(troubled, tmp_path):
    done, result = checked(troubled, tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    about = {(alarm["kind"], alarm["metric"]) for alarm in result["alarms"]}
    wanted = {("step", "step"), ("drift", "drift"), ("volume", "volume"), ("fit", "fit"), ("expiry", "expiry")}
    assert wanted | {("refusals", None)} <= about
    assert {metric for kind, metric in about if kind == "step"} <= {"step", "fit"}, "shares sink where a string is new"
    by_kind = {alarm["kind"]: alarm for alarm in result["alarms"] if alarm["metric"] != "fit"}
    assert by_kind["volume"]["numbers"] == {"reports": 1_200, "median": 4_000}
    assert by_kind["refusals"]["values"] == ["unknown metric"]
    assert {change["value"] for change in by_kind["step"]["numbers"]["changes"]} <= {"light", "dark"}
    assert result["amber"] + result["red"] + result["note"] == len(result["alarms"])
    assert result["amber"] >= 5
    severities = [alarm["severity"] for alarm in result["alarms"]]
    assert severities == sorted(severities, key=["red", "amber", "note"].index)


def test_a_check_of_a_quiet_store_exits_with_0(quiet, tmp_path):
    done, result = checked(quiet, tmp_path, overstory)
    assert (done.returncode, done.stderr, result["alarms"]) == (0, "", [])
    assert (result["red"], result["amber"], result["note"], result["metrics"]) == (0, 0, 0, 5)


def test_a_check_that_cannot_read_says_so_and_exits_with_2(quiet, tmp_path):
    file, _ = quiet
    done = within("console", "--check", "--registry", file, "--store", tmp_path / "none.db", cwd=tmp_path)
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (2, "", False)
    assert "none.db" in done.stderr


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("changed"), NOW, ("step", "drift"))


@pytest.fixture
def data(changed):
    file, url = changed
    with open_store(url) as store:
        made = ConsoleData(load_registry(file), store, lambda: NOW, shared_estimates(None))
        yield made
        made.decoder.close()


def test_a_metric_that_cannot_be_estimated_is_an_alarm_and_stops_no_other(data):
    metrics = dict(data.registry.metrics)
    metrics["fit"] = replace(metrics["fit"], candidates=("a", "a"))
    data.registry = replace(data.registry, metrics=metrics)
    data.decoder = Estimates(patience=None, worker=Worker(60.0, dead))
    by_kind = {alarm.kind: alarm for alarm in find_alarms(data)}
    assert by_kind["estimate"].metric == "fit"
    assert by_kind["step"].metric == "step"


def test_a_page_does_not_wait_for_the_decoding_of_its_alarms(data):
    data.decoder.patience = 0.0
    with pytest.raises(ScreenError, match="decoding") as decoding:
        find_alarms(data)
    assert decoding.value.status == 202


def test_an_ended_metric_raises_nothing(data):
    metrics = {name: replace(metric, expires=dt.date(2026, 11, 18)) for name, metric in data.registry.metrics.items()}
    data.registry = replace(data.registry, metrics=metrics)
    assert check(data) == (
        {
            "checked": "2026-11-18T12:00:00+00:00",
            "registry": "2026-11-20",
            "metrics": 5,
            "red": 0,
            "amber": 0,
            "note": 0,
            "alarms": [],
        },
        False,
    )


def test_a_silent_metric_is_red(data):
    data.clock = lambda: NOW + WEEK
    alarms = [alarm for alarm in find_alarms(data) if alarm.kind == "volume"]
    assert {(alarm.metric, alarm.severity) for alarm in alarms} == {(name, "red") for name in data.registry}


def test_a_change_that_stays_is_red_the_week_after(data):
    """The step is in the newest week; in the week after, the same shares are reported again."""
    history = read_history(data, data.registry["step"])
    estimates = {**history.estimates, history.newest + 1: history.estimates[history.newest]}
    later = MetricHistory(history.metric, history.newest + 1, history.reports, estimates)
    severities = {alarm.severity for alarm in find_alarms(data, [later]) if alarm.kind == "step"}
    assert severities == {"red"}


def empty_history(period, newest_start):
    metric = replace(registry()["theme"], period=Period.parse(period))
    return MetricHistory(metric, metric.period.number(newest_start), {}, {})


@pytest.mark.parametrize(("period", "lag"), [("week", 1), ("day", 7), ("30 minutes", 336)])
def test_a_period_is_compared_with_those_at_the_same_time_of_the_week(period, lag):
    history = empty_history(period, NOW)
    label = history.metric.period
    starts = [label.start(one) for one in history.before(history.newest)]
    assert [(label.start(history.newest) - start) / WEEK for start in starts] == list(range(1, 9))
    assert history.lag == lag
    assert len(history.wanted()) <= 26 + 13 + 27


@pytest.mark.parametrize("period", ["week", "day", "30 minutes"])
def test_a_drift_is_looked_for_in_one_week_of_13(period):
    ends = [empty_history(period, NOW + week * WEEK) for week in range(40)]
    new = [number for number, history in enumerate(ends) if history.drift_end == history.newest]
    assert np.diff(new).tolist() == [13] * (len(new) - 1)
    assert len(new) == 3
    assert all(0 <= history.newest - history.drift_end <= 12 * history.lag for history in ends)


def half_hourly(shift=0.0):
    """13 weeks of half-hours with a day and a night: what is usual at night is not at noon."""
    metric, rng = replace(registry()["theme"], period=Period.parse("30 minutes")), np.random.default_rng(5)
    newest, estimates = metric.period.number(NOW), {}
    for number in range(newest - 336 * 10, newest + 1):
        noon = np.sin(2 * np.pi * number / 48) / 4
        counts = rng.multinomial(
            5_000, [0.5 + noon + (shift if number == newest else 0.0), 0.5 - noon - shift * (number == newest)]
        )
        names = ["light", "dark"]
        estimates[number] = Estimate(
            values=names, counts=counts, raw_counts=counts, standard_errors=[20, 20], num_reports=5_000
        )
    return MetricHistory(metric, newest, dict.fromkeys(estimates, 5_000), estimates)


def test_nights_raise_no_alarm_and_a_change_at_the_same_hour_does(data):
    assert [alarm for alarm in find_alarms(data, [half_hourly()]) if alarm.kind == "step"] == []
    [alarm] = [alarm for alarm in find_alarms(data, [half_hourly(-0.1)]) if alarm.kind == "step"]
    assert alarm.period == "2026-11-18T12:00Z"


def test_refusals_are_a_share_of_about_a_day_of_reports(tmp_path):
    file, url = make_store(tmp_path, NOW, ("refusals",))
    with open_store(url) as store:
        data = ConsoleData(load_registry(file), store, lambda: NOW, shared_estimates(None))
        [alarm] = [alarm for alarm in find_alarms(data) if alarm.kind == "refusals"]
        data.decoder.close()
    # Five metrics of 4,000 reports a week, none of them final this week; 20 and 400 refusals.
    assert alarm.numbers["posts"] == round(5 * 4_000 / 7) + 420
    assert alarm.period == dt.datetime.fromtimestamp(NOW - DAY, dt.UTC).date().isoformat()
