"""The alarms of a store, of a year of half-hours and of crafted reports; `overstory console --check` as a process."""

import datetime as dt
import json
import subprocess
import sys
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from overstory.analysis.estimate import Estimate
from overstory.analysis.reports import ReportBatch
from overstory.collector.store import open_store
from overstory.console.alarms import MetricHistory, find_alarms, read_history
from overstory.console.data import ConsoleData, Estimates, Worker, WorkerError
from overstory.console.screens.overview import OverviewQuery, show_board
from overstory.console.screens.series import ASK_AGAIN, SeriesQuery, show_series
from overstory.console.view import ScreenError
from overstory.presentation.document import Notice
from overstory.protocol.kinds.base import Report
from overstory.protocol.metrics import load_registry, parse_registry
from overstory.protocol.metrics.period import DAY, WEEK, Period
from overstory.queries.counts import read_store
from overstory.queries.estimates import read_estimates
from support.console_alarms import TROUBLES, batch_of, make_store
from support.console_weeks import registry
from support.decoding import shared_estimates
from support.estimates import estimate_of
from support.registry_texts import plain_registry
from support.running import overstory, within
from support.store_samples import received_batch

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


def test_a_check_can_call_a_web_hook(troubled, quiet, tmp_path):
    """The line of docs/how-to/console.md, by a real shell and a real request; a quiet store calls nobody."""
    text = Path(__file__).parents[2].joinpath("docs/how-to/console.md").read_text()
    line = next(line for line in text.splitlines() if "curl" in line)
    received = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self):
            received.append((self.path, json.loads(self.rfile.read(int(self.headers["content-length"])))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Hook) as hook:
        Thread(target=hook.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{hook.server_port}/hook"
        for file, url in (quiet, troubled):
            here = line.replace("overstory", f"{sys.executable} -m overstory", 1)
            for named, real in (
                ("metrics.toml", file),
                ("reports.db", url),
                ("https://chat.example.org/hook", address),
            ):
                here = here.replace(named, str(real))
            subprocess.run(["sh", "-c", here], cwd=tmp_path, check=True)
        hook.shutdown()
    ((path, told),) = received
    assert path == "/hook"
    assert told["amber"] >= 5


def test_a_check_of_a_quiet_store_exits_with_0(quiet, tmp_path):
    done, result = checked(quiet, tmp_path, overstory)
    assert (done.returncode, done.stderr, result["alarms"]) == (0, "", [])
    assert (result["red"], result["amber"], result["note"], result["metrics"]) == (0, 0, 0, 5)


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


class BrokenWorker(Worker):
    def estimate(self, task):
        raise WorkerError("the process that decodes ended without a word")


def test_a_metric_that_cannot_be_estimated_is_an_alarm_and_stops_no_other(data):
    metrics = dict(data.registry.metrics)
    metrics["fit"] = replace(metrics["fit"], candidates=("a", "a"))
    data.registry = replace(data.registry, metrics=metrics)
    data.decoder = Estimates(patience=None, worker=BrokenWorker())
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
    assert find_alarms(data) == []


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


def test_a_change_is_said_at_once_and_is_provisional_until_its_period_is_final(data):
    metrics = {name: replace(metric, grace_days=30) for name, metric in data.registry.metrics.items()}
    [final] = [alarm for alarm in find_alarms(data) if alarm.kind == "step"]
    data.registry = replace(data.registry, metrics=metrics)
    [early] = [alarm for alarm in find_alarms(data) if alarm.kind == "step"]
    assert (final.is_provisional, early.is_provisional) == (False, True)
    assert replace(early, is_provisional=False) == final
    blocks = show_board(data, OverviewQuery()).blocks
    [notice] = [block for block in blocks if isinstance(block, Notice) and ": step" in block.text]
    assert notice.text.startswith("Amber, provisional: step, Title of step, week of 9 November. ")
    assert notice.tone == "warn", "red looks otherwise"
    data.clock = lambda: NOW + 31 * DAY  # late reports have come, and reports of later weeks have not
    assert final in find_alarms(data)


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


@pytest.mark.parametrize(
    ("panel", "apart"), [('panel = {cycle = "year"}\n', True), ('panel = {cycle = "quarter"}\n', False), ("", False)]
)
def test_a_drift_is_of_other_devices_where_its_26_weeks_are_of_one_cycle(panel, apart):
    metric = parse_registry(panel + plain_registry("tree", period='"week"'))["tree"]
    estimates = {week: estimate_of([600, 400]) for week in range(2_950, 3_026)}
    history = MetricHistory(metric, 3_025, dict.fromkeys(estimates, 1), estimates)
    assert history.drift_comparison().apart is apart


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


YEAR = 17_520


def half_hours():
    parsed = registry(candidates=3, grace=0)
    theme = replace(parsed["theme"], period=Period.parse("30 minutes"))
    return replace(parsed, metrics={"theme": theme, "pages": parsed["pages"]})


def batches(metric, periods, newest):
    usual, odd = np.repeat([0, 1], [50, 10]), np.repeat([0, 1], [10, 50])
    before, after = (batch_of(metric, newest, held, np.random.default_rng(3), b"") for held in (usual, odd))
    for period in periods:
        sent = after if period >= newest else before
        yield sent._replace(period=period, batch=period.to_bytes(16, "big"))


@pytest.fixture(scope="module")
def year(tmp_path_factory):
    metrics, url = half_hours(), str(tmp_path_factory.mktemp("year") / "store.db")
    theme, newest = metrics["theme"], metrics["theme"].newest_final(NOW)
    with open_store(url, create=True) as store:
        store.remember(metrics)
        store.add(list(batches(theme, range(newest - YEAR + 1, newest + 1), newest)))
        weeks = range(metrics["pages"].period.number(NOW) - 9, metrics["pages"].period.number(NOW))
        rng = np.random.default_rng(5)
        store.add([batch_of(metrics["pages"], week, np.zeros(200, int), rng, b"week%d" % week) for week in weeks])
        data = ConsoleData(metrics, store, lambda: NOW, shared_estimates(None))
        yield data
        data.decoder.close()


def test_a_year_of_half_hours_takes_well_under_a_second_and_only_what_is_compared_is_read(year, monkeypatch):
    history, counts, asked = read_history(year, year.registry["theme"]), year.store.counts, []

    def counting(metric, *wanted):
        answer = counts(metric, *wanted)
        asked.append((metric.id, len(answer)))
        return answer

    monkeypatch.setattr(year.store, "counts", counting)
    alarms = find_alarms(year)
    assert ("step", "theme", "amber") in {(alarm.kind, alarm.metric, alarm.severity) for alarm in alarms}
    begin = time.process_time()
    assert find_alarms(year)
    assert time.process_time() - begin < 1.5, "13 s where every period asked which one is the newest"
    assert len(history.reports) == YEAR
    assert asked == 2 * [("theme", len(history.wanted())), ("pages", 9)]


def notices(view):
    return [block.text for block in view.blocks if type(block).__name__ == "Notice"]


def test_the_page_of_a_metric_shows_its_alarms_and_asks_again_while_others_are_decoded(year, monkeypatch):
    monkeypatch.setattr(year, "decoder", Estimates(patience=0.0))
    path, query = {"metric": "theme"}, SeriesQuery(first="2026-11-18")
    early = show_series(year, query, **path)
    assert notices(early)[0].startswith("Alarms are not there yet")
    assert early.refresh == ASK_AGAIN
    year.decoder.patience = None
    late = show_series(year, query, **path)
    year.decoder.close()
    assert notices(late)[0].startswith("Amber: step, 18 November, 10:30 UTC. ")
    assert late.refresh == 0


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
def liars_data(place):
    file, url, _ = place
    with open_store(url) as store:
        made = ConsoleData(load_registry(file), store, lambda: NOW, Estimates(patience=None))
        yield made
        made.decoder.close()


def test_the_console_raises_an_amber_alarm_that_says_what_it_means(liars_data, place):
    alarms = [alarm for alarm in find_alarms(liars_data) if alarm.kind == "crafted"]
    assert {alarm.metric for alarm in alarms} == {"fit"}
    assert {alarm.severity for alarm in alarms} == {"amber"}
    ones = next(alarm for alarm in alarms if alarm.numbers["name"] == "ones")
    assert ones.text.startswith("Reports vote for more or fewer values than honest ones do")
    assert "Not seen by this check: reports with a usual number of votes." in ones.text
    assert ones.period == liars_data.registry["fit"].period.label(place[2])


def test_an_alarm_is_a_note_and_changes_no_number(liars_data, place):
    metric = liars_data.registry["fit"]
    counted = (
        read_store(liars_data.store, metric, place[2], place[2], has_sums=has_sums) for has_sums in (True, False)
    )
    noted, plain = map(read_estimates, counted)
    before, after = plain.parts[0].estimate, noted.parts[0].estimate
    assert {check.name for check in noted.checks} - {check.name for check in plain.checks} == {"ones"}
    assert any(note.startswith("alarm, in 2026-W46: Reports vote for") for note in after.notes)
    assert set(before.notes) < set(after.notes)
    for name in ("counts", "raw_counts", "standard_errors", "p_values"):
        assert (getattr(before, name) == getattr(after, name)).all()
