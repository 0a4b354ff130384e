"""What pages and commands say of a panel: what intervals are of, who is asked, how many devices there are."""

from __future__ import annotations

import json
import re

import pytest

from overstory.console.alarms import MetricHistory
from overstory.console.data import ConsoleData
from overstory.protocol.metrics import load_registry, parse_registry
from support.console_readings import BEFORE, DAY, METRICS, NOW, READINGS, make_reading_store
from support.decoding import shared_estimates
from support.devices import Clock
from support.estimates import estimate_of
from support.exported_store import export_all
from support.registry_texts import plain_registry
from support.running import within

PANEL = 'panel = {cycle = "year", answers = 1}\n'
ASKED = f"each day 1 of {367 * len(METRICS):,} devices is asked"
each_metric = pytest.mark.parametrize("metric", METRICS)


@pytest.fixture(scope="module")
def data(folder):
    registry, store = make_reading_store(folder, PANEL)
    with store:
        decoder = shared_estimates(120)
        yield ConsoleData(registry, store, Clock(NOW), decoder)
        decoder.close()


def words_of(page):
    assert page.status_code == 200, page.text
    return re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", re.sub("<svg.*?</svg>|<figcaption.*?>", " ", page.text)))


@each_metric
@pytest.mark.parametrize("path", ["/m/{}", "/m/{}/" + DAY, "/about/{}"])
def test_a_page_says_once_who_is_asked_and_what_an_interval_is_of(client, metric, path):
    text = words_of(client.get(path.format(metric)))
    assert text.count(ASKED) == 1
    assert re.search(r"about [\d,]+ were active in a day \(95% interval [\d,]+ to [\d,]+\)", text)
    assert text.count("of all devices like these (noise") == 1


@each_metric
def test_decode_says_the_same_and_its_json_has_it(client, folder, metric):
    command = ("decode", "--store", "readings.db", "--registry", "metrics.toml", "--metric", metric)
    text, told = within(*command, cwd=folder).stdout, json.loads(within(*command, "--json", cwd=folder).stdout)
    assert (text.count(ASKED), text.count("all devices like these")) == (1, 1)
    assert told["interval"] == "population"
    page = client.get(f"/m/{metric}.json").json()
    assert page["devices"] == told["devices"]
    assert told["devices"]["low"] < 600 / 3 * 367 * len(METRICS) < told["devices"]["high"]


@each_metric
def test_a_series_pools_days_as_decode_does(client, folder, metric):
    if READINGS[metric] == "search":
        return
    command = ("decode", "--store", "readings.db", "--registry", "metrics.toml", "--metric", metric, "--pool", "2")
    written = within(*command, "-o", "-", cwd=folder).stdout
    assert client.get(f"/m/{metric}.csv?pool=2").text.replace("'", "") == written.replace("'", "")


def test_a_page_of_pooled_days_says_so(client):
    assert "Each share is of a period and the 1 before it" in words_of(client.get("/m/colour?pool=2"))


def test_two_days_of_a_panel_have_no_device_in_common(client):
    address = f"/m/colour/compare?a={DAY}&b={BEFORE}"
    text = words_of(client.get(address))
    assert "keep their values share noise" not in text


def test_a_series_says_how_many_devices_there_are_and_what_a_year_costs(client):
    text = words_of(client.get("/m/colour"))
    devices = 600 // 3 * 367 * len(METRICS)
    assert re.search(rf"Devices in the newest period \([\d,]+ to [\d,]+\) {devices:,}", text)
    assert "Epsilon, any year 3 " in text


@pytest.mark.parametrize(
    ("panel", "apart"), [('panel = {cycle = "year"}\n', True), ('panel = {cycle = "quarter"}\n', False), ("", False)]
)
def test_a_drift_is_of_other_devices_where_its_26_weeks_are_of_one_cycle(panel, apart):
    metric = parse_registry(panel + plain_registry("tree", period='"week"'))["tree"]
    estimates = {week: estimate_of([600, 400]) for week in range(2_950, 3_026)}
    history = MetricHistory(metric, 3_025, dict.fromkeys(estimates, 1), estimates)
    assert history.drift_comparison().apart is apart


def test_a_folder_of_a_panel_says_what_the_store_says(folder, client):
    assert client.get("/m/colour").status_code == 200
    address = str(folder / "exported")
    export_all(str(folder / "readings.db"), load_registry(folder / "metrics.toml"), address, now=NOW + 30 * 86_400)
    of_panel = ("--registry", "metrics.toml", "--metric", "colour", "-o", "read")
    text = within("decode", "exported/metric=colour", *of_panel, cwd=folder).stdout
    assert text.count("intervals: of all devices like these") == 1
    assert "privacy: grr, epsilon 3 for one report; in any year a device sends at most 1" in text
